"""JUnit's XML, which most test programs can write."""

from __future__ import annotations

import re
import shlex
from xml.parsers import expat

from corral.model import Tally

_NAMED = re.compile(r"(?:--junitxml|--junit-xml|--junitfile|--junit-output|--test-reporter-destination)(?:=(.+))?")
_SET = re.compile(r"(?:JEST_JUNIT_OUTPUT_FILE|JUNIT_OUTPUT_FILE|JUNIT_FILE)=(.+)")
_START = re.compile(r"<testsuites?[\s>/]")


class _EntitiesRefused(Exception):
    """It declares entities: a few lines that grow into gigabytes."""


class _JunitReader:
    def __init__(self) -> None:
        self.passed = self.failed = self.skipped = 0
        self.failing: list[str] = []
        self._name = ""
        self._end = ""

    def on_open(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "testcase":
            place, name = attributes.get("classname", "").strip(), attributes.get("name", "").strip()
            self._name, self._end = name if place in ("", name, "test") else f"{place}::{name}", "passed"
        elif self._end and tag in ("failure", "error"):
            self._end = "failed"
        elif self._end == "passed" and tag == "skipped":
            self._end = "skipped"

    def on_close(self, tag: str) -> None:
        if tag != "testcase" or not self._end:
            return
        match self._end:
            case "failed":
                self.failed += 1
                self.failing.append(self._name)
            case "skipped":
                self.skipped += 1
            case _:
                self.passed += 1
        self._end = ""


def read(text: str) -> Tally | None:
    """Count the cases of a report."""
    start = _START.search(text)
    if start is None or "</testsuite" not in text:
        return None
    reader, parser = _JunitReader(), expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = reader.on_open, reader.on_close
    parser.EntityDeclHandler = _refuse
    end = text.rfind(">", 0, text.rfind("</testsuite") + len("</testsuites>")) + 1
    types = text.find("<!DOCTYPE", 0, start.start())  # what is printed around a report is not part of it
    try:
        parser.Parse(text[start.start() if types < 0 else types : end], bool(end))
    except (expat.ExpatError, _EntitiesRefused):
        return None
    return Tally("junit", reader.passed, reader.failed, reader.skipped, tuple(reader.failing))


def _refuse(*_: object) -> None:
    raise _EntitiesRefused


def report_files(command: str) -> list[str]:
    """Return the report files that a check's command names."""
    try:
        words = shlex.split(command)
    except ValueError:
        return []
    found: list[str] = []
    for place, word in enumerate(words):
        if named := _NAMED.fullmatch(word):
            found += [named[1] or (words[place + 1] if place + 1 < len(words) else "")]
        elif assigned := _SET.fullmatch(word):
            found.append(assigned[1])
    return [name for name in found if name and not name.startswith("/") and ".." not in name.split("/")]


READERS = ((10, read),)  #: with their places among all
