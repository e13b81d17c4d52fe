"""The installed command as tests use it: agents, scripts and repositories at hand."""

from pathlib import Path
from typing import Any

from corral.testing.command import PROGRAM, Going, Outcome, Person
from corral.testing.watching import until
from tests.rig.repository import Repo

__all__ = ["PROGRAM", "Corral", "Going", "Outcome"]


class Corral(Person):
    """A person at a terminal, with nothing but what a test gives them."""

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

    # --- what the person types

    def run(self, repo: Repo | Path, task: str, *arguments: str, **more: Any) -> Outcome:
        """`corral run --json` in a repository."""
        folder = repo.folder if isinstance(repo, Repo) else repo
        return self("run", task, "--repo", folder, "--json", *arguments, **more)

    # --- what the person sees

    def until_said(self, word: str, run: str = "@last") -> None:
        """Wait until an agent has said `word`."""
        until(
            lambda: any(event["type"] == "said" and word in event["text"] for event in self.events(run)),
            f"an agent says {word}",
        )

    def leavings(self) -> list[str]:
        """Return the workspaces that are still there."""
        folder = self.home / "workspaces"
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
