"""What the run of a check did besides: files that it changed or added, programs that it left running."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import PurePosixPath

from msgspec import Struct, field

from corral.model import CheckObservation
from corral.rules.checks import added_files
from corral.rules.checks.steering import roles, table

WORDS_OF_TESTS = table.CASE_WORDS | {
    "test",
    "tests",
    "expected",
    "golden",
    "snapshot",
    "snapshots",
    "snaps",
    "fixtures",
}
STEERING = ("test", "data", "runner", "command", "start-up")
HOW = re.compile(r" \((removed|mode)\)$")
MOST_NAMED = 3


class Meddling(Struct):
    against: list[str] = field(default_factory=list[str])
    limits: list[str] = field(default_factory=list[str])

    def __bool__(self) -> bool:
        return bool(self.against or self.limits)


def find_meddling(before: CheckObservation, now: CheckObservation, product: Collection[str]) -> Meddling:
    """Compare a run with the one at the base; `product`: the files of the work itself, which it may change.

    It speaks against the work where tests are concerned and the base's run came as far and did not do so; else
    nothing is proven: what a check reads may be what an earlier run, or a program in the background, wrote.
    """
    command, meddling = now.result.command, Meddling()
    if now.left:
        meddling.limits.append(f"`{command}` left programs running: {_some(list(now.left))}")
    meddling.limits += added_files.limits(now)
    touched = list(_touched_files(now, product))
    came_as_far = before.result.passed or bool(before.report and before.report.tests)
    new = [each for each in touched if each not in before.touched]
    strong = [each for each in new if _concerns_tests(each, command)] if came_as_far else []
    if strong:
        meddling.against.append(f"`{command}` changed files of its own tests while it ran: {_some(strong)}")
    if others := [each for each in touched if each not in strong]:
        meddling.limits.append(f"`{command}` changed files of the repository while it ran: {_some(others)}")
    return meddling


def _touched_files(now: CheckObservation, product: Collection[str]) -> Iterator[str]:
    own = {*product}
    for each in now.touched:
        path = HOW.sub("", each)
        if path in own or added_files.LOCKS.search(path):
            continue
        if not roles.is_code(path) or _concerns_tests(each, now.result.command):
            yield each


def _concerns_tests(words: str, command: str) -> bool:
    """Tell a file that tests read or that steers them; others may be made anew by a build."""
    path = HOW.sub("", words)
    own = {each.lower() for each in roles.WORD.findall(path)}
    named = re.search(rf"(?<![\w.]){re.escape(PurePosixPath(path).name)}(?![\w.])", command) is not None
    data = not roles.is_code(path) and bool(own & WORDS_OF_TESTS or path != words)
    return named or data or roles.role_of(path) in STEERING


def _some(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
