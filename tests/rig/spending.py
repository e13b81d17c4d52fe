"""What each test takes: processor seconds, of the processes it started too, and the time by the clock."""

import os
import resource
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.rig.parts import part_of
from tests.rig.preloaded import PRELOADED

#: `CORRAL_SPENDING=file` also writes the seconds of each test there.
TABLE = os.environ.get("CORRAL_SPENDING")
FILES, TESTS = 12, 60  #: rows of each table
LARGE = 300  #: processor seconds from which on a run shows its tests one by one


def own_seconds() -> float:
    """Return the processor seconds of this process."""
    return _seconds(resource.RUSAGE_SELF)


def child_seconds() -> float:
    """Return the processor seconds of the processes below this one that have ended, and of commands forked for it."""
    return _seconds(resource.RUSAGE_CHILDREN) + PRELOADED.processor_seconds


def _seconds(whose: int) -> float:
    used = resource.getrusage(whose)
    return used.ru_utime + used.ru_stime


class Spending:
    """A plugin: it reads the processor time after each step of a test, and adds the steps up where reports are read."""

    def __init__(self) -> None:
        self.before = own_seconds(), child_seconds()
        self.own, self.children, self.clock = (defaultdict[str, float](float) for _ in range(3))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self):
        report: pytest.TestReport = yield
        now = own_seconds(), child_seconds()
        report.user_properties.append(("own_seconds", now[0] - self.before[0]))
        report.user_properties.append(("child_seconds", now[1] - self.before[1]))
        self.before = now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        spent = {name: float(str(value)) for name, value in report.user_properties if name.endswith("_seconds")}
        self.own[report.nodeid] += spent.get("own_seconds", 0.0)
        self.children[report.nodeid] += spent.get("child_seconds", 0.0)
        self.clock[report.nodeid] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        processor = {test: spent + self.children[test] for test, spent in self.own.items()}
        if TABLE:
            rows = (f"{spent:.2f}\t{self.clock[test]:.2f}\t{test}\n" for test, spent in _most(processor))
            Path(TABLE).write_text("".join(rows))
        folders, files, parts = (defaultdict[str, float](float) for _ in range(3))
        for test, spent in processor.items():
            parts[part_of(test)] += spent
            path = Path(test.partition("::")[0])
            files[str(path)] += spent
            folders[str(path.parent)] += spent
        whole, children = sum(processor.values()), sum(self.children.values())
        terminalreporter.section(f"processor seconds: {whole:.0f}, of them in started processes: {children:.0f}")
        for line in _lines([*_most(folders), *_most(files)[:FILES]]):
            terminalreporter.write_line(line)
        if whole >= LARGE:
            terminalreporter.section("processor seconds of what later capabilities added")
            for line in _lines(_most(parts)):
                terminalreporter.write_line(line)
            for title, seconds in (("processor", processor), ("clock", self.clock)):
                terminalreporter.section(
                    f"tests that take most, by {title} seconds: {sum(seconds.values()):.0f} of all"
                )
                for line in _lines(_most(seconds)[:TESTS]):
                    terminalreporter.write_line(line)


def _most(seconds: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(seconds.items(), key=lambda row: -row[1])


def _lines(rows: list[tuple[str, float]]) -> Iterator[str]:
    return (f"{spent:7.1f}  {name}" for name, spent in rows)
