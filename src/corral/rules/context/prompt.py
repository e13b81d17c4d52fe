"""What an agent is told: its role, the task, the files it is about, and what an earlier try did wrong."""

from __future__ import annotations

from collections.abc import Sequence

from corral.model import Attempt
from corral.model.flow import Task

MOST_OUTPUT = 4000


def build(task: Task, fed_back: str = "", steers: Sequence[str] = (), *, guide: str = "") -> str:
    """Return the prompt; a plain task is passed on word for word. `guide` is what `guidance` returned."""
    parts = [*task.briefing, *([guide] if guide else []), task.prompt]
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
    """Return what an agent hears when its own session goes on after an interruption."""
    going_on = "You were interrupted. Your workspace is as you left it. Go on with the task and finish it."
    return "\n\n".join([going_on, *steers])


def steer_prompt(task: Task, steers: Sequence[str], *, remembers: bool, guide: str = "") -> str:
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
    if failed.error and failed.error.kind in ("no_change", "bad_output", "doubtful"):
        return f"An earlier try at this was not accepted: {failed.error.message}."
    return ""


def from_summary(task: Task, summary: str, original: str, *, guide: str = "") -> str:
    """Return what an agent hears that goes on in a fresh session from a summary of its own work."""
    parts = [*task.briefing, *([guide] if guide else [])]
    going_on = (
        "You are in the middle of a task. You have worked on it already, in a session that became too long; your "
        "workspace is as you left it. This is what matters of it; go on from here, do nothing twice, and finish."
    )
    parts += [task.handoff] if task.handoff else []
    return "\n\n".join([*parts, going_on, summary, f"What was said and done before is in {original}, if you need it."])


def for_summary(kept: str, steps: str, most: int) -> str:
    """Return what an agent is asked that is to summarise the work of another."""
    return (
        f"Summarise the work below for the agent that goes on with it, in at most {most} characters of Markdown: what "
        "was done and why, what was decided, which files were changed, what failed, what is still to do. Use no tools; "
        "answer with the summary alone. It must hold each of these, word for word:"
        f"\n\n{kept}\n\n# The work\n\n{steps}"
    )
