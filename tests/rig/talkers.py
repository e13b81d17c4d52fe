"""Agents that talk: flows of them, run with the engine, as tests write them."""

import contextlib
import json
import subprocess
import sys
import textwrap
from collections.abc import Generator
from pathlib import Path
from typing import Any

from tests.rig.command import Corral
from tests.rig.repository import Repo

HERE = Path(__file__).parent
SECONDS = 60


def caller(corral: Corral, name: str = "caller", way: str = "http", more: str = "") -> str:
    """Make the program that does what its task says an agent of the person's; return its name."""
    command = f'["python3", "{HERE / "tool_caller.py"}", "{way}"]'
    corral.config(f'[agents.{name}]\ncommand = {command}\noutput = "acp"\n{more}\n')
    return name


def task(source: str) -> str:
    return f"Do this:\n```python\n{textwrap.dedent(source)}```"


def node(name: str, source: str, agent: str = "caller", **more: Any) -> dict[str, Any]:
    return {"id": name, "task": task(source), "agent": agent, **more}


@contextlib.contextmanager
def start(
    corral: Corral, repo: Repo, *nodes: dict[str, Any], **more: Any
) -> Generator[subprocess.Popen[str], None, None]:
    """Start a flow in a process of its own; it does not outlive the block."""
    file = corral.root / "flow.json"
    file.write_text(json.dumps({"nodes": nodes, **more}))
    argv = [sys.executable, str(HERE / "flow_run.py"), str(repo.folder), str(file)]
    with subprocess.Popen(
        argv, cwd=HERE.parents[1], env=corral.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def ended(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait for a flow's end; return its document."""
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, err
    return json.loads(out)


def flow(corral: Corral, repo: Repo, *nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Run a flow to its end; return its document."""
    with start(corral, repo, *nodes, **more) as process:
        return ended(process)


def left(repo: Repo, run: dict[str, Any], name: str, path: str) -> str:
    """Return a file as a node has left it."""
    attempts = next(each for each in run["nodes"] if each["id"] == name)["attempts"]
    return repo.read(attempts[-1]["branch"], path)
