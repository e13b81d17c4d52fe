"""What corral adds to a task: against a worktree, the program and a diff, and against bare agents; 20 tasks at once."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from bench.measure import Promise, interleaved
from corral import agents
from corral.agents import Agent
from corral.engine.engine import Engine
from corral.model import Level, Request, Run
from corral.model.agent_api import AgentProfile, AgentTask
from corral.model.events import RunEvent
from corral.testing import ScriptedModel, Turn

BY_HAND = "git worktree add --detach + exec + git diff + git worktree remove"
AT_ONCE = 20
KEY = "sk-scripted-0123456789"
AGENT = "#!/bin/sh\necho 'a change' >> file-1.txt\n"
GIT = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}


def measure() -> list[Promise]:
    with place() as folder:
        return _measure(folder)


def _measure(place: Path) -> list[Promise]:
    agent, repository = trivial_agent(place), repository_at(place / "repository")
    with EngineInUse(place) as corral:
        bare, boxed, unboxed = interleaved(
            15,
            lambda: _bare(repository, [str(agent)]),
            lambda: corral.run(repository, "trivial"),
            lambda: corral.run(repository, "trivial", boxed=False),
        )
    return [
        Promise("a task with a trivial agent, in the box", BY_HAND, boxed / bare, 4.0, "goal 2.9"),
        Promise("the same at level none", BY_HAND, unboxed / bare, 3.0, "goal 2.5"),
        _at_once(place, repository, bare),
        *_agents(place, repository),
    ]


def _at_once(place: Path, repository: Path, bare: float) -> Promise:
    """So many tasks of one flow, by the command, against as many by hand, one after the other."""
    nodes = "".join(f"  n{number}: {{task: do it, agent: trivial}}\n" for number in range(AT_ONCE))
    flow = place / "at-once.yaml"
    flow.write_text(f"name: at-once\nnodes:\n{nodes}")
    argv = [str(Path(sys.executable).with_name("corral")), "flow", "run", str(flow), "--repo", str(repository), "--yes"]
    env = {**os.environ, "CORRAL_HOME": str(place / "state")}
    (taken,) = interleaved(3, lambda: subprocess.run(argv, env=env, check=True, capture_output=True))
    name = f"{AT_ONCE} tasks at once in one `corral flow run`, in the box"
    return Promise(name, f"{AT_ONCE} by hand, one after the other", taken / (AT_ONCE * bare), 3.0, "goal 2.5")


def _agents(place: Path, repository: Path) -> list[Promise]:
    """Whole runs of real agents, boxed and bare: the same command, written by the agent's own file."""
    found = importlib.util.find_spec("claude_agent_sdk")
    if found is None or found.origin is None:
        raise SystemExit("the real claude is not installed: run tools/bootstrap dev")
    programs = Path(Path(".venv/agents").read_text(encoding="utf-8").strip())
    os.environ["PATH"] = f"{programs}:{os.environ['PATH']}"
    claude = str(Path(found.origin).parent / "_bundled" / "claude")
    return [
        _agent(
            place, repository, "claude", {"ANTHROPIC_BASE_URL": "", "ANTHROPIC_API_KEY": KEY}, program=claude, most=1.15
        ),
        _agent(place, repository, "codex:gpt-5", {"OPENAI_BASE_URL": "/v1", "OPENAI_API_KEY": KEY}),
        _agent(
            place,
            repository,
            "gemini:gemini-2.5-flash",
            {"GOOGLE_GEMINI_BASE_URL": "", "GEMINI_API_KEY": KEY},
            most=1.15,
        ),
    ]


