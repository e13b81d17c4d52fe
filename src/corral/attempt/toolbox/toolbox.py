"""The tools of one attempt, answered over MCP: mail, reports, questions, results of others, children, its end."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from functools import cached_property, lru_cache
from typing import Any

from msgspec import structs

from corral.attempt.attempt_machine import AttemptMachine
from corral.attempt.briefing import AttemptMemory
from corral.attempt.events import AttemptEvents
from corral.attempt.mail.mailbox import Mailbox
from corral.attempt.toolbox.call_rules import CallRules
from corral.attempt.toolbox.child_runs import Children
from corral.attempt.toolbox.context import RunContext
from corral.attempt.toolbox.programs import AttemptPrograms
from corral.attempt.toolbox.results import NodeResults
from corral.model import ENCODER, Entry, Question
from corral.model.errors import BadRequest, CorralError
from corral.model.events import Ended, Reported
from corral.model.flow import Node
from corral.rules.context import tools
from corral.rules.context.tools import AskUser, McpCall, McpReply, ToolServer
from corral.rules.flows import output
from corral.version import __version__
from corral.world.proxy.secret import SecretValue

MOST_QUESTIONS = 20  #: of one attempt


class AskedQuestions:
    """What one attempt has asked."""

    def __init__(self, attempt_events: AttemptEvents) -> None:
        self._record, self._events = attempt_events.record, attempt_events
        self._run_questions = attempt_events.run_questions()
        self._entries: dict[str, Entry] = {}

    async def ask(self, asked: AskUser) -> dict[str, Any]:
        """Ask, and wait a little for the answer."""
        if len(self._entries) >= MOST_QUESTIONS:
            raise BadRequest(f"{MOST_QUESTIONS} questions are the most", hint="decide it yourself")
        attempt = self._record.attempt.id
        entry = self._run_questions.ask(
            Question(
                key=f"{attempt}/toolbox/{len(self._entries) + 1}",
                run=self._record.run,
                node=self._record.node,
                attempt=attempt,
                kind="question",
                about="question",
                text=self._events.redactor.text(asked.question),
                context=f"asked by {self._record.attempt.agent}; if nobody answers: {asked.default or 'nothing'}",
                choices=(),
                default=asked.default,
                deadline=time.time() + 60 * asked.deadline_minutes,
            )
        )
        self._entries[entry.id] = entry
        return await self.answer(entry.id, asked.wait_seconds)

    async def answer(self, ask: str, wait_seconds: float) -> dict[str, Any]:
        """Tell what the user has answered so far."""
        entry = self._entries.get(ask)
        if entry is None:
            raise BadRequest(f"you have asked nothing called `{ask[:80]}`", hint="ask_user returns its name")
        if entry.is_open:
            held = self._events.waiting_for_answer(entry) if wait_seconds else contextlib.nullcontext()
            with contextlib.suppress(TimeoutError), held:
                async with asyncio.timeout(wait_seconds):
                    entry = self._entries[ask] = await self._run_questions.answer(entry)
        if entry.is_open:
            return {"ask": ask, "answered": False, "hint": "continue with other work, and call read_answer later"}
        return {"ask": ask, "answered": True, "answer": entry.answer, "by": entry.answered_by}


CHECK_CALL = "check_call"
MOST_REPORTS = 2000  #: of one attempt
INSTRUCTIONS = (
    "You work in a run of Corral, perhaps beside other agents. Tell the user what you are doing with "
    "report_progress. list_nodes shows who else is there; send_mail and read_mail are how you talk to them. Ask the "
    "user only what you cannot find out (ask_user)."
)


@lru_cache(maxsize=1)
def _server() -> ToolServer:
    return ToolServer("corral", __version__, INSTRUCTIONS, tools.list_tools())


class AttemptToolbox:
    """Answers one attempt; a caller with the token counts as its agent."""

    def __init__(
        self, toolbox_context: RunContext, attempt_events: AttemptEvents, node: Node, where: AttemptMachine
    ) -> None:
        self._events, self._context, self._node, self._machine = attempt_events, toolbox_context, node, where.machine
        self.token, self.terminal = SecretValue(secrets.token_urlsafe(32)), toolbox_context.terminal
        self.mail = Mailbox(toolbox_context, attempt_events)
        self.results = NodeResults(toolbox_context, attempt_events.record, where.host)
        self.children = Children(toolbox_context, attempt_events, node, where)
        self._asks = AskedQuestions(attempt_events)
        self.memory = AttemptMemory(attempt_events, where.host.plan)
        self._where = where
        self._reports = 0
        self.finished = asyncio.Event()  #: its agent has said that it is done
        self._last: Ended | None = None
        attempt_events.budget.below_usd = self.children.held_usd

    @cached_property
    def programs(self) -> AttemptPrograms:
        """What runs its programs; made with the first."""
        return AttemptPrograms(self, self._events, self._node, self._where)

    @cached_property
    def rules(self) -> CallRules:
        return CallRules(self._events, self._where.host.plan)

    async def answer(self, body: bytes) -> bytes | None:
        """Answer what came over HTTP; None if nothing is to be said."""
        found, batch = tools.read_message(body, _server())
        bodies = [(each if isinstance(each, McpReply) else await self._call_tool(each)).body for each in found]
        if not bodies:
            return None
        return ENCODER.encode(bodies if batch else bodies[0])

    def new_turn(self) -> None:
        """Its agent is started once more: an earlier result does not count."""
        self.finished.clear()
        self._last = None

    def last_word(self) -> None:
        """Keep a result that was handed in, whatever its program said when it was ended."""
        if self._last:
            self._events.emit(self._last)

    async def close(self, *, paused: bool = False) -> None:
        """End what its agent leaves behind: children, and mail that it took. Of one that rests, children rest."""
        await (self.children.pause_all() if paused else self.children.stop_all())
        self.mail.close()

    async def _call_tool(self, call: McpCall) -> McpReply:
        try:
            if call.name == CHECK_CALL:
                return await self._check_call(call)
            asked = tools.arguments(call.name, call.arguments)
            await self.rules.check(call.name, structs.asdict(asked))
            result = await self.do(asked)
        except CorralError as error:
            return tools.call_reply(call, f"{error}" + (f"\nhint: {error.hint}" if error.hint else ""), failed=True)
        return tools.call_reply(call, ENCODER.encode(result).decode())

    async def _check_call(self, call: McpCall) -> McpReply:
        """Answer the hook of its agent: whether a call of a tool of its own may be made."""
        asked = tools.decode_arguments(call.name, call.arguments, tools.CheckCall)
        if not tools.is_own_tool(asked.tool):  # those are judged when they come
            await self.rules.check(asked.tool, asked.arguments)
        return tools.call_reply(call, "yes")

    async def do(self, asked: tools.Arguments) -> Any:  # noqa: ANN401, C901, PLR0911, PLR0912 -- a table
        """Answer a call of its agent, or of a program of its agent."""
        match asked:
            case tools.ReportProgress():
                return self._report(asked)
            case tools.AskUser():
                return await self._asks.ask(asked)
            case tools.ReadAnswer():
                return await self._asks.answer(asked.ask, asked.wait_seconds)
            case tools.ListNodes():
                return self._who_is_there()
            case tools.SendMail():
                thread, copies = self.mail.send(asked.to, asked.text, asked.priority, asked.thread)
                return {"sent": copies, "thread": thread}
            case tools.ReadMail():
                messages = await self.mail.take(asked.most, asked.wait_seconds, asked.lease_seconds)
                return {"messages": messages, "acknowledge_within_seconds": asked.lease_seconds}
            case tools.AckMail():
                return {"acknowledged": self.mail.acknowledge(asked.ids), "still_waiting": self.mail.waiting()}
            case tools.ReadThread():
                return {"messages": self.mail.thread(asked.thread)}
            case tools.ReadOutput():
                return self.results.output(asked.node, asked.offset)
            case tools.ListFiles():
                return self.results.files(asked.node)
            case tools.ReadFile():
                return await self.results.file(asked.node, asked.path, asked.offset)
            case tools.SpawnTask():
                return {"child": self.children.spawn(asked)}
            case tools.ChildResult():
                return await self.children.result(asked.child, asked.wait_seconds)
            case tools.StopChild():
                await self.children.stop(asked.child)
                return await self.children.result(asked.child, 0.0)
            case tools.Remember():
                return self.memory.remember(asked)
            case tools.SearchMemory():
                return self.memory.search(asked.words)
            case tools.RunProgram():
                return await self.programs.run_asked(asked)
            case tools.RunTool():
                return await self.programs.run_stored(asked)
            case tools.Git() | tools.RunTests() | tools.Packages():
                return await self.programs.use(asked)
            case tools.Finish():
                return self._finish(asked)

    def _report(self, asked: tools.ReportProgress) -> dict[str, bool]:
        self._reports += 1
        if self._reports > MOST_REPORTS:
            raise BadRequest(f"{MOST_REPORTS} reports are the most", hint="do the work without further reports")
        shown = "".join(message if message.isprintable() else " " for message in asked.text)
        self._events.emit(Reported(" ".join(shown.split()), asked.percent))
        return {"shown": True}

    def _who_is_there(self) -> dict[str, Any]:
        circle = self.mail.recipients()
        states = {state.id: state.status for state in self._context.store.nodes(circle.run)}
        nodes = [
            {"node": place.node, "status": states[place.node], "attempts": place.attempts} for place in circle.places
        ]
        return {
            "you": {"run": circle.run, "node": circle.node, "attempt": circle.attempt, "role": self._node.task.role},
            "nodes": nodes,
            "parent": "parent" if circle.parent else None,
            "children": [child.run for child in circle.children],
            "messages_waiting": self.mail.waiting(),
        }

    def _finish(self, asked: tools.Finish) -> dict[str, bool]:
        if self._machine.report.ending:
            raise BadRequest("it is too late: this attempt is being ended", hint="what you wrote is kept")
        body = ENCODER.encode(asked.result)
        if len(body) > tools.MOST_RESULT_BYTES:
            raise BadRequest(
                f"the result has {len(body)} bytes; {tools.MOST_RESULT_BYTES} are the most",
                hint="write it to a file of the workspace, and hand in its path",
            )
        text = asked.text or (asked.result if isinstance(asked.result, str) else body.decode())
        result = asked.result
        if self._node.output is not None:
            taken = output.take(Ended(ok=True, output=result), self._node.output)
            if taken.misfits:
                raise BadRequest(
                    "the result does not fit: " + "; ".join(taken.misfits[:10]), hint="correct it and call again"
                )
            result = taken.value
        self._last = Ended(ok=True, text=text, output=result)
        self._events.emit(self._last)
        self.finished.set()
        return {"finished": True}
