"""What a person can do about a run, in words: by its state, and by what they may."""

from __future__ import annotations

from msgspec import Struct

from corral.engine.views.run_page import RunView
from corral.engine.views.run_status import ORPHANED
from corral.model import OPEN, Attempt

PARKED = ("limited", "waiting", "over_budget")


class NextStep(Struct, frozen=True):
    """What to do next: in words, and as one would type it."""

    words: str
    command: str = ""


class Button(Struct, frozen=True, kw_only=True):
    """A button."""

    verb: str
    title: str
    busy: str
    key: str = ""
    asks: str = ""  #: what is asked before
    kind: str = ""  #: primary, danger


class Link(Struct, frozen=True, kw_only=True):
    path: str
    title: str
    key: str = ""
    kind: str = ""


def next_step(view: RunView) -> NextStep:  # noqa: C901, PLR0911 -- one for each way a run can stand
    """Say what a run needs next; the commands are those that `corral show` names."""
    run, name = view.run, view.run.run
    if view.entries:
        return NextStep("It waits for your answer, just below.", f"corral answer {view.entries[0].id} ANSWER")
    if run.reason == ORPHANED:
        return NextStep(
            "The process that drove it is gone. Resume goes on with it; nothing is lost.", f"corral resume {name}"
        )
    match run.status:
        case "queued":
            return NextStep("It starts by itself as soon as there is room for it.", "corral queue")
        case "running":
            return NextStep("Watch it below. If its agents go astray, tell them.", f'corral steer {name} "…"')
        case "paused":
            return NextStep("Resume lets it go on where it stopped.", f"corral resume {name}")
        case "waiting":
            return NextStep(
                "It goes on when what it waits for is there; Resume tries at once.", f"corral resume {name}"
            )
        case "limited":
            return NextStep(
                "A quota is used up. It goes on by itself when that is back; Resume tries now.", f"corral resume {name}"
            )
        case "over_budget":
            return NextStep(
                "Its budget is used up. Give it more, then Resume; what it did is kept.", f"corral resume {name}"
            )
        case "done":
            return _next_when_done(view)
        case "stopped":
            return NextStep(
                "It was stopped; its work is kept. Retry does again what did not get done.", f"corral retry {name}"
            )
        case _:
            return _next_when_failed(view)


def _next_when_done(view: RunView) -> NextStep:
    merge, name = view.run.merge, view.run.run
    if merge.status == "merged":
        return NextStep(f"It is merged into {merge.into}. Undo is on the merge screen.", f"corral undo {name}")
    if merge.clashes:
        names = "; ".join(
            f"{each.one} and {each.other} both changed {', '.join(each.files[:4])}" for each in merge.clashes
        )
        return NextStep(f"Its nodes conflict: {names}. Settle the conflicts.", f"corral merge {name}")
    if merge.status == "conflict":
        return NextStep("It does not go together with what is there now. Settle the conflicts.", f"corral merge {name}")
    if merge.status == "undone":
        return NextStep(f"Its merge into {merge.into} was taken back. It can be merged again.", f"corral merge {name}")
    if merge.status == "ready":
        look = "Compare the attempts" if several(view) else "Look at the change"
        into = f" into {merge.into}" if merge.into else ""
        return NextStep(f"{look}, then merge it{into}.", f"corral merge {name}")
    return NextStep("It is over, and there is nothing to merge.", f"corral logs {name}")


def _next_when_failed(view: RunView) -> NextStep:
    hint = next((error.hint for each in reversed(attempts(view)) if (error := each.error) and error.hint), "")
    words = f"Hint: {hint}. " if hint else ""
    return NextStep(f"{words}Retry does again what did not get done.", f"corral retry {view.run.run}")


SOURCES = {
    "reported": "as its agents report it",
    "metered": "metered on the way to its provider",
    "computed": "computed from tokens",
    "estimated": "estimated",
    "fixed": "a fixed price",
}


def cost_source(view: RunView) -> str:
    """Say where the amount comes from."""
    if view.money.source in SOURCES:
        return SOURCES[view.money.source]
    return "nothing reported so far" if view.run.status in OPEN else "its agents do not report it"


def attempts(view: RunView) -> list[Attempt]:
    return [each for node in view.run.nodes for each in node.attempts]


def several(view: RunView) -> bool:
    """Tell whether there is something to compare."""
    return view.run.strategy == "race" or any(node.rivals for node in view.record.plan.flow.nodes)


def buttons(view: RunView, *, may_run: bool) -> list[Button]:
    """Return the buttons that make sense now."""
    if not may_run:
        return []
    status, lost = view.run.status, view.run.reason == ORPHANED
    resume = Button(verb="resume", title="Resume", busy="going on…", key="p", kind="primary")
    found: list[Button] = []
    asks = status == "waiting" and bool(view.entries)  # an answer lets it go on
    if (status in ("paused", *PARKED) and not asks) or lost:
        found.append(resume)
    elif status in ("running", "queued", "waiting") and view.driven:
        found.append(Button(verb="pause", title="Pause", busy="pausing…", key="p"))
    if status in ("running", "waiting") and view.driven:
        words = "Its agents go on in fresh sessions, from summaries of what they did so far."
        found.append(Button(verb="condense", title="Condense", busy="condensing…", asks=words))
    if status in OPEN:
        words = "Its agents are stopped. What they did so far is kept, and Retry goes on from there."
        found.append(
            Button(verb="stop", title="Stop", busy="stopping; saving its work…", key="s", asks=words, kind="danger")
        )
    elif status != "done" and status not in PARKED:
        found.append(Button(verb="retry", title="Retry", busy="starting again…", kind="primary"))
    return found


def links(view: RunView) -> list[Link]:
    """Return the other screens of a run that have something to show."""
    found, base, merge = list[Link](), f"/runs/{view.run.run}", view.run.merge.status
    with_work = [each for each in attempts(view) if each.commit]
    if len(attempts(view)) > 1:
        found.append(Link(path=f"{base}/compare", title="Compare", key="c"))
    if with_work:
        found.append(Link(path=f"{base}/diff", title="Diff"))
    if merge == "conflict":
        found.append(Link(path=f"{base}/conflicts", title="Conflicts", kind="primary"))
    if merge != "none" and view.run.status not in OPEN:
        titles = {"merged": "Merged", "conflict": "Merge"}
        kind = "primary" if merge == "ready" else ""
        found.append(Link(path=f"{base}/merge", title=titles.get(merge, "Merge"), key="m", kind=kind))
    return found


def names(view: RunView) -> dict[str, str]:
    """Return who each attempt is, for the lines of the log."""
    alone = len(view.run.nodes) == 1
    return {
        name: each.attempt.agent + (f" #{name.rpartition('-')[2]}" if len(view.attempts) > 1 else "")
        if alone
        else f"{each.node} · {each.attempt.agent}"
        for name, each in view.attempts.items()
    }
