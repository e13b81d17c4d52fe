"""Forges by a remote or by the address of an issue; issues of Linear, by its GraphQL API."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from corral.model.errors import BadRequest
from corral.model.forge import ForgeSettings, Remark
from corral.version import __version__
from corral.world import http_client
from corral.world.forge import answers
from corral.world.forge.answers import text
from corral.world.forge.client import MOST_ANSWER, ForgeClient, ForgeRefusal, read_json
from corral.world.forge.forge import Forge, ForgeIssue
from corral.world.forge.github import Forgejo, GitHub
from corral.world.forge.gitlab import GitLab
from corral.world.forge.remotes import HOSTS, ForgePlace, known_place

ISSUE = re.compile(r"/(?P<path>[^?#]+?)/(?:-/)?(?:issues|work_items)/(?P<number>\d{1,12})/?")
LINEAR = re.compile(r"/[^/]+/issue/(?P<id>[A-Za-z][A-Za-z0-9]{0,9}-\d{1,9})(/.*)?")
EXAMPLE = "as https://github.com/OWNER/REPOSITORY/issues/7"

LINEAR_API = "https://api.linear.app/graphql"
LINEAR_KEY = "set LINEAR_API_KEY to an API key that may read it"
LINEAR_APP = "set LINEAR_AGENT_TOKEN to a token of your app (actor=app)"
LINEAR_QUERY = (
    "query Issue($id: String!) { issue(id: $id) { identifier title description url state { type } creator { name } "
    "comments(first: 50) { nodes { id body user { name } } } } }"
)


class IssueAddress(Struct, frozen=True, kw_only=True):
    """Where an issue is."""

    place: ForgePlace | None  #: None: it is on Linear
    number: str


def forge_at(place: ForgePlace, settings: ForgeSettings, environment: Mapping[str, str] = os.environ) -> Forge | None:
    """Return what speaks to a forge; None of one that only takes a push."""
    client = ForgeClient(place, settings, environment)
    match place.kind:
        case "github":
            return GitHub(client)
        case "forgejo" | "gitea":
            return Forgejo(client)
        case "gitlab":
            return GitLab(client)
        case "other":
            return None


def issue_address(url: str, settings: ForgeSettings, remote: ForgePlace | None) -> IssueAddress:
    """Read the address of an issue; only hosts whose forge is known are asked, and get a token."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "") + (f":{parts.port}" if parts.port else "")
    except ValueError:
        raise BadRequest(f"--issue {url[:200]}: that is no address", hint=EXAMPLE) from None
    if parts.scheme not in ("http", "https") or not host:
        raise BadRequest(f"--issue {url[:200]}: that is no address", hint=EXAMPLE)
    if host == "linear.app" and (found := LINEAR.fullmatch(parts.path)):
        return IssueAddress(place=None, number=found["id"].upper())
    own = urlsplit(settings.url or "").netloc
    if host not in HOSTS and host != own and not (remote and remote.host == host and remote.kind != "other"):
        hint = f'name it in config.toml: [forge] kind = "forgejo", url = "{parts.scheme}://{host}"'
        raise BadRequest(f"--issue: {host} is no forge that corral knows", hint=hint)
    found = ISSUE.fullmatch(parts.path)
    if found is None:
        raise BadRequest(f"--issue {url[:200]}: that is no address of an issue", hint=EXAMPLE)
    scheme = "https" if host in HOSTS else parts.scheme
    return IssueAddress(place=known_place(scheme, host, found["path"], settings), number=found["number"])


async def read_issue(address: IssueAddress, settings: ForgeSettings) -> ForgeIssue:
    """Return an issue with what was said about it."""
    if address.place is None:
        return await _linear_issue(address.number, os.environ)
    forge = forge_at(address.place, settings)
    if forge is None:
        hint = 'config.toml: [forge] kind = "github", "gitlab", "forgejo" or "gitea"'
        raise BadRequest(f"--issue: the kind of the forge {address.place.host} is not known", hint=hint)
    return await forge.issue(address.number)


async def ask_linear(query: str, variables: dict[str, Any]) -> None:
    """Say something to Linear, as the app that issues are delegated to."""
    token = os.environ.get("LINEAR_AGENT_TOKEN", "").strip()
    if not token:
        raise ForgeRefusal("linear.app: there is no token to speak with", hint=LINEAR_APP)
    answer = await _post_linear(query, variables, f"Bearer {token}", os.environ)
    if answer.status != 200 or answers.row(read_json(answer.body)).get("errors"):
        raise ForgeRefusal(f"linear.app: it did not take that ({answer.status})", status=answer.status)


async def _linear_issue(name: str, environment: Mapping[str, str]) -> ForgeIssue:
    """Return an issue; `name` is its identifier, such as ENG-12."""
    key, token = (environment.get(each, "").strip() for each in ("LINEAR_API_KEY", "LINEAR_AGENT_TOKEN"))
    if not key and not token:
        raise ForgeRefusal(f"linear.app: {name} cannot be read without a key", hint=LINEAR_KEY)
    answer = await _post_linear(LINEAR_QUERY, {"id": name}, key or f"Bearer {token}", environment)
    row = answers.row(answers.row(answers.row(read_json(answer.body)).get("data")).get("issue"))
    if not row:
        words = f"linear.app: {name}: not found, or the key may not read it ({answer.status})"
        raise ForgeRefusal(words, hint=LINEAR_KEY, status=answer.status)
    remarks = [
        Remark(id=text(each, "id"), author=text(each, "user", "name"), text=text(each, "body"))
        for each in answers.rows(answers.row(row.get("comments")).get("nodes"))
    ]
    return ForgeIssue(
        number=text(row, "identifier") or name,
        url=text(row, "url"),
        title=text(row, "title"),
        body=text(row, "description"),
        author=text(row, "creator", "name"),
        remarks=tuple(remarks),
    )


async def _post_linear(
    query: str, variables: dict[str, Any], authorization: str, environment: Mapping[str, str]
) -> http_client.HttpAnswer:
    """Return what Linear answers; refuse what no answer follows from."""
    body = json.dumps({"query": query, "variables": variables}).encode()
    headers = {
        "Authorization": authorization,
        "Content-Type": "application/json",
        "User-Agent": f"corral/{__version__}",
    }
    url = environment.get("LINEAR_API_URL") or LINEAR_API
    answer = await asyncio.to_thread(http_client.exchange, "POST", url, headers, body, MOST_ANSWER)
    if not answer.status:
        raise ForgeRefusal(f"linear.app: {answer.trouble}", hint="is it reachable from here?")
    if answer.status in (401, 403):
        raise ForgeRefusal("linear.app: the key is not accepted", hint=LINEAR_KEY, status=answer.status)
    if answer.status == 429:
        raise ForgeRefusal("linear.app: its rate limit is used up", hint="try again later", status=429)
    return answer
