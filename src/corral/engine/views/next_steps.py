"""What helps next with a run, for every front end: in a sentence, and as commands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from corral.engine.views.run_status import ORPHANED
from corral.model import OPEN, Attempt, Run

Action = Literal["answer", "merge", "diff", "compare", "undo", "retry", "resume", "stop", "logs", "queue"]


class NextStep(Struct, frozen=True):
    """One thing to do."""

    action: Action
    command: str  #: as a user types it


class NextSteps(Struct, frozen=True, kw_only=True):
    """What to do next, the best first."""

    words: str
    steps: tuple[NextStep, ...] = ()

    @property
    def commands(self) -> str:
        """All commands, in one line."""
        return "   ".join(step.command for step in self.steps)


def next_steps(run: Run, asked: Sequence[str] = ()) -> NextSteps:
    """Return what a run needs next; `asked` are the commands that answer what it waits for."""
    answers = [NextStep("answer", command) for command in asked]
    if run.status in OPEN or run.status in ("limited", "over_budget"):
        return _steps_when_unfinished(run, answers)
    if run.status == "done":
        return _steps_when_done(run, answers)
    again = [_step("retry", run), _step("logs", run), *_look(run)]
    if run.status == "stopped":
        return _steps("It was stopped; its work is kept. Retry does what is not done.", *again)
    hint = next((each.error.hint for each in reversed(_attempts(run)) if each.error and each.error.hint), "")
    hint = "" if hint.startswith("corral logs") else hint.partition("; corral logs ")[0]  # the log is offered anyway
    helps = f"Hint: {hint.rstrip('.')}. " if hint else ""
    return _steps(f"{helps}Retry does what is not done.", *again)


def _steps_when_unfinished(run: Run, answers: Sequence[NextStep]) -> NextSteps:
    resume, stop = _step("resume", run), _step("stop", run)
    follow = NextStep("logs", f"corral logs -f {run.run}")
    if run.status == "over_budget":
        return _steps("Its budget is used up. Raise it, then resume; its work is kept.", *answers, resume)
    if run.status == "limited":
        return _steps("A quota is used up. It continues when that is back; resume tries now.", resume)
    if answers and run.status != "paused":
        return _steps("It waits for your answer.", *answers, stop)
    if run.reason == ORPHANED:
        return _steps("The process that ran it is gone. Resume continues it; nothing is lost.", resume, stop)
    if run.status == "paused":
        return _steps("Resume continues it where it stopped.", resume, stop)
    if run.status == "queued" and not run.reason:
        return _steps("It starts as soon as there is room for it.", NextStep("queue", "corral queue"), stop)
    if run.status == "waiting" or run.reason:
        return _steps("It continues when what it waits for is there; resume tries at once.", resume, stop)
    return _steps("Its agents are at work. You can steer them.", follow, stop)


def _steps_when_done(run: Run, answers: Sequence[NextStep]) -> NextSteps:
    merge, again = run.merge, NextStep("merge", f"corral merge {run.run}{'' if run.merge.into else ' --into BRANCH'}")
    if merge.status == "ready" and not merge.into and _is_plain(Path(run.repo)):
        apply = NextStep("diff", f"corral diff {run.run} | git apply")
        return _steps("Its folder is no git repository. Look at the change, then apply it.", *_look(run), apply)
    if merge.status == "merged":
        return _steps(f"It is merged into {merge.into}. Undo takes it back.", _step("undo", run))
    if merge.clashes:
        both = (f"{each.one} and {each.other} both changed {', '.join(each.files[:4])}" for each in merge.clashes)
        return _steps(f"Its nodes conflict: {'; '.join(both)}. Resolve the conflicts.", *answers, *_look(run), again)
    if merge.status == "conflict":
        return _steps("It conflicts with what is on the branch now. Resolve it.", *answers, *_look(run), again)
    if merge.status == "undone":
        return _steps(f"Its merge into {merge.into} was undone. You can merge it again.", *_look(run), again)
    if merge.status == "ready":
        look = "Compare the attempts" if _several(run) else "Look at the change"
        return _steps(f"{look}, then merge it{f' into {merge.into}' if merge.into else ''}.", *_look(run), again)
    return _steps("There is nothing to merge.", _step("logs", run))


def _is_plain(folder: Path) -> bool:
    """Say whether a folder is no git repository: it has no branch to merge into."""
    return not (folder / ".git").exists() and not (folder / "HEAD").exists()


def _look(run: Run) -> list[NextStep]:
    """Return how to look at the work, where there is some."""
    with_work = [each for each in _attempts(run) if each.commit]
    if run.strategy == "race" and len(_attempts(run)) > 1:
        return [_step("compare", run)]
    return [_step("diff", run)] if with_work else []


def _several(run: Run) -> bool:
    return run.strategy == "race"


def _attempts(run: Run) -> list[Attempt]:
    return [attempt for node in run.nodes for attempt in node.attempts]


def _step(action: Action, run: Run) -> NextStep:
    return NextStep(action, f"corral {action} {run.run}")


def _steps(words: str, *steps: NextStep) -> NextSteps:
    return NextSteps(words=words, steps=steps)
