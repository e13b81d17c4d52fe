"""The turns of one attempt: what its agent reads next, how full its window is, and the summary it starts anew from."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from corral.attempt.attempt_machine import AttemptMachine
from corral.attempt.events import AttemptEvents
from corral.attempt.repositories import load_trusted_settings
from corral.attempt.toolbox.toolbox import AttemptToolbox
from corral.machines import resolved_agent, scope
from corral.machines.agent_output import AgentListeners
from corral.machines.host import Host
from corral.machines.resolved_agent import ResolvedAgent, resolve_agent
from corral.model import Setup, Tokens
from corral.model.agent_api import AgentTask
from corral.model.errors import CorralError
from corral.model.events import CalledTool, Condensed, Ended, Event, Noted, Rejected, Spent, SteerTaken, ToolReturned
from corral.model.flow import AgentChoice, Node, Task
from corral.rules.context import prompt
from corral.rules.context.condense import (
    Facts,
    build_summary,
    complete_summary,
    gather_facts,
    missing_facts,
    must_keep,
    transcript,
)
from corral.rules.context.usage import Gauge, window_of
from corral.rules.flows import output, planned_flow, schemas
from corral.rules.money import costs
from corral.world.process import Exit, ProcessLimits
from corral.world.workspace import checkout

MOST_SUMMARY = 48_000  #: characters; less where a model's window is small
SHARE = 0.4  #: characters of a summary for each token of the window: a tenth of it
MOST_REASON = 300
MOST_SHRUNK = 2  #: a summary that is itself too long is halved so often
MOST_TRANSCRIPT = 4 << 20
CUT_SECONDS = 30.0  #: an agent that is to be condensed may take this long to end its present step
ENDED = ("exited", "lingered", "cut")  #: by itself, or because we asked for it
SIZES_FILE = Path(__file__).parents[1] / "data" / "windows.json"
SUMMARY_LIMITS = ProcessLimits(timeout_seconds=300.0, idle_seconds=120.0)
SummarySpending = Callable[[Tokens, float | None], None]


class TurnContext(Struct, frozen=True):
    """What stays the same from turn to turn."""

    workspace: str
    dressed: ResolvedAgent
    limits: ProcessLimits
    ears: AgentListeners
    guide: str = ""


class Turns:
    """Starts an attempt's agent, and starts it again as long as there is something more to tell it."""

    def __init__(
        self, attempt_events: AttemptEvents, node: Node, where: AttemptMachine, toolbox: AttemptToolbox
    ) -> None:
        self.events, self.node, self._toolbox = attempt_events, node, toolbox
        self._machine, self.host = where.machine, where.host
        self.record, self.attempt = attempt_events.record, attempt_events.attempt
        self._policy = self.host.plan.condense
        self._asked_again = 0  #: how often
        self._condensed = self._shrunk = 0
        self._reason = ""  #: why it is to continue from a summary, once its present step is over
        self._ordered = False
        self._open: set[str] = set()  #: calls of tools that have not returned
        self._worked = False  #: in this turn

    async def work(self, scene: TurnContext, asked: AgentTask) -> Exit:
        """Work until nothing is left to tell the agent; return how its last turn ended."""
        ended = await self._turn(scene, asked)
        while (following := await self._next(scene, asked, ended.why)) is not None:
            asked = following
            ended = await self._turn(scene, asked)
        return ended

    async def _turn(self, scene: TurnContext, asked: AgentTask) -> Exit:
        self._open.clear()
        self._worked = self._ordered = False
        self._reason = ""
        known = self.attempt.model or scene.dressed.profile.model
        facts = scene.dressed.agent.facts
        if self._policy.at and (facts.keys or facts.login):  # soon the library is asked for its model's window
            asyncio.get_running_loop().run_in_executor(None, costs.load_prices)
        self.events.gauge = Gauge(self._policy.at, load_windows(self._policy.windows), known)
        if self.node.program is not None:
            return await self._toolbox.programs.run_node(self.node.program, asked.prompt, scene.limits, scene.ears.emit)
        ended = await self._machine.work(scene.workspace, scene.dressed, asked, scene.limits, scene.ears)
        self._toolbox.last_word()
        return ended

    async def _next(self, scene: TurnContext, asked: AgentTask, why: str) -> AgentTask | None:
        ended = self.events.ended
        if self.host.stop.is_set() or why not in ENDED or self.record.by_hand:
            return None
        well = ended is not None and ended.ok
        if not well and (why == "cut" or _too_long(ended)):
            return await self._from_summary(scene, asked, ended)
        if well and self.record.steers:
            return self._steer_task(scene, asked)
        wrong = self._misfits(ended)
        return self._again(scene, asked, wrong) if wrong else None

    def ended_well(self, why: str) -> bool:
        ended = self.events.ended
        return why in ENDED and ended is not None and ended.ok and not self.host.stop.is_set()

    @property
    def task(self) -> Task:
        """Return its task, with what is special to this attempt."""
        task, conflicts = self.node.task, self.record.conflicts
        words = f"{task.handoff}\n\n{prompt.conflict_prompt(conflicts)}".strip() if conflicts else task.handoff
        return structs.replace(task, handoff=words)

    # --- the shape of its output

    def schema(self, resolved: ResolvedAgent) -> Mapping[str, Any] | None:
        """Return what the agent's output must fit, if its program takes that itself."""
        schema = self.node.output
        match resolved.agent.facts.schema:
            case "table" if schema is not None and schema.get("type") == "object":
                return schema
            case "strict" if schema is not None:
                return schemas.strict(schema)
            case _:
                return None

    def with_output_instruction(self, text: str, resolved: ResolvedAgent) -> str:
        """Say in words what the output must fit, to an agent whose program takes no schema, or not this one."""
        wanted = self.node.output if self.node.kind != "run" else None  # a command is run as it is
        return text if wanted is None or self.schema(resolved) else f"{text}\n\n{output.instruction(wanted)}"

    def _misfits(self, ended: Ended | None) -> tuple[str, ...]:
        schema = self.node.output
        if schema is None or ended is None or self._asked_again >= self._most_again or self.node.kind == "run":
            return ()
        if ended.ok and self.node.planning:
            return planned_flow.mistakes_in(ended, self.node)
        if ended.ok:
            return output.take(ended, schema).misfits
        return (ended.error.message,) if ended.error and ended.error.kind == "bad_output" else ()

    @property
    def _most_again(self) -> int:
        return planned_flow.MOST_TRIES - 1 if self.node.planning else 1

    def _again(self, scene: TurnContext, asked: AgentTask, wrong: tuple[str, ...]) -> AgentTask:
        """Ask once more for an output that fits; that is no retry, and uses up none."""
        self._asked_again += 1
        last = self.events.ended
        said = last.text if last else ""
        session = self._session()
        text = output.retry_prompt(self.node.output or {}, wrong)
        if session is None:
            worked = prompt.build(self.task, guide=scene.guide)
            text = output.reminder_prompt(worked, said) + "\n\n" + text
        self.events.emit(Rejected(wrong))
        return self._following(asked, text, session)

    # --- a user's messages

    def _steer_task(self, scene: TurnContext, asked: AgentTask) -> AgentTask:
        """Prepare the turn in which an agent gets the messages that it could not take while it worked."""
        steers, session = self._take_steers(), self._session()
        text = prompt.steer_prompt(self.task, steers, remembers=session is not None, guide=scene.guide)
        self.events.new_turn()
        return self._following(asked, self.with_output_instruction(text, scene.dressed), session)

    def _take_steers(self) -> tuple[str, ...]:
        steers = self.record.steers
        for text in steers:
            self.events.emit(SteerTaken(text))
        return steers

    def _session(self) -> str | None:
        return self.attempt.session if self.record.resumes else None

    def _following(self, asked: AgentTask, text: str, session: str | None) -> AgentTask:
        self._toolbox.new_turn()
        self.host.keep("prompt-next.txt", text)
        left = self.events.budget.left_usd()
        return structs.replace(asked, prompt=text, session=session, interrupted=False, budget_usd=left)

    # --- a window that is full

    def on_event(self, event: Event) -> None:
        """Watch the agent's steps: between two of them it may be led over into a fresh session."""
        if isinstance(event, CalledTool):
            self._open.add(event.call)
            return
        if isinstance(event, ToolReturned):
            self._open.discard(event.call)
            self._worked = True
        gauge = self.events.gauge
        if not self._reason and gauge and gauge.over and self._condensed < self._policy.most:
            self._reason = gauge.words()
        if self._reason and not self._open and (self._ordered or isinstance(event, ToolReturned)):
            self._machine.cut()

    def condense(self, by: str) -> bool:
        """Lead the agent over when its present step is over; return whether it is at work at all."""
        if (
            self.record.by_hand
            or self.record.phase != "working"
            or not self._machine.report.at_work
            or self.node.kind != "task"
        ):
            return False
        self._reason, self._ordered = f"asked for by {by}", True
        asyncio.get_running_loop().call_later(CUT_SECONDS, self._cut_now)
        return True

    def _cut_now(self) -> None:
        if self._ordered:
            self._machine.cut()

    async def _from_summary(self, scene: TurnContext, asked: AgentTask, ended: Ended | None) -> AgentTask | None:
        """Prepare a turn in a fresh session; None where that would not help."""
        reason = self._reason or f"its context became too long: {ended.error.message if ended and ended.error else ''}"
        facts = gather_facts(self.events.story(), f"{self._machine.path_of(scene.workspace)}/work")
        if not self._worked and not self._ordered:
            if not facts.summaries or self._shrunk == MOST_SHRUNK:
                return None  # its very first words are too long
            self._shrunk += 1
        if self._condensed >= self._policy.most:
            self.events.emit(Noted(f"it was condensed {self._condensed} times already: [condense] most"))
            return None
        text, by = await self._summary(facts)
        if self.host.stop.is_set():
            return None
        self._condensed += 1
        number = facts.summaries + 1
        place = f"condensed/steps-{number}.md"
        steps = transcript(facts, MOST_TRANSCRIPT).encode(errors="replace")
        await self._machine.put(scene.workspace, place, steps)
        self.host.keep(f"summary-{number}.md", text)
        self._take_steers()
        self.events.emit(Condensed(number, reason[:MOST_REASON], text, by, self.attempt.session))
        summed_up = prompt.from_summary(self.task, text, f"~/{place}", guide=scene.guide)
        return self._following(asked, self.with_output_instruction(summed_up, scene.dressed), None)

    async def _summary(self, facts: Facts) -> tuple[str, str]:
        """Return a summary, and who wrote it."""
        task, steers = self.node.task, self.record.steers
        window = self.events.gauge.window if self.events.gauge else window_of(None, {})
        most = min(MOST_SUMMARY, int(SHARE * window)) >> self._shrunk
        made = build_summary(task, facts, most, steers)
        if not self._policy.agent or self._shrunk:
            return made, "rules"
        question = summary_question(task, facts, most)
        answer = await ask_for_summary(self.host, self._policy.agent, question, self.events.count_other_agent)
        if not answer.text.strip() or len(answer.text) > 2 * most + 2000:
            self.events.emit(Noted(f"{self._policy.agent} gave no summary ({answer.trouble}): it is made by rules"))
            return made, "rules"
        whole = not missing_facts(answer.text, must_keep(task, facts, steers))
        return answer.text if whole else complete_summary(answer.text, task, facts, steers), self._policy.agent


