"""Processor seconds of each test and of the processes it waited for, summed up by folder."""

import os
import resource
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.rig.preloaded import PRELOADED

#: `CORRAL_SPENDING=file` also writes the seconds of each test there, for whoever looks what became expensive.
TABLE = os.environ.get("CORRAL_SPENDING")
ROWS = 12


def used() -> float:
    """Return the processor seconds of this process and of the processes below it that have ended."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in both) + PRELOADED.processor_seconds


class Spending:
    """A plugin: it reads the processor time after each step of a test, and adds the steps up where reports are read."""

    def __init__(self) -> None:
        self.before, self.by_test = used(), defaultdict[str, float](float)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self):
        report: pytest.TestReport = yield
        now = used()
        report.user_properties.append(("processor_seconds", now - self.before))
        self.before = now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        spent = [value for name, value in report.user_properties if name == "processor_seconds"]
        self.by_test[report.nodeid] += float(str(spent[-1])) if spent else 0.0

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if TABLE:
            rows = (f"{spent:.2f}\t{test}\n" for test, spent in _most(self.by_test))
            Path(TABLE).write_text("".join(rows))
        folders, files = defaultdict[str, float](float), defaultdict[str, float](float)
        for test, spent in self.by_test.items():
            path = Path(test.partition("::")[0])
            files[str(path)] += spent
            folders[str(path.parent)] += spent
        terminalreporter.section(f"processor seconds: {sum(folders.values()):.0f}")
        for name, spent in [*_most(folders), *_most(files)[:ROWS]]:
            terminalreporter.write_line(f"{spent:7.1f}  {name}")


def _most(seconds: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(seconds.items(), key=lambda row: -row[1])
