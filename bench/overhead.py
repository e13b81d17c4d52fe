"""What corral adds to a task: against `git worktree add` + the program + `git diff`, and against a bare claude."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from bench.measure import Promise, interleaved
from corral.engine.engine import Engine
from corral.events import Heard
from corral.model import Level, Request, Run
from corral.testing import ScriptedModel, Turn

AGENT = "#!/bin/sh\necho 'a change' >> file-1.txt\n"
GIT = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}


def measure() -> list[Promise]:
    with _place() as place:
        agent = place / "agent.sh"
        agent.write_text(AGENT)
        agent.chmod(0o755)
        repository = _repository(place / "repository")
        _configure(place, f'[agents.trivial]\ncommand = ["{agent}"]\nprompt = "stdin"\n')
        with _Corral(place) as corral:
            bare, boxed, unboxed = interleaved(
                15,
                lambda: _bare(repository, [str(agent)]),
                lambda: corral.run(repository, "trivial"),
                lambda: corral.run(repository, "trivial", boxed=False),
            )
        return [
            Promise(
                "a task with a trivial agent, in the box",
                "git worktree add + exec + git diff",
                boxed / bare,
                5.0,
                "goal 3.5",
            ),
            Promise("the same at level none", "git worktree add + exec + git diff", unboxed / bare, 2.0),
            *_claude(place, repository),
        ]


def _claude(place: Path, repository: Path) -> list[Promise]:
    found = importlib.util.find_spec("claude_agent_sdk")
    if found is None or found.origin is None:
        raise SystemExit("the real claude is not installed: run tools/bootstrap dev")
    program = Path(found.origin).parent / "_bundled" / "claude"
    turns = [Turn(text="I write.", sh="echo more >> file-2.txt"), Turn(text="Done.")]
    with ScriptedModel(turns) as model:
        env = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "sk-scripted"}
        settings = ", ".join(f'{key} = "{value}"' for key, value in env.items())
        _configure(place, f'[agents.claude]\nprogram = "{program}"\nsettings = {{ {settings} }}\n')
        with _Corral(place) as corral:
            bare, boxed = interleaved(
                7,
                lambda: _bare_claude(place, repository, program, env),
                lambda: corral.run(repository, "claude"),
            )
    return [Promise("a task with the real claude, in the box", "a bare claude run", boxed / bare, 1.15)]


def _bare(repository: Path, argv: list[str]) -> None:
    tree = repository.parent / f"tree-{uuid.uuid4().hex}"
    _git(repository, "worktree", "add", "--quiet", "-b", tree.name, str(tree))
    subprocess.run(argv, cwd=tree, check=True, capture_output=True)
    _git(tree, "diff", "HEAD")


def _bare_claude(place: Path, repository: Path, program: Path, env: dict[str, str]) -> None:
    home = place / f"home-{uuid.uuid4().hex}"
    home.mkdir()
    quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1", "DISABLE_AUTOUPDATER": "1"}
    argv = [str(program), "-p", "--output-format", "stream-json", "--verbose", "--strict-mcp-config"]
    argv += ["--permission-mode", "acceptEdits", "--allowedTools", "Bash"]
    subprocess.run(
        argv,
        cwd=repository,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / ".claude"), **quiet, **env},
        input=b"do it",
        check=True,
        capture_output=True,
    )
    _git(repository, "checkout", "--quiet", ".")


class _Corral:
    """An engine that is already up."""

    def __init__(self, place: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._engine = Engine(place / "state")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.close()
        self._loop.close()

    def run(self, repository: Path, agent: str, *, boxed: bool = True) -> None:
        done = self._loop.run_until_complete(self._run(repository, agent, boxed=boxed))
        if done.status != "done":
            raise SystemExit(f"the run is not done: {done.reason}")

    async def _run(self, repository: Path, agent: str, *, boxed: bool) -> Run:
        level: Level = "strict" if boxed else "none"
        request = Request(prompt="do it", repo=str(repository), agents=(agent,), require=level, unsandboxed=not boxed)
        return await self._engine.drive(await self._engine.submit(request), _unheard)


def _unheard(_: Heard) -> None:
    """Listen to nothing."""


@contextmanager
def _place() -> Generator[Path]:
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


def _configure(place: Path, text: str) -> None:
    file = place / "config" / "corral" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def _repository(folder: Path) -> Path:
    folder.mkdir()
    for number in range(20):
        (folder / f"file-{number}.txt").write_text(f"file {number}\n" * 20)
    _git(folder, "init", "--quiet", "-b", "main")
    _git(folder, "add", ".")
    _git(folder, "-c", "user.name=You", "-c", "user.email=you@example.org", "commit", "--quiet", "-m", "twenty files")
    return folder


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, env=GIT, check=True, capture_output=True)
