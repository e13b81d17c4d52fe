"""A session: a conversation about one repository, in which each prompt is a run."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from corral.agents.formats.acp.client_requests import OfferedServer, PromptBlock
from corral.engine.engine import Engine
from corral.frontends.acp import commands, options
from corral.frontends.acp.client import EditorClient
from corral.frontends.acp.failures import INVALID, Refused
from corral.frontends.acp.merging import MergeQuestion
from corral.frontends.acp.prompts import ReadPrompt, read_prompt
from corral.frontends.acp.questions import Asker
from corral.frontends.acp.turn import FollowedRun
from corral.frontends.acp.updates import Updates
from corral.frontends.text import one_line
from corral.model import OPEN, Request, Run
from corral.model.agent_api import ClientServer
from corral.model.chat import ChatRecord
from corral.model.run import MOST_NAME
from corral.model.server import Ticket

MOST_BEFORE = 4000  #: characters of the earlier conversation that an agent gets
LABEL = "acp"  #: of runs that a session started: its id


class EditorSession:
    """A session that this client has open."""

    def __init__(self, client: EditorClient, record: ChatRecord) -> None:
        self._client, self.id, self.folder = client, record.id, record.folder
        self.engine: Engine = client.engine
        self.updates = Updates(client.connection, record.id)
        self.asker: Asker | None = None
        self.servers: dict[str, ClientServer] = {}  #: MCP servers of the client, for agents that take them
        self.followed: FollowedRun | None = None  #: the run that the client watches now
        self.prompting = False  #: a prompt is not answered yet
        self._cancelled = False
        self._starting: asyncio.Task[str] | None = None
        self._following: asyncio.Task[None] | None = None
        self._merging: asyncio.Task[str | None] | None = None
        self._stopping: asyncio.Task[None] | None = None

    @property
    def by(self) -> str:
        return self._client.by

    @property
    def record(self) -> ChatRecord:
        return self.engine.chats.find(self.id)

    def choices(self) -> options.Choices:
        return options.choices(self.engine, self.folder, self.record.options)

    def offer(self, servers: Sequence[OfferedServer]) -> None:
        """Take the MCP servers of the client, for the runs from now on."""
        self.servers = dict(map(_server, filter(_is_useful, servers)))

    def state(self) -> dict[str, object]:
        """Return what new, load and resume answer: always the options, or pickers vanish."""
        now = self.choices()
        return {"modes": options.modes(now), "configOptions": options.config_options(now)}

    def choose(self, option: str, value: str) -> list[dict[str, object]]:
        """Set an option; return all of them as they are now."""
        options.check(option, value, self.choices())
        self.engine.chats.set_option(self.id, option, value)
        return options.config_options(self.choices())

    # --- a turn

    async def prompt(self, blocks: list[PromptBlock]) -> dict[str, object]:
        """Answer a prompt: a command, or a run that is followed until it is over or waits."""
        if self.prompting:
            raise Refused(INVALID, "a prompt of this session is being worked on", "wait for it, cancel it, or steer it")
        read = read_prompt(blocks, Path(self.folder))
        self.prompting, self._cancelled = True, False
        self.asker = Asker(self._client.connection, self.updates, self._client.capabilities, self._client.ask_seconds)
        try:
            command = commands.read(read.text)
            if command is not None:
                followed = await command(self)
            else:
                followed = await self.begin(self._request(read), read.text)
            if followed is not None:
                await self._see_through(followed)
        finally:
            self.prompting, self.asker = False, None
        return {"stopReason": "cancelled" if self._cancelled else "end_turn"}

    async def begin(self, request: Request, title: str) -> FollowedRun:
        """Start a run of this session and return it, to be followed."""
        if self.followed is not None:
            words = f"run {self.followed.run} of this session is at work"
            raise Refused(INVALID, words, "wait for it, cancel it, or see /status")
        self._starting = asyncio.create_task(self._start(request, title))
        return FollowedRun(self, await asyncio.shield(self._starting))

    def _request(self, read: ReadPrompt) -> Request:
        record, before = self.record, self._before()
        request = self.choices().request(read.task, read.files, self.folder)
        prompt = f"{_earlier(before)}\n\n{read.task}" if before else read.task
        base = self._base(before, record)
        return structs.replace(request, prompt=prompt, base=base, images=read.images)

    def _before(self) -> Run | None:
        runs = self.record.runs
        return self.engine.show(runs[-1]) if runs else None

    def _base(self, before: Run | None, record: ChatRecord) -> str | None:
        """Return where the next run starts: from work of the last one that is neither merged nor rejected."""
        if before is None or before.run in record.rejected or before.merge.status != "ready":
            return None
        return self.engine.work.changed_by(before.run).commit

    async def _start(self, request: Request, title: str) -> str:
        """Open a run and leave it to a process of its own: it continues when this client is gone."""
        request = structs.replace(request, name=one_line(title, MOST_NAME), labels={LABEL: self.id})
        run = await self.engine.requests.enqueue(request, Ticket(by=self.by), self._note)
        for note in self.engine.chats.lend(run, self.servers) if self.servers else ():
            self._note(note)
        first = not self.record.runs
        record = self.engine.chats.add_run(self.id, run, title)
        if first:
            self.updates.title(record.title, record.updated_at)
        self.updates.say(f"Run `{run}` started; it continues when this window is closed.\n\n")
        await self.engine.active_runs.to_background(run)
        return run

    def _note(self, text: str) -> None:
        """Tell what is odd about a request: as a notice where the client has them."""
        session = self._client.capabilities.session
        if session is not None and session.notices is not None:
            self.updates.send("notice", severity="warning", title=one_line(text, 500))
        else:
            self.updates.say(f"{text}\n\n")

    async def _see_through(self, followed: FollowedRun) -> None:
        """Follow a run to its end, and ask about what it made."""
        self.followed = followed
        stopping = asyncio.create_task(followed.stop()) if self._cancelled else None
        try:
            run = await followed.follow()
            if stopping is not None:
                await stopping
        finally:
            self.followed = None
        if followed.detached:
            self._cancelled = True
            return
        followed.tell_end(run)
        if run.status not in OPEN and run.merge.status == "ready" and not self._cancelled:
            await self._offer_merge(run)

    async def _offer_merge(self, run: Run) -> None:
        asks = self.choices().merge == "ask"
        question = MergeQuestion(self.engine, self.updates, run)
        await question.show(ask=asks)
        if asks and self.asker is not None:
            self._merging = asyncio.create_task(question.ask(self.asker, self.by))
            try:
                chosen = await self._merging
            except asyncio.CancelledError:
                if not self._cancelled:
                    raise
                return
            if chosen == "reject":
                self.engine.chats.reject(self.id, run.run)

    def cancel(self) -> None:
        """Stop the run and keep its work; the prompt is then answered `cancelled`."""
        followed = self.followed
        if not self.prompting and followed is None:
            return
        self._cancelled = True
        if followed is not None and not followed.stopping:
            self._stopping = asyncio.create_task(followed.stop())
        elif self._merging is not None:
            self._merging.cancel()

    def detach(self) -> None:
        """Let a prompt that is being worked on end; its run continues."""
        if self.followed is not None:
            self.followed.detach()
        if self._merging is not None:
            self._cancelled = True
            self._merging.cancel()

    async def steer(self, text: str) -> bool:
        """Tell the agents at work more; False: none is."""
        if self.followed is None:
            return False
        words = await self.engine.control.steer(self.followed.run, text, self.by)
        self.updates.say(f"({words})\n\n")
        return True

    # --- outside of a turn

    def last_event(self) -> int | None:
        """Return the last event of the last run until now; None: it is over, or there is none."""
        runs = self.record.runs
        if not runs or self.engine.history.status(runs[-1]) not in OPEN:
            return None
        return max((stored.seq for stored in self.engine.history.events(runs[-1])), default=0)

    def follow_last(self, after: int | None) -> None:
        """Tell what the last run does after an event, and its end; nobody is asked anything."""
        if self.followed is None and after is not None:
            self._following = asyncio.create_task(self._follow_outside(self.record.runs[-1], after))

    async def _follow_outside(self, run: str, after: int) -> None:
        self.followed = FollowedRun(self, run, after)
        try:
            ended = await self.followed.follow()
            if not self.followed.detached:
                self.followed.tell_end(ended)
        finally:
            self.followed = None

    async def leave(self) -> None:
        """Stop following; the run itself continues."""
        if self._starting is not None:  # it is handed to its own process first
            await asyncio.gather(self._starting, return_exceptions=True)
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)


def _is_useful(server: OfferedServer) -> bool:
    """Tell whether agents can use a server: not ours, which an editor passes on to us, and not one by events alone."""
    ours = Path(server.command).name == "corral" and server.args[:1] == ["mcp"]
    return not ours and bool(server.url if server.type == "http" else server.type == "stdio" and server.command)


def _server(server: OfferedServer) -> tuple[str, ClientServer]:
    name = re.sub(r"[^A-Za-z0-9_-]", "_", server.name)[:60] or "server"
    if server.url:
        return name, ClientServer(url=server.url, headers={each.name: each.value for each in server.headers})
    settings = {each.name: each.value for each in server.env}
    return name, ClientServer(command=(server.command, *server.args), settings=settings)


def _earlier(before: Run) -> str:
    """Say what was asked for before this prompt, and what came of it."""
    attempts = [attempt for node in before.nodes for attempt in node.attempts if isinstance(attempt.output, str)]
    said = f"\nYour answer was:\n{attempts[-1].output}" if attempts else ""
    task = before.task if len(before.task) <= MOST_BEFORE else "…" + before.task[-MOST_BEFORE:]
    return f"Earlier in this conversation you were asked:\n{task}{said[:MOST_BEFORE]}\n\nNow:"
