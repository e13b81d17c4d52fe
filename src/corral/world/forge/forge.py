"""What every forge can be asked for."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from corral.model.forge import CheckState, ForgeKind, PullLook, PullState, Remark
from corral.world.forge import answers
from corral.world.forge.answers import Row
from corral.world.forge.client import ForgeClient
from corral.world.forge.remotes import ForgePlace

MOST_PAGES = 5
PAGE = 100
PAGES: dict[ForgeKind, int] = {"forgejo": 50, "gitea": 50}  #: they give no more at once


class PullText(Struct, frozen=True, kw_only=True):
    """A pull request that is to be opened."""

    title: str
    body: str
    branch: str
    into: str
    source: str = ""  #: the fork that the branch is in
    draft: bool = True


class OpenedPull(Struct, frozen=True, kw_only=True):
    number: int
    url: str
    state: PullState


class PullSource(Struct, frozen=True, kw_only=True):
    """Where the work of a pull request comes from."""

    branch: str
    repository: str  #: empty where it is gone


class ForgeIssue(Struct, frozen=True, kw_only=True):
    number: str
    url: str
    title: str
    body: str
    author: str
    state: str = "open"
    remarks: tuple[Remark, ...] = ()


class LabelledIssues(Struct, frozen=True, kw_only=True):
    """The open issues with a label; `unchanged` since the state that `etag` names."""

    etag: str = ""
    unchanged: bool = False
    numbers: tuple[tuple[str, str], ...] = ()  #: number and address


class LabelEvents(Struct, frozen=True):
    """Who set a label last, empty where the forge does not say, and how often it was set."""

    by: str
    times: int


class Forge(Protocol):
    """One repository on one forge."""

    client: ForgeClient
    place: ForgePlace

    async def open(self, wanted: PullText) -> OpenedPull: ...
    async def source(self, number: int) -> PullSource: ...
    async def look(self, number: int) -> PullLook: ...
    async def say(self, number: int, text: str) -> None: ...
    async def say_in_issue(self, number: str, text: str) -> None: ...
    async def issue(self, number: str) -> ForgeIssue: ...
    async def labelled_issues(self, label: str, etag: str) -> LabelledIssues: ...
    async def labelled_by(self, number: str, label: str) -> LabelEvents: ...
    async def may_write(self, user: str) -> bool: ...


async def pages(client: ForgeClient, path: str, what: str, key: str = "", *, newest_first: bool = False) -> list[Row]:
    """Return the rows of a listing, or of a list under a key of it; of a very long one the newest."""
    size = PAGES.get(client.place.kind, PAGE)
    limit = f"per_page={size}" if client.place.kind in ("github", "gitlab") else f"limit={size}"
    sign = "&" if "?" in path else "?"
    listed: list[list[Row]] = []
    page = 1
    while page and len(listed) < MOST_PAGES:
        answer = await client.get(f"{path}{sign}{limit}&page={page}", what=what)
        found = answers.rows(answers.row(answer.data).get(key) if key else answer.data)
        first_of_last = answer.pages.get("last", 0) - MOST_PAGES + 1
        if page == 1 and first_of_last > 1 and not newest_first:
            page = first_of_last
            continue
        listed.append(found)
        page = answer.pages.get("next", 0) if answer.pages else page + 1 if len(found) >= size else 0
    return [each for rows in listed for each in rows]


def check_state(words: list[str]) -> CheckState:
    """Return the one state of several checks: red as soon as one is, green when all are."""
    if not words:
        return "none"
    if "failure" in words:
        return "failure"
    return "pending" if "pending" in words else "success"
