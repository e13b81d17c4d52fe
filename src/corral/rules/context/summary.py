"""A long execution in a short text: what must be kept stands in it whole, the rest as far as there is room."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from msgspec import Struct, field, structs

from corral.model.events import (
    Asked,
    CalledTool,
    Changed,
    Checked,
    Condensed,
    Ended,
    Event,
    Heeded,
    Planned,
    Rejected,
    Said,
    ToolReturned,
)
from corral.model.flow import Task
from corral.rules.context.condense import condense

MOST_ITEM = 400  #: characters of one line that must be kept
MOST_ITEMS = 40  #: lines of a kind; the newest stay
MOST_FILES = 400  #: more than these are told by their folders
MOST_STEP = 600  #: characters of one step
LEAST_STEPS = 2000  #: characters left for the last steps, however much must be kept
DECISION = re.compile(
    r"\b(decision|decided?|chose|choose|settled on|going with|instead of|trade-?off)\b", re.IGNORECASE
)
CONSTRAINT = re.compile(
    r"\b(constraint|must( not)?|never|always|required?|not allowed|forbidden|do not|don't)\b", re.IGNORECASE
)
QUESTION = re.compile(
    r"\b(open question|unclear|not sure|to ?do|fixme|remains|still (open|to))\b|\?\s*$", re.IGNORECASE
)


class Facts(Struct, kw_only=True):
    """What an execution came to so far, oldest first."""

    decisions: list[str] = field(default_factory=list[str])
    constraints: list[str] = field(default_factory=list[str])
    questions: list[str] = field(default_factory=list[str])
    errors: list[str] = field(default_factory=list[str])
    files: list[str] = field(default_factory=list[str])
    wishes: list[str] = field(default_factory=list[str])  #: what a person said besides
    plan: list[str] = field(default_factory=list[str])
    steps: list[str] = field(default_factory=list[str])  #: since the last summary
    summaries: int = 0


def gather(events: Iterable[Event], workspace: str = "") -> Facts:
    """Read what happened in an attempt; paths below its workspace are told as the agent knows them."""
    facts = Facts()
    for event in events:
        _take(facts, event, workspace.rstrip("/") + "/" if workspace else "")
    for name in ("decisions", "constraints", "questions", "errors", "wishes"):
        newest = list(dict.fromkeys(reversed(getattr(facts, name))))[:MOST_ITEMS]
        setattr(facts, name, newest[::-1])
    facts.files = list(dict.fromkeys(facts.files))
    return facts


def _take(facts: Facts, event: Event, workspace: str) -> None:  # noqa: C901, PLR0912 -- one case for each kind of event
    match event:
        case Said(text=text):
            for line in text.splitlines():
                _sort(facts, line)
            facts.steps.append(f"said: {condense(text.strip(), MOST_STEP)}")
        case CalledTool(tool=tool, input=words):
            facts.steps.append(f"called {tool}: {_cut(words)}")
        case ToolReturned(ok=ok, output=output):
            if not ok:
                facts.errors.append(_cut(output or "a tool failed without a word"))
            facts.steps.append(f"{'it returned' if ok else 'it FAILED'}: {condense(output.strip(), MOST_STEP)}")
        case Changed(path=path):
            facts.files.append(path.removeprefix(workspace))
        case Planned(steps=steps):
            facts.plan = [f"[{step.status}] {_cut(step.text)}" for step in steps]
        case Asked(question=question, answer=answer):
            facts.questions.append(_cut(question + (f" -> {answer}" if answer else "")))
        case Heeded(text=text):
            facts.wishes.append(text)
        case Checked(check=check) if not check.passed:
            facts.errors.append(_cut(f"the check `{check.command}` failed: {check.output[-200:]}"))
        case Ended(ok=False, error=error) if error:
            facts.errors.append(_cut(error.message))
        case Rejected(misfits=misfits):
            facts.errors.append(_cut(f"its output did not fit: {'; '.join(misfits)}"))
        case Condensed():
            facts.summaries += 1
            facts.steps.clear()
        case _:
            pass


def _sort(facts: Facts, line: str) -> None:
    if not line.strip():
        return
    if DECISION.search(line):
        facts.decisions.append(_cut(line))
    elif CONSTRAINT.search(line):
        facts.constraints.append(_cut(line))
    elif QUESTION.search(line):
        facts.questions.append(_cut(line))


def _cut(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= MOST_ITEM else flat[: MOST_ITEM // 2 - 2] + " ... " + flat[-MOST_ITEM // 2 + 3 :]


# --- the text


def must_keep(task: Task, facts: Facts, steers: Sequence[str] = ()) -> list[str]:
    """Return what must stand in a summary, word for word, however short it is to be."""
    wishes = [*facts.wishes, *(steer for steer in steers if steer not in facts.wishes)]
    named = [*task.files, *(f"`{check}`" for check in task.checks)]
    kept = [task.prompt, *named, *wishes, *facts.decisions, *facts.constraints, *facts.questions, *facts.errors]
    return [item for item in (*kept, *facts.plan, *_files(facts.files)) if item.strip()]


def build(task: Task, facts: Facts, most: int, steers: Sequence[str] = ()) -> str:
    """Return a summary of about `most` characters; longer only where that which must be kept is longer."""
    wishes = [*facts.wishes, *(steer for steer in steers if steer not in facts.wishes)]
    parts = [f"## The task\n\n{task.prompt}"]
    rules = [f"look at {name}" for name in task.files]
    rules += [f"this must succeed when you are done: `{check}`" for check in task.checks]
    rules += ["change no files: only look and answer"] if task.read_only else []
    for title, items in (
        ("What holds for it", rules),
        ("What a person said since", wishes),
        ("Decisions", facts.decisions),
        ("Constraints", facts.constraints),
        ("Files changed so far", _files(facts.files)),
        ("Errors met", facts.errors),
        ("Open questions", facts.questions),
        ("The plan", facts.plan),
    ):
        if items:
            parts.append(f"## {title}\n\n" + "\n".join(f"- {item}" for item in items))
    room = max(LEAST_STEPS, most - sum(map(len, parts)))
    if facts.steps:
        parts.append("## The last steps\n\n" + _last(facts.steps, room))
    return "\n\n".join(parts)


def missing(text: str, must: Sequence[str]) -> list[str]:
    """Return what must be kept and is not in a summary that somebody else wrote; breaks of lines do not count."""
    flat = " ".join(text.split())
    return [item for item in must if " ".join(item.split()) not in flat]


def complete_summary(text: str, task: Task, facts: Facts, steers: Sequence[str] = ()) -> str:
    """Put what must be kept before a summary that a model wrote, so that none of it hangs on that model."""
    kept = build(task, structs.replace(facts, steps=[]), 0, steers)
    return f"{kept}\n\n## What was done\n\n{text.strip()}"


def transcript(facts: Facts, most: int) -> str:
    """Return the steps since the last summary as a text to read."""
    return condense("\n".join(facts.steps), most, facts.files)


def _last(steps: Sequence[str], most: int) -> str:
    """Return the end of the steps, and of those before them what tells most."""
    taken: list[str] = []
    room = most * 2 // 3
    for step in reversed(steps):
        if len(step) + 1 > room and taken:
            break
        room -= len(step) + 1
        taken.append(step if len(step) <= most else step[-most:])
    before = "\n".join(steps[: len(steps) - len(taken)])
    shown = [condense(before, most // 3)] if before else []
    return "\n".join([*shown, *reversed(taken)])


def _files(files: Sequence[str]) -> list[str]:
    """Name files; very many are told by their folders."""
    if len(files) <= MOST_FILES:
        return list(files)
    folders: dict[str, int] = {}
    for file in files[:-MOST_FILES]:
        folder = str(PurePosixPath(file).parent)
        folders[folder] = folders.get(folder, 0) + 1
    grouped = sorted(folders.items(), key=lambda item: -item[1])
    told = [f"{folder}/ ({count} files)" for folder, count in grouped[:MOST_FILES]]
    left = sum(count for _, count in grouped[MOST_FILES:])
    return [*told, *([f"and {left} files in other folders"] if left else []), *files[-MOST_FILES:]]
