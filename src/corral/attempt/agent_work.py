"""The agent's part of an attempt: its prompt, box and turns, and the questions that it asks."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Coroutine
from contextlib import nullcontext
from pathlib import PurePath
from typing import Protocol
from urllib.parse import urlsplit

from msgspec import structs

from corral.attempt import artifacts, briefing, conversations, hooks, repositories
from corral.attempt.admission import Admission, AgentResolver
from corral.attempt.attempt_machine import AttemptMachine
from corral.attempt.budget_figures import is_notional
from corral.attempt.events import AttemptEvents
from corral.attempt.hooks import about
from corral.attempt.mail.file_transport import FileMail
from corral.attempt.toolbox.call_rules import CallRules
from corral.attempt.toolbox.toolbox import AttemptToolbox
from corral.attempt.turns import TurnContext, Turns
from corral.attempt.user_questions import RunQuestions
from corral.attempt.violations import AttemptGuard
from corral.machines import scope as scoping
from corral.machines.agent_output import AgentListeners
from corral.machines.network import is_open
from corral.machines.resolved_agent import ResolvedAgent
from corral.machines.tool_calls import CallFailed
from corral.model import Cost, Entry, Failure, SandboxReport, Tokens
from corral.model.agent_api import AgentTask, Answer, Hook, McpServer, Steer
from corral.model.errors import SetupFailed
from corral.model.events import Asked, Event, Noted
from corral.model.flow import Node
from corral.model.money import notional_words
from corral.rules.checks import verdict as judge
from corral.rules.checks.verdict import Verdict
from corral.rules.context import prompt, review
from corral.rules.flows import planned_flow
from corral.rules.scope import hosts
from corral.rules.scope.refusals import of_refusals
from corral.rules.text import questions
from corral.world import clock
from corral.world.concurrent import together
from corral.world.process import ProcessLimits

NOTHING = Cost(0.0, "fixed")  #: of what did not start
LONGEST_QUESTION_SECONDS = 3600.0
LONGEST_BY_HAND_SECONDS = 86_400.0
SHARE_OF_IDLE = 0.8  #: an agent that waits is silent: its question is over before its silence is


class AgentWork:
    """Lets one agent work on one attempt, and notes how its own part ended."""

    def __init__(
        self,
        attempt_events: AttemptEvents,
        node: Node,
        resolve: AgentResolver,
        where: AttemptMachine,
        toolbox: AttemptToolbox,
    ) -> None:
        self.toolbox, self.events, self.node = toolbox, attempt_events, node
        self.machine, self.host = where.machine, where.host
        self.record, self.attempt = attempt_events.record, attempt_events.attempt
        self.workspace = PurePath(self.record.folder).name
        self.hooks: tuple[Hook, ...] = ()
        self.paused = self._by_login = False
        self.guard = AttemptGuard(attempt_events, self.host)
        self.run_questions = attempt_events.run_questions()
        self._admission = Admission(attempt_events, node, resolve, self.host)
        attempt_events.budget.asked_nobody = self._made_no_request
        self._questions = AgentQuestions(
            attempt_events, toolbox.rules, self.run_questions, node.task.idle_limit_seconds, self
        )
        self._turns = Turns(attempt_events, node, where, toolbox)

    async def run(self) -> None:
        record = self.record
        record.started, record.clock = time.time(), clock.reading()
        self.attempt.status, self.attempt.cost = "running", NOTHING  # until its agent starts
        self.attempt.sandbox = SandboxReport(self.machine.level)
        if self.host.stop.is_set():
            record.outcome = "stopped"
            self.events.step("collected")
            return
        if record.by_hand and self.toolbox.terminal is None:  # the process that had one is gone
            raise SetupFailed("a user was to work in it, and there is no terminal", hint=f"corral attach {record.run}")
        resolved = await self._admission.resolve_agent()
        if not await self._admission.may_start(resolved):
            return
        self.hooks = resolved.hooks
        self._say_whether_ruled(resolved)
        self._by_login = is_notional(resolved)
        await hooks.run("before_start", self.hooks, about(self.events, self.node, self.host))
        record.resumes = resolved.agent.facts.resumes
        self._confine(resolved)
        known = len(record.steers)  # what comes later may not be in the prompt: it is kept for the next turn
        guide, text = await self._moved_in(resolved)
        self.toolbox.children.go_on()
        messages = self._file_mail(resolved)
        others = messages.words() if messages and not record.continues else ""
        files = "" if record.continues else await artifacts.hand_over(
            self.events.store, record.run, self.node, self.machine, self.workspace
        )  # fmt: skip
        files = "" if self.node.kind == "run" else files  # a command is run as it is written
        text = "\n\n".join(filter(None, (text, files, self.toolbox.children.words(), others)))
        text = self._turns.with_output_instruction(text, resolved)
        for note in await self.machine.fit(self.workspace):
            self.events.emit(Noted(note))
        await hooks.run("before_prompt", self.hooks, {**about(self.events, self.node, self.host), "prompt": text})
        self.host.keep("prompt.txt", text)
        record.steers, self.attempt.cost = record.steers[known:], Cost()
        self.events.budget.begin_spending()
        self.events.step("working")
        scene = TurnContext(self.workspace, resolved, self._limits(), self._ears(), guide)
        why = await self._work(scene, self._agent_task(resolved, text), messages)
        if killed := self.machine.report.memory_kills:
            self.events.emit(Noted(f"the kernel ended {killed} processes for lack of memory"))
        self.take(why)
        if self.attempt.session and record.resumes:
            await conversations.keep(self.machine, self.host, self.workspace, resolved.agent.facts.conversation)
        self.events.step("worked")

    async def go_on(self) -> None:
        """Continue an agent that is still at work on its machine: what it said before is not taken down again."""
        record = self.record
        self.say(f"another process continues it; its agent was not interrupted on `{self.attempt.machine}`")
        self.events.read_back()
        resolved = await self._admission.resolve_agent()
        if not await self._admission.may_start(resolved):
            self.machine.end()
        self.hooks, self._by_login = resolved.hooks, is_notional(resolved)
        record.resumes = resolved.agent.facts.resumes
        self._confine(resolved)
        listeners = structs.replace(self._ears(), emit=self.events.skip_known(self._hear))
        scene = TurnContext(self.workspace, resolved, self._limits(), listeners, "")
        why = await self._work(scene, self._agent_task(resolved, ""), self._file_mail(resolved))
        self.take(why)
        self.events.step("worked")

    def _confine(self, resolved: ResolvedAgent) -> None:
        """Decide what its box will show and let through, and which words must never be passed on."""
        fitted = scoping.of_agent(self.host.plan.scopes, self.attempt.agent, self.host.plan.ignore)
        redactor = self.guard.keep_secrets(resolved, fitted.scope.env, self.toolbox.token.reveal())
        if is_open(self.machine.level, fitted.scope.net):
            self.attempt.sandbox = SandboxReport(self.machine.level, net="open")
        self.machine.confine(fitted, redactor)

    async def _moved_in(self, resolved: ResolvedAgent) -> tuple[str, str]:
        """Make its workspace, or take over the one it continues in; return what guides it there, and its prompt."""
        record = self.record
        if record.continues:
            await together(self.machine.take_over(self.workspace), self.guard.look())
            return "", self._going_on()
        base = await repositories.find_base(self.events, self.node, self.host)
        self.machine.start_from(base)
        if record.candidates:
            others = self.events.store.attempts(record.run)
            self.node = self._turns.node = await briefing.brief_judge(self.node, self.host, record, others)
        needs = [base] if base and record.start else []  # its work is bundled from the base on
        making = self.machine.make(self.workspace, record.start or base, needs=needs, say=self.say)
        await together(making, self.guard.look())
        guide = prompt.guidance(
            await briefing.guide(self.machine, self.workspace, resolved.agent.facts.reads),
            self.toolbox.memory.section(self.node),
        )
        if record.by_hand:
            await self._open_session()
            return guide, ""
        return guide, await self._review(guide) if record.review else self._prompt(guide)

    def _agent_task(self, resolved: ResolvedAgent, text: str) -> AgentTask:
        record = self.record
        return AgentTask(
            prompt=text,
            workspace="",
            home="",
            model=self.attempt.model,
            session=self.attempt.session if record.continues or record.review or record.by_hand else None,
            interrupted=record.continues is not None,
            budget_usd=self.events.budget.left_usd(),
            read_only=self.node.task.read_only,
            number=self.attempt.number,
            mcp=tuple(server for server in resolved.servers() if not server.url or self._may_reach(server)),
            asks=resolved.profile.permissions == "ask",
            ruled=bool(self.host.plan.policy),
            images=self.node.task.images if self.node.kind == "task" else (),
            schema=self._turns.schema(resolved),
        )

    def _prompt(self, guide: str) -> str:
        if self.node.kind == "run":
            return self.node.task.prompt
        return prompt.build(self._turns.task, self.record.fed_back, self.record.steers, guide=guide)

    async def _open_session(self) -> None:
        """Lay the session of the attempt before into its home, where that is kept."""
        revised = self.attempt.revises or ""
        if self.attempt.session and not await conversations.put_back(self.machine, self.host, self.workspace, revised):
            self.attempt.session = None

    async def _review(self, guide: str) -> str:
        """Return what an agent hears whose earlier work was reviewed, in its own session where that is kept."""
        record, revised = self.record, self.attempt.revises or ""
        await self._open_session()
        before = next(
            (each.attempt for each in self.events.store.attempts(record.run) if each.attempt.id == revised), None
        )
        said = before.output if before and isinstance(before.output, str) else ""
        asked = "\n\n".join(filter(None, (record.review, record.fed_back, *record.steers)))
        return review.revise_prompt(self._turns.task, asked, said, remembers=bool(self.attempt.session), guide=guide)

    def _limits(self) -> ProcessLimits:
        task, scope = self.node.task, self.machine.fitted.scope
        if self.record.by_hand:  # the user ends it; what it may cost holds all the same
            return ProcessLimits(timeout_seconds=LONGEST_BY_HAND_SECONDS, idle_seconds=LONGEST_BY_HAND_SECONDS)
        seconds = min(task.time_limit_seconds, scope.timeout_seconds or task.time_limit_seconds)
        return ProcessLimits(timeout_seconds=seconds, idle_seconds=task.idle_limit_seconds)

    def _ears(self) -> AgentListeners:
        tools = self.toolbox if self._has_tools() else None
        count = self.events.budget.count
        count.ended = self._end_request
        terminal = self.toolbox.terminal if self.record.by_hand else None
        return AgentListeners(
            self._hear, self.guard.on_host, self._meter, tools, self._admission.rate_limit, count, terminal
        )

    async def _work(self, scene: TurnContext, asked: AgentTask, messages: FileMail | None) -> str:
        """Let the agent work, with further turns for messages that it could not take meanwhile; return how it ended."""
        try:
            async with messages.open() if messages else contextlib.nullcontext():
                ended = await self._turns.work(scene, asked)
        finally:
            await self._questions.over()
        if messages and self._turns.ended_well(ended.why):
            messages.acknowledge()
        await self.toolbox.close(paused=self.paused)
        return ended.why

    def _may_reach(self, server: McpServer) -> bool:
        """Tell whether the scope lets it reach a server of an editor; what is left out is said."""
        net = scoping.of_agent(self.host.plan.scopes, self.attempt.agent, self.host.plan.ignore).scope.net
        reached = urlsplit(server.url)
        port = reached.port or (443 if reached.scheme == "https" else 80)
        words = () if isinstance(net, str) else tuple(word for word in net if not word.startswith("@"))
        if net == "on" or hosts.read(words).refusal(reached.hostname or "", port) is None:
            return True
        self.events.emit(Noted(f"the MCP server `{server.name}` is left out: the scope allows no {reached.netloc}"))
        return False

    def _file_mail(self, resolved: ResolvedAgent) -> FileMail | None:
        """Return what an agent without MCP is given instead of tools, if there is anybody to write to."""
        if resolved.agent.facts.mcp or self.node.kind == "run" or not self._has_tools():
            return None
        mail = FileMail(self.toolbox, self.machine, self.workspace)
        return mail if mail.words() else None

    def _say_whether_ruled(self, resolved: ResolvedAgent) -> None:
        """Report where the user's rules for tools are heard by nobody, or only where the agent asks."""
        if not self.host.plan.policy or self.node.kind == "run" or self.record.by_hand:
            return
        name, by = self.attempt.agent, resolved.agent.facts.rules
        if by == "no":
            self.say(f"[policy] does not apply to the tools of {name}: its program has no hook for that")
        elif by == "hook" and not self._has_tools():
            self.say(f"[policy] does not apply to the tools of {name}: it has no toolbox to ask")
        elif by == "permissions":
            self.say(f"[policy] applies to what {name} asks leave for, and for nothing else that it does")

    def _has_tools(self) -> bool:
        """Tell whether it may talk to others; a judge may not, for it is not to know whose work it compares."""
        return self.host.plan.toolbox.enabled and not self.record.candidates and not self.record.by_hand

    def _going_on(self) -> str:
        """Return what an agent hears that continues what another attempt began."""
        record = self.record
        if self.attempt.session is None and record.summary:
            text = prompt.from_summary(self._turns.task, record.summary, "~/condensed")
            return "\n\n".join([text, *record.steers])
        return prompt.resume_prompt(record.steers)

    def _hear(self, event: Event) -> None:
        self.events.emit(event)
        self._turns.on_event(event)
        self.guard.on_event(event, (self.machine.path_of(self.workspace),))
        if isinstance(event, Asked):
            self._questions.on_asked(self.events.redactor.value(event))
        self._watch_money()

    def _meter(self, model: str | None, tokens: Tokens, answer: int) -> None:
        self.events.budget.meter(model, tokens, answer)
        if self.events.gauge is not None:
            self.events.gauge.note_metered(model, tokens)
        self._watch_money()

    def _end_request(self) -> None:
        self.events.note_metered()
        self._watch_money()

    def _made_no_request(self) -> bool:
        """Tell whether no request of its agent can have cost money: none passed by us, and there is no other way."""
        report = self.machine.report
        if report.unmetered or self.events.budget.requests:
            return False
        return report.metered or not self.guard.reached_any

    def _watch_money(self) -> None:
        attempt_budget = self.events.budget
        if attempt_budget.over or attempt_budget.too_long or attempt_budget.count.reason:
            self.machine.end()

    def take(self, why: str) -> None:
        """Note how the agent's own part ended."""
        self.events.settle_tokens()
        ended = self.events.ended
        if why == "cut" and self.host.stop.is_set():
            why = "stopped"
        task, guard, report = self.node.task, self.guard, self.machine.report
        answered = bool(self.events.budget.count.answered)
        limit = task.idle_limit_seconds if why == "idle" else task.time_limit_seconds
        verdict = judge.of_agent(ended, why, f"{limit:.0f} s", parked=self.record.until is not None)
        verdict = judge.of_provider(verdict, report.unreached)
        verdict = of_refusals(verdict, guard.refusals, report.last_words, reached=guard.reached_any or answered)
        verdict = judge.of_limits(
            verdict,
            report.last_words,
            killed=report.memory_kills,
            disk_has_room=report.disk_has_room,
        )
        self.attempt.output, verdict = judge.of_output(
            verdict, ended, self.node.output, command=self.node.kind == "run"
        )
        if self.node.planning and ended and verdict is None and (wrong := planned_flow.mistakes_in(ended, self.node)):
            words = "its plan is wrong: " + "; ".join(wrong)
            verdict = Verdict("failed", Failure("bad_output", words, "give it a smaller task", lasting=True))
        attempt_budget = self.events.budget
        attempt_budget.reported_whole &= ended is not None
        if (
            attempt_budget.over
            or attempt_budget.too_long
            or attempt_budget.count.reason
            or (verdict and verdict.status == "over_budget")
        ):
            verdict = Verdict("over_budget", self._admission.out_of_money())
        if verdict and verdict.error and verdict.error.kind == "rate_limit":
            verdict = self._admission.elsewhere(verdict, verdict.error)
        self.record.outcome = verdict.status if verdict else "done"
        self.attempt.error = verdict.error if verdict else None
        if ended:
            self.record.denied = ended.denied
        self.attempt.cost = attempt_budget.cost()
        if self._by_login and self.attempt.cost.usd:
            self.say(f"its cost is notional: {notional_words(self.events.windows())}")

    def steer(self, text: str) -> bool:
        """Take in a user's message; return whether the agent gets it while it works."""
        self.record.steers = (*self.record.steers, text)
        self.events.step(self.record.phase)
        return self.machine.tell(Steer(text))

    def answer(self, order: Answer) -> bool:
        """Pass an answer on; return whether the agent waits for it."""
        return self.machine.answer(order)

    def condense(self, by: str) -> bool:
        """Lead the agent over into a fresh session when its present step is over; return whether it is at work."""
        return self._turns.condense(by)

    def say(self, text: str) -> None:
        self.events.emit(Noted(text))


