"""What our own reporters sent of a check, as lines of JSON, and the report that comes of it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from typing import get_args

import msgspec
from msgspec import Struct, field, structs

from corral.model.evidence import MOST_NAMES, MOST_TESTS, Outcome, Report
from corral.rules.checks import results

MOST_WORDS = 300  #: of what a line says
MOST_SESSIONS = 10_000
MOST_REPEATED = 100  #: of one test
MOST_STRANGE = 1000  #: lines that are not ours; after these nothing more is read
MOST_MODULES = 5000
MOST_PROGRAMS, MOST_VERSION = 20, 40
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
_PLAIN = re.compile(r"[\w./=+:@,-]+")  #: what is on a command line as it is
_WORST: dict[Outcome, int] = {"skipped": 0, "xfailed": 1, "passed": 2, "failed": 3}


class _ReportLine(Struct):
    event: str = field(name="e")
    kind: str = field(name="k", default="")  #: the runner
    session: str = field(name="s", default="")
    about: str = field(name="a", default="")  #: the program, in words
    weak: bool = False  #: a doubt that honest code may raise too
    soft: bool = False  #: its end proves nothing: a program in the background, or one that another started
    id: str = field(name="i", default="")
    outcome: str = field(name="o", default="")
    code: int | None = field(name="c", default=None)
    missing: int = field(name="m", default=0)  #: tests that were collected and never ran
    words: str | list[str] = field(name="w", default="")
    inside: list[str] = field(name="in", default_factory=list[str])
    outside: list[str] = field(name="out", default_factory=list[str])
    programs: list[str] = field(name="v", default_factory=list[str])  #: with their versions


class _ReportSession(Struct):
    kind: str
    about: str
    soft: bool
    ended: bool = False
    code: int | None = None
    missing: int = 0
    examples: list[str] = field(default_factory=list[str])
    early: str = ""  #: who ended it


_DECODER = msgspec.json.Decoder(_ReportLine)


class _ReportReader:
    """What the lines so far say."""

    def __init__(self) -> None:
        self.sessions: dict[str, _ReportSession] = {}
        self.tests: dict[str, Outcome] = {}
        self.repeated: dict[str, list[Outcome]] = {}
        self.doubts: dict[str, None] = {}
        self.weak: dict[str, None] = {}
        self.inside: dict[str, None] = {}
        self.outside: dict[str, None] = {}
        self.programs: dict[str, None] = {}
        self.cut = False

    def take(self, line: _ReportLine) -> None:
        for each in line.programs[: MOST_PROGRAMS - len(self.programs)]:
            self.programs[each[:MOST_VERSION]] = None
        if line.event == "begin" and len(self.sessions) < MOST_SESSIONS:
            self.sessions[line.session] = _ReportSession(line.kind[:20], line.about[:MOST_WORDS], line.soft)
        elif line.event == "test":
            self._test(line)
        elif line.event == "doubt" and isinstance(line.words, str):
            kept = self.weak if line.weak else self.doubts
            if len(kept) < MOST_NAMES:
                kept[line.words[:MOST_WORDS]] = None
        elif line.event == "mod":
            for kept, names in ((self.inside, line.inside), (self.outside, line.outside)):
                kept.update(dict.fromkeys(name[:MOST_WORDS] for name in names[: max(0, MOST_MODULES - len(kept))]))
        elif session := self.sessions.get(line.session):
            self._end(session, line)

    def _test(self, line: _ReportLine) -> None:
        outcome = next((each for each in get_args(Outcome) if each == line.outcome), None)
        if outcome is None or line.session not in self.sessions:
            return
        known = self.tests.get(line.id)
        if known is not None:
            ends = self.repeated.setdefault(line.id, [known])
            ends += [outcome] if len(ends) < MOST_REPEATED else []
        if known is None and len(self.tests) >= MOST_TESTS:
            self.cut = True
        elif known is None or _WORST[outcome] > _WORST[known]:
            self.tests[line.id] = outcome

    @staticmethod
    def _end(session: _ReportSession, line: _ReportLine) -> None:
        if line.event == "exit" and isinstance(line.words, str):
            session.early = line.words[:MOST_WORDS]
        elif line.event == "end":
            session.ended, session.code, session.missing = True, line.code, line.missing
            session.examples = [each[:MOST_WORDS] for each in line.words[:5]] if isinstance(line.words, list) else []

    def unfinished_sessions(self) -> list[str]:
        return list(dict.fromkeys(words for each in self.sessions.values() if (words := _early_end_text(each))))


def _early_end_text(session: _ReportSession) -> str:
    """Say how a test program that ends with success missed its own end; empty: it did not.

    The words name no line and no count where the base may show the same with others: they are compared with it.
    """
    if session.early:
        return f"`{session.about}` ended early: {session.early}"
    if not session.ended:
        return "" if session.soft else f"`{session.about}` began and never reached its own end"
    if session.missing and not session.code:
        names = f" ({', '.join(session.examples)})" if session.examples else ""
        return f"`{session.about}` stopped with success before {session.missing} of its tests ran{names}"
    return ""


def with_value(command: str, name: str, value: str, separator: str) -> str:
    """Return a command line in which assignments to a variable of the environment keep our value in front."""
    if not _PLAIN.fullmatch(value):
        return command

    def with_separator(found: re.Match[str]) -> str:
        follows = command[found.end() : found.end() + 1]
        return found[0] + value + ("" if not follows or follows in " \t\n;&|)" else separator)

    return re.sub(rf"(?<![\w$-]){name}=", with_separator, command)


def contradictions(tests: Mapping[str, Outcome], exit_code: int | None) -> list[str]:
    """Say in words where the outcomes of tests and the end of their command do not agree."""
    return ["tests failed, yet the command ended with 0"] if exit_code == 0 and "failed" in tests.values() else []


def of_check(lines: Iterable[bytes], output: str, exit_code: int, *, cut: bool = False) -> Report | None:
    """Return what is known of the tests of a check: by our reporters, else from what it printed."""
    found = read(lines, exit_code, cut=cut)
    if found is not None and (found.tests or found.runners != ("go",)):
        return found
    text = printed_report(output)
    if text is None or (found is not None and text.runners != found.runners):
        return found
    tests = dict(itertools.islice(text.tests.items(), MOST_TESTS))
    doubts = (*(found.doubts if found else ()), *contradictions(tests, exit_code))
    unfinished = (*(found.unfinished if found else ()), *text.unfinished)
    sessions = found.sessions if found else text.sessions
    weak = found.weak if found else ()
    programs = found.programs if found else ()
    return structs.replace(
        text, tests=tests, sessions=sessions, doubts=doubts, weak=weak, unfinished=unfinished, programs=programs
    )


def printed_report(output: str) -> Report | None:
    """Make a report of what runners without a reporter of ours print; None: nothing that we can read."""
    plain = _COLOURS.sub("", output)
    return next((found for read in results.report_readers() if (found := read(plain))), None)


def read(lines: Iterable[bytes], exit_code: int | None = None, *, cut: bool = False) -> Report | None:
    """Make a report of what reporters sent; None: no test program of a kind we know ran.

    The lines come from the box, where anything may write them: what is no line of ours is left out.
    """
    reading, strange = _ReportReader(), 0
    for line in lines:
        try:
            reading.take(_DECODER.decode(line))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            strange += 1
            if strange > MOST_STRANGE:
                cut = True
                break
    if not reading.sessions:
        return None
    reading.doubts |= dict.fromkeys(contradictions(reading.tests, exit_code))
    return Report(
        runners=tuple(sorted({each.kind for each in reading.sessions.values()})),
        tests=reading.tests,
        sessions=len(reading.sessions),
        repeated={name: tuple(ends) for name, ends in reading.repeated.items()},
        unfinished=tuple(reading.unfinished_sessions()[:MOST_NAMES]),
        doubts=tuple(reading.doubts),
        weak=tuple(reading.weak),
        inside=tuple(sorted(reading.inside)),
        outside=tuple(sorted(reading.outside)),
        cut=cut or reading.cut,
        programs=tuple(sorted(reading.programs)),
    )
