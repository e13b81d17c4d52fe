"""Agents that talk: flows of programs that do with their toolbox exactly what a test says."""

import base64
import json
import textwrap
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tests.rig.command import Corral, RunningCommand
from tests.rig.repository import Repo

CALLER = Path(__file__).parent / "tool_caller.py"


def caller(corral: Corral, name: str = "caller", way: str = "http", more: str = "") -> str:
    """Make the program that does what its task says an agent of the person's; return its name."""
    corral.config(f'[agents.{name}]\ncommand = ["python3", "{CALLER}", "{way}"]\noutput = "acp"\n{more}\n')
    return name


def task(source: str) -> str:
    """Return a task that is a program; wrapped up, so that one may stand in another."""
    return f"Do this: <<{base64.b64encode(textwrap.dedent(source).encode()).decode()}>>"


def node(source: str, agent: str = "caller", **more: Any) -> dict[str, Any]:
    return {"task": task(source), "agent": agent, "retries": 0, **more}


def command(corral: Corral, repo: Repo, nodes: dict[str, dict[str, Any]], **more: Any) -> tuple[str | Path, ...]:
    """Return the command that runs a flow of these nodes."""
    file = corral.root / "talk.json"
    file.write_text(json.dumps({"name": "talk", "nodes": nodes, **more}))
    return "flow", "run", file, "--repo", repo.folder, "--json"


def flow(corral: Corral, repo: Repo, nodes: dict[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    """Run a flow to its end, which is a good one; return its document."""
    outcome = corral(*command(corral, repo, nodes, **more))
    assert outcome.code == 0, outcome
    return outcome.json


def going(
    corral: Corral, repo: Repo, nodes: dict[str, dict[str, Any]], **more: Any
) -> AbstractContextManager[RunningCommand]:
    """Start a flow; it does not outlive the block."""
    return corral.going(*command(corral, repo, nodes, **more))


def left(repo: Repo, run: dict[str, Any], name: str, path: str) -> str:
    """Return a file as a node has left it."""
    attempts = next(each for each in run["nodes"] if each["id"] == name)["attempts"]
    return repo.read(attempts[-1]["branch"], path)
