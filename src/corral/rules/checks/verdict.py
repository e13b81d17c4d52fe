"""Whether an attempt is done: the agent said so, something was delivered, every check passed. Nothing less."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from corral.model import (
    GRADES,
    Attempt,
    CheckResult,
    Failure,
    Grade,
    Status,
    Violation,
)
from corral.model.events import Ended
from corral.model.flow import Task
from corral.model.missing_programs import hint_for_missing
from corral.rules.flows import output

USED_UP: dict[str, Failure] = {
    "memory": Failure("memory", "it used more memory than its scope allows", "raise [scope] memory_mb"),
    "disk": Failure("disk", "it used more disk space than its scope allows", "raise [scope] disk_mb"),
    "processes": Failure("processes", "it started more processes than its scope allows", "raise [scope] processes"),
}


#: What a box writes to its own temporary folders lies in memory, as far as the scope allows.
FULL_SCRATCH = Failure(
    "memory",
    "its temporary folders, which are kept in memory, were full",
    "raise [scope] memory_mb, or have it write to the workspace",
)
MOST_COMMAND = 60  #: characters of a check's command in a message
NO_SPACE = re.compile(r"(?i)no space left on device")
COMPLAINTS = {
    "processes": re.compile(r"(?i)cannot fork|fork: (retry: )?resource temporarily unavailable|can't start new thread"),
    "memory": re.compile(r"MemoryError|(?i:cannot allocate memory|out of memory|heap limit)"),
    "disk": re.compile(r"(?i)file size limit exceeded|file too large|no space left on device"),
}


class Verdict(Struct, frozen=True):
    status: Status
    error: Failure | None = None


def of_agent(ended: Ended | None, why: str, limit: str, *, parked: bool = False) -> Verdict | None:
    """Judge the agent's own part; None means it ended well and the rest decides.

    `why` is how its process ended; `parked` says that a quota stopped it and when that comes back is known.
    """
    if why == "stopped":
        return Verdict("stopped")
    if ended is not None and ended.ok:
        return None  # it had said its last word before the limit
    if why in ("timeout", "idle"):
        words = "it said nothing for" if why == "idle" else "it was not done within"
        return Verdict(
            "timed_out", Failure("crash", f"{words} {limit}", f"raise it with --{why if why == 'timeout' else 'idle'}")
        )
    if why == "flood":
        words = "it printed more than 4 GB, or asked on and on and never listened"
        return Verdict("failed", Failure("flood", words, "see `corral logs`; it may be in a loop"))
    if why in USED_UP:
        return Verdict("failed", USED_UP[why])
    if ended is None:
        return Verdict("failed", Failure("crash", "it ended without a result"))
    if parked and ended.error and ended.error.kind == "rate_limit":
        return Verdict("limited", ended.error)
    if ended.status:
        return Verdict(ended.status, ended.error)
    return Verdict("failed", ended.error or Failure("crash", ended.text or "it reported a failure"))


def of_output(
    verdict: Verdict | None, ended: Ended | None, schema: Mapping[str, Any] | None, *, command: bool = False
) -> tuple[Any, Verdict | None]:
    """Return what an agent gave for its output, and the verdict: one that does not fit its schema is none."""
    value = None if ended is None else ended.output if ended.output is not None else ended.text
    if schema is None or ended is None:
        return value, verdict
    if verdict is not None and verdict.error and verdict.error.kind == "bad_output":
        return value, Verdict(verdict.status, structs.replace(verdict.error, lasting=True))
    if verdict is not None:
        return value, verdict
    taken = output.take_printed(ended.text, schema) if command else output.take(ended, schema)
    if not taken.misfits:
        return taken.value, None
    words = f"its output does not fit: {'; '.join(taken.misfits)}"
    hint = "`corral logs` shows what it said; ask for less, or give it more tries"
    if command:
        hint = "print one JSON value last, and other lines to stderr; `corral logs` shows what it printed"
    return value, Verdict("failed", Failure("bad_output", words, hint, lasting=True))


def of_provider(verdict: Verdict | None, unreached: str | None) -> Verdict | None:
    """Say what really went wrong where the provider could not be reached: the agent only saw our own answer to that."""
    if verdict is None or verdict.error is None or unreached is None or verdict.status not in ("failed", "limited"):
        return verdict
    if "TLS" in unreached or "certificate" in unreached:
        return Verdict("failed", Failure("tls", unreached, "name the authority: NODE_EXTRA_CA_CERTS or SSL_CERT_FILE"))
    own = verdict.error.hint if verdict.error.kind == "network" else ""
    return Verdict("failed", Failure("network", unreached, own or "is its address right, and is it up?"))


def of_limits(
    verdict: Verdict | None, complaint: str, *, killed: int = 0, disk_has_room: bool = False
) -> Verdict | None:
    """Name the limit that the kernel held it to, by the processes it killed for lack of memory or by its complaint.

    With `disk_has_room`, only the box's temporary folders can have been full.
    """
    if killed and verdict is not None and verdict.status in ("failed", "timed_out"):
        return Verdict("failed", USED_UP["memory"])
    if verdict is None or verdict.error is None or verdict.error.kind != "crash" or verdict.status != "failed":
        return verdict
    if disk_has_room and NO_SPACE.search(complaint):
        return Verdict("failed", FULL_SCRATCH)
    for kind, words in COMPLAINTS.items():
        if words.search(complaint):
            return Verdict("failed", USED_UP[kind])
    return verdict


def of_scope(violations: Sequence[Violation], patch: str | None = None) -> Verdict | None:
    """Judge what an attempt did that it was not to do; only writes count: asking for a host does no harm."""
    foreign = [f"{each.kind} {each.path}" for each in violations if each.kind not in ("net", "tried", "write")]
    if foreign:
        words = f"it wrote to what is not its own: {_some(foreign)}" + (f"; kept as a patch: {patch}" if patch else "")
        hint = f"take it back: git apply --reverse {patch}" if patch else "look at what it did there, and take it back"
        return Verdict("failed", Failure("scope_violation", words, hint))
    written = [each.path for each in violations if each.kind == "write"]
    if written:
        words, hint = f"it wrote outside its scope: {_some(written)}", "see `corral run --explain-scope`"
        return Verdict("failed", Failure("scope_violation", words, f"{hint}; widen [scope] write"))
    return None


def _some(names: Sequence[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (" ..." if len(names) > most else "")


def of_marks(files: Sequence[str]) -> Verdict:
    """Judge work in which conflicts were left."""
    words = f"conflicts are not resolved in: {_some(files)}"
    return Verdict("failed", Failure("check_failed", words, "its workspace started from steps that do not go together"))


def of_artifacts(missing: Sequence[str]) -> Verdict:
    """Judge work without the files that its node promises."""
    words = f"it left no artifact {_some(missing)}"
    return Verdict("failed", Failure("bad_output", words, "`artifacts` of the node says which files it must leave"))


def of_work(
    task: Task,
    attempt: Attempt,
    ended: Ended,
    checks: Sequence[CheckResult],
    saved: Sequence[str] = (),
    *,
    gives_output: bool = False,
) -> Verdict:
    """Judge what was delivered by an agent that ended well; `saved` names work it left beside its branch.

    An output that was asked for, and fits, is work too: then nothing need be changed.
    """
    failed = [check for check in checks if not check.passed]
    if failed:
        check = failed[0]
        words = check.note or f"`{_shorten(check.command)}` ended with {check.exit_code}"
        hint = f"corral logs {attempt.id.partition('-')[0]} shows what it printed"
        if missing := hint_for_missing(check.exit_code, check.output, attempt.id):
            hint = f"{missing}; {hint}"
        return Verdict("failed", Failure("check_failed", words, hint))
    if attempt.files_changed and task.read_only:
        return Verdict("failed", Failure("scope_violation", "it changed files although the task is read-only"))
    if attempt.files_changed or task.read_only or task.unchanged_ok or gives_output:
        return Verdict("done")
    if ended.denied:
        tools = ", ".join(ended.denied)
        return Verdict("failed", Failure("denied", f"it was not allowed to use {tools}, and changed nothing"))
    if saved:
        words = f"it changed nothing on its branch; what it left elsewhere is kept: {', '.join(saved)}"
        return Verdict("failed", Failure("no_change", words, f"look: git log -p {saved[0]}"))
    return Verdict(
        "failed", Failure("no_change", "it ended well but changed nothing", "if that is right, say --read-only")
    )


def of_evidence(verdict: Verdict, attempt: Attempt, require: Grade, task: Task, *, gives_output: bool) -> Verdict:
    """Judge work whose checks pass by how well it is proven; answers are not asked for more than that they fit."""
    evidence = attempt.evidence
    if evidence is None:
        return verdict
    exempt = task.read_only or gives_output
    if evidence.grade != "doubtful" and (exempt or GRADES.index(evidence.grade) <= GRADES.index(require)):
        return verdict
    run = attempt.id.partition("-")[0]
    hint = (
        f"corral evidence {run} {attempt.id} shows why; to take it all the same: corral merge {run} --pick {attempt.id}"
    )
    words = "; ".join(evidence.reasons[:3])
    if evidence.grade != "doubtful":
        words = f"it is only {evidence.grade}, and [evidence] require is {require}: {words}"
    return Verdict("failed", Failure("doubtful", words, hint))


def _shorten(command: str) -> str:
    """Keep a message readable: a check may be a whole script."""
    return command if len(command) <= MOST_COMMAND else command[: MOST_COMMAND - 1] + "…"
