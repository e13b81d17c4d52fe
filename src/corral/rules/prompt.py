"""What an agent is told: its role, the task, the files it is about, and what an earlier try did wrong."""

from __future__ import annotations

from collections.abc import Sequence

from corral.flow import Task
from corral.model import Attempt

MOST_OUTPUT = 4000


def build(task: Task, fed_back: str = "", steers: Sequence[str] = (), *, guide: str = "") -> str:
    """Return the prompt; a plain task is passed on word for word. `guide` is what the repository says to agents."""
    parts = [*task.briefing, *([f"# What this repository asks of agents\n\n{guide}"] if guide else []), task.prompt]
    if task.handoff:
        parts.append(task.handoff)
    if task.files:
        parts.append("Files this is about:\n" + "\n".join(f"- {name}" for name in task.files))
    if task.read_only:
        parts.append("Change no files: only look and answer.")
    if fed_back:
        parts.append(fed_back)
    parts += steers
    return "\n\n".join(parts)


def conflicting(files: Sequence[str]) -> str:
    """Tell an agent that the steps before it do not go together."""
    listed = "\n".join(f"- {name}" for name in files)
    return (
        "The steps before yours changed the same places in different ways. These files hold conflict marks (<<<<<<<, "
        "=======, >>>>>>>), or lack what one side removed; resolve them first, keeping what both sides meant:\n"
        + listed
    )


def continued(steers: Sequence[str] = ()) -> str:
    """Return what an agent hears when its own session goes on after an interruption."""
    going_on = "You were interrupted. Your workspace is as you left it. Go on with the task and finish it."
    return "\n\n".join([going_on, *steers])


def steered(task: Task, steers: Sequence[str], *, remembers: bool, guide: str = "") -> str:
    """Return what an agent hears that had ended its turn when a person had something to add."""
    if remembers:
        return "\n\n".join(steers)
    worked = "You have worked on this already; your workspace is as you left it. Now also do this:"
    return "\n\n".join([build(task, guide=guide), worked, *steers])


def feedback(failed: Attempt) -> str:
    """Say to the next try what was wrong with the one before."""
    if failed.status == "over_budget" and failed.commit:
        return "You have worked on this before and were stopped; what you did is in your workspace. Go on from there."
    bad = [check for check in failed.checks if not check.passed]
    if bad:
        words = bad[0].note or f"`{bad[0].command}` ended with {bad[0].exit_code}"
        output = bad[0].output[-MOST_OUTPUT:].strip()
        return f"An earlier try at this was not accepted: {words}." + (f" It printed:\n\n{output}" if output else "")
    if failed.error and failed.error.kind in ("no_change", "bad_output"):
        return f"An earlier try at this was not accepted: {failed.error.message}."
    return ""
