"""The installed command as tests use it: agents, scripts and repositories at hand."""

import contextlib
import shlex
import sqlite3
import subprocess
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import psycopg

from corral.store.parts.runs import Runs
from corral.store.postgres.store import Store as PostgresStore
from corral.store.sqlite.store import Store as SqliteStore
from corral.testing.command import PROGRAM, TIMEOUT_SECONDS, Outcome, RunningCommand, TerminalUser
from corral.testing.stage import until
from tests.rig.preloaded import PRELOADED, ForkedProcess
from tests.rig.repository import Repo

__all__ = ["PROGRAM", "Corral", "Outcome", "RunningCommand"]


class Corral(TerminalUser):
    """A person at a terminal, with nothing but what a test gives them."""

    always_anew = False  #: each command is started as by a shell, not forked from a loaded process

    def __init__(self, root: Path, program: Sequence[str] = (str(PROGRAM),)) -> None:
        super().__init__(root, program)
        self._running: list[RunningCommand] = []

    # --- what the person has

    def agent(self, name: str, script: str, settings: str = "") -> str:
        """Make a shell script an agent; `$1` is the prompt unless settings say otherwise. Return its name."""
        self.config("")
        path = self.config_file.parent / f"{name}.sh"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        self.config(f'[agents.{name}]\ncommand = ["./{name}.sh"]\n{settings}')
        return name

    def script(self, text: str, name: str = "script.toml") -> str:
        """Write a file for the scripted agent; return what `--agent` takes."""
        path = self.root / name
        path.write_text(text)
        return f"scripted:{path}"

    def repo(self, name: str = "repo", files: dict[str, str] | None = None) -> Repo:
        return Repo.make(self.root / name, files)

    def on_another_machine(self, name: str = "far", folders: Mapping[Path, Path] | None = None) -> "Corral":
        """Return the command on a machine with another name and state folder, whose store is the same.

        `folders`: what lies at a path there, by that path; all others are the same folders as here.
        """
        assert "CORRAL_STORE" in self.env, "machines share a store in PostgreSQL alone"
        mounts = "".join(
            f"mount --bind {shlex.join(map(str, (own, path)))} && " for path, own in (folders or {}).items()
        )
        line = f'hostname {name} && {mounts}exec {shlex.join(self.program)} "$@"'
        made = Corral(self.root / name, ["unshare", "--uts", "--mount", "sh", "-c", line, "corral"])
        made.env.update({**self.env, "CORRAL_HOME": str(made.home)})
        return made

    # --- what the person types

    def __call__(
        self,
        *arguments: str | Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        timeout: float = TIMEOUT_SECONDS,
    ) -> Outcome:
        """Run the command to its end, in a process of its own that needs no imports; see `anew`."""
        with self.start(*arguments, cwd=cwd, env=env, stdin=subprocess.PIPE) as process:
            try:
                out, err = process.communicate(stdin, timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return Outcome(process.returncode, out, err)

    @contextlib.contextmanager
    def going(
        self, *arguments: str | Path, cwd: Path | None = None, stderr: int = subprocess.PIPE
    ) -> Generator[RunningCommand]:
        with self.start(*arguments, cwd=cwd, stderr=stderr, bufsize=0) as process:
            self._running.append(running := RunningCommand(process))
            try:
                yield running
            except Exception as error:
                error.add_note(self.state(process.pid))
                raise
            finally:
                self._running.remove(running)
                if process.poll() is None:
                    process.kill()
                process.communicate(timeout=TIMEOUT_SECONDS)

    in_background = going

    def state(self, pid: int) -> str:
        """Return what a command that is at work does now, for a test that has failed: its processes, and its log."""
        words = ["ps", "-eo", "pid,ppid,stat,etimes,wchan:24,args"]
        head, *lines = subprocess.run(words, capture_output=True, text=True, check=False).stdout.splitlines()
        below = {str(pid)}
        for line in lines:
            number, parent, *_ = line.split(None, 2)
            if parent in below or str(self.root) in line:
                below.add(number)
        processes = [line[:300] for line in lines if line.split(None, 1)[0] in below]
        listed, logged = (self(*command) for command in (("ls",), ("logs", "@last")))
        return "\n".join([head, *processes, listed.out, *logged.out.splitlines()[-40:], logged.err])

    def start(
        self,
        *arguments: str | Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: int | IO[bytes] = subprocess.PIPE,
        stderr: int | IO[bytes] = subprocess.PIPE,
        **more: Any,
    ) -> subprocess.Popen[bytes]:
        """Start the command, in a process that needs no imports where it would be the same."""
        words, whole = [*self.program, *map(str, arguments)], {**self.env, **(env or {})}
        forked = not self.always_anew and self.program == [str(PROGRAM)] and PRELOADED.fits(words, whole)
        kind = ForkedProcess if forked else subprocess.Popen[bytes]
        return kind(words, cwd=cwd or self.root, env=whole, stdin=stdin, stdout=stdout, stderr=stderr, **more)

    def anew(self, *arguments: str | Path) -> Outcome:
        """Run the command as a shell starts it: where its start is the subject, or the time that it takes."""
        return super().__call__(*arguments)

    def run(self, repo: Repo | Path, task: str, *arguments: str, **more: Any) -> Outcome:
        """`corral run --json` in a repository."""
        folder = repo.folder if isinstance(repo, Repo) else repo
        return self("run", task, "--repo", folder, "--json", *arguments, **more)

    # --- what the person sees

    def stored(self, query: str) -> list[tuple[Any, ...]]:
        """Ask the database behind the command, whichever kind it is."""
        if url := self.env.get("CORRAL_STORE"):
            with psycopg.connect(url, autocommit=True) as connection:
                return connection.execute(query.encode()).fetchall()
        with contextlib.closing(sqlite3.connect(self.home / "corral.db", timeout=60, isolation_level=None)) as database:
            return database.execute(query).fetchall()

    def store(self) -> Runs:
        """Open the store behind the command, whichever kind it is."""
        url = self.env.get("CORRAL_STORE")
        return PostgresStore(self.home, url) if url else SqliteStore(self.home)

    def is_sound(self) -> bool:
        """Tell whether the store says of itself that it is whole."""
        return self("store", "check").code == 0

    def until_said(self, word: str, run: str = "@last") -> None:
        """Wait until an agent has said `word`; fail at once, with their output, when all commands at work have ended."""

        def is_said() -> bool:
            ended = bool(self._running) and all(each.process.poll() is not None for each in self._running)
            if any(event["type"] == "said" and word in event["text"] for event in self.events(run)):
                return True
            assert not ended, f"ended before an agent said {word}: {[each.end() for each in self._running]}"
            return False

        try:
            until(is_said, f"an agent says {word}")
        except AssertionError as error:
            error.add_note(f"{self('show', run)}\n{self('logs', run)}")
            raise

    def leavings(self) -> list[str]:
        """Return the workspaces that are still there."""
        folder = self.home / "workspaces"
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
