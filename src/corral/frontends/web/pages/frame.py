"""What all screens share: templates, words for amounts and times, and the frame around them."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from corral import amounts
from corral.engine.tokens import csrf_of
from corral.frontends.web.app_state import site_of
from corral.frontends.web.auth import Caller
from corral.frontends.web.pages import text
from corral.frontends.web.running_merges import RunningMerge
from corral.version import __version__

HERE = Path(__file__).parent.parent
STATIC = HERE / "static"


class Screen(NamedTuple):
    """One entry of the menu."""

    path: str
    title: str
    key: str  #: opens it after `g`


SCREENS = (
    Screen("/", "Now", "n"),
    Screen("/runs", "Runs", "r"),
    Screen("/inbox", "Inbox", "i"),
    Screen("/cost", "Cost", "c"),
    Screen("/flows", "Flows", "f"),
    Screen("/agents", "Agents", "a"),
    Screen("/settings", "Settings", "s"),
)


def show(request: Request, caller: Caller, template: str, **values: Any) -> Response:  # noqa: ANN401 -- any value is shown
    """Answer with a whole screen, or with a part of one (a template whose name begins with `_`)."""
    if not template.startswith("_"):
        values["menu"] = SCREENS
        values["waiting"] = len(site_of(request).engine.inbox.entries())
    values["csrf"] = csrf_of(caller.cookie) if caller.cookie else ""
    values["may"] = caller.token.may
    values["here"] = request.url.path
    values["nonce"] = request.state.nonce
    return HTMLResponse(templates().get_template(template).render(values))


def go_to(path: str) -> Response:
    """Answer a form so that the browser opens another screen; htmx obeys the header."""
    return Response(status_code=204, headers={"HX-Redirect": path})


@cache
def templates() -> Environment:
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    cast("dict[str, object]", made.globals).update(asset=asset, version=__version__)
    filters = cast("dict[str, object]", made.filters)
    for shared in (amounts.seconds, amounts.usd, amounts.tokens, amounts.count):
        filters[shared.__name__] = shared
    for own in (text.ago, text.moment, text.sign, text.short, text.plain, text.answer_label, text.explain):
        filters[own.__name__] = own
    return made


@cache
def asset(name: str) -> str:
    """Return the address of a file of ours; it changes with the content, so browsers may keep it."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?{digest}"


def merge_result_address(run: str, merging: RunningMerge | None) -> str:
    """Return the address of the screen that shows what came of a merge."""
    return f"/runs/{run}/conflicts" if merging and merging.state == "conflict" else f"/runs/{run}/merge"
