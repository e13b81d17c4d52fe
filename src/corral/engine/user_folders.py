"""Folders for users: results that they try, which `corral clean` removes, and the repository of `corral demo`."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from msgspec import Struct

from corral.attempt.repositories import repository_of, require
from corral.model import Attempt, RunPlan
from corral.model.errors import BadRequest
from corral.world import process
from corral.world.git import hidden_refs, merge_commits
from corral.world.git.command import ENV
from corral.world.process import ProcessStart
from corral.world.workspace import checkout

FOLDER = "opened"  #: of the state folder: one folder for each attempt
RIVALS = ("plain.toml", "wordy.toml", "careless.toml")  #: who race in it, all at once
YOU = ("-c", "user.name=You", "-c", "user.email=you@example.org")


class OpenedFolder(Struct, frozen=True, kw_only=True):
    run: str
    attempt: str
    commit: str
    folder: str
    new: bool  #: it was not there before


async def open_result(home: Path, run: str, plan: RunPlan, attempt: Attempt) -> OpenedFolder:
    """Lay the files of an attempt's commit into a folder of the user's; one that is there stays as it is."""
    if attempt.commit is None:
        raise BadRequest(f"{attempt.id} changed nothing: there is nothing to try", hint=f"corral logs {run}")
    folder = opened_folder(home, attempt.id)
    new = not folder.exists()
    if new:
        repository = repository_of(plan, home)
        await require(repository, run, [attempt.commit])
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        await hidden_refs.lay_files(
            repository, attempt.commit, folder, await merge_commits.neutral_environment(repository)
        )
    return OpenedFolder(run=run, attempt=attempt.id, commit=attempt.commit, folder=str(folder), new=new)


def opened_folder(home: Path, attempt: str) -> Path:
    return home / FOLDER / attempt


async def build(folder: Path) -> tuple[Path, Path]:
    """Make the repository and the script its agent plays; return both."""
    source = resources.files("corral").joinpath("demo")
    repository, script = folder / "calculator", folder / "agent.toml"
    repository.mkdir()
    for entry in source.joinpath("calculator").iterdir():
        (repository / entry.name.removesuffix(".txt")).write_text(entry.read_text())
    for name in ("agent.toml", *RIVALS):
        (folder / name).write_text(source.joinpath(name).read_text())
    await _run(repository, "git", "init", "--quiet", "--initial-branch=main")
    await _run(repository, "git", "add", ".")
    await _run(repository, "git", *YOU, "commit", "--quiet", "-m", "A calculator")
    return repository, script


async def failing_test(repository: Path, check: str) -> str:
    """Run the check on the repository as it is; return the lines that tell."""
    printed = await _run(repository, "sh", "-c", f"{check} 2>&1 || true")
    await checkout.remove(repository / "__pycache__")
    return "\n".join(line for line in printed.splitlines() if line.startswith(("AssertionError", "FAILED", "FAIL:")))


async def picture(repository: Path) -> str:
    """Draw where the branches are, and that the checkout is clean."""
    status = await _run(repository, "git", "status", "--short", "--branch")
    hidden = ("--exclude=refs/notes/*", "--exclude=refs/corral/*")
    graph = await _run(repository, "git", "log", *hidden, "--all", "--oneline", "--graph", "--decorate=short")
    return f"{status}\n{graph}"


async def _run(folder: Path, *argv: str) -> str:
    finished = await process.run(ProcessStart(argv=argv, env=ENV, cwd=str(folder)))
    return finished.out.decode(errors="replace").rstrip()
