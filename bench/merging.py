"""What a preview of a merge costs against git's own merge, and what the forecast of 20 attempts costs."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from bench.measure import Promise, interleaved, timed
from corral.engine.merge.merger import Merger
from corral.engine.merge.overlap import ConflictCache
from corral.engine.views import run_document
from corral.model import Attempt, AttemptRecord, NodeState, RunPlan, RunRecord
from corral.model.flow import AgentChoice, Flow, Node, Task
from corral.model.merge import MergeRequest
from corral.store.sqlite.store import Store
from corral.world.git.repository import Repository

FILES, CHANGED, ATTEMPTS = 10_000, 1_000, 20
ROUNDS = 5


def measure() -> list[Promise]:
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as name:
        folder = Path(name)
        git_dir, tips = _repository(folder)
        repository = Repository(git_dir, git_dir, work_tree=False, identity=("Bench", "bench@example.org"))
        store = Store(folder / "state")
        merger = _merger(store, repository, tips)
        pairs = [(one, other) for place, one in enumerate(tips[1:]) for other in tips[place + 2 :]]
        sample = pairs[::12]
        once = ["git", "--git-dir", str(git_dir), "merge-tree", "--write-tree"]
        bare, preview, pair = interleaved(
            ROUNDS,
            lambda: subprocess.run([*once, "main", "work0"], check=True, capture_output=True),
            lambda: asyncio.run(merger.preview(MergeRequest(run="bench"))),
            lambda: [subprocess.run([*once, *pair], check=False, capture_output=True) for pair in sample],
        )
        pair /= len(sample)
        whole, more = _forecast(folder, repository, pairs, (tips[6], tips[5]))
        store.close()
    return [
        Promise(
            f"merge preview, {FILES:,} files, {CHANGED:,} changed on both sides",
            "`git merge-tree`",
            preview / bare,
            1.2,
        ),
        Promise(f"forecast of {ATTEMPTS} attempts ({len(pairs)} pairs)", "one `git merge-tree`", whole / pair, 80.0),
        Promise("the same with one pair more", "one `git merge-tree`", more / pair, 2.0),
    ]


def _forecast(
    folder: Path, repository: Repository, pairs: list[tuple[str, str]], other: tuple[str, str]
) -> tuple[float, float]:
    """Time a forecast that remembers nothing, and then one with one pair more; return the medians."""
    taken: list[tuple[float, float]] = []
    for place in range(ROUNDS):
        known = folder / f"known-{place}.json"
        taken.append(
            (
                timed(lambda known=known: asyncio.run(ConflictCache(known).ask(repository, pairs))),
                timed(lambda known=known: asyncio.run(ConflictCache(known).ask(repository, [*pairs, other]))),
            )
        )
    whole, more = zip(*taken, strict=True)
    return statistics.median(whole), statistics.median(more)


def _repository(folder: Path) -> tuple[Path, list[str]]:
    """Make a repository of many files, and branches that each change some of them in other lines."""
    git_dir = folder / "repo.git"
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", str(git_dir)], check=True)
    lines = [_commit("refs/heads/base", 1, None, {_path(number): _text(number, {}) for number in range(FILES)})]
    lines.append(_commit("refs/heads/main", 2, 1, {_path(n): _text(n, {3: "main"}) for n in range(CHANGED)}))
    for place in range(ATTEMPTS):
        count = CHANGED if place == 0 else 50
        files = {_path(n): _text(n, {40: f"work {place}"}) for n in range(place * 20, place * 20 + count)}
        lines.append(_commit(f"refs/heads/work{place}", 3 + place, 1, files))
    subprocess.run(
        ["git", "--git-dir", str(git_dir), "fast-import", "--quiet"], input="".join(lines).encode(), check=True
    )
    names = ["main", *(f"work{place}" for place in range(ATTEMPTS))]
    shown = subprocess.run(["git", "--git-dir", str(git_dir), "rev-parse", *names], check=True, capture_output=True)
    return git_dir, shown.stdout.decode().split()


def _path(number: int) -> str:
    return f"d{number % 100}/f{number}.txt"


def _text(number: int, changed: dict[int, str]) -> str:
    return "".join(f"{changed.get(line, f'line {line} of {number}')}\n" for line in range(50))


def _commit(ref: str, mark: int, parent: int | None, files: dict[str, str]) -> str:
    head = f"commit {ref}\nmark :{mark}\ncommitter Bench <bench@example.org> {1_700_000_000 + mark} +0000\ndata 0\n"
    body = "".join(f"M 644 inline {path}\ndata {len(text)}\n{text}\n" for path, text in files.items())
    return head + (f"from :{parent}\n" if parent else "") + body + "\n"


def _merger(store: Store, repository: Repository, tips: list[str]) -> Merger:
    """Store a run that is done, as if an agent had made the first branch."""
    flow = Flow(
        name="bench", strategy="single", nodes=(Node(id="main", task=Task(prompt="t"), agent=AgentChoice("a")),)
    )
    plan = RunPlan(flow=flow, repo=str(repository.git_dir), git_dir=str(repository.git_dir), base=None, into="main")
    store.add_run(RunRecord(id="bench", status="done", reason=None, plan=plan, created=time.time()))
    attempt = Attempt(id="bench-1", agent="a", status="done", commit=tips[1], files_changed=("x",))
    store.save_attempt(AttemptRecord(attempt=attempt, run="bench", node="main", phase="over"))
    store.move_node("bench", NodeState(id="main", status="done", winner="bench-1"))
    store.move_run("bench", "done", None, time.time())
    return Merger(store, run_document.build(store, "bench"), repository, lambda _: None)