def _too_long(ended: Ended | None) -> bool:
    return ended is not None and ended.error is not None and ended.error.kind == "context_too_long"


class ModelSizeTable(Struct, frozen=True):
    dated: str
    note: str
    windows: dict[str, int]
    answers: dict[str, int]


@cache
def size_table() -> ModelSizeTable:
    return msgspec.json.decode(SIZES_FILE.read_bytes(), type=ModelSizeTable)


class Windows(Mapping[str, int]):
    """Whole names are looked up by the library too; the rest goes by how a name begins."""

    def __init__(self, own: Mapping[str, int]) -> None:
        self._own, self._begins = own, {**size_table().windows, **own}

    def __getitem__(self, name: str) -> int:
        if (found := self._of_library(name)) is not None:
            return found
        return self._begins[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._begins)

    def __len__(self) -> int:
        return len(self._begins)

    def _of_library(self, name: str) -> int | None:
        low = name.lower().rpartition("/")[2]
        said = any(low.startswith(key.lower()) for key in self._own)
        if said or name in self._begins or name.endswith("[1m]") or name.startswith("/"):  # a path is a script
            return None
        whole = costs.context_window(name)
        kept = max((key for key in size_table().answers if low.startswith(key)), key=len, default=None)
        if (
            whole is None or kept is None or 3 * size_table().answers[kept] > whole
        ):  # those that hold little keep little
            return whole
        return whole - size_table().answers[kept]


