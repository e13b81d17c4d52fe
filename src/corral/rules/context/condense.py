"""Shortening by plain rules: of what is handed on, and of a long execution, of which facts and decisions are kept."""

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
    Planned,
    Rejected,
    Said,
    SteerTaken,
    ToolReturned,
)
from corral.model.flow import Task

HEAD_SHARE, TAIL_SHARE = 0.35, 0.35
#: Lines that tell more than others: decisions, constraints, troubles, open questions.
TELLING = re.compile(
    r"\b(error|fail(ed|ure|s)?|exception|traceback|panic|assert\w*|warning|decision|decided|must( not)?|constraint|"
    r"todo|"
    r"open question|because|never|always|breaking|deprecated)\b|^\s*(E |FAILED|ERROR|#+ )",
    re.IGNORECASE,
)
MOST_ITEM = 400  #: characters of one line that must be kept
MOST_ITEMS = 40  #: lines of a kind; the newest stay
MOST_FILES = 400  #: more than these are named by their folders
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


def condense(text: str, most: int, keep: Sequence[str] = ()) -> str:
    """Return at most about `most` characters of a text: what it opens and ends with, and lines worth most in between.

    Lines that hold a word of `keep` (names of files, decisions, errors) come before all others.
    """
    if len(text) <= most:
        return text
    lines = text.splitlines()
    head = _take_lines(lines, int(most * HEAD_SHARE))
    tail = _take_lines(lines[len(head) :][::-1], int(most * TAIL_SHARE))[::-1]
    middle = lines[len(head) : len(lines) - len(tail)]
    room = most - sum(len(line) + 1 for line in (*head, *tail))
    wanted = [place for place, line in enumerate(middle) if any(word and word in line for word in keep)]
    wanted += [place for place, line in enumerate(middle) if place not in set(wanted) and TELLING.search(line)]
    chosen: set[int] = set()
    for place in wanted:
        if len(middle[place]) + 1 <= room:
            room -= len(middle[place]) + 1
            chosen.add(place)
    return "\n".join([*head, *_gaps(middle, chosen), *tail])


def _take_lines(lines: Sequence[str], most: int) -> list[str]:
    taken: list[str] = []
    for line in lines:
        if most < len(line) + 1:
            return taken or [line[: max(most, 0)]]
        most -= len(line) + 1
        taken.append(line)
    return taken


def _gaps(lines: Sequence[str], chosen: set[int]) -> list[str]:
    """Return the chosen lines, with a mark where others were left out."""
    shown: list[str] = []
    left_out = 0
    for place, line in enumerate(lines):
        if place in chosen:
            shown += [f"[... {left_out} lines left out ...]"] if left_out else []
            shown.append(line)
            left_out = 0
        else:
            left_out += 1
    return [*shown, f"[... {left_out} lines left out ...]"] if left_out else shown


class Facts(Struct, kw_only=True):
    """What an execution came to so far, oldest first."""

    decisions: list[str] = field(default_factory=list[str])
    constraints: list[str] = field(default_factory=list[str])
    questions: list[str] = field(default_factory=list[str])
    errors: list[str] = field(default_factory=list[str])
    files: list[str] = field(default_factory=list[str])
    wishes: list[str] = field(default_factory=list[str])  #: what a user said besides
    plan: list[str] = field(default_factory=list[str])
    steps: list[str] = field(default_factory=list[str])  #: since the last summary
    summaries: int = 0


def gather_facts(events: Iterable[Event], workspace: str = "") -> Facts:
    """Read what happened in an attempt; paths below its workspace are named as the agent knows them."""
    facts = Facts()
    for event in events:
        _add_event(facts, event, workspace.rstrip("/") + "/" if workspace else "")
    for name in ("decisions", "constraints", "questions", "errors", "wishes"):
        newest = list(dict.fromkeys(reversed(getattr(facts, name))))[:MOST_ITEMS]
        setattr(facts, name, newest[::-1])
    facts.files = list(dict.fromkeys(facts.files))
    return facts


def _add_event(facts: Facts, event: Event, workspace: str) -> None:  # noqa: C901, PLR0912 -- one case for each kind of event
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
        case SteerTaken(text=text):
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
            pass  # the others are no facts for a summary


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
    """Return what must be in a summary, word for word, however short it is to be."""
    wishes = [*facts.wishes, *(steer for steer in steers if steer not in facts.wishes)]
    named = [*task.files, *(f"`{check}`" for check in task.checks)]
    kept = [task.prompt, *named, *wishes, *facts.decisions, *facts.constraints, *facts.questions, *facts.errors]
    return [item for item in (*kept, *facts.plan, *_files(facts.files)) if item.strip()]


def build_summary(task: Task, facts: Facts, most: int, steers: Sequence[str] = ()) -> str:
    """Return a summary of about `most` characters; longer only where that which must be kept is longer."""
    wishes = [*facts.wishes, *(steer for steer in steers if steer not in facts.wishes)]
    parts = [f"## The task\n\n{task.prompt}"]
    rules = [f"look at {name}" for name in task.files]
    rules += [f"this must succeed when you are done: `{check}`" for check in task.checks]
    rules += ["change no files: only look and answer"] if task.read_only else []
    for title, items in (
        ("What applies to it", rules),
        ("What the user said since", wishes),
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


def missing_facts(text: str, must: Sequence[str]) -> list[str]:
    """Return what must be kept and is not in a summary that someone else wrote; breaks of lines do not count."""
    flat = " ".join(text.split())
    return [item for item in must if " ".join(item.split()) not in flat]


def complete_summary(text: str, task: Task, facts: Facts, steers: Sequence[str] = ()) -> str:
    """Put what must be kept before a summary that a model wrote, so that none of it hangs on that model."""
    kept = build_summary(task, structs.replace(facts, steps=[]), 0, steers)
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
    """Name files; very many are named by their folders."""
    if len(files) <= MOST_FILES:
        return list(files)
    folders: dict[str, int] = {}
    for file in files[:-MOST_FILES]:
        folder = str(PurePosixPath(file).parent)
        folders[folder] = folders.get(folder, 0) + 1
    grouped = sorted(folders.items(), key=lambda item: -item[1])
    named = [f"{folder}/ ({count} files)" for folder, count in grouped[:MOST_FILES]]
    left = sum(count for _, count in grouped[MOST_FILES:])
    return [*named, *([f"and {left} files in other folders"] if left else []), *files[-MOST_FILES:]]
