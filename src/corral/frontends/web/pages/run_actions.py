"""What a person can do about a run, in words: by its state, and by what they may."""

from __future__ import annotations

from msgspec import Struct

from corral.engine.views.run_page import RunView
from corral.engine.views.run_status import ORPHANED
from corral.model import OPEN, Attempt

PARKED = ("limited", "waiting", "over_budget")


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
