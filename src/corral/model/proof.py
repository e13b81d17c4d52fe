"""What was found out about the work of an attempt."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from corral.model.values import Level


class Tally(Struct, frozen=True):
    """How the tests of a check ended, as its program tells it."""

    format: str  #: whose words these are: pytest, junit, go ...
    passed: int | None = None  #: None: it does not say
    failed: int = 0
    skipped: int = 0
    failing: tuple[str, ...] = ()


class Sighting(Struct, frozen=True, kw_only=True):
    """How a check ended another time: at the base, or once more on the same tree."""

    exit_code: int
    note: str = ""
    tests: Tally | None = None
    flaky: bool = False

    @property
    def passed(self) -> bool:
        return self.exit_code == 0 and not self.note


class CheckResult(Struct, frozen=True, kw_only=True):
    command: str
    exit_code: int
    seconds: float
    note: str = ""  #: set where the exit code does not tell it all
    output: str = ""  #: the end of what it printed; the whole is in the file named by `log`
    log: str = ""
    tests: Tally | None = None  #: None: it told of none
    before: Sighting | None = None  #: at the base; None: it was not run there
    again: Sighting | None = None  #: of a check that failed: the same once more
    new_failures: tuple[str, ...] = ()  #: tests that fail now and did not at the base, or the command itself
    old_failures: tuple[str, ...] = ()  #: that failed at the base too
    flaky: bool = False  #: it failed and passed on the very same tree
    cached: bool = False  #: found out before, for the same tree, command and surroundings

    @property
    def passed(self) -> bool:
        return self.exit_code == 0 and not self.note


class Violation(Struct, frozen=True):
    kind: str
    path: str


class SandboxReport(Struct, frozen=True):
    level: Level = "none"
    net: Literal["held", "open"] = "held"  #: to its provider and the named hosts, or not at all
    violations: tuple[Violation, ...] = ()
