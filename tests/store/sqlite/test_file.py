"""The file of a store in SQLite: what is refused, and steps of its schema in any order."""

import contextlib
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from corral.model.errors import StoreTrouble
from corral.store.sqlite.store import Store
from tests.rig import golden
from tests.rig.waiting import until


def test_a_newer_database_is_refused(tmp_path: Path) -> None:
    Store(tmp_path).close()
    with sqlite3.connect(tmp_path / "corral.db") as database:
        database.execute("PRAGMA user_version = 999")
    database.close()
    with pytest.raises(StoreTrouble, match="newer corral") as told:
        Store(tmp_path)
    assert "upgrade" in told.value.hint


def test_what_is_no_database_is_said(tmp_path: Path) -> None:
    (tmp_path / "corral.db").write_text("this is not a database, but a text " * 100)
    with pytest.raises(StoreTrouble, match="not a database") as told:
        Store(tmp_path)
    assert "move that file away" in told.value.hint


def test_a_step_that_lands_later_than_a_higher_one_is_taken_all_the_same(tmp_path: Path) -> None:
    Store(tmp_path).close()
    with sqlite3.connect(tmp_path / "corral.db") as database:
        database.execute("DROP TABLE inbox")
        database.execute("DELETE FROM migrations WHERE number = 7")
    Store(tmp_path).close()
    with sqlite3.connect(tmp_path / "corral.db") as database:
        assert database.execute("SELECT count(*) FROM inbox").fetchone() == (0,)


def test_a_new_store_waits_for_another_process_that_makes_it_too(tmp_path: Path) -> None:
    """SQLite itself does not wait there: of the first two commands in a fresh state folder, one failed."""

    def open_files(path: Path) -> int:
        return sum(each.is_symlink() and each.readlink() == path for each in Path("/proc/self/fd").iterdir())

    for number in range(10):
        path = tmp_path / str(number) / "corral.db"
        path.parent.mkdir()
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other, ThreadPoolExecutor(1) as pool:
            other.execute("BEGIN IMMEDIATE")
            opened = pool.submit(lambda: Store(path.parent).close())  # noqa: B023 -- it ends within this round
            until(lambda: open_files(path) > 1 or opened.done(), "it has opened the file")  # noqa: B023
            other.execute("ROLLBACK")
            opened.result(timeout=60)


@pytest.mark.parametrize("version", sorted(file.name for file in golden.FOLDER.glob("*.json")))
def test_an_older_store_has_the_sums_of_its_ledger(tmp_path: Path, version: str) -> None:
    golden.restore(version, tmp_path / "state", tmp_path / "repo")
    store = Store(tmp_path / "state")
    assert store.integrity() == "ok"
    lines = store.ledger.history()
    assert sum(each.attempts for each in store.ledger.cost_sums()) == len(lines)
    assert sum(each.usd for each in store.ledger.cost_quarters()) == pytest.approx(sum(each.spent for each in lines))
    store.close()
