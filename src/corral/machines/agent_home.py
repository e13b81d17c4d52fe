"""What lies in an agent's home: its files, the task's skills, what was handed on, a copy of its login."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from corral.machines.resolved_agent import ResolvedAgent
from corral.machines.workspace_host import WorkspaceHost
from corral.model.flow import Task
from corral.world import files_without_links
from corral.world.workspace import checkout

MOST_SKILL_FILE = 64 << 20
MOST_FILES = 500  #: of a conversation


def fill(host: WorkspaceHost, home: Path, files: Mapping[str, bytes], resolved: ResolvedAgent) -> None:
    """Lay files into HOME, and a copy of the login beside them."""
    for name, content in {**_skills(host.task), **_handed_files(host.task), **files}.items():
        checkout.write_below(home, name, io.BytesIO(content), host.owner)
    for name in resolved.agent.facts.login:  # the login alone, never the person's own folder
        source = resolved.login_file(name)
        if source is None:
            checkout.remove_below(home, name)  # one of another account may lie there
        else:
            host.logins.append(name)
            checkout.write_below(home, name, io.BytesIO(source.read_bytes()), host.owner)


def put(host: WorkspaceHost, folder: Path, name: str, content: bytes) -> None:
    """Lay something into the agent's HOME, without secrets."""
    checkout.write_below(folder / "home", name, io.BytesIO(host.redactor.data(content)), host.owner)


def files(host: WorkspaceHost, folder: Path, places: Sequence[str], most_bytes: int) -> dict[str, bytes] | None:
    """Return the files in folders of the agent's HOME, without secrets; None if they are too many or too long."""
    home, found = folder / "home", dict[str, bytes]()
    listed = (Path(place, name) for each in places for place, _, names in os.walk(home / each) for name in names)
    for path in listed:
        name = str(path.relative_to(home))
        content = checkout.read_below(home, name, most_bytes + 1)
        most_bytes -= len(content or b"")
        if most_bytes < 0 or len(found) >= MOST_FILES:
            return None
        if content is not None:
            found[name] = host.redactor.data(content)
    return found


def forget_logins(host: WorkspaceHost, folder: Path) -> None:
    """Take a person's login out of a workspace that stays."""
    for name in host.logins:
        checkout.remove_below(folder / "home", name)


def _skills(task: Task) -> dict[str, bytes]:
    """Return the files of the task's skills, as they are to lie in HOME."""
    found: dict[str, bytes] = {}
    for name, place in task.skills:
        for file, content in files_without_links.files(Path(place), MOST_SKILL_FILE):
            found[f"skills/{name}/{file}"] = content
    return found


def _handed_files(task: Task) -> dict[str, bytes]:
    return {name: text.encode() for name, text in task.handed}
