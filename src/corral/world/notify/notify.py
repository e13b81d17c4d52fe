"""Tell the user that something waits in the inbox, by every channel that the settings name."""

from __future__ import annotations

import asyncio
import importlib
import os
from typing import Protocol, cast, runtime_checkable

from msgspec import Struct

from corral.config.files import NOTIFIERS, channels
from corral.config.settings import NotifySettings
from corral.model import ENCODER, Entry, InboxEntry, moment
from corral.model.errors import CorralError
from corral.world import process
from corral.world.process import ProcessStart

SECONDS = 20.0  #: for a program of a channel


class NotificationChannel(Protocol):
    """A file in `channels/`: the name of the file is its key of `[notify]`, its first line the meaning of that key.

    Other packages bring one by an entry point of the group `corral.notifiers`, with the same function.
    """

    async def send(self, entry: Entry, setting: str) -> str:
        """Tell the user; return what went wrong, in words without secrets, or nothing."""
        ...


@runtime_checkable
class AnsweringChannel(NotificationChannel, Protocol):
    """A channel whose notice can be answered."""

    async def send_answerable(self, entry: Entry, setting: str, answers: AnswerWays) -> str:
        """Tell the user, with buttons or links where the settings allow answers; return what went wrong."""
        ...


class AnswerWays(Struct, frozen=True, kw_only=True):
    """What a channel needs to let the user answer: signed codes, and who may use them."""

    settings: NotifySettings
    codes: tuple[str, ...]  #: one for each choice
    open_code: str  #: for any choice, or any words

    def link(self, code: str) -> str:
        """Return the address that answers with a code; none where the server cannot be reached from outside."""
        return f"{self.settings.answer_url.rstrip('/')}/answer?code={code}" if self.settings.answer_url else ""


async def notify(entry: Entry, ways: NotifySettings, answers: AnswerWays | None = None) -> list[str]:
    """Try every channel; return what did not work, in words. None of it can hold up a run for long."""
    own = {"bell": ways.bell, "desktop": ways.desktop, "command": ways.command, "webhook": ways.webhook}
    wanted: dict[str, bool | str | None] = {**own, **ways.others}
    troubles = await asyncio.gather(
        *(_send(name, entry, setting, answers) for name, setting in wanted.items() if setting)
    )
    return [f"[notify] {trouble}" for trouble in troubles if trouble]


async def _send(name: str, entry: Entry, setting: bool | str, answers: AnswerWays | None) -> str:  # noqa: FBT001 -- as settings have it
    channel, said = _channel(name), "" if setting is True else str(setting)
    try:
        if answers and isinstance(channel, AnsweringChannel):
            return await channel.send_answerable(entry, said, answers)
        return await channel.send(entry, said)
    except Exception as error:  # noqa: BLE001 -- a channel, perhaps of others, must not end a run
        return f"{name}: {type(error).__name__}"


def body(entry: Entry) -> bytes:
    """Return what a channel sends: the entry as every front end shows it, as JSON."""
    return ENCODER.encode(InboxEntry.of(entry))


def message(entry: Entry) -> str:
    """Return an entry as a user reads it on a phone: what is asked, what may be said, and how."""
    by = f"until {moment(entry.deadline)}; then: {entry.default}"
    ways = f"{' | '.join(entry.choices) or 'any words'} ({by})"
    return "\n\n".join(filter(None, (entry.text, entry.context, f"{ways}\ncorral answer {entry.id} ANSWER")))


async def run_program(argv: list[str], entry: Entry) -> str:
    """Run a program that notifies the user, with the entry on its stdin; return what went wrong."""
    about = {"CORRAL_INBOX": entry.id, "CORRAL_RUN": entry.run, "CORRAL_KIND": entry.kind, "CORRAL_ABOUT": entry.about}
    begin = ProcessStart(argv=argv, env={**os.environ, **about}, stdin=body(entry) + b"\n")
    try:
        finished = await process.run(begin, timeout=SECONDS)
    except CorralError as error:
        return f"{argv[-1]}: {error}"
    return "" if finished.code == 0 else f"{argv[-1]}: it ended with {finished.code}"


def _channel(name: str) -> NotificationChannel:
    if name not in (*channels(), "bell", "desktop", "command", "webhook"):
        return _plugin(name)
    return cast("NotificationChannel", importlib.import_module(f"corral.world.notify.channels.{name}"))


def _plugin(name: str) -> NotificationChannel:
    """Return a channel that another package brings; one that cannot be loaded says so."""
    from importlib.metadata import entry_points  # noqa: PLC0415 -- seldom needed

    try:
        return cast("NotificationChannel", next(iter(entry_points(group=NOTIFIERS, name=name))).load())
    except Exception as error:  # noqa: BLE001 -- code of others
        return _Unloadable(f"{name}: {type(error).__name__}: {error}")


class _Unloadable:
    """Stands for a channel that cannot be loaded."""

    def __init__(self, words: str) -> None:
        self._words = words

    async def send(self, entry: Entry, setting: str) -> str:
        del entry, setting
        return self._words