def _agent(
    place: Path,
    repository: Path,
    choice: str,
    settings: dict[str, str],
    *,
    program: str | None = None,
    most: float = 1.2,
) -> Promise:
    name, _, model = choice.partition(":")
    turns = [Turn(text="I write.", sh="echo more >> file-2.txt"), Turn(text="Done.")]
    with ScriptedModel(turns) as served:
        given = {key: served.url + value if key.endswith("_URL") else value for key, value in settings.items()}
        profile = AgentProfile(settings=given, program=program)
        words = ", ".join(f'{key} = "{value}"' for key, value in given.items())
        named = f'program = "{program}"\n' if program else ""
        configure(place, f"[agents.{name}]\n{named}settings = {{ {words} }}\n")
        with EngineInUse(place) as corral:
            bare, boxed = interleaved(
                7,
                lambda: _bare_agent(place, repository, agents.find(name, {name: profile}), model or None, given),
                lambda: corral.run(repository, choice),
            )
    return Promise(f"a task with the real {name}, in the box", f"a bare {name} run", boxed / bare, most)


def _bare_agent(place: Path, repository: Path, agent: Agent, model: str | None, settings: dict[str, str]) -> None:
    home = place / f"home-{uuid.uuid4().hex}"
    home.mkdir()
    command = agent.start(AgentTask(prompt="do it", workspace=str(repository), home=str(home), model=model))
    for name, content in command.files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(content)
    base = {"PATH": os.environ["PATH"], "HOME": str(home), "IS_SANDBOX": "1"}
    subprocess.run(
        command.argv,
        cwd=repository,
        env={**base, **command.env, **settings},
        input=command.stdin,
        check=True,
        capture_output=True,
    )
    run_git(repository, "checkout", "--quiet", ".")


def _bare(repository: Path, argv: list[str]) -> None:
    tree = repository.parent / f"tree-{uuid.uuid4().hex}"
    run_git(repository, "worktree", "add", "--quiet", "--detach", str(tree))
    subprocess.run(argv, cwd=tree, check=True, capture_output=True)
    run_git(tree, "diff", "HEAD")
    run_git(repository, "worktree", "remove", "--force", str(tree))


class EngineInUse:
    """An engine that is already up."""

    def __init__(self, place: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._engine = Engine(place / "state")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.close()
        for task in asyncio.all_tasks(self._loop):  # connections to other machines
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.1))
        self._loop.close()

    def run(
        self,
        repository: Path,
        agent: str,
        *,
        boxed: bool = True,
        checks: tuple[str, ...] = (),
        machine: str | None = None,
    ) -> None:
        level: Level = "strict" if boxed else "none"
        request = Request(
            prompt="do it",
            repo=str(repository),
            agents=(agent,),
            checks=checks,
            require=level,
            unsandboxed=not boxed,
            machine=machine,
        )
        done = self._loop.run_until_complete(self._run(request))
        if done.status != "done":
            raise SystemExit(f"the run is not done: {done.reason}")

    async def _run(self, request: Request) -> Run:
        return await self._engine.execute(await self._engine.submit(request), _unheard)


def _unheard(_: RunEvent) -> None:
    """Listen to nothing."""


@contextmanager
def place() -> Generator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="corral-bench-"))
    before = os.environ.get("XDG_CONFIG_HOME")
    os.environ["XDG_CONFIG_HOME"] = str(folder / "config")
    try:
        yield folder
    finally:
        if before is None:
            del os.environ["XDG_CONFIG_HOME"]
        else:
            os.environ["XDG_CONFIG_HOME"] = before
        shutil.rmtree(folder, ignore_errors=True)


def trivial_agent(place: Path, text: str = AGENT) -> Path:
    """Make a program that is an agent called `trivial`."""
    agent = place / "agent.sh"
    agent.write_text(text)
    agent.chmod(0o755)
    configure(place, f'[agents.trivial]\ncommand = ["{agent}"]\nprompt = "stdin"\n')
    return agent


def configure(place: Path, text: str) -> None:
    file = place / "config" / "corral" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def repository_at(folder: Path) -> Path:
    folder.mkdir()
    for number in range(20):
        (folder / f"file-{number}.txt").write_text(f"file {number}\n" * 20)
    run_git(folder, "init", "--quiet", "-b", "main")
    run_git(folder, "add", ".")
    run_git(
        folder, "-c", "user.name=You", "-c", "user.email=you@example.org", "commit", "--quiet", "-m", "twenty files"
    )
    return folder


def run_git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, env=GIT, check=True, capture_output=True)
