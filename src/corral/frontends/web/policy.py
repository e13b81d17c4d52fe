"""What a request may name: repositories below the allowed folders, and nothing else of this machine."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from corral.frontends.web.caller import Caller
from corral.frontends.web.problems import RefusedRequest
from corral.model import Request, RunPlan

NAME = re.compile(r"[\w][\w.@+-]{0,99}")
REF = re.compile(r"[\w][\w./@^~{}+-]{0,199}")
PLAYED = re.compile(r"\b(?:scripted|replay):([^\s\"',*\]}]+)")
FILES = ("scripted", "replay")  #: agents whose model is a file


def repository(named: str, roots: tuple[Path, ...]) -> str:
    """Return the folder that a request names, with every link followed; refuse what lies outside the roots."""
    if "\0" in named or len(named) > 4096:
        raise _outside(named)
    folder = Path(named) if named else roots[0]
    found = (folder if folder.is_absolute() else roots[0] / folder).resolve()
    if not _within(found, roots):
        raise _outside(named)
    return str(found)


def request(wanted: Request, caller: Caller, roots: tuple[Path, ...]) -> Request:
    """Refuse what would reach beyond the repository, or what this token may not ask for."""
    for name in filter(None, (wanted.role, *wanted.skills)):
        if not NAME.fullmatch(name):
            raise RefusedRequest(400, "name", f"`{name}` is not a name")
    branch(wanted.base)
    relative(wanted.files)
    for pattern in (*wanted.read, *wanted.write):
        _relative(pattern.removeprefix("!"), "scope")
    for text in (*wanted.agents, *wanted.fallback, wanted.flow or ""):
        for found in PLAYED.finditer(text):  # before anything looks whether such a file is there
            _file(found.group(1), (Path(wanted.repo), *roots))
    _check_reach(wanted, caller)
    if wanted.merge == "auto":
        caller.needs("merge")
    return wanted


def _check_reach(wanted: Request, caller: Caller) -> None:
    """What opens more to an agent than the person's settings do is for admins; to go without a box is for nobody."""
    if wanted.require == "none":
        raise RefusedRequest(
            403, "sandbox", "no request can do without a sandbox", hint="only the command line can say this"
        )
    if wanted.env or wanted.net not in (None, "off") or wanted.require not in (None, "full", "strict"):
        caller.needs("admin")


def branch(named: str | None) -> str | None:
    """Return a name of a branch, a tag or a commit that git cannot take for anything else."""
    if named is not None and (not REF.fullmatch(named) or ".." in named):
        raise RefusedRequest(400, "base", f"`{named}` is not a branch, a tag or a commit")
    return named


def relative(paths: Iterable[str]) -> None:
    """Refuse paths that leave the repository."""
    for path in paths:
        _relative(path, "files")


def plan(found: RunPlan, caller: Caller, roots: tuple[Path, ...]) -> None:
    """Look once more at what came of a request, and whether it lands by itself."""
    within(found, roots)
    if any(node.kind == "merge" for node in found.flow.nodes):
        caller.needs("merge")


def within(found: RunPlan, roots: tuple[Path, ...]) -> None:
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
