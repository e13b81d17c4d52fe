"""Runs whose work is to be merged, and what a person sees of a checkout."""

from pathlib import Path
from typing import Any

from tests.rig.command import Corral
from tests.rig.repository import Repo


def work(corral: Corral, repo: Repo, script: str, *arguments: str, name: str = "mine") -> dict[str, Any]:
    """Have a shell script do a task; return its run document."""
    agent = name if corral.config_file.exists() and f"[agents.{name}]" in corral.config_file.read_text() else ""
    if agent:
        (corral.config_file.parent / f"{name}.sh").write_text(f"#!/bin/sh\n{script}\n")
    else:
        agent = corral.agent(name, script)
    outcome = corral.run(repo, "a task", "--agent", agent, "--retries", "0", *arguments)
    assert outcome.json["status"] == "done", outcome
    return outcome.json


def merge_state(corral: Corral, run: str = "@last") -> dict[str, Any]:
    return corral("show", run, "--json").json["merge"]


def looks(repo: Repo, folder: Path | None = None) -> dict[str, str]:
    """Return all that undoing must bring back: every file of a checkout, what is staged, and where refs stand."""
    found = {key: value for key, value in repo.fingerprint().items() if not key.startswith(".git/")}
    place = Repo(folder) if folder else repo
    found["status"] = place.git("status", "--porcelain")
    found["staged"] = place.git("ls-files", "--stage")
    found["head"] = place.git("rev-parse", "--symbolic-full-name", "HEAD")
    return found
