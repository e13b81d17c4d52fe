"""What `corral demo` works on: a small repository with a bug, made anew each time."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from corral.world import process
from corral.world.git.repository import ENV
from corral.world.process import ProcessStart
from corral.world.workspace import checkout

RIVALS = ("plain.toml", "wordy.toml", "careless.toml")  #: who race in it, all at once
YOU = ("-c", "user.name=You", "-c", "user.email=you@example.org")


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
