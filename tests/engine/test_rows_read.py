"""How much of a store is read: what concerns open runs alone reads as much of a large store as of a small one."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corral.attempt.repositories import release_pending_pins
from corral.engine.engine import Engine
from corral.engine.merge.overlap import overlap
from corral.model import Attempt, AttemptRecord, Cost, RunPlan, RunRecord
from corral.model.flow import AgentChoice, Task
from corral.model.money import Budget, LedgerLine
from corral.rules.flows import strategies
from corral.store.sqlite.store import Store
from tests.rig.repository import Repo


def fill(store: Store, repo: Repo, ended: int) -> None:
    """Put runs into a store: two that are open, and so many that are over, each with an attempt and its cost."""
    flow = strategies.single(Task(prompt="do"), AgentChoice("a"))
    plan = RunPlan(flow=flow, repo=str(repo.folder), git_dir=str(repo.folder / ".git"), base=None, into="main")
    for number in range(ended + 2):
        run, status = f"r{number:04}", "done" if number < ended else "paused"
        store.add_run(RunRecord(id=run, status=status, reason=None, plan=plan, created=1e9, ended=None))  # type: ignore[arg-type]
        attempt = Attempt(id=f"{run}-1", agent="a", status="done", cost=Cost(0.5, "reported"))
        record = AttemptRecord(attempt=attempt, run=run, node="main", phase="over", started=1e9)
        store.save_attempt(record)
        line = LedgerLine(
            attempt=attempt.id, run=run, node="main", agent="a", repo="/r", owner="me", reserved=1.0, at=1e9
        )
        assert store.ledger.reserve(line, []) is None
        store.ledger.settle(attempt, 0.5, 1e9)


CALLS: dict[str, Callable[[Engine, Repo], Any]] = {
    "halt": lambda engine, _: engine.money.halt("me"),
    "cost": lambda engine, _: engine.money.overview(Budget()),
    "metrics": lambda engine, _: engine.money.metrics(Budget()),
    "overlap": lambda engine, repo: asyncio.run(overlap(engine._store, repo.folder)),
    "pins": lambda engine, _: asyncio.run(release_pending_pins(engine._store)),
}


@pytest.mark.parametrize("name", CALLS)
def test_runs_that_are_over_are_not_read(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo, read = Repo.make(tmp_path / "repo"), list[int]()
    for method in ("rows", "rows_of"):
        known = getattr(Store, method)

        def counting(self: Store, *given: Any, known: Any = known, **values: Any) -> Any:
            found = known(self, *given, **values)
            read.append(len(found))
            return found

        monkeypatch.setattr(Store, method, counting)
    sums: list[int] = []
    for place, ended in enumerate((3, 60)):
        engine = Engine(tmp_path / f"state{place}")
        assert isinstance(engine._store, Store)
        with engine._store.transaction():
            fill(engine._store, repo, ended)
        read.clear()
        CALLS[name](engine, repo)
        sums.append(sum(read) + len(read))
        engine.close()
    assert sums[0] == sums[1]
    assert sums[1] < 60
