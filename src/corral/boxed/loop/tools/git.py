"""The tool for git: status, diff, log, commit, as data."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from corral.boxed.loop.tools.result import LoopToolResult
from corral.boxed.loop.workspace import LoopWorkspace, ToolRefused

LOG_FORMAT = "%H%x1f%an%x1f%aI%x1f%s"


class GitArguments(Struct):
    """Look at changes and history, or commit all that changed. For anything else use bash."""

    action: Literal["status", "diff", "log", "commit"]
    message: Annotated[str, Meta(description="of the commit")] = ""
    path: Annotated[str, Meta(description="stay with this file or folder (diff, log)")] = "."
    count: Annotated[int, Meta(description="how many commits of the log", ge=1, le=200)] = 20


def git(place: LoopWorkspace, asked: GitArguments, most: int) -> LoopToolResult:
    match asked.action:
        case "status":
            return _status(place)
        case "diff":
            path = place.name(place.inside(asked.path))
            return _plain(place, ("diff", "--no-color", "HEAD", "--", path), most)
        case "log":
            return _log(place, asked)
        case "commit":
            return _commit(place, asked.message)


def _status(place: LoopWorkspace) -> LoopToolResult:
    ran = place.git("status", "--porcelain=v1", "--branch", "-z", "--no-renames")
    if ran.code != 0:
        return LoopToolResult.bad(ran.output.strip())
    branch, *rows = ran.output.rstrip("\0").split("\0")
    files = [{"state": row[:2].strip(), "path": row[3:]} for row in rows if row]
    return LoopToolResult(content={"branch": branch.removeprefix("## "), "files": files})


def _log(place: LoopWorkspace, asked: GitArguments) -> LoopToolResult:
    path = place.name(place.inside(asked.path))
    ran = place.git("log", f"--format={LOG_FORMAT}", f"--max-count={asked.count}", "--", path)
    if ran.code != 0:
        return LoopToolResult.bad(ran.output.strip())
    rows = [line.split("\x1f") for line in ran.output.splitlines()]
    names = ("commit", "author", "date", "subject")
    return LoopToolResult(content={"commits": [dict(zip(names, row, strict=False)) for row in rows]})


def _commit(place: LoopWorkspace, message: str) -> LoopToolResult:
    if not message.strip():
        raise ToolRefused("a commit needs a message")
    added = place.git("add", "--all")
    if added.code != 0:
        return LoopToolResult.bad(added.output.strip())
    ran = place.git("commit", "--quiet", "-m", message)
    if ran.code != 0:
        return LoopToolResult.bad(ran.output.strip() or "there is nothing to commit")
    shown = place.git("show", "--no-color", "--stat", "--format=%H")
    head, _, stat = shown.output.strip().partition("\n")
    return LoopToolResult(content={"commit": head, "stat": stat.strip()})


def _plain(place: LoopWorkspace, arguments: tuple[str, ...], most: int) -> LoopToolResult:
    ran = place.git(*arguments, most=most)
    return (
        LoopToolResult(content={"diff": ran.output, "cut": ran.cut})
        if ran.code == 0
        else LoopToolResult.bad(ran.output.strip())
    )