class QuestionReach(Protocol):
    """The ways to an agent at work."""

    def answer(self, order: Answer) -> bool: ...
    def steer(self, text: str) -> bool: ...


class AgentQuestions:
    """The questions of one attempt."""

    def __init__(
        self,
        attempt_events: AttemptEvents,
        rules: CallRules,
        run_questions: RunQuestions,
        idle_seconds: float,
        reach: QuestionReach,
    ) -> None:
        self._events, self._record, self._rules = attempt_events, attempt_events.record, rules
        self._run_questions, self._reach = run_questions, reach
        self._record.held_by = ()  # of an engine that died
        self._seconds = min(LONGEST_QUESTION_SECONDS, SHARE_OF_IDLE * idle_seconds)
        self._waiting: set[asyncio.Task[None]] = set()
        self._count = 0

    def on_asked(self, asked: Asked) -> None:
        """Ask the user's rules, and a user, what was not answered at once."""
        if asked.answer:
            return
        if asked.tool:
            self._start(self._judge(asked))
        else:
            self._ask(asked)

    async def _judge(self, asked: Asked) -> None:
        """Answer what it asks leave for by the user's rules for tools."""
        try:
            await self._rules.check(asked.tool, asked.arguments, self._seconds)
        except CallFailed:
            self._reach.answer(Answer(asked.ask, asked.default))
        else:
            self._reach.answer(Answer(asked.ask, asked.grant))

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    def _ask(self, asked: Asked) -> None:
        self._count += 1
        record = self._record
        about = (record.run, record.node, record.attempt.id)
        ask = asked.ask or str(self._count)
        default = asked.default or (asked.choices[-1] if asked.choices else questions.UNANSWERED)
        question = questions.agent_question(about, f"{self._count}/{ask}", asked.question, asked.choices, default)
        context = f"{record.attempt.agent} ({record.attempt.id}) waits for it; after {self._seconds:.0f} s: {default}"
        entry = self._run_questions.ask(
            structs.replace(question, context=context, deadline=time.time() + self._seconds)
        )
        self._start(self._pass_on(asked, ask, entry))

    async def _pass_on(self, asked: Asked, ask: str, entry: Entry) -> None:
        with (
            self._events.waiting_for_answer(entry) if asked.ask else nullcontext()
        ):  # it does not wait for what has no name
            entry = await self._run_questions.answer(entry)
        if entry.answered_by == "corral":
            return
        answer = entry.answer or ""
        words = f"You asked: {entry.text}\nThe answer is: {answer}"
        at_work = self._reach.answer(Answer(ask, answer)) or self._reach.steer(words)
        agent = self._record.attempt.agent
        self._run_questions.note_outcome(
            entry, f"sent to {agent}, which is at work" if at_work else f"{agent} gets it at its next turn"
        )

    async def over(self) -> None:
        """The agent has ended: it hears nothing any more."""
        for task in self._waiting:
            task.cancel()
        await asyncio.gather(*self._waiting, return_exceptions=True)
        await self._run_questions.close()
        self._run_questions.withdraw("it ended before it was answered", self._record.attempt.id)
