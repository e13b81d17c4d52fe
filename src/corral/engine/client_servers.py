"""MCP servers that an editor offers for a run: in a private file, for they may contain keys."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from corral.model.agent_api import ClientServer

FOLDER = "client-servers"
READER = msgspec.json.Decoder(dict[str, ClientServer])


def keep(home: Path, run: str, servers: Mapping[str, ClientServer]) -> None:
    """Store the servers of a run where nobody else reads them; the database and the export do not have them."""
    folder = home / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder / f"{run}.json", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(servers))


def of_run(home: Path, run: str) -> dict[str, ClientServer]:
    """Return the servers that were offered for a run; none for most."""
    try:
        return READER.decode((home / FOLDER / f"{run}.json").read_bytes())
    except (OSError, msgspec.MsgspecError):
        return {}


def drop(home: Path, runs: Iterable[str]) -> None:
    """Forget the servers of runs."""
    for run in runs:
        (home / FOLDER / f"{run}.json").unlink(missing_ok=True)


def sort_out(servers: Mapping[str, ClientServer]) -> tuple[dict[str, ClientServer], list[str]]:
    """Return those that can be used, and say what is wrong with the others."""
    usable: dict[str, ClientServer] = {}
    notes: list[str] = []
    for name, server in servers.items():
        if server.url or shutil.which(server.command[0]):
            usable[name] = server
        else:
            notes.append(f"the MCP server `{name}` is left out: there is no program `{server.command[0]}`")
    return usable, notes
