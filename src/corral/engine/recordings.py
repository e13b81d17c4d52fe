"""Recordings: one attempt as a file that can be played back as an agent, with secrets removed."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from corral import agents
from corral.agents.replay import ReaderSettings
from corral.config import paths
from corral.machines.logs import WORKSPACE_MARK, RecordedTurn
from corral.model import ENCODER, Attempt
from corral.model.agent_api import AgentProfile
from corral.model.errors import BadRequest, CorralError
from corral.rules.text import redact
from corral.rules.text.redact import Redactor
from corral.version import __version__
from corral.world.git.repository import Repository

FORMAT = 1
MOST_BYTES = 64 << 20
MOST_STDERR = 8000
SWITCH = re.compile(r"[\w.-]{1,24}")  #: settings that may decide how an agent's lines are read: no address, no key
HOW = "made by `corral export RUN --recording FILE`"


class _Entry(Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True):
    """One line of a recording."""


class RecordingHead(_Entry, frozen=True, kw_only=True, tag="head"):
    recording: int
    agent: str
    version: str | None = None
    model: str | None = None
    argv: tuple[str, ...] = ()
    reads: ReaderSettings = ReaderSettings()
    corral: str = ""
    checks: tuple[str, ...] = ()  #: that judged it; they judge a replay too, unless the user names others
    speed: float = 0.0  #: 0: as fast as possible; 1: as it was; 2: twice as fast


class RecordedLine(_Entry, frozen=True, kw_only=True, tag="line"):
    at: float  #: seconds since its turn began
    text: str = ""
    base64: bytes = b""  #: where it is not UTF-8


class RecordingEnd(_Entry, frozen=True, kw_only=True, tag="end"):
    code: int
    why: str = "exited"
    stderr: str = ""
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])


class RecordedFile(_Entry, frozen=True, kw_only=True, tag="file"):
    """One file of the change; without a mode it is gone."""

    path: str
    before: str | None = None  #: git's id of what it was; without it, it is new
    mode: str | None = None
    text: str = ""
    base64: bytes = b""


_DECODE = msgspec.json.Decoder(RecordingHead | RecordedLine | RecordingEnd | RecordedFile)


class Cleaning:
    """Takes out what nobody else is to see: secrets, and where the workspace lay."""

    def __init__(self, redactor: Redactor, workspace: str) -> None:
        self._redactor, self._workspace = redactor, workspace.encode()
        self._as_name = re.sub(r"[^A-Za-z0-9]", "-", workspace).encode()  # as some name a folder after it

    def of_file(self, content: bytes) -> bytes:
        return self._redactor.data(content)

    def of_output(self, content: bytes) -> bytes:
        """Clean what an agent printed; its workspace is named by a word that is filled in again."""
        if self._workspace:
            content = content.replace(self._workspace, WORKSPACE_MARK.encode()).replace(self._as_name, b"-workspace")
        return self._redactor.data(content)


def secrets_of(profile: AgentProfile, keys: tuple[str, ...]) -> dict[str, str]:
    """Return the values that an agent was given and nobody else is to see, as far as they are known now."""
    given = {name: os.environ[name] for name in (*keys, *profile.env) if name in os.environ}
    return {**given, **redact.likely_secrets(profile.settings)}


class RecordingSource(Struct, frozen=True, kw_only=True):
    """What a recording is made of."""

    attempt: Attempt
    turns: Sequence[RecordedTurn]
    profile: AgentProfile
    keys: tuple[str, ...]
    version: str | None
    repository: Repository
    base: str | None
    checks: tuple[str, ...] = ()


async def write(file: Path, source: RecordingSource) -> None:
    """Write a recording; one that exists is left alone."""
    whole = b"".join([ENCODER.encode(entry) + b"\n" async for entry in _entries(source)])
    if len(whole) > MOST_BYTES:
        raise BadRequest(f"the attempt is too big to be recorded: {len(whole) >> 20} MB", hint="64 MB are the most")
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as out:
            out.write(whole)
    except FileExistsError:
        raise BadRequest(f"--recording {file}: there is a file already", hint="name another") from None
    except OSError as error:
        raise BadRequest(f"--recording {file}: {error.strerror}", hint="name a file in a folder that exists") from error


async def _entries(
    source: RecordingSource,
) -> AsyncIterator[RecordingHead | RecordedLine | RecordingEnd | RecordedFile]:
    attempt, turns, profile = source.attempt, source.turns, source.profile
    clean = Cleaning(Redactor(secrets_of(profile, source.keys)), turns[-1].note.workspace)
    yield RecordingHead(
        recording=FORMAT,
        agent=attempt.agent,
        version=source.version,
        model=attempt.model,
        argv=tuple(clean.of_output(word.encode()).decode(errors="replace") for word in turns[0].note.argv),
        reads=_reads(profile),
        corral=__version__,
        checks=tuple(clean.of_output(check.encode()).decode(errors="replace") for check in source.checks),
    )
    for turn in turns:
        for at, line in turn.lines:
            yield RecordedLine(at=at, **_content(clean.of_output(line)))
        words = clean.of_output(turn.stderr[-MOST_STDERR:]).decode(errors="replace")
        files = {name: clean.of_file(content) for name, content in turn.note.files.items()}
        yield RecordingEnd(code=turn.note.code, why=turn.note.why, stderr=words, files=files)
    if attempt.commit:
        for blob in await source.repository.blobs_changed(source.base, attempt.commit):
            if not blob.path.isprintable():
                raise BadRequest(f"{blob.path!a} is no name that can be recorded", hint="rename the file")
            content = await source.repository.blob(blob.after) if blob.after else b""
            yield RecordedFile(path=blob.path, before=blob.before, mode=blob.mode, **_content(clean.of_file(content)))


def _content(content: bytes) -> dict[str, Any]:
    try:
        return {"text": content.decode()}
    except UnicodeDecodeError:
        return {"base64": content}


def _reads(profile: AgentProfile) -> ReaderSettings:
    settings = {
        name: value
        for name, value in profile.settings.items()
        if SWITCH.fullmatch(value) and name not in redact.likely_secrets({name: value})
    }
    return ReaderSettings(
        command=("recorded",) if profile.command else (),
        output=profile.output,
        result=profile.result,
        success=profile.success,
        cost=profile.cost,
        tokens=profile.tokens,
        settings=settings,
    )


def check(path: Path) -> RecordingHead:
    """Read a recording through and say in one line what is wrong with it."""
    rows = list(_rows(path))
    head = rows[0] if rows else None
    if not isinstance(head, RecordingHead) or not any(isinstance(row, RecordingEnd) for row in rows):
        raise BadRequest(f"--agent replay:{path}: not a whole recording", hint=HOW)
    if head.recording != FORMAT:
        raise BadRequest(
            f"--agent replay:{path}: a recording of format {head.recording}; this corral plays format {FORMAT}",
            hint="record it anew, or take the corral that made it",
        )
    for row in rows:
        if isinstance(row, RecordedFile) and (
            row.path.startswith("/") or ".." in row.path.split("/") or _in_git(row.path)
        ):
            raise BadRequest(f"--agent replay:{path}: it would change {row.path}, outside its workspace", hint=HOW)
    try:
        agents.find(head.agent, {head.agent: head.reads.profile})
    except CorralError as error:
        raise BadRequest(
            f"--agent replay:{path}: it was recorded with an agent that is not known here: {error}",
            hint="install the package of that agent, or add it to your settings",
        ) from error
    return head


def _in_git(path: str) -> bool:
    return any(part.lower() == ".git" for part in path.split("/"))


def _rows(path: Path) -> Iterator[RecordingHead | RecordedLine | RecordingEnd | RecordedFile]:
    content = paths.read_file(path, 2 * MOST_BYTES, f"--agent replay:{path}", HOW, pipe=False)
    for number, text in enumerate(content.splitlines(), 1):
        if text.strip():
            try:
                yield _DECODE.decode(text)
            except (msgspec.DecodeError, UnicodeError) as error:
                words = str(error).splitlines()[0]
                raise BadRequest(f"--agent replay:{path}: line {number}: not a recording: {words}", hint=HOW) from error
