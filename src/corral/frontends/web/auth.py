"""Who calls the server, by a bearer token or a browser's cookie, and what a request of theirs may name."""

from __future__ import annotations

import contextlib
import hmac
import os
import re
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import Depends
from msgspec import Struct
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from corral.engine.tokens import csrf_of
from corral.frontends.web.app_state import Site, site_of
from corral.frontends.web.problems import RefusedRequest
from corral.model import Request as RunRequest
from corral.model import RunPlan
from corral.model.server import AccessScope, Token

COOKIE = "corral_login"
SAFE = ("GET", "HEAD", "OPTIONS")
HINT = "Authorization: Bearer TOKEN; make one: corral token new"
NAME = re.compile(r"[\w][\w.@+-]{0,99}")
REF = re.compile(r"[\w][\w./@^~{}+-]{0,199}")
PLAYED = re.compile(r"\b(?:scripted|replay):([^\s\"',*\]}]+)")
SEARCHED_MOST, SEARCHED_DEPTH = 1000, 4  #: folders that are looked at for repositories, and how far down
NOT_SEARCHED = ("node_modules", "__pycache__", "site-packages", "venv", "vendor", "target")
FILES = ("scripted", "replay")  #: agents whose model is a file


class Caller(Struct, frozen=True):
    """Who asks."""

    token: Token
    cookie: str | None = None

    @property
    def by(self) -> str:
        """How it is kept with what they ordered."""
        return f"token {self.token.name}"

    @property
    def login(self) -> tuple[str, str | None]:
        """What is revoked with a token, or with the login of one browser."""
        return self.token.id, self.cookie

    def needs(self, scope: AccessScope) -> None:
        if not self.token.may(scope):
            raise RefusedRequest(
                403, "scope", f"this token may not do that: it lacks the scope `{scope}`",
                hint=f"corral token new --scope {scope}",
            )  # fmt: skip


def identify(connection: HTTPConnection) -> Caller:
    """Find out who asks; raise 401 if nobody we know."""
    site = site_of(connection)
    address = connection.client.host if connection.client else "-"
    header = connection.headers.get("authorization")
    cookie = connection.cookies.get(COOKIE)
    if header is None and cookie is None:
        raise RefusedRequest(401, "no_token", "this needs a token", hint=HINT)
    if header is not None:
        kind, _, secret = header.partition(" ")
        token = site.engine.access.check(secret.strip()) if kind.lower() == "bearer" else None
        caller = Caller(token) if token else None
    else:
        token = site.engine.access.check_login(cookie or "")
        caller = Caller(token, cookie) if token else None
    if caller is None:  # who is known is never kept out by others of the same address, as behind one proxy
        site.limiter.count_wrong_secret(address)
        raise RefusedRequest(401, "bad_token", "this token is not known, or was revoked", hint=HINT)
    site.limiter.count_request(caller.token.id)
    connection.scope["corral.caller"] = caller.token.name
    return caller


def needs(scope: AccessScope) -> Callable[[Request], object]:
    """Return a dependency: the caller has this scope, and made the request itself."""

    async def check(request: Request) -> Caller:
        caller = identify(request)
        if caller.cookie is not None and request.method not in SAFE:
            await _check_csrf(request, caller.cookie)
        caller.needs(scope)
        return caller

    return check


Reader = Annotated[Caller, Depends(needs("read"))]


Runner = Annotated[Caller, Depends(needs("run"))]


MergeCaller = Annotated[Caller, Depends(needs("merge"))]


Admin = Annotated[Caller, Depends(needs("admin"))]


async def _check_csrf(request: Request, cookie: str) -> None:
    """A browser sends its cookie for any page; only our own page knows what belongs to it."""
    shown = request.headers.get("x-csrf-token")
    if shown is None and request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        shown = (await form(request)).get("csrf")
    if shown is None or not hmac.compare_digest(shown.encode(), csrf_of(cookie).encode()):
        raise RefusedRequest(403, "csrf", "the X-CSRF-Token is missing or wrong", hint="load the page again")


async def form(request: Request) -> dict[str, str]:
    """Read a form that a page of ours sent: the first value of each field."""
    text = (await request.body()).decode(errors="replace")
    return {name: values[0] for name, values in parse_qs(text, keep_blank_values=True).items()}


def identify_socket(socket: WebSocket) -> Caller:
    """Find out who opens a WebSocket. By cookie the Origin must be ours: browsers let any page open one."""
    caller = identify(socket)
    if caller.cookie is not None and socket.headers.get("origin") is None:
        raise RefusedRequest(403, "origin", "a WebSocket with a cookie must name its Origin")
    return caller


def set_cookie(response: Response, cookie: str, site: Site) -> None:
    """Hand a browser its login: no script can read it, no other site can use it."""
    response.set_cookie(
        COOKIE, cookie, max_age=30 * 86_400, path="/", httponly=True, samesite="strict", secure=site.settings.secure
    )


def vet_repository(named: str, roots: tuple[Path, ...]) -> str:
    """Return the folder that a request names, with every link followed; refuse what lies outside the roots."""
    if "\0" in named or len(named) > 4096:
        raise _outside(named)
    folder = Path(named) if named else _usual_folder(roots)
    found = (folder if folder.is_absolute() else roots[0] / folder).resolve()
    if not _within(found, roots):
        raise _outside(named)
    return str(found)


