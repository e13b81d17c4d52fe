"""Flows as tests write them: a file, an agent that does what its task says, and the nodes of the run by their names."""

from pathlib import Path
from typing import Any

from tests.rig.command import Corral, Outcome
from tests.rig.repository import Repo

#: Does what stands behind `DO:` in its task; `$PROMPT` is all it was told.
DOER = """PROMPT="$1"; export PROMPT
line=$(printf '%s\\n' "$1" | sed -n 's/^DO: //p' | tail -1)
eval "$line"
"""


def doer(corral: Corral, name: str = "doer", settings: str = "") -> str:
    """Let there be an agent that does what stands behind `DO:` in its task."""
    return corral.agent(name, DOER, settings)


def write(corral: Corral, text: str, name: str = "flow.yaml") -> Path:
    path = corral.root / name
    path.write_text(text)
    return path


def run_flow(corral: Corral, repo: Repo, text: str, *arguments: str) -> Outcome:
    """Carry a flow out; nodes that name no agent are the doer's."""
    file = write(corral, text)
    return corral("flow", "run", file, "--repo", repo.folder, "--agent", "doer", "--json", *arguments)


def nodes(outcome: Outcome) -> dict[str, dict[str, Any]]:
    return {node["id"]: node for node in outcome.json["nodes"]}


def statuses(outcome: Outcome) -> dict[str, str]:
    return {name: node["status"] for name, node in nodes(outcome).items()}


def winner(node: dict[str, Any]) -> dict[str, Any]:
    """Return the attempt that a node stands for."""
    return next(attempt for attempt in node["attempts"] if attempt["id"] == node["winner"])
