"""Whether the machines that a flow asks for are there: found out before anything starts."""

from __future__ import annotations

from pathlib import Path

from corral.config.settings import Config
from corral.engine.planning.preflight import Findings
from corral.machines.frames import MachineLost
from corral.machines.remote.link import MachineLink, current_links
from corral.machines.resolved_agent import PLAYERS, resolve_agent
from corral.model.agent_api import AgentTask
from corral.model.errors import BadRequest
from corral.model.flow import AgentChoice, Flow, Node
from corral.rules.schedule.placement import MachineRoom, fitting_machines


async def check(flow: Flow, settings: Config, state: Path, findings: Findings, *, connect: bool) -> None:
    """Refuse machines that nobody set up, that cannot be reached, or that lack what their attempts need."""
    rooms = [MachineRoom(name=name, slots=each.slots, labels=each.labels) for name, each in settings.machines.items()]
    for node in flow.nodes:
        if node.machine is None:
            continue
        with findings.at(node.id, "machine"):
            fitting = fitting_machines(node.machine, rooms)
            if connect:
                await _check_any(node, [current_links(state).link(each.name, settings.machines[each.name])
                                        for each in fitting], settings)  # fmt: skip


async def _check_any(node: Node, links: list[MachineLink], settings: Config) -> None:
    """Look for one machine that will do; the first that does not says why."""
    troubles: list[BadRequest] = []
    for link in links:
        try:
            await _check_machine(node, link, settings)
        except BadRequest as error:
            troubles.append(error)
        except MachineLost as error:
            troubles.append(BadRequest(str(error), hint=error.hint))
        else:
            return
    raise troubles[0]


async def _check_machine(node: Node, link: MachineLink, settings: Config) -> None:
    connection = await link.connect()
    if link.facts is None:
        return
    link.check(link.facts)
    wanted = {choice.name: _program(choice, node, settings) for choice in (node.agent, *node.rivals, *node.fallback)}
    named = [program for program in wanted.values() if program]
    found = await connection.ask("programs", named, dict[str, str]) if named else {}
    for agent, program in wanted.items():
        if program and program not in found:
            install = resolve_agent(agent, settings).agent.facts.install
            raise BadRequest(
                f"the machine `{link.name}` has no program `{program}`, which the agent `{agent}` needs",
                hint=f"there: {install}" if install else f"install it on `{link.name}`",
            )


def _program(choice: AgentChoice, node: Node, settings: Config) -> str | None:
    """Return the program that a machine must have for an agent; None: it has it, or it goes along."""
    resolved = resolve_agent(choice.name, settings, choice.account)
    trial = AgentTask(prompt=node.task.prompt, workspace="/", home="/", model=choice.model)
    command = resolved.agent.start(trial)
    first = command.argv[0]
    own = first in PLAYERS or first.startswith("corral:") or 0 in resolved.programs.scripts(command)
    return None if own else first
