"""How much more a run needs: its open tasks, each once."""

from pathlib import Path

import pytest

from corral.attempt.budget_figures import needed_usd
from corral.model import RunPlan, RunRecord
from corral.model.flow import AgentChoice, Flow, Node, Task
from corral.model.money import LedgerLine
from corral.store.parts.ledger import Ledger
from corral.store.sqlite.store import Store
from corral.world import process_identity


def test_items_count_and_not_their_node_nor_what_is_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    store = Store(tmp_path)
    node = Node(id="a", task=Task(prompt="x"), agent=AgentChoice("pay"), items=(1, 2, 3))
    flow = Flow(name="f", strategy="flow", nodes=(node,), budget_usd=1.0)
    plan = RunPlan(flow=flow, repo=str(tmp_path), git_dir="/r", base=None, into=None)
    store.add_run(RunRecord(id="r", status="running", reason=None, plan=plan, created=1.0))
    store.add_nodes("r", ["a.0", "a.1", "a.2"])
    assert needed_usd(store, "r") == 3.0
    line = LedgerLine(
        attempt="r-1",
        run="r",
        node="a.0",
        agent="pay",
        repo="/r",
        owner=process_identity.own_name(),
        reserved=1.0,
        at=1.0,
    )
    assert Ledger(store, process_identity.is_alive).reserve(line, []) is None
    assert needed_usd(store, "r") == 2.0  # what is reserved for one at work counts already
