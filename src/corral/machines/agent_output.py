"""An agent's turn, the half that is always here: its words read as events, its network, its logs and its end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct, structs

from corral.agents.protocol import Answers, Conversation, Heard, Listens
from corral.machines.logs import PACE_FILE, CleanLog, Pace, Tail, TurnNote, note_turn
from corral.machines.network import Network
from corral.machines.request_count import RequestCount
from corral.machines.resolved_agent import HOOK, ResolvedAgent
from corral.model import Failure, Level, Net, Status, Tokens
from corral.model.agent_api import (
    AgentTask,
    Answer,
    CallHook,
    Cancel,
    Command,
    End,
    HangUp,
    Leave,
    Line,
    Pause,
    Telling,
)
from corral.model.events import Ended, Event, Limited, Noted, Unparsed
from corral.rules.text.redact import Redactor
from corral.world.process import Exit, ProcessControl, Why
from corral.world.proxy.provider import RequestLimiter
from corral.world.proxy.secret import SecretValue
from corral.world.terminal import UserTerminal

FINISH_SECONDS = 10.0  #: an agent that has handed in its result may take this long to leave by itself
CANCEL_SECONDS = 2.0  #: an agent that was asked to stop may take this long before it gets a signal
MOST_UNPARSED = 2000
OUTPUT_PAUSE_SECONDS = 5.0  #: an agent that is asked to end its turn may take this long before it gets a signal
LINGER_SECONDS = 20.0  #: an agent that has said its last word may take this long to leave
OWN_EVENTS: dict[Why, Status] = {"timeout": "timed_out", "idle": "timed_out", "stopped": "stopped"}


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
        sent = self._conversation.answer(order)
        self._act(sent)
        return bool(sent)

    def cancel(self) -> bool:
        """Ask the agent in its own language to stop; return whether it has one."""
        if self._over or not isinstance(self._conversation, Listens):
            return False
        sent = self._conversation.tell(Cancel())
        self._act(sent)
        return bool(sent)

    def cut(self, end: Callable[[], None]) -> None:
        """End the agent's turn as it is: asked for in its own language where it has one, and soon in any case."""
        if self.cutting or self._over:
            return
        self.cutting = True
        sent = self._conversation.tell(Pause()) if isinstance(self._conversation, Listens) else ()
        self._act(sent)
        asyncio.get_running_loop().call_later(OUTPUT_PAUSE_SECONDS if sent else 0.0, end)

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
                    pass  # cut off between two steps, it has not failed: it continues in another session
                case Ended() if self.talk.ending and (self._spoke or self.cutting):
                    pass  # its last word was said before we ended it, or it continues in another session
                case Ended() if self.talk.ending:
                    self._spoke = True
                    self._emit(structs.replace(each, ok=False, status=OWN_EVENTS.get(self.talk.ending)))
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


class ToolboxEndpoint(Protocol):
    """What an agent at work can call, and what it says with it."""

    token: SecretValue
    finished: asyncio.Event

    async def answer(self, body: bytes) -> bytes | None: ...


class AgentListeners(Struct, frozen=True):
    """Who hears what happens while an agent works."""

    emit: Callable[[Event], None]
    reached: Callable[[str, int, bool, str], None]
    metered: Callable[[str | None, Tokens, int], None]  #: model, tokens, which answer
    tools: ToolboxEndpoint | None = None
    gate: RequestLimiter | None = None  #: of the account that it works on
    count: RequestCount | None = None  #: of its requests to its provider
    terminal: UserTerminal | None = None  #: on which a user works in the agent's own program


class AgentNetwork(Struct, frozen=True):
    """What one agent is connected to, and what that means for its money."""

    resolved: ResolvedAgent
    network: Network
    metered: bool  #: requests to its provider pass by us
    unmetered: bool  #: it may ask a provider past us


async def connect_agent(
    level: Level, net: Net, resolved: ResolvedAgent, listeners: AgentListeners, placeholder: str = ""
) -> AgentNetwork:
    """Connect an agent to its provider, and to what its scope lets it reach; tell what stays open."""
    network = Network(level, net, listeners.reached)
    await network.allow()
    if level != "none":
        resolved = network.connect_agent(resolved, listeners.metered, listeners.count or RequestCount(), placeholder)
        network.gate = listeners.gate
    if resolved.profile.requests_per_minute and not network.counts_requests:
        listeners.emit(
            Noted(f"requests_per_minute is not enforced: {resolved.name} does not ask its provider through us")
        )
    if net == "on":
        listeners.emit(Noted("it may reach every host, this machine's own servers too: its scope says net on"))
    for name in network.left:
        listeners.emit(Noted(f"the key in {name} is in its box: {resolved.name} takes no other address"))
    unmetered = network.open and (not network.counts_requests or bool(network.left))
    return AgentNetwork(resolved, network, network.counts_requests, unmetered)


