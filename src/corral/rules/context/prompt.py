"""Prompts: role, task and files, what is asked again, and what the next agent is given of the work before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from corral.model import Attempt
from corral.model.flow import Task
from corral.rules.context.condense import condense

MOST_OUTPUT = 4000
MOST_WORDS = 6000  #: of one node's output in the prompt; the whole lies beside it as a file
MOST_FILES = 50


def build(task: Task, fed_back: str = "", steers: Sequence[str] = (), *, guide: str = "") -> str:
    """Return the prompt; a plain task is passed on word for word. `guide` is what `guidance` returned."""
    parts = [*task.briefing, *([guide] if guide else []), task.prompt]
    if task.untrusted:
        parts.append(task.untrusted)
    if task.handoff:
        parts.append(task.handoff)
    if task.files:
        parts.append("Files this is about:\n" + "\n".join(f"- {name}" for name in task.files))
    if task.images:
        parts.append("Images this is about: " + ", ".join(f"~/images/{image.name}" for image in task.images))
    if task.read_only:
        parts.append("Change no files: only look and answer.")
    if fed_back:
        parts.append(fed_back)
    parts += steers
    return "\n\n".join(parts)


def guidance(asks: str, remembered: str) -> str:
    """Return what an agent reads about the repository: what it asks of agents, and what earlier runs learned."""
    return "\n\n".join(filter(None, (f"# What this repository asks of agents\n\n{asks}" if asks else "", remembered)))


def conflict_prompt(files: Sequence[str]) -> str:
    """Tell an agent that the steps before it do not go together."""
    listed = "\n".join(f"- {name}" for name in files)
    return (
        "The steps before yours changed the same places in different ways. These files hold conflict marks (<<<<<<<, "
        "=======, >>>>>>>), or lack what one side removed; resolve them first, keeping what both sides meant:\n"
        + listed
    )


def resume_prompt(steers: Sequence[str] = ()) -> str:
    """Return what an agent hears when its own session continues after an interruption."""
    resumed = "You were interrupted. Your workspace is as you left it. Continue the task and finish it."
    return "\n\n".join([resumed, *steers])


def steer_prompt(task: Task, steers: Sequence[str], *, remembers: bool, guide: str = "") -> str:
    """Return what an agent hears that had ended its turn when a user had something to add."""
    if remembers:
        return "\n\n".join(steers)
    worked = "You have worked on this already; your workspace is as you left it. Now also do this:"
    return "\n\n".join([build(task, guide=guide), worked, *steers])


def feedback(failed: Attempt) -> str:
    """Say to the next try what was wrong with the one before."""
    if failed.status == "over_budget" and failed.commit:
        return (
            "You have worked on this before and were stopped; what you did is in your workspace. Continue from there."
        )
    bad = [check for check in failed.checks if not check.passed]
    if bad:
        words = bad[0].note or f"`{bad[0].command}` ended with {bad[0].exit_code}"
        output = bad[0].output[-MOST_OUTPUT:].strip()
        return f"An earlier try at this was not accepted: {words}." + (f" It printed:\n\n{output}" if output else "")
    if failed.error and failed.error.kind in ("no_change", "bad_output", "doubtful"):
        return f"An earlier try at this was not accepted: {failed.error.message}."
    return ""


def from_summary(task: Task, summary: str, original: str, *, guide: str = "") -> str:
    """Return what an agent hears that continues in a fresh session from a summary of its own work."""
    parts = [*task.briefing, *([guide] if guide else [])]
    going_on = (
        "You are in the middle of a task. You have worked on it already, in a session that became too long; your "
        "workspace is as you left it. This is what matters of it; continue from here, do nothing twice, and finish."
    )
    parts += [task.handoff] if task.handoff else []
    return "\n\n".join([*parts, going_on, summary, f"What was said and done before is in {original}, if you need it."])


def for_summary(kept: str, steps: str, most: int) -> str:
    """Return what an agent is asked that is to summarise the work of another."""
    return (
        f"Summarise the work below for the agent that continues it, in at most {most} characters of Markdown: what "
        "was done and why, what was decided, which files were changed, what failed, what is still to do. Use no tools; "
        "answer with the summary alone. It must hold each of these, word for word:"
        f"\n\n{kept}\n\n# The work\n\n{steps}"
    )


class NodeHandoff(Struct, frozen=True):
    """What one node hands on."""

    node: str
    attempt: Attempt


class Handoff(Struct, frozen=True):
    """Words for the prompt, and files for the agent's HOME that hold what is too long for it."""

    words: str = ""
    files: tuple[tuple[str, str], ...] = ()


def handoff_text(handed: Sequence[NodeHandoff]) -> Handoff:
    """Tell the next agent about the nodes it needs, in their order."""
    if not handed:
        return Handoff()
    parts = ["This is one step of several. Your workspace starts from the work of the steps before it:"]
    files: list[tuple[str, str]] = []
    for each in handed:
        whole = _handed_text(each.attempt.output)
        words = condense(whole, MOST_WORDS, each.attempt.files_changed)
        if words != whole:
            name = f"handoff/{each.node.replace('/', '-')}.md"
            files.append((name, whole))
            words += f"\n[shortened: the whole is in ~/{name}]"
        parts.append(_handoff_section(each, words))
    return Handoff("\n\n".join(parts), tuple(files))


def _handoff_section(handed: NodeHandoff, words: str) -> str:
    attempt = handed.attempt
    who = f"{attempt.agent}{f', {attempt.role}' if attempt.role else ''}"
    lines = [f"## {handed.node} ({who}, {attempt.status})"]
    if attempt.files_changed:
        names = ", ".join(attempt.files_changed[:MOST_FILES])
        more = len(attempt.files_changed) - MOST_FILES
        names += f" and {more} more" if more > 0 else ""
        lines.append(f"It changed: {names} (+{attempt.insertions} -{attempt.deletions})")
    failed = [check for check in attempt.checks if not check.passed]
    lines += [f"The check `{check.command}` failed:\n{condense(check.output, 2000)}" for check in failed]
    if attempt.error:
        lines.append(f"It ended so: {attempt.error.message}")
    if words:
        lines.append(f"It said:\n{words}")
    return "\n".join(lines)


def _handed_text(output: Any) -> str:  # noqa: ANN401 -- the output of an agent may be anything
    if output is None:
        return ""
    return (
        output.strip()
        if isinstance(output, str)
        else msgspec.json.format(msgspec.json.encode(output), indent=1).decode()
    )