def load_windows(own: Mapping[str, int]) -> Windows:
    """Return the table that holds for a run."""
    return Windows(own)


class SummaryAnswer(Struct, frozen=True):
    """What came back: words, or why there are none."""

    text: str = ""
    trouble: str = ""


def summary_question(task: Task, facts: Facts, most: int) -> str:
    """Return what the other agent is asked."""
    kept = "\n".join(f"- {item}" for item in must_keep(task, facts))
    return prompt.for_summary(kept, transcript(facts, 10 * most), most)


async def ask_for_summary(host: Host, named: str, question: str, spent: SummarySpending) -> SummaryAnswer:
    """Ask an agent, NAME or NAME:MODEL, and return its last words; it never fails the attempt."""
    choice = AgentChoice.read(named)
    folder = host.state / "workspaces" / f"{host.attempt}-condense"
    heard: list[Event] = []
    metered: list[Tokens] = []
    plan = structs.replace(host.plan, setup=Setup())
    beside = Host(plan, Task(prompt=question), host.repository, host.state, folder.name)
    beside.base, beside.stop, beside.redactor = None, host.stop, host.redactor
    try:
        settings = load_trusted_settings(Path(plan.repo), host.state, trust=False)
        resolved = await resolved_agent.resolve_variant(
            resolve_agent(choice.name, settings, choice.account), host.state
        )
        made = await beside.make(folder, None)
        await beside.fit(made, scope.of_agent(plan.scopes, choice.name))
        asked = AgentTask(prompt=question, workspace="", home="", model=choice.model, read_only=True)
        listeners = AgentListeners(heard.append, _ignore_host, lambda _, tokens, __: metered.append(tokens))
        ended = await beside.work(made, resolved, asked, SUMMARY_LIMITS, listeners)
    except (CorralError, OSError) as error:
        return SummaryAnswer(trouble=str(error))
    finally:
        await checkout.remove(folder)
    _settle_summary(heard, metered, spent)
    last = next((event for event in reversed(heard) if isinstance(event, Ended)), None)
    if last is None or not last.ok:
        reason = last.error.message if last and last.error else f"it ended so: {ended.why}"
        return SummaryAnswer(trouble=reason)
    return SummaryAnswer(text=last.text)


def _settle_summary(heard: list[Event], metered: list[Tokens], spent: SummarySpending) -> None:
    reported = [event for event in heard if isinstance(event, Spent)]
    tokens = reported[-1].tokens if reported else sum(metered, Tokens())
    spent(tokens, reported[-1].usd if reported else None)


def _ignore_host(host: str, port: int, allowed: bool, reason: str) -> None:  # noqa: FBT001
    """Tell nobody which hosts it asked for: it works on no task."""
