"""Receipts: how they are written, sealed, and compared with what is found."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence

import msgspec
from msgspec import UNSET, Struct, structs

from corral.model import ENCODER, Attempt, CheckResult, Evidence, Receipt


class ReceiptFacts(Struct, frozen=True, kw_only=True):
    """What there is today, in the repository and in the store, of an attempt that has a receipt."""

    attempt: Attempt
    commit: bool  #: whether it is there
    tree: str | None = None
    diff_sha256: str | None = None
    hidden: str | None = None  #: where the attempt's own ref points; None: it is gone
    note: bytes | None = None
    task_sha256: str | None = None  #: None: the task's text was filled in as it ran
    key: bytes | None = None
    again: tuple[CheckResult, ...] | None = None  #: the checks, run once more
    graded_again: Evidence | None = None  #: the grade they come to now; None: they fail, or were not run
    programs: tuple[str, ...] = ()  #: what runs in them now, with versions


class Point(Struct, frozen=True):
    """One thing that was looked at."""

    what: str
    holds: bool
    words: str = ""


class ReceiptVerification(Struct, frozen=True, kw_only=True):
    """One receipt, compared with the world."""

    attempt: str
    agent: str
    commit: str
    holds: bool
    points: tuple[Point, ...]
    notes: tuple[str, ...] = ()  #: what differs from then and breaks nothing by itself


def text(receipt: Receipt) -> bytes:
    """Write a receipt as its note has it."""
    return msgspec.json.format(ENCODER.encode(receipt), indent=1) + b"\n"


def seal(receipt: Receipt, key: bytes) -> Receipt:
    """Put a seal on a receipt, which only someone with the key can make."""
    return structs.replace(receipt, seal=_seal(receipt, key))


def _seal(receipt: Receipt, key: bytes) -> str:
    return hmac.new(key, ENCODER.encode(structs.replace(receipt, seal="")), hashlib.sha256).hexdigest()


def verify(receipt: Receipt, found: ReceiptFacts) -> ReceiptVerification:
    """Hold a receipt against what is found; it holds only if every point does."""
    points = tuple(_points(receipt, found))
    return ReceiptVerification(
        attempt=receipt.attempt,
        agent=receipt.agent,
        commit=receipt.commit,
        holds=all(point.holds for point in points),
        points=points,
        notes=_other_programs(receipt, found),
    )


def _points(receipt: Receipt, found: ReceiptFacts) -> list[Point]:
    if not found.commit:
        return [
            Point("commit", holds=False, words=f"{receipt.commit} is not in the repository any more"),
            _seal_point(receipt, found),
        ]
    points = [
        Point("commit", holds=True),
        _same_point("tree", receipt.tree, found.tree),
        _same_point("diff", receipt.diff_sha256, found.diff_sha256),
        Point(
            "ref",
            holds=found.hidden in (None, receipt.commit),
            words="" if found.hidden in (None, receipt.commit) else f"the attempt's own ref points to {found.hidden}",
        ),
        _note_point(receipt, found),
        _record_point(receipt, found.attempt),
        _seal_point(receipt, found),
    ]
    if found.task_sha256 is not None:
        points.append(_same_point("task", receipt.task_sha256, found.task_sha256))
    if found.again is not None:
        points += _check_points(receipt.checks, found.again)
        points += _grade_points(receipt, found)
    return points


def _grade_points(receipt: Receipt, found: ReceiptFacts) -> list[Point]:
    """Compare the grade with what the same runs come to now; a receipt of an older version has none."""
    if receipt.evidence is UNSET:
        return []
    now = found.graded_again.grade if found.graded_again else "none: a check fails"
    holds = now == receipt.evidence.grade
    reasons = "; ".join(found.graded_again.reasons[:2]) if found.graded_again else ""
    words = f"it is {now}" if holds else f"the receipt says {receipt.evidence.grade}, it is {now}"
    return [Point("evidence", holds=holds, words=words + (f": {reasons}" if reasons and not holds else ""))]


def _other_programs(receipt: Receipt, found: ReceiptFacts) -> tuple[str, ...]:
    """Say with which versions of programs it was proven, where others run now."""
    then = receipt.programs if receipt.programs is not UNSET else ()
    if found.again is None or not then or not found.programs or {*then} == {*found.programs}:
        return ()
    return (f"its checks ran with {', '.join(then)}, and run with {', '.join(found.programs)} now",)


def _same_point(what: str, said: str, now: str | None) -> Point:
    holds = said == now
    return Point(what, holds=holds, words="" if holds else f"the receipt says {said}, it is {now}")


def _note_point(receipt: Receipt, found: ReceiptFacts) -> Point:
    if found.note is None:
        return Point("note", holds=False, words="the note on the commit is gone")
    holds = found.note.strip() == text(receipt).strip()
    return Point(
        "note", holds=holds, words="" if holds else "the note on the commit says something else than the store"
    )


def _record_point(receipt: Receipt, attempt: Attempt) -> Point:
    names = ("status", "commit", "agent", "checks", "cost", "tokens", "sandbox")
    other = [name for name in names if getattr(attempt, name) != getattr(receipt, name)]
    other += ["evidence"] if receipt.evidence is not UNSET and attempt.evidence != receipt.evidence else []
    words = f"the run document says something else about: {', '.join(other)}" if other else ""
    return Point("record", holds=not other, words=words)


def _seal_point(receipt: Receipt, found: ReceiptFacts) -> Point:
    if not receipt.seal:
        return Point("seal", holds=False, words="it has no seal: an older corral made it, or someone removed it")
    if found.key is None:
        return Point("seal", holds=False, words="the key that sealed it is not on this machine")
    holds = hmac.compare_digest(receipt.seal, _seal(receipt, found.key))
    return Point("seal", holds=holds, words="" if holds else "it was changed after it was sealed")


def _check_points(said: Sequence[CheckResult], again: Sequence[CheckResult]) -> list[Point]:
    found: list[Point] = []
    for then, now in zip(said, again, strict=True):
        same = then.passed == now.passed
        words = "" if same else now.note or f"it ended with {now.exit_code}, and with {then.exit_code} before"
        found.append(Point(f"check `{then.command}`", holds=same, words=words))
    return found
