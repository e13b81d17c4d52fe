"""Have another agent summarise what an attempt did: in a box of its own, with an empty workspace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, structs

from corral.attempt.trusted_settings import load
from corral.machines import program_variant, scope
from corral.machines.agent_lookup import resolve_agent
from corral.machines.host import AgentListeners, Host
from corral.model import Setup, Tokens
from corral.model.agent_api import AgentTask
from corral.model.errors import CorralError
from corral.model.events import Ended, Event, Spent
from corral.model.flow import AgentChoice, Task
from corral.rules.context import prompt, summary
from corral.rules.context.summary import Facts
from corral.world.process import ProcessLimits
from corral.world.workspace import checkout

LIMITS = ProcessLimits(timeout_seconds=300.0, idle_seconds=120.0)
Spending = Callable[[Tokens, float | None], None]


class SummaryAnswer(Struct, frozen=True):
    """What came back: words, or why there are none."""

    text: str = ""
    trouble: str = ""


def question(task: Task, facts: Facts, most: int) -> str:
    """Return what the other agent is asked."""
    kept = "\n".join(f"- {item}" for item in summary.must_keep(task, facts))
    return prompt.for_summary(kept, summary.transcript(facts, 10 * most), most)


async def ask(host: Host, named: str, told: str, spent: Spending) -> SummaryAnswer:
    """Ask an agent, NAME or NAME:MODEL, and return its last words; it never fails the attempt."""
    choice = AgentChoice.read(named)
    folder = host.state / "workspaces" / f"{host.attempt}-condense"
    heard: list[Event] = []
    metered: list[Tokens] = []
    plan = structs.replace(host.plan, setup=Setup())
    beside = Host(plan, Task(prompt=told), host.repository, host.state, folder.name)
    beside.base, beside.stop, beside.redactor = None, host.stop, host.redactor
    try:
        settings = load(Path(plan.repo), host.state, trust=False)
        resolved = await program_variant.resolve_variant(
            resolve_agent(choice.name, settings, choice.account), host.state
        )
        made = await beside.make(folder, None)
        await beside.fit(made, scope.of_agent(plan.scopes, choice.name))
        asked = AgentTask(prompt=told, workspace="", home="", model=choice.model, read_only=True)
        listeners = AgentListeners(heard.append, _ignore_host, lambda _, tokens, __: metered.append(tokens))
        ended = await beside.work(made, resolved, asked, LIMITS, listeners)
    except (CorralError, OSError) as error:
        return SummaryAnswer(trouble=str(error))
    finally:
        await checkout.remove(folder)
    _settle(heard, metered, spent)
    last = next((event for event in reversed(heard) if isinstance(event, Ended)), None)
    if last is None or not last.ok:
        reason = last.error.message if last and last.error else f"it ended so: {ended.why}"
        return SummaryAnswer(trouble=reason)
    return SummaryAnswer(text=last.text)


def _settle(heard: list[Event], metered: list[Tokens], spent: Spending) -> None:
    told = [event for event in heard if isinstance(event, Spent)]
    tokens = told[-1].tokens if told else sum(metered, Tokens())
    spent(tokens, told[-1].usd if told else None)


def _ignore_host(host: str, port: int, allowed: bool, reason: str) -> None:  # noqa: FBT001
    """Tell nobody which hosts it asked for: it works on no task."""
