"""Every strategy is a function that builds a flow."""

from __future__ import annotations

from corral.model import AgentChoice, Flow, Node, Task


def single(task: Task, agent: AgentChoice, fallback: tuple[AgentChoice, ...] = ()) -> Flow:
    """Build the flow of one task for one agent."""
    return Flow(name="task", strategy="single", nodes=(Node(id="main", task=task, agent=agent, fallback=fallback),))
