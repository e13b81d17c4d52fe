"""Hear what an agent says and answer it: its lines become events, what it is to be told becomes its lines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from msgspec import structs

from corral.agents.protocol import Answers, Conversation, Heard, Listens
from corral.machines.logs import Tail
from corral.model import Failure, Status
from corral.model.agent_api import Answer, Cancel, End, HangUp, Leave, Line, Pause, Telling
from corral.model.events import Ended, Event, Limited, Noted, Unparsed
from corral.world.process import Exit, ProcessControl, Why

MOST_UNPARSED = 2000
PAUSE_SECONDS = 5.0  #: an agent that is asked to end its turn may take this long before it gets a signal
LINGER_SECONDS = 20.0  #: an agent that has said its last word may take this long to leave
OURS: dict[Why, Status] = {"timeout": "timed_out", "idle": "timed_out", "stopped": "stopped"}


class AgentOutput:
    """One conversation with one running program."""

    def __init__(
        self, conversation: Conversation, emit: Callable[[Event], None], leave: Callable[[Leave], None]
    ) -> None:
        self._conversation, self._emit, self._leave = conversation, emit, leave
        self._errors = Tail()
        self.talk = ProcessControl()
        self._over = False
        self._spoke = False  #: its last word
        self.cutting = False

    def hear(self, stream: str, line: bytes, cut: bool) -> None:  # noqa: FBT001
        if stream == "stderr":
            self._errors.write(line + b"\n")
        elif cut:
            self._emit(Unparsed(line[:MOST_UNPARSED].decode(errors="replace")))
        else:
            self._act(self._read(line.decode(errors="replace")))

    def _read(self, line: str) -> Sequence[Heard]:
        """Return what a line says; one that its reader fails on is unread, and the attempt continues."""
        try:
            return self._conversation.read(line)
        except Exception:  # noqa: BLE001 -- an agent's line must not end the engine's part of its attempt
            return [Unparsed(line[:MOST_UNPARSED])]

    def _last_words(self, end: End) -> Sequence[Heard]:
        try:
            return self._conversation.exited(end)
        except Exception as error:  # noqa: BLE001 -- its work is collected all the same
            words = f"what it printed cannot be read: {type(error).__name__}"
            return [Ended(ok=False, error=Failure("bad_output", words, "`corral logs` shows what it printed"))]

    @property
    def errors(self) -> str:
        """Return the end of what it wrote to stderr."""
        return self._errors.text()

    def tell(self, order: Telling) -> bool:
        """Tell the agent something while it works; return whether it is one that listens."""
        if self._over or not isinstance(self._conversation, Listens):
            return False
        self._act(self._conversation.tell(order))
        return True

    def answer(self, order: Answer) -> bool:
        """Answer a question of the agent's; return whether it is one that waits for it."""
        if self._over or not isinstance(self._conversation, Answers):
            return False
        told = self._conversation.answer(order)
        self._act(told)
        return bool(told)

    def cancel(self) -> bool:
        """Ask the agent in its own language to stop; return whether it has one."""
        if self._over or not isinstance(self._conversation, Listens):
            return False
        told = self._conversation.tell(Cancel())
        self._act(told)
        return bool(told)

    def cut(self, end: Callable[[], None]) -> None:
        """End the agent's turn as it stands: asked for in its own language where it has one, and soon in any case."""
        if self.cutting or self._over:
            return
        self.cutting = True
        told = self._conversation.tell(Pause()) if isinstance(self._conversation, Listens) else ()
        self._act(told)
        asyncio.get_running_loop().call_later(PAUSE_SECONDS if told else 0.0, end)

    def close(self, ended: Exit, files: Mapping[str, bytes]) -> None:
        spoke, self._over = self._over, True
        self._act(self._last_words(End(ended.code, self._errors.text(), files)))
        for leftover in ended.leftovers:
            self._emit(Noted(f"ended {leftover.name} (process {leftover.pid}), which it had left running"))
        if self.talk.why == "flood" and not spoke:
            self._emit(Noted("it asked and asked and never listened to an answer: its process was ended"))
        elif ended.why == "lingered":
            self._emit(Noted("it had ended but did not leave: its process was ended"))

    def _act(self, heard: Sequence[Heard]) -> None:
        for each in heard:
            match each:
                case Ended(ok=False) | Limited() if self.cutting:
                    pass  # cut off between two steps, it has not failed: it goes on in another session
                case Ended() if self.talk.ending and (self._spoke or self.cutting):
                    pass  # its last word was said before we ended it, or it goes on in another session
                case Ended() if self.talk.ending:
                    self._spoke = True
                    self._emit(structs.replace(each, ok=False, status=OURS.get(self.talk.ending)))
                case Line(text=text):
                    self.talk.say(text.encode() + b"\n")
                case HangUp():
                    self.talk.say(None)
                case Leave():
                    self._leave(each)
                case _:
                    self._emit(each)
                    self._spoke = self._spoke or isinstance(each, Ended)
                    if isinstance(each, Ended) and not self._over:
                        self._over = True
                        asyncio.get_running_loop().call_later(LINGER_SECONDS, self.talk.enough.set)
