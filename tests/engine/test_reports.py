"""Long work reports how far it is: `clean` and `export`, which the command line draws as a bar."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from corral.engine import kept_work
from corral.engine.engine import Engine
from corral.model import RunPlan, RunRecord
from corral.model.flow import AgentChoice, Task
from corral.rules.flows import strategies
from corral.rules.text import names
from corral.rules.text.cleaning import CleaningLimits
from corral.store.sqlite.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store(tmp_path)) as opened:
        with opened.transaction():
            for number in range(3):
                flow = strategies.single(Task(prompt="t"), AgentChoice("claude"))
                plan = RunPlan(flow=flow, repo=str(tmp_path), git_dir="/r", base=None, into=None)
                name = names.run_id(number * 1000, number)
                run = RunRecord(id=name, status="done", reason=None, plan=plan, created=number, ended=number + 1.0)
                opened.add_run(run)
        yield opened


def test_clean_and_export_report_each_run(store: Store, tmp_path: Path) -> None:
    cleaned: list[tuple[int, int]] = []
    limits = CleaningLimits(older_seconds=60.0, keep=None, disk_bytes=None)
    asyncio.run(kept_work.clean(store, limits, dry=True, report=lambda *how_far: cleaned.append(how_far)))
    assert cleaned == [(0, 3), (1, 3), (2, 3)]
    exported: list[tuple[int, int]] = []
    with closing(Engine(tmp_path)) as engine:
        assert len(list(engine.history.export(None, print, lambda *how_far: exported.append(how_far)))) == 3
    assert exported == [(0, 3), (1, 3), (2, 3)]