def _usual_folder(roots: tuple[Path, ...]) -> Path:
    """Return the folder of a request that names none: the first root, or the only repository below the roots."""
    if is_repository(roots[0]):
        return roots[0]
    below = repositories_below(roots)
    return Path(below[0]) if len(below) == 1 else roots[0]


def is_repository(folder: Path) -> bool:
    """Tell whether a folder lies in a repository, without starting git."""
    if (folder / "HEAD").is_file() and (folder / "objects").is_dir():
        return True  # a bare one
    return any((place / ".git").exists() for place in (folder, *folder.parents))


def repositories_below(roots: Iterable[Path]) -> list[str]:
    """Return the repositories among the roots and below them: near ones first, and no further than a bound."""
    found: dict[str, None] = {}
    left = SEARCHED_MOST
    for root in roots:
        waiting = deque([(root, 0)])
        while waiting and left > 0:
            folder, depth = waiting.popleft()
            left -= 1
            if (folder / ".git").exists():
                found[str(folder)] = None
            if depth < (1 if folder == root and str(root) in found else 0 if str(folder) in found else SEARCHED_DEPTH):
                waiting.extend((each, depth + 1) for each in _folders_of(folder))
    return list(found)


def _folders_of(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        names = [each.name for each in entries if each.is_dir(follow_symlinks=False)]
        return [folder / name for name in sorted(names) if not name.startswith(".") and name not in NOT_SEARCHED]
    return []


def vet_request(wanted: RunRequest, caller: Caller, roots: tuple[Path, ...]) -> RunRequest:
    """Refuse what would reach beyond the repository, or what this token may not ask for."""
    for name in filter(None, (wanted.role, *wanted.skills)):
        if not NAME.fullmatch(name):
            raise RefusedRequest(400, "name", f"`{name}` is not a name")
    vet_branch(wanted.base)
    vet_paths(wanted.files)
    for pattern in (*wanted.read, *wanted.write):
        _relative(pattern.removeprefix("!"), "scope")
    for text in (*wanted.agents, *wanted.fallback, wanted.flow or ""):
        for found in PLAYED.finditer(text):  # before anything looks whether such a file is there
            _file(found.group(1), (Path(wanted.repo), *roots))
    _refuse_root(Path(wanted.repo), roots)
    _check_reach(wanted, caller)
    if wanted.merge == "auto":
        caller.needs("merge")
    return wanted


def _refuse_root(folder: Path, roots: tuple[Path, ...]) -> None:
    """Refuse a root that is no repository: it is there for the repositories below it, and would be copied whole."""
    if folder not in roots or is_repository(folder):
        return
    below = repositories_below(roots)
    known = ", ".join(below[:3]) + (f" and {len(below) - 3} more" if len(below) > 3 else "")
    raise RefusedRequest(
        400, "repo", f"{folder} is no repository, but a folder for them",
        hint=f"name one with `repo`: {known}" if below else f"make one there: git init {folder}/NAME",
    )  # fmt: skip


def _check_reach(wanted: RunRequest, caller: Caller) -> None:
    """What opens more to an agent than the user's settings do is for admins; to go without a box is for nobody."""
    if wanted.require == "none":
        raise RefusedRequest(
            403, "sandbox", "no request can do without a sandbox", hint="only the command line can say this"
        )
    if wanted.env or wanted.net not in (None, "off") or wanted.require not in (None, "full", "strict"):
        caller.needs("admin")


def vet_branch(named: str | None) -> str | None:
    """Return a name of a branch, a tag or a commit that git cannot take for anything else."""
    if named is not None and (not REF.fullmatch(named) or ".." in named):
        raise RefusedRequest(400, "base", f"`{named}` is not a branch, a tag or a commit")
    return named


def vet_paths(paths: Iterable[str]) -> None:
    """Refuse paths that leave the repository."""
    for path in paths:
        _relative(path, "files")


def vet_plan(found: RunPlan, caller: Caller, roots: tuple[Path, ...]) -> None:
    """Look once more at what came of a request, and whether it merges by itself."""
    refuse_outside(found, roots)
    if any(node.kind == "merge" for node in found.flow.nodes):
        caller.needs("merge")


def refuse_outside(found: RunPlan, roots: tuple[Path, ...]) -> None:
    """Refuse a plan whose repository, or a file that its agents play, lies outside the roots."""
    if not _within(Path(found.repo).resolve(), roots):
        raise _outside(found.repo)
    for node in found.flow.nodes:
        for choice in (node.agent, *node.rivals, *node.fallback):
            if choice.name in FILES and choice.model:
                _file(choice.model, (Path(found.repo), *roots))


def _file(named: str, roots: Iterable[Path]) -> None:
    if not Path(named).is_absolute() or not _within(Path(named).resolve(), roots):
        raise RefusedRequest(403, "path", f"the file `{named}` is not within an allowed folder", hint="name it in full")


def _relative(path: str, what: str) -> None:
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or "\0" in path or path.startswith("~"):
        raise RefusedRequest(403, "path", f"{what}: `{path}` leaves the repository", hint="only paths within it")


def _within(path: Path, roots: Iterable[Path]) -> bool:
    return any(path == root or root in path.parents for root in roots)


def _outside(named: str) -> RefusedRequest:
    return RefusedRequest(
        403, "repo", f"the repository `{named[:200]}` is not among those that this server may use",
        hint="start it with: corral serve --root DIR",
    )  # fmt: skip