class TurnOrders:
    """Orders to an agent while its turn lasts."""

    _listening: AgentOutput | None  #: None while no turn lasts
    _halt: asyncio.Event  #: ends its present turn

    def tell(self, order: Telling) -> bool:
        """Tell the agent something while it works; return whether it is one that listens, and still does."""
        return self._listening is not None and self._listening.tell(order)

    def answer(self, order: Answer) -> bool:
        """Answer a question of the agent's; return whether it waits for it."""
        return self._listening is not None and self._listening.answer(order)

    def cut(self) -> None:
        """End the agent's present turn, as it is; the attempt continues."""
        if self._listening is not None:
            self._listening.cut(self._halt.set)


async def follow_to_end(
    listening: AgentOutput,
    stop: asyncio.Event,
    halt: asyncio.Event,
    finished: asyncio.Event,
    follow: Callable[[asyncio.Event], Awaitable[Exit]],
) -> Exit:
    """Follow the agent to its end; one that takes a request to stop gets it before a signal."""
    asked = asyncio.Event()

    async def stopping() -> None:
        await _either(stop, finished)
        if not stop.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FINISH_SECONDS):
                    await stop.wait()
        if stop.is_set():
            listening.talk.ending = listening.talk.ending or "stopped"
        if keep := listening.talk.before_end:
            await keep()
            listening.talk.before_end = None
        if listening.cancel():
            asked.set()
            await asyncio.sleep(CANCEL_SECONDS)
        halt.set()

    watching = asyncio.create_task(stopping())
    try:
        ended = await follow(halt)
    finally:
        watching.cancel()
    if finished.is_set() and not stop.is_set():
        return structs.replace(ended, why="exited")
    left = stop.is_set() and ended.why in ("exited", "lingered")  # while its work was kept
    return structs.replace(ended, why="stopped") if asked.is_set() or left else ended


class TurnLogs:
    """What one turn of an agent printed, without secrets, and when; a user's terminal shows it as it is."""

    def __init__(self, folder: Path, redactor: Redactor, terminal: UserTerminal | None = None) -> None:
        self._folder, self._redactor, self._terminal = folder, redactor, terminal
        self._logs = {name: CleanLog(folder / f"{name}.log", redactor) for name in ("stdout", "stderr")}
        self._pace = Pace(folder / PACE_FILE)

    def write(self, name: str, chunk: bytes) -> None:
        self._logs[name].write(chunk)
        if self._terminal:
            self._terminal.show(chunk)
        if name == "stdout":
            self._pace.note_lines(chunk.count(b"\n"))

    def close(self) -> None:
        for log in (*self._logs.values(), self._pace):
            log.close()

    def note(self, command: Command, task: AgentTask, ended: Exit, files: Mapping[str, bytes]) -> None:
        """Note what the turn was, beside its logs."""
        sizes = {name: log.size for name, log in self._logs.items()}
        note_turn(self._folder, self._redactor.value(TurnNote.of(command, task, ended, sizes, files)))


async def _either(one: asyncio.Event, other: asyncio.Event) -> None:
    waiting = [asyncio.ensure_future(each.wait()) for each in (one, other)]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()


def add_toolbox(
    task: AgentTask, resolved: ResolvedAgent, network: Network, tools: ToolboxEndpoint | None
) -> tuple[AgentTask, Sequence[Path]]:
    """Give an agent that takes MCP servers its toolbox, and its hook; return what its box must show besides."""
    facts = resolved.agent.facts
    hooked = task.ruled and facts.rules == "hook"
    if tools is None or not (facts.mcp or hooked):
        return task, ()
    url, token = network.offer(tools.token, tools.answer), tools.token.reveal()
    server, shown = resolved.toolbox(url, token)
    if hooked:
        task = structs.replace(task, hook=CallHook((server.command, "-IS", str(HOOK)), url, token))
    return (structs.replace(task, mcp=(*task.mcp, server)) if facts.mcp else task), shown
