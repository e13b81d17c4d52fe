"""Engines of one store: one for each place, known by what they say; of the dead, others take what they held."""

import time
from pathlib import Path

import pytest

from corral.model import Request, RunPlan, RunRecord
from corral.model.flow import Flow
from corral.model.money import Bound, LedgerLine, Limit
from corral.model.server import ScheduleRecord, ServerRecord
from corral.store.parts.runs import Runs
from corral.world import process_identity
from tests.rig.stores import opened

FAR = "far/boot/1/1"
DAY = Bound(limit=Limit(window="day", usd=10.0), run="r")
PLAN = RunPlan(flow=Flow(name="f", strategy="flow", nodes=()), repo="/r", git_dir="/r", base=None, into=None)


@pytest.fixture
def store(tmp_path: Path) -> Runs:
    return opened(tmp_path)


def engine(owner: str, place: str) -> ServerRecord:
    return ServerRecord(owner=owner, place=place, address="http://x")


def test_each_place_has_one_engine_and_a_silent_one_is_replaced(store: Runs) -> None:
    now = time.time()
    mine = process_identity.own_name()
    assert store.queue.serve(engine(FAR, "far:/a"), now) is None
    assert store.queue.serve(engine(mine, "here:/a"), now) is None
    assert store.queue.serve(engine("far/boot/2/2", "far:/a"), now) == engine(FAR, "far:/a")
    assert [each.owner for each in store.queue.servers(now)] == sorted((FAR, mine), key=lambda each: (now, each))
    later = now + 14.0
    assert store.queue.renew_serving(mine, later)
    assert [each.owner for each in store.queue.servers(now + 16.0)] == [mine]
    assert store.queue.serve(engine("far/boot/2/2", "far:/a"), now + 16.0) is None
    assert not store.queue.renew_serving(FAR, now + 17.0)  # it hears that it was replaced
    store.queue.stop_serving(mine)
    assert [each.owner for each in store.queue.servers(now + 16.0)] == ["far/boot/2/2"]


def test_machines_are_known_by_the_repositories_that_they_have(store: Runs) -> None:
    for place in ("near:/a", "far:/a", "near:/a"):
        store.repositories.note("/r/.git", place, 1.0)
    store.repositories.note("/other/.git", "far:/a", 1.0)
    assert store.repositories.places("/r/.git") == ["far:/a", "near:/a"]
    store.repositories.forget("/r/.git", "far:/a")
    assert store.repositories.places("/r/.git") == ["near:/a"]
    assert store.repositories.places("/other/.git") == ["far:/a"]


def test_an_engine_of_this_machine_that_died_counts_no_more(store: Runs) -> None:
    machine, boot, pid, _, *rest = process_identity.own_name().split("/")
    store.queue.serve(engine("/".join([machine, boot, pid, "1", *rest]), "here:/a"), time.time())
    assert store.queue.servers(time.time()) == []


def test_money_of_an_engine_elsewhere_comes_back_when_its_lease_is_out(store: Runs) -> None:
    now = time.time()
    line = LedgerLine(attempt="a", run="r", node="main", agent="x", repo="/r", owner=FAR, reserved=6.0, at=now)
    store.add_run(
        RunRecord(id="r", status="running", reason=None, plan=PLAN, created=1.0, owner=FAR, lease_until=now + 60)
    )
    assert store.ledger.reserve(line, [DAY]) is None
    store.ledger.release_dead(now)
    assert store.ledger.spent_and_reserved(DAY) == (0.0, 6.0)
    assert store.renew_lease("r", FAR, now - 1)
    store.ledger.release_dead(now)
    assert store.ledger.spent_and_reserved(DAY) == (0.0, 0.0)


def test_what_is_due_is_begun_by_one_engine(store: Runs) -> None:
    record = ScheduleRecord(name="nightly", cron="0 0 * * *", request=Request(repo="/r", prompt="t"))
    store.automation.put_schedule(record, 100.0)
    assert [store.automation.begin_schedule("nightly", 101.0, 161.0) for _ in range(2)] == [True, False]
    assert store.automation.due_schedules(160.0) == []
    assert store.automation.due_schedules(162.0) == [record]  # whoever began it died
