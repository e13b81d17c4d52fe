"""The installed command, run as a user would run it: a fresh home, a fresh state folder, nothing of this machine."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

PROGRAM = Path(sys.executable).parent / "corral"
TIMEOUT_SECONDS = 240.0


class Outcome:
    """What a command left behind: code, stdout, stderr."""

    def __init__(self, code: int, out: bytes, err: bytes) -> None:
        self.code, self.bytes = code, out
        self.out, self.err = out.decode(errors="replace"), err.decode(errors="replace")

    @property
    def json(self) -> Any:  # noqa: ANN401 -- it is what the command printed
        if not self.out:
            raise AssertionError(f"nothing on stdout; exit {self.code}; stderr: {self.err}")
        return json.loads(self.out)

    @property
    def attempt(self) -> dict[str, Any]:
        """The last attempt of the run document."""
        return self.json["nodes"][-1]["attempts"][-1]

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    def __repr__(self) -> str:
        return f"exit {self.code}\n--- stdout\n{self.out[-4000:]}\n--- stderr\n{self.err[-4000:]}"


class RunningCommand:
    """A command that is running."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self, timeout: float = TIMEOUT_SECONDS) -> Outcome:
        out, err = self.process.communicate(timeout=timeout)
        return Outcome(self.process.returncode, out, err)


class TerminalUser:
    """A user at a terminal, with nothing but what a test gives them."""

    def __init__(self, root: Path, program: Sequence[str] = (str(PROGRAM),)) -> None:
        self.root, self.program = root, list(program)
        self.home, self.settings, self.user_home = root / "state", root / "config", root / "user"
        self.user_home.mkdir(parents=True)
        self.env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.user_home),
            "CORRAL_HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.settings),
            "LANG": "C.UTF-8",
        }

    @property
    def config_file(self) -> Path:
        return self.settings / "corral" / "config.toml"

    def config(self, text: str) -> None:
        """Add to the user's own settings."""
        self.config_file.parent.mkdir(parents=True, exist_ok=True)
        with self.config_file.open("a") as file:
            file.write(text + "\n")

    def __call__(
        self,
        *arguments: str | Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        timeout: float = TIMEOUT_SECONDS,
    ) -> Outcome:
        done = subprocess.run(
            [*self.program, *map(str, arguments)],
            cwd=cwd or self.root,
            env={**self.env, **(env or {})},
            input=stdin,
            capture_output=True,
            check=False,
            timeout=timeout,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    @contextlib.contextmanager
    def in_background(
        self, *arguments: str | Path, cwd: Path | None = None, stderr: int = subprocess.PIPE
    ) -> Generator[RunningCommand]:
        """Start a command and continue; it is gone when the block is left."""
        process = subprocess.Popen(
            [*self.program, *map(str, arguments)],
            cwd=cwd or self.root,
            env=self.env,
            bufsize=0,  # what is read line by line is not held back from `end`
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
        try:
            yield RunningCommand(process)
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate(timeout=TIMEOUT_SECONDS)

    def events(self, run: str = "@last") -> list[dict[str, Any]]:
        outcome = self("logs", run, "--json")
        return outcome.json_lines if outcome.code == 0 else []
