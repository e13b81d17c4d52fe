"""Requests to the API of a forge: with the user's token, bounded, and each refusal in one clear line."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import time
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct, field

from corral.model.errors import BadRequest
from corral.model.forge import ForgeKind, ForgeSettings
from corral.version import __version__
from corral.world import http_client, process
from corral.world.forge import answers
from corral.world.forge.remotes import HOSTS, ForgePlace
from corral.world.process import ProcessStart
from corral.world.proxy.secret import SecretValue

MOST_ANSWER = 8 << 20
MOST_WORDS = 200
MOST_LINK = 8000
LINK = re.compile(r'<[^>]*[?&]page=(?P<page>\d{1,9})(?:&[^>]*)?>; *rel="(?P<relation>[a-z]+)"')
VARIABLES: dict[ForgeKind, tuple[str, ...]] = {
    "github": ("GH_TOKEN", "GITHUB_TOKEN"),
    "gitlab": ("GITLAB_TOKEN",),
    "forgejo": ("FORGEJO_TOKEN", "GITEA_TOKEN"),
    "gitea": ("GITEA_TOKEN", "FORGEJO_TOKEN"),
}
ENTERPRISE = ("GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN")


class ForgeRefusal(BadRequest):
    """The forge says no, or cannot be asked."""

    def __init__(self, message: str, *, hint: str = "", status: int = 0, wait_seconds: float = 0.0) -> None:
        super().__init__(message, hint=hint)
        self.status, self.wait_seconds = status, wait_seconds

    @property
    def passes(self) -> bool:
        """Tell whether it may pass by itself: a rate limit, a forge that is down or out of reach."""
        return bool(self.wait_seconds) or self.status == 0 or self.status >= 500


class ForgeAnswer(Struct, frozen=True, kw_only=True):
    status: int
    data: Any = None
    etag: str = ""
    pages: Mapping[str, int] = field(default_factory=dict[str, int])  #: `next` and `last`, where the forge names them


def variables_of(place: ForgePlace, settings: ForgeSettings) -> tuple[str, ...]:
    """Return which variables may hold the token of a forge. None is sent to a host that the user did not name."""
    named = settings.kind is not None or settings.url is not None
    if place.host in HOSTS or named:
        if settings.token_env and (place.host not in HOSTS or settings.kind == place.kind):
            return (settings.token_env,)
        usual = VARIABLES.get(place.kind, ())
        return (*ENTERPRISE, *usual) if place.kind == "github" and place.host not in HOSTS else usual
    return ()


def token_of(place: ForgePlace, settings: ForgeSettings, environment: Mapping[str, str]) -> SecretValue | None:
    found = next((environment[name] for name in variables_of(place, settings) if environment.get(name, "").strip()), "")
    return SecretValue(found.strip()) if found else None


class ForgeClient:
    """The API of one forge."""

    def __init__(self, place: ForgePlace, settings: ForgeSettings, environment: Mapping[str, str] = os.environ) -> None:
        self.place, self._environment = place, environment
        self.token = token_of(place, settings, environment)
        self._variables = variables_of(place, settings)
        self._api = environment.get("GITHUB_API_URL") if place.host == "github.com" else None
        gh = shutil.which("gh", path=environment.get("PATH")) if place.kind == "github" and not self.token else None
        self._gh = gh if place.api else None

    @property
    def may_write(self) -> bool:
        """Tell whether there is a token, or a program that has one."""
        return bool(self.token or self._gh)

    async def get(self, path: str, *, etag: str = "", what: str = "") -> ForgeAnswer:
        return await self.call("GET", path, etag=etag, what=what)

    async def call(
        self, method: str, path: str, body: object = None, *, etag: str = "", what: str = "", fine: tuple[int, ...] = ()
    ) -> ForgeAnswer:
        """Ask the forge; raise what it refuses, in one line that says of `what`."""
        if self._gh:
            return await self._call_gh(self._gh, method, path, body, what, fine)
        headers = {"Accept": "application/json", "User-Agent": f"corral/{__version__}"}
        if self.token:
            scheme = "token" if self.place.kind in ("forgejo", "gitea") else "Bearer"
            headers["Authorization"] = f"{scheme} {self.token.reveal()}"
        if etag:
            headers["If-None-Match"] = etag
        if body is not None:
            headers["Content-Type"] = "application/json"
        sent = msgspec.json.encode(body) if body is not None else None
        url = f"{self._api or self.place.api}{path}"
        answer = await asyncio.to_thread(http_client.exchange, method, url, headers, sent, MOST_ANSWER)
        if not answer.status:
            raise ForgeRefusal(f"{self.place.host}: {answer.trouble}", hint="is it reachable from here?")
        found = ForgeAnswer(
            status=answer.status,
            data=read_json(answer.body),
            etag=answer.headers.get("etag", ""),
            pages=read_pages(answer.headers.get("link", "")),
        )
        if answer.status < 300 or answer.status == 304 or answer.status in fine:
            return found
        raise self._refusal(found, answer.headers, what or path)

    async def _call_gh(
        self, program: str, method: str, path: str, body: object, what: str, fine: tuple[int, ...]
    ) -> ForgeAnswer:
        """Ask by the user's own `gh`, which has the login."""
        argv = [program, "api", "--hostname", self.place.host, "--method", method, path.removeprefix("/")]
        sent = msgspec.json.encode(body) if body is not None else b""
        start = ProcessStart(argv=[*argv, "--input", "-"] if sent else argv, env=dict(self._environment), stdin=sent)
        ended = await process.run(start, timeout=60.0, most=MOST_ANSWER)
        data = read_json(ended.out)
        if ended.code == 0:
            return ForgeAnswer(status=200, data=data)
        said = answers.text(answers.row(data), "status")
        status = int(said) if said.isdecimal() else 400
        found = ForgeAnswer(status=status, data=data)
        if status in fine:
            return found
        raise self._refusal(found, {}, what or path)

    def _refusal(self, answer: ForgeAnswer, headers: Mapping[str, str], what: str) -> ForgeRefusal:
        words, status, host = _words(answer.data), answer.status, self.place.host
        wait = _wait_seconds(headers, time.time())
        if status == 429 or (
            status == 403 and (headers.get("x-ratelimit-remaining") == "0" or "retry-after" in headers)
        ):
            until = time.strftime("%H:%M:%S UTC", time.gmtime(time.time() + wait))
            message = f"{host}: its rate limit is used up until {until}; nothing was done"
            return ForgeRefusal(message, hint="" if self.token else self.token_hint(), status=status, wait_seconds=wait)
        if status == 401:
            return ForgeRefusal(f"{host}: the token is not accepted", hint=self.token_hint(), status=status)
        if status == 403:
            return ForgeRefusal(f"{host}: {what}: not allowed (403){words}", hint=self.token_hint(), status=status)
        if status == 404:
            private = "" if self.may_write else ", or it is private and there is no token"
            hint = "does the token have access to it?" if self.may_write else self.token_hint()
            return ForgeRefusal(f"{host}: {what}: not found{private}", hint=hint, status=status)
        return ForgeRefusal(f"{host}: {what}: refused ({status}){words}", status=status)

    def token_hint(self) -> str:
        """Return what a user can do about a missing token."""
        if not self._variables:
            return f'name the forge in config.toml: [forge] kind = "…", url = "{self.place.web}"'
        return f"set {' or '.join(self._variables)} to a token that may do this"


def read_json(body: bytes) -> Any:  # noqa: ANN401 -- whatever the forge says
    try:
        return json.loads(body) if body.strip() else None
    except (ValueError, RecursionError):
        return None


def read_pages(link: str) -> dict[str, int]:
    """Return the numbers of the pages that a `Link` header names, by their relation."""
    return {found["relation"]: int(found["page"]) for found in LINK.finditer(link[:MOST_LINK])}


def _words(data: object) -> str:
    """Return what the forge says of a refusal, as one short line."""
    found = answers.row(data)
    parts = [answers.text(found, "message") or answers.text(found, "error")]
    parts += [answers.text(each, "message") for each in answers.rows(found.get("errors"))]
    words = "; ".join(filter(None, parts))
    words = "".join(each if each.isprintable() else " " for each in words)
    return f": {words[:MOST_WORDS]}" if words else ""


def _wait_seconds(headers: Mapping[str, str], now: float) -> float:
    after, reset = headers.get("retry-after", ""), headers.get("x-ratelimit-reset", headers.get("ratelimit-reset", ""))
    if after.isdecimal():
        return float(after)
    return max(0.0, float(reset) - now) if reset.isdecimal() and len(reset) < 12 else 60.0
