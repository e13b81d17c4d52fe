"""The conversation of an attempt's agent, kept beside its logs, so that a review can continue in it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from corral.machines.host import Host
from corral.machines.machine import Machine

FILE = "conversation.json"
MOST_BYTES = 32 << 20


async def keep(machine: Machine, host: Host, workspace: str, places: tuple[str, ...] | None) -> None:
    """Keep what an agent needs to resume its session, unless that is not known or too much."""
    if places is None:
        return
    files = await machine.home_files(workspace, places, MOST_BYTES)
    if files is not None and (files or not places):
        host.keep(FILE, msgspec.json.encode(files))


async def put_back(machine: Machine, host: Host, workspace: str, attempt: str) -> bool:
    """Lay the conversation of an earlier attempt into the agent's home; return whether there is one."""
    file = _file(host.state, attempt)
    if not file.is_file():
        return False
    for name, content in msgspec.json.decode(file.read_bytes(), type=dict[str, bytes]).items():
        await machine.put(workspace, name, content)
    return True


def is_kept(state: Path, attempt: str) -> bool:
    """Tell whether the conversation of an attempt can be resumed."""
    return _file(state, attempt).is_file()


def _file(state: Path, attempt: str) -> Path:
    return state / "logs" / attempt / FILE
