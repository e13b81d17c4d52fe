"""The filters of a list of runs, as users write them: at the command line, in a query, in a tool call."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypedDict, cast, get_args

from corral.model import Status
from corral.model.errors import BadRequest
from corral.model.run import read_labels
from corral.model.server import RunFilter

STATUSES: tuple[Status, ...] = get_args(Status)
AGE = re.compile(r"(\d{1,6})\s*([smhdw])")
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


class Filters(TypedDict, total=False):
    """What may be asked for; the names are those of the options of `corral ls`."""

    status: Iterable[str]
    label: Sequence[str]
    repo: str | None
    agent: str | None
    unmerged: bool
    since: str | None
    words: str | None
    before: str | None


def read_filter(most: int, filters: Filters) -> RunFilter:
    """Return the filter that these words mean; what cannot be understood is refused."""
    repo = filters.get("repo")
    return RunFilter(
        most=most,
        statuses=_statuses(filters.get("status", ())),
        labels=read_labels(filters.get("label", ()), any_value=True),
        repo=str(Path(repo).expanduser().resolve()) if repo else None,
        agent=filters.get("agent") or None,
        unmerged=filters.get("unmerged", False),
        since=_moment(filters.get("since")),
        words=filters.get("words") or None,
        before=filters.get("before") or None,
    )


def _statuses(texts: Iterable[str]) -> tuple[Status, ...]:
    found = [part.strip() for text in texts for part in text.split(",") if part.strip()]
    for each in found:
        if each not in STATUSES:
            raise BadRequest(f"`{each}` is not a status", hint="one of: " + ", ".join(STATUSES))
    return cast("tuple[Status, ...]", tuple(found))


def _moment(text: str | None) -> float | None:
    if not text:
        return None
    if age := AGE.fullmatch(text.strip()):
        return time.time() - int(age[1]) * UNITS[age[2]]
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError) as error:
        raise BadRequest(f"since: `{text}` is not a time", hint="as 2d, 12h or 2026-05-01T00:00:00Z") from error
