"""A program that carries out one task and prints what it cost in counts: `python task_counts.py FOLDER LEVEL`."""

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from corral.engine.engine import Engine
from corral.model import Request
from corral.world.workspace.outside_changes import YOUNG_SECONDS

COUNTS: Counter[str] = Counter()
PROGRAMS: list[str] = []
CONNECTIONS: list[sqlite3.Connection] = []
GAUGES = ("members", "memory_bytes", "DiskUse.measure")  #: of a box: they look again and again
_CHANGES: dict[int, int] = {}
_SYNCED: set[int] = set()  #: connections whose transactions are on the disk when they end


def heard(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen":
        PROGRAMS.append(describe([os.fsdecode(word) for word in arguments[1]]))
    elif event == "sqlite3.connect/handle":
        CONNECTIONS.append(arguments[0])  # not open yet


def count_statement(connection: sqlite3.Connection, statement: str) -> None:
    """Count transactions; one that changed something is on the disk before it ends."""
    if statement.startswith("BEGIN IMMEDIATE"):
        COUNTS["transactions"] += 1
        _CHANGES[id(connection)] = connection.total_changes
    elif statement.startswith("PRAGMA synchronous"):
        (_SYNCED.add if statement.endswith("FULL") else _SYNCED.discard)(id(connection))
    elif statement == "COMMIT" and connection.total_changes != _CHANGES.get(id(connection)):
        COUNTS["durable transactions"] += id(connection) in _SYNCED


def describe(words: list[str]) -> str:
    """Name what is started: a command of git, or the program behind a launcher."""
    words = words[words.index("--") + 1 :] if "--" in words and "launcher" in words[0] else words
    if Path(words[0]).name != "git":
        return Path(words[0]).name
    rest = iter(words[1:])
    for word in rest:
        if word == "-c":
            next(rest)
        elif not word.startswith("-"):
            return f"git {word}"
    return "git"


def counted(sync: Callable[[int], None]) -> Callable[[int], None]:
    """Count in threads too, which a profile does not see that begins after them."""

    def count(descriptor: int) -> None:
        COUNTS["syncs of files"] += 1
        sync(descriptor)

    return count


def called(frame: Any, event: str, _: Any) -> None:
    if event == "call" and frame.f_code.co_name == "run_in_executor":
        words = repr(frame.f_locals.get("func"))
        COUNTS["thread hops"] += not any(gauge in words for gauge in GAUGES)
    elif event == "call" and frame.f_code.co_name == "_inotify":
        COUNTS["change signals"] += 1  # to close one blocks the process for many milliseconds


async def carry_out(engine: Engine, repository: Path, level: str) -> None:
    request = Request(
        prompt="do it",
        repo=str(repository),
        agents=("trivial",),
        require="none" if level == "none" else "strict",
        unsandboxed=level == "none",
    )
    done = await engine.execute(await engine.submit(request), lambda _: None)
    assert done.status == "done", done.reason


def is_young(repository: Path) -> bool:
    newest = max(path.lstat().st_ctime for path in (repository, *repository.rglob("*")) if ".git/" not in str(path))
    index = (repository / ".git" / "index").stat().st_ctime
    return max(newest, index) > time.time() - YOUNG_SECONDS - 0.5


def main() -> None:
    folder, level = Path(sys.argv[1]), sys.argv[2]
    agent = folder / "agent.sh"
    agent.write_text("#!/bin/sh\necho 'a change' >> file-1.txt\n")
    agent.chmod(0o755)
    settings = Path(os.environ["XDG_CONFIG_HOME"]) / "corral" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'[agents.trivial]\ncommand = ["{agent}"]\nprompt = "stdin"\n')
    repository = folder / "repository"
    repository.mkdir()
    (repository / "file-1.txt").write_text("one\n")
    who = ["-c", "user.name=You", "-c", "user.email=you@example.org"]
    for words in (["init", "-q", "-b", "main"], ["add", "."], [*who, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", *words], cwd=repository, check=True)
    sys.addaudithook(heard)
    engine = Engine(folder / "state")
    with asyncio.Runner() as runner:
        carry = partial(carry_out, engine, repository, level)
        runner.run(carry())  # what is asked once for all is known then
        while is_young(repository):  # its files are not compared by their times alone yet
            time.sleep(0.05)  # not with tasks: after many of them git's packs are folded, and that is counted
        runner.run(carry())
        (Path.home() / ".gitconfig").write_text("[user]\nname = You\n")  # what git said a moment ago holds no more
        _SYNCED.update(map(id, CONNECTIONS))
        for connection in CONNECTIONS:
            connection.set_trace_callback(partial(count_statement, connection))
        os.fsync, os.fdatasync = counted(os.fsync), counted(os.fdatasync)
        COUNTS.clear()
        PROGRAMS.clear()
        threading.setprofile(called)
        sys.setprofile(called)
        runner.run(carry())
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    engine.close()
    sys.stdout.write(json.dumps({**COUNTS, "programs": sorted(PROGRAMS)}))


if __name__ == "__main__":
    main()
