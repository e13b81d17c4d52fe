"""The agent's part of an attempt: its base commit, prompt, box and turns, and the questions that it asks."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import PurePath
from typing import Protocol
from urllib.parse import urlsplit

from msgspec import structs

from corral.attempt import artifacts, briefing, conversations, hooks
from corral.attempt.admission import Admission, AgentResolver
from corral.attempt.attempt_machine import AttemptMachine
from corral.attempt.budget_figures import is_notional
from corral.attempt.events import AttemptEvents
from corral.attempt.hooks import about
from corral.attempt.mail.file_transport import FileMail
from corral.attempt.toolbox.toolbox import AttemptToolbox
from corral.attempt.turns import TurnContext, Turns
from corral.attempt.user_questions import RunQuestions
from corral.attempt.violations import AttemptGuard
from corral.machines import scope as scoping
from corral.machines.agent_output import AgentListeners
from corral.machines.host import Host
from corral.machines.network import is_open
from corral.machines.resolved_agent import ResolvedAgent
from corral.model import AttemptRecord, Cost, Entry, SandboxReport, Tokens
from corral.model.agent_api import AgentTask, Answer, Hook, McpServer, Steer
from corral.model.errors import CorralError, SetupFailed
from corral.model.events import Asked, Event, Noted
from corral.model.flow import Node
from corral.model.money import notional_words
from corral.rules.checks import verdict as judge
from corral.rules.checks.verdict import Verdict
from corral.rules.context import prompt, review
from corral.rules.race import llm_judge, second_reader
from corral.rules.scope import hosts
from corral.rules.scope.refusals import of_refusals
from corral.rules.text import names, questions
from corral.world import clock
from corral.world.concurrent import together
from corral.world.git import hidden_refs, merge_commits
from corral.world.git.merge_commits import CombinedCommit
from corral.world.git.repository import Repository
from corral.world.process import ProcessLimits

NOTHING = Cost(0.0, "fixed")  #: of what did not start
LONGEST_QUESTION_SECONDS = 3600.0
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
        self._questions = AgentQuestions(attempt_events, self.run_questions, node.task.idle_limit_seconds, self)
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
        resolved = await self._admission.resolve_agent()
        if not await self._admission.may_start(resolved):
            return
        self.hooks = resolved.hooks
        self._by_login = is_notional(resolved)
        await hooks.run("before_start", self.hooks, about(self.events, self.node, self.host))
        record.resumes = resolved.agent.facts.resumes
        self._confine(resolved)
        guide, told = await self._moved_in(resolved)
        self.toolbox.children.go_on()
        messages = self._letterbox(resolved)
        others = messages.words() if messages and not record.continues else ""
        files = "" if record.continues else await artifacts.hand_over(
            self.events.store, record.run, self.node, self.machine, self.workspace
        )  # fmt: skip
        files = "" if self.node.kind == "run" else files  # a command is run as it is written
        told = "\n\n".join(filter(None, (told, files, self.toolbox.children.words(), others)))
        told = self._turns.with_output_instruction(told, resolved)
        for note in await self.machine.fit(self.workspace):
            self.events.emit(Noted(note))
        await hooks.run("before_prompt", self.hooks, {**about(self.events, self.node, self.host), "prompt": told})
        self.host.keep("prompt.txt", told)
        record.steers, self.attempt.cost = (), Cost()
        self.events.budget.begin_spending()
        self.events.step("working")
        scene = TurnContext(self.workspace, resolved, self._limits(), self._ears(), guide)
        why = await self._work(scene, self._agent_task(resolved, told), messages)
        if killed := self.machine.report.memory_kills:
            self.events.emit(Noted(f"the kernel ended {killed} processes for want of memory"))
        self.take(why)
        if self.attempt.session and record.resumes:
            await conversations.keep(self.machine, self.host, self.workspace, resolved.agent.facts.conversation)
        self.events.step("worked")

    async def go_on(self) -> None:
        """Go on with an agent that is still at work on its machine: what it said before is not taken down again."""
        record = self.record
        self.say(f"another process goes on with it; its agent was not interrupted on `{self.attempt.machine}`")
        self.events.read_back()
        resolved = await self._admission.resolve_agent()
        if not await self._admission.may_start(resolved):
            self.machine.end()
        self.hooks, self._by_login = resolved.hooks, is_notional(resolved)
        record.resumes = resolved.agent.facts.resumes
        self._confine(resolved)
        listeners = structs.replace(self._ears(), emit=self.events.skip_known(self._hear))
        scene = TurnContext(self.workspace, resolved, self._limits(), listeners, "")
        why = await self._work(scene, self._agent_task(resolved, ""), self._letterbox(resolved))
        self.take(why)
        self.events.step("worked")

    def _confine(self, resolved: ResolvedAgent) -> None:
        """Settle what its box will show and let through, and which words must never be told on."""
        fitted = scoping.of_agent(self.host.plan.scopes, self.attempt.agent, self.host.plan.ignore)
        redactor = self.guard.keep_secrets(resolved, fitted.scope.env, self.toolbox.token.reveal())
        if is_open(self.machine.level, fitted.scope.net):
            self.attempt.sandbox = SandboxReport(self.machine.level, net="open")
        self.machine.confine(fitted, redactor)

    async def _moved_in(self, resolved: ResolvedAgent) -> tuple[str, str]:
        """Make its workspace, or take over the one it goes on in; return what guides it there, and its prompt."""
        record = self.record
        if record.continues:
            await together(self.machine.take_over(self.workspace), self.guard.look())
            return "", self._going_on()
        base = await find_base(self.events, self.node, self.host)
        self.machine.start_from(base)
        if record.candidates:
            others = self.events.store.attempts(record.run)
            self.node = self._turns.node = await brief_judge(self.node, self.host, record, others)
        needs = [base] if base and record.start else []  # its work is bundled from the base on
        making = self.machine.make(self.workspace, record.start or base, needs=needs, say=self.say)
        await together(making, self.guard.look())
        guide = prompt.guidance(
            await briefing.guide(self.machine, self.workspace, resolved.agent.facts.reads),
            self.toolbox.memory.section(self.node),
        )
        return guide, await self._review(guide) if record.review else self._prompt(guide)

    def _agent_task(self, resolved: ResolvedAgent, told: str) -> AgentTask:
        record = self.record
        return AgentTask(
            prompt=told,
            workspace="",
            home="",
            model=self.attempt.model,
            session=self.attempt.session if record.continues or record.review else None,
            interrupted=record.continues is not None,
            budget_usd=self.events.budget.left_usd(),
            read_only=self.node.task.read_only,
            number=self.attempt.number,
            mcp=tuple(server for server in resolved.servers() if not server.url or self._may_reach(server)),
            asks=resolved.profile.permissions == "ask",
            schema=self._turns.schema(resolved),
        )

    def _prompt(self, guide: str) -> str:
        if self.node.kind == "run":
            return self.node.task.prompt
        return prompt.build(self._turns.task, self.record.fed_back, self.record.steers, guide=guide)

    async def _review(self, guide: str) -> str:
        """Return what an agent hears whose earlier work was reviewed, in its own session where that is kept."""
        record, revised = self.record, self.attempt.revises or ""
        if self.attempt.session and not await conversations.put_back(self.machine, self.host, self.workspace, revised):
            self.attempt.session = None
        before = next(
            (each.attempt for each in self.events.store.attempts(record.run) if each.attempt.id == revised), None
        )
        said = before.output if before and isinstance(before.output, str) else ""
        asked = "\n\n".join(filter(None, (record.review, record.fed_back, *record.steers)))
        return review.revise_prompt(self._turns.task, asked, said, remembers=bool(self.attempt.session), guide=guide)

    def _limits(self) -> ProcessLimits:
        task, scope = self.node.task, self.machine.fitted.scope
        seconds = min(task.time_limit_seconds, scope.timeout_seconds or task.time_limit_seconds)
        return ProcessLimits(timeout_seconds=seconds, idle_seconds=task.idle_limit_seconds)

    def _ears(self) -> AgentListeners:
        tools = self.toolbox if self._has_tools() else None
        count = self.events.budget.count
        count.ended = self._end_request
        return AgentListeners(self._hear, self.guard.on_host, self._meter, tools, self._admission.rate_limit, count)

    async def _work(self, scene: TurnContext, asked: AgentTask, messages: FileMail | None) -> str:
        """Let the agent work, and once more for all that it could not be told while it did; return how it ended."""
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

    def _letterbox(self, resolved: ResolvedAgent) -> FileMail | None:
        """Return what an agent without MCP is given instead of tools, if there is anybody to write to."""
        if resolved.agent.facts.mcp or self.node.kind == "run" or not self._has_tools():
            return None
        letterbox = FileMail(self.toolbox, self.machine, self.workspace)
        return letterbox if letterbox.words() else None

    def _has_tools(self) -> bool:
        """Tell whether it may talk to others; a judge may not, for it is not to know whose work it compares."""
        return self.host.plan.toolbox.enabled and not self.record.candidates

    def _going_on(self) -> str:
        """Return what an agent hears that goes on with what another attempt began."""
        record = self.record
        if self.attempt.session is None and record.summary:
            told = prompt.from_summary(self._turns.task, record.summary, "~/condensed")
            return "\n\n".join([told, *record.steers])
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
        """Take in what a person wants besides; return whether the agent is told while it works."""
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


async def find_base(attempt_events: AttemptEvents, node: Node, host: Host) -> str | None:
    """Find the commit to start from; what does not go together is left to the agent, with marks in the files."""
    record, heads = attempt_events.record, attempt_events.record.heads
    if len(heads) > 1:
        combined = await hidden_refs.combine_and_pin(
            host.repository, host.attempt, lambda apart: _combine_heads(attempt_events, node, apart)
        )
        heads, record.conflicts = (combined.commit or "",), tuple(each.path for each in combined.conflicts)
    record.base = heads[0] if heads else host.plan.base
    return record.base


async def _combine_heads(attempt_events: AttemptEvents, node: Node, repository: Repository) -> CombinedCommit:
    heads = attempt_events.record.heads
    found = await merge_commits.combine(repository, heads, f"Combine {len(heads)} steps")
    if found.commit is not None:
        return found
    paths = [each.path for each in found.conflicts]
    if node.kind == "run":
        raise SetupFailed(  # another try would meet the same
            f"the work of the nodes before it does not go together: {', '.join(paths[:5])}",
            hint="put a task between them, whose agent resolves it",
        )
    attempt_events.emit(Noted(f"it is to resolve conflicts in: {', '.join(paths)}"))
    return await merge_commits.combine_marked(repository, heads, "Combine steps, with conflicts")


class QuestionReach(Protocol):
    """The ways to an agent at work."""

    def answer(self, order: Answer) -> bool: ...
    def steer(self, text: str) -> bool: ...


class AgentQuestions:
    """The questions of one attempt."""

    def __init__(
        self, attempt_events: AttemptEvents, run_questions: RunQuestions, idle_seconds: float, reach: QuestionReach
    ) -> None:
        self._events, self._record, self._run_questions, self._reach = (
            attempt_events,
            attempt_events.record,
            run_questions,
            reach,
        )
        self._record.held_by = ()  # of an engine that died
        self._seconds = min(LONGEST_QUESTION_SECONDS, SHARE_OF_IDLE * idle_seconds)
        self._waiting: set[asyncio.Task[None]] = set()
        self._count = 0

    def on_asked(self, asked: Asked) -> None:
        """Ask a person what was not answered at once."""
        if asked.answer:
            return
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
        task = asyncio.get_running_loop().create_task(self._pass_on(asked, ask, entry))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def _pass_on(self, asked: Asked, ask: str, entry: Entry) -> None:
        with (
            self._events.waiting_for_answer(entry) if asked.ask else nullcontext()
        ):  # it does not wait for what has no name
            entry = await self._run_questions.answer(entry)
        if entry.answered_by == "corral":
            return
        answer = entry.answer or ""
        words = f"You asked: {entry.text}\nThe answer is: {answer}"
        told = self._reach.answer(Answer(ask, answer)) or self._reach.steer(words)
        agent = self._record.attempt.agent
        self._run_questions.note_outcome(
            entry, f"told {agent}, which is at work" if told else f"{agent} is told at its next turn"
        )

    async def over(self) -> None:
        """The agent has ended: it hears nothing any more."""
        for task in self._waiting:
            task.cancel()
        await asyncio.gather(*self._waiting, return_exceptions=True)
        await self._run_questions.close()
        self._run_questions.withdraw("it ended before it was answered", self._record.attempt.id)


async def brief_judge(node: Node, host: Host, own: AttemptRecord, others: Sequence[AttemptRecord]) -> Node:
    """Return a judge's node with the changes it is to compare, in the order it is shown them; a reader's has one."""
    patches = [await _patch(host, name) for name in own.candidates]
    if own.lane <= second_reader.FIRST_READER_PLACE:
        read = next(each for each in others if each.attempt.id == own.candidates[0])
        prompt, files = second_reader.brief(node.task.prompt, patches[0], read.attempt.evidence, read.evidence)
    else:
        prompt, files = llm_judge.brief(node.task.prompt, patches)
    host.task = structs.replace(node.task, prompt=prompt, handed=files)
    return structs.replace(node, task=host.task)


async def _patch(host: Host, attempt: str) -> str:
    commit = await host.repository.commit_of(names.hidden_ref(attempt))
    if commit is None:
        raise CorralError(f"the work of {attempt} is not in the repository any more")
    parts: list[bytes] = []
    size = 0

    def take(part: bytes) -> None:
        nonlocal size
        if size <= llm_judge.MOST_PATCH:
            parts.append(part)
        size += len(part)

    await host.repository.patch(host.base, commit, take)
    return b"".join(parts).decode(errors="replace")
