"""Named files of an attempt: kept by their hash after its workspace is gone, and handed to the nodes that need them."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from corral.model import Artifact, AttemptRecord, NodeState
from corral.model.errors import BadRequest
from corral.model.flow import Node
from corral.store.interface import Store

if TYPE_CHECKING:
    from corral.attempt.events import AttemptEvents
    from corral.machines.machine import Machine

FOLDER = "artifacts"  #: of the state folder: a file for each content; and of an agent's home: what it is handed
MOST_BYTES = 64 << 20  #: of one artifact
FRESH_SECONDS = 3600.0  #: what was written in this time may belong to an attempt that is not stored yet
MOST_RUN_BYTES = 512 << 20  #: of all that the attempts of a run leave


async def collect(attempt_events: AttemptEvents, node: Node, machine: Machine, workspace: str, home: Path) -> list[str]:
    """Keep the files that a node names; return what is wrong with those that could not be kept."""
    record = attempt_events.record
    wrong: list[str] = []
    kept: list[Artifact] = []
    others = [each for each in attempt_events.store.attempts(record.run) if each.attempt.id != record.attempt.id]
    room = MOST_RUN_BYTES - sum(artifact.size for each in others for artifact in each.artifacts)
    for name, path in node.artifacts.items():
        content = await machine.read(workspace, path, MOST_BYTES + 1)
        if content is None:
            wrong.append(f"the artifact `{name}` is not there: {path}")
        elif len(content) > MOST_BYTES:
            wrong.append(f"the artifact `{name}` ({path}) is larger than {MOST_BYTES >> 20} MB")
        elif len(content) > room:
            wrong.append(f"the artifacts of this run are larger than {MOST_RUN_BYTES >> 20} MB")
        else:
            room -= len(content)
            clean = attempt_events.redactor.data(content)
            digest = _keep(home / FOLDER, clean)
            kept.append(
                Artifact(name=name, node=node.id, attempt=record.attempt.id, path=path, sha256=digest, size=len(clean))
            )
    record.artifacts = tuple(kept)
    return wrong


def of_nodes(nodes: Iterable[NodeState], records: Iterable[AttemptRecord]) -> list[Artifact]:
    """Return the artifacts of each node: its winner's, or else those of its last attempt that left any."""
    chosen: dict[str, tuple[Artifact, ...]] = {}
    winners = {node.id: node.winner for node in nodes}
    for record in records:
        wanted = winners.get(record.node, "")
        if record.artifacts and (wanted == record.attempt.id or wanted is None):
            chosen[record.node] = record.artifacts
    return [artifact for node in winners for artifact in chosen.get(node, ())]


async def hand_over(store: Store, run: str, node: Node, machine: Machine, workspace: str) -> str:
    """Put the artifacts of earlier nodes into an agent's home; return the note for its prompt."""
    before = {edge.node for edge in node.needs}
    states = [each for each in store.nodes(run) if each.id in before or each.id.rpartition(".")[0] in before]
    lines: list[str] = []
    for artifact in of_nodes(states, store.attempts(run)):
        place = f"{FOLDER}/{artifact.node}/{artifact.name}{PurePosixPath(artifact.path).suffix}"
        await machine.put(workspace, place, read(store.folder, artifact))
        lines.append(f"- ~/{place}: `{artifact.name}` of the step `{artifact.node}` (there: {artifact.path})")
    return "\n".join(["Files from the steps before yours:", *lines]) if lines else ""


def read(home: Path, artifact: Artifact) -> bytes:
    """Return what an artifact holds."""
    try:
        return (home / FOLDER / artifact.sha256).read_bytes()
    except OSError as error:
        words = f"the artifact `{artifact.name}` of {artifact.node} is gone: {error.strerror}"
        raise BadRequest(words, hint="`corral clean` removes artifacts with their runs") from error


def is_kept(home: Path, artifact: Artifact) -> bool:
    """Tell whether what an artifact holds is still here."""
    return (home / FOLDER / artifact.sha256).is_file()


def remove_unused(home: Path, used: set[str]) -> None:
    """Remove contents that no run has any more."""
    folder = home / FOLDER
    for file in folder.iterdir() if folder.is_dir() else ():
        with contextlib.suppress(FileNotFoundError):  # another process came first
            if file.name not in used and time.time() - file.stat().st_mtime > FRESH_SECONDS:
                file.unlink()


def _keep(folder: Path, content: bytes) -> str:
    digest = hashlib.sha256(content).hexdigest()
    file = folder / digest
    with contextlib.suppress(FileNotFoundError):
        os.utime(file)  # `clean` leaves it alone until this attempt is stored
        return digest
    folder.mkdir(mode=0o700, exist_ok=True)
    part = folder / f"{digest}.{os.getpid()}"
    with part.open("wb") as written:
        written.write(content)
        written.flush()
        os.fsync(written.fileno())
    part.chmod(0o600)
    part.rename(file)
    return digest
