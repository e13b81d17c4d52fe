"""The page of one run: its status, its history, and the actions on it."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from corral.engine.views import log_pages
from corral.engine.views.next_steps import next_steps
from corral.engine.views.run_page import RunView
from corral.engine.views.run_status import ORPHANED
from corral.frontends.web.api.inbox import settle
from corral.frontends.web.api.rows import EventPage
from corral.frontends.web.app_state import CurrentSite, Site
from corral.frontends.web.auth import Caller, Reader, Runner, form
from corral.frontends.web.bodies import answer
from corral.frontends.web.pages import frame
from corral.frontends.web.pages import text as words
from corral.frontends.web.pages.outcomes import failed_check, outcome
from corral.frontends.web.pages.review import review_view
from corral.frontends.web.streams import encode_event
from corral.model import OPEN, Attempt, NodeState, nodes_with_items
from corral.model.errors import NotFound
from corral.model.flow import Node

router = APIRouter()
Word = Annotated[str, Query(max_length=200)]
CHILDREN_MOST = 20
MOST_MAIL = 50
PARKED = ("limited", "waiting", "over_budget")


class RunSelection(Struct, frozen=True, kw_only=True):
    """What of a run is looked at closely: a node, and one of its attempts."""

    node: NodeState | None
    plan: Node | None
    attempt: Attempt | None
    picked: str  #: the attempt or node that the user asked for; empty: they left it to us
    query: str  #: so that it is asked for again


@router.get("/runs/{run}")
async def screen(
    request: Request, run: str, site: CurrentSite, caller: Reader, attempt: Word = "", node: Word = ""
) -> Response:
    return frame.show(request, caller, "run.html", **await _values(site, caller, run, attempt, node))


@router.get("/runs/{run}/part")
async def part(
    request: Request, run: str, site: CurrentSite, caller: Reader, attempt: Word = "", node: Word = ""
) -> Response:
    """The part of the screen that changes."""
    return frame.show(request, caller, "_run.html", **await _values(site, caller, run, attempt, node))


async def _values(site: Site, caller: Caller, run: str, attempt: str, node: str) -> dict[str, Any]:
    view = site.engine.history.view(run)
    await site.engine.merges.add_git_state(view.run)
    chosen = _select(view, attempt, node)
    record = view.attempts[chosen.attempt.id] if chosen.attempt else None
    engine, name = site.engine, view.run.run
    return {
        "view": view,
        "run": view.run,
        "chosen": chosen,
        "record": record,
        "files": await engine.history.changed_files(view, chosen.attempt.id) if chosen.attempt else (),
        "result": outcome(view.run, ""),
        "failed_check": failed_check(view.run),
        "next": next_steps(view.run, engine.inbox.commands(name)),
        "acts": buttons(view, may_run=caller.token.may("run")),
        "links": links(view),
        "named_nodes": [node for node, _ in nodes_with_items(view.run.nodes)],
        "review": review_view(view.run),
        "paid": cost_source(view),
        "names": names(view),
        "meaning": words.GRADES_SAY,
        "children": [engine.show(child) for child in view.run.children[:CHILDREN_MOST]],
        "letters": engine.history.mail(name)[-MOST_MAIL:],
    }


def _select(view: RunView, attempt: str, node: str) -> RunSelection:
    """Find what was asked for; else who is at work, whose work won, or who came last."""
    nodes = {each.id: each for each in view.run.nodes}
    plans = {each.id: each for each in view.record.plan.flow.nodes}
    owner = next((each for each in view.run.nodes for own in each.attempts if own.id == attempt), None)
    query, picked = (f"attempt={attempt}", attempt) if owner else (f"node={node}", node) if node in nodes else ("", "")
    owner = owner or nodes.get(node) or _usual(view)
    tries = owner.attempts if owner else []
    work = [each for each in tries if view.attempts[each.id].lane >= 0]  # not those of a judge or a reader
    found = next((each for each in tries if each.id == attempt), None) or _best(owner, work or tries)
    plan = (plans.get(owner.id) or plans.get(owner.id.rpartition(".")[0])) if owner else None
    return RunSelection(node=owner, plan=plan, attempt=found, picked=picked, query=query)


def _usual(view: RunView) -> NodeState | None:
    nodes = [each for each in view.run.nodes if each.attempts]
    if view.run.status in OPEN:
        at_work = [each for each in nodes if any(own.status in OPEN for own in each.attempts)]
        return (at_work or nodes or view.run.nodes or [None])[-1]
    failed = [each for each in nodes if each.status in ("failed", "timed_out")]
    won = [each for each in nodes if each.winner]
    first = failed[:1] if view.run.status != "done" else won[-1:]
    return (first or nodes or view.run.nodes or [None])[-1]


def _best(node: NodeState | None, tries: list[Attempt]) -> Attempt | None:
    won = next((each for each in tries if node and each.id == node.winner), None)
    at_work = next((each for each in tries if each.status in OPEN), None)
    return won or at_work or (tries[-1] if tries else None)


# --- the log


@router.get("/runs/{run}/lines")
async def log_lines(  # noqa: PLR0913, PLR0917 -- one for each way to narrow it
    run: str,
    site: CurrentSite,
    _: Reader,
    before: Annotated[int, Query(ge=0, le=log_pages.END)] = log_pages.END,
    after: Annotated[int | None, Query(ge=0, le=log_pages.END)] = None,
    attempt: Word = "",
    kind: log_pages.Kind = "all",
    q: Word = "",
) -> Response:
    """Lines of the log as the events they are; `next` continues in the same direction, 0: there is no more."""
    name = site.engine.find(run)
    wanted = log_pages.LogQuery(before=before, after=after, attempt=attempt, kind=kind, words=q)
    found = site.engine.history.log_page(name, wanted)
    events = [msgspec.Raw(encode_event(each).body) for each in found.lines]
    return answer(EventPage(run=name, events=events, next=found.next or 0))


@router.get("/runs/{run}/attempts/{attempt}/{what}")
async def read(run: str, attempt: str, what: str, site: CurrentSite, _: Reader) -> Response:
    """A long text of an attempt: its prompt, the summary it continues from, its receipt."""
    view = site.engine.history.view(run)
    if attempt not in view.attempts:
        raise NotFound(
            f"run {view.run.run} has no attempt `{attempt}`", hint="the screen of the run lists its attempts"
        )
    match what:
        case "prompt":
            text = site.engine.work.prompt(view.run.run, attempt)
        case "summary":
            text = view.attempts[attempt].summary or "it continues from no summary"
        case "receipt":
            text = msgspec.json.format(
                msgspec.json.encode(site.engine.work.receipt(view.run.run, attempt)), indent=2
            ).decode()
        case "output":
            text = msgspec.json.format(msgspec.json.encode(view.attempts[attempt].attempt.output), indent=2).decode()
        case _:
            raise NotFound(f"an attempt has no `{what}`", hint="it has: prompt, summary, receipt, output")
    return PlainTextResponse(text)


# --- what is done to it


@router.post("/runs/{run}/stop")
async def stop(run: str, site: CurrentSite, caller: Runner) -> Response:
    ended = await site.engine.stop(run, caller.by)
    return _text_reply(f"it is over: {ended.status}; what was done is kept")


@router.post("/runs/{run}/pause")
async def pause(request: Request, run: str, site: CurrentSite, caller: Runner) -> Response:
    node = (await form(request)).get("node") or None
    return _text_reply(await site.engine.control.pause(site.engine.find(run), node, caller.by))


@router.post("/runs/{run}/resume")
async def resume(request: Request, run: str, site: CurrentSite, caller: Runner) -> Response:
    """Resume the run, or a paused node of it; the screen is opened anew, to hear it from its beginning."""
    name, node = site.engine.find(run), (await form(request)).get("node")
    if node and site.engine.is_active(name):
        return _text_reply(await site.engine.control.unpause(name, node, caller.by))
    await site.supervisor.begin(name, partial(site.engine.resume, name))
    return frame.go_to(f"/runs/{name}")


@router.post("/runs/{run}/retry")
async def retry(request: Request, run: str, site: CurrentSite, _: Runner) -> Response:
    name, node = site.engine.find(run), (await form(request)).get("node") or None
    await site.supervisor.begin(name, lambda listen: site.engine.retry(name, node, listen, _ignore_text))
    return frame.go_to(f"/runs/{name}")


@router.post("/runs/{run}/steer")
async def steer(request: Request, run: str, site: CurrentSite, caller: Runner) -> Response:
    text = (await form(request)).get("text", "")
    return _text_reply(await site.engine.control.steer(site.engine.find(run), text, caller.by))


@router.post("/runs/{run}/condense")
async def condense(run: str, site: CurrentSite, caller: Runner) -> Response:
    return _text_reply(await site.engine.control.condense(site.engine.find(run), caller.by))


@router.post("/runs/{run}/answers/{number}")
async def answer_entry(request: Request, run: str, number: str, site: CurrentSite, caller: Runner) -> Response:
    """Answer what the run waits for; if nothing drives it, it is opened anew."""
    given = (await form(request)).get("answer", "")
    entry = await settle(site, caller, number, given)
    name = site.engine.find(run)
    if not site.engine.is_active(name):
        return frame.go_to(f"/runs/{name}")
    return _text_reply(f"answered: {entry.answer}" + (f"; {entry.outcome}" if entry.outcome else ""))


def _text_reply(words: str) -> Response:
    return PlainTextResponse(words)


def _ignore_text(_: object) -> None:
    """Say nothing: the screen tells it."""


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
    used = view.run.tokens
    if view.money.source == "metered" and not view.money.spent and not (used.input or used.output):
        return "no request to a provider"
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
    resume = Button(verb="resume", title="Resume", busy="resuming…", key="p", kind="primary")
    found: list[Button] = []
    asks = status == "waiting" and bool(view.entries)  # an answer lets it continue
    if (status in ("paused", *PARKED) and not asks) or lost:
        found.append(resume)
    elif status in ("running", "queued", "waiting") and view.driven:
        found.append(Button(verb="pause", title="Pause", busy="pausing…", key="p"))
    if status in ("running", "waiting") and view.driven:
        words = "Its agents continue in fresh sessions, from summaries of what they did so far."
        found.append(Button(verb="condense", title="Condense", busy="condensing…", asks=words))
    if status in OPEN:
        words = "Its agents are stopped. What they did so far is kept, and Retry continues from there."
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
    if any(len(node.attempts) > 1 for node in view.run.nodes):  # several nodes did different work
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
