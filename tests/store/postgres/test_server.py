"""A store in PostgreSQL: what is refused, a server that goes away, order of events, hostile text."""

import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path

import psycopg
import pytest

from corral.model import RunPlan, RunRecord
from corral.model.errors import ReadOnlyStore, RefusedStore, StoreTrouble
from corral.model.events import Noted
from corral.model.flow import Flow
from corral.store.opening import open_server
from corral.store.postgres.store import Store
from tests.rig.postgres import Server, server

PLAN = RunPlan(flow=Flow(name="f", strategy="flow", nodes=()), repo="/r", git_dir="/r", base=None, into=None)


def record(name: str = "aaa1", status: str = "queued") -> RunRecord:
    return RunRecord(id=name, status=status, reason=None, plan=PLAN, created=1.0)  # type: ignore[arg-type]


def test_a_database_of_another_program_is_refused(postgres: Server, tmp_path: Path) -> None:
    url = postgres.database(empty=True)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE customers (id int)")
    with pytest.raises(RefusedStore, match="tables of another program: customers") as found:
        Store(tmp_path, url)
    assert found.value.exit_code == 2
    assert "createdb" in found.value.hint


def test_a_newer_schema_is_refused(postgres: Server, tmp_path: Path) -> None:
    url = postgres.database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("INSERT INTO migrations VALUES (9999)")
    with pytest.raises(RefusedStore, match="newer corral") as found:
        Store(tmp_path, url)
    assert "upgrade" in found.value.hint


@pytest.mark.parametrize(
    ("url", "words", "hint"),
    [
        ("mysql://db/x", "`mysql` is no kind of store", "postgresql://USER@HOST/DATABASE"),
        ("postgresql://u:secret-word@[::1/x", "is not one of a PostgreSQL database", "postgresql://"),
        ("postgresql://u:secret-word@127.0.0.1:1/x", "refused", "psql with the same address"),
    ],
)
def test_an_address_of_no_use_is_one_line_without_its_password(tmp_path: Path, url: str, words: str, hint: str) -> None:
    with pytest.raises(RefusedStore, match=words) as found:
        open_server(tmp_path, url)
    assert found.value.exit_code == 2
    assert hint in found.value.hint
    assert "\n" not in str(found.value)
    assert "secret-word" not in str(found.value) + found.value.hint


def test_a_missing_database_and_a_missing_user_are_named(postgres: Server, tmp_path: Path) -> None:
    with pytest.raises(RefusedStore, match='database "nothing" does not exist') as found:
        Store(tmp_path, postgres.url("nothing"))
    assert "createdb" in found.value.hint
    with pytest.raises(RefusedStore, match='role "nobody" does not exist') as found:
        Store(tmp_path, postgres.url("postgres").replace("corral@", "nobody@"))
    assert "createuser" in found.value.hint


def test_a_read_only_database_is_read_and_not_written(postgres: Server, tmp_path: Path) -> None:
    url = postgres.database()
    with contextlib.closing(Store(tmp_path, url)) as store:
        store.add_run(record())
    name = url.partition("@/")[2].partition("?")[0]
    postgres.ask("postgres", f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    with contextlib.closing(Store(tmp_path, url)) as store:
        assert not store.writable
        assert store.run("aaa1").status == "queued"
        with pytest.raises(ReadOnlyStore) as found:
            store.add_run(record("aaa2"))
        assert found.value.exit_code == 2


def test_text_with_nul_is_stored_without_it(postgres: Server, tmp_path: Path) -> None:
    with contextlib.closing(Store(tmp_path, postgres.database())) as store:
        store.add_run(record())
        store.move_run("aaa1", "failed", "a\0b", 1.0)
        assert store.run("aaa1").reason == "ab"
        store.note("aaa1", Noted("c\0d"), at=1.0)
        store.flush()
        assert [each.event() for each in store.events("aaa1")] == [Noted("c\0d")]  # an event is JSON


def test_a_connection_that_was_cut_is_made_anew(postgres: Server, tmp_path: Path) -> None:
    url = postgres.database()
    with contextlib.closing(Store(tmp_path, url)) as store:
        store.add_run(record())
        name = url.partition("@/")[2].partition("?")[0]
        cut = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        postgres.ask("postgres", cut)
        assert store.run("aaa1").status == "queued"
        postgres.ask("postgres", cut)
        store.note("aaa1", Noted("x"), at=1.0)
        store.move_run("aaa1", "running", None, None)
        assert (store.run("aaa1").status, len(store.events("aaa1"))) == ("running", 1)

        def cut_off() -> None:
            with store.transaction():
                store.move_run("aaa1", "done", None, 1.0)
                postgres.ask("postgres", cut)

        with pytest.raises(StoreTrouble):
            cut_off()
        assert store.run("aaa1").status == "running"  # all or nothing


def test_a_commit_whose_answer_was_lost_counts_once(postgres: Server, tmp_path: Path) -> None:
    with contextlib.closing(Store(tmp_path, postgres.database())) as store:
        store.add_run(record())
        number = store._begin(durable=True)
        store.do("take_order", id=1, at=1.0, answer="")
        store._db.execute("COMMIT")
        assert store._has_committed(number)
        lost = store._begin(durable=True)
        store._db.close()
        assert not store._has_committed(lost)


def test_a_server_that_is_killed_and_started_again_is_waited_for(tmp_path: Path) -> None:
    with server() as own:
        store = Store(tmp_path, own.database())
        store.add_run(record())
        own.stop()
        starting = threading.Timer(0.5, own.start)
        starting.start()
        store.move_run("aaa1", "running", None, None)
        starting.join()
        assert store.run("aaa1").status == "running"
        store.close()


WRITER = """
import sys
from pathlib import Path
from corral.model.events import Noted
from corral.store.opening import open_store
store = open_store(Path(sys.argv[1]))
for number in range(200):
    store.note(sys.argv[2], Noted(str(number)), at=1.0)
    store.flush()
store.close()
"""


def test_who_reads_after_a_number_misses_no_event_of_several_writers(postgres: Server, tmp_path: Path) -> None:
    url = postgres.database()
    writers = 4
    with contextlib.closing(Store(tmp_path, url)) as store:
        for number in range(writers):
            store.add_run(record(f"aaa{number}"))
        started = [
            subprocess.Popen(
                [sys.executable, "-c", WRITER, str(tmp_path), f"aaa{number}"], env={**os.environ, "CORRAL_STORE": url}
            )
            for number in range(writers)
        ]
        seen: list[tuple[str, bytes]] = []
        after, working = 0, True
        while working:
            working = any(each.poll() is None for each in started)  # one more look after the last has ended
            for each in store.pages.events(None, after, 1000):
                after = each.stored.seq
                seen.append((each.run, each.stored.body))
        assert [each.wait() for each in started] == [0] * writers
        assert len(seen) == len({*seen}) == writers * 200


def test_the_end_of_a_lease_is_by_the_clock_of_the_server(postgres: Server, tmp_path: Path) -> None:
    url = postgres.database()
    with contextlib.closing(Store(tmp_path, url)) as early, contextlib.closing(Store(tmp_path, url)) as late:
        early._offset, late._offset = 3600.0, 0.0  # a machine whose clock is an hour behind
        early.add_run(record())
        assert early.take_lease("aaa1", "early", now=1000.0, until=1015.0)
        assert not late.take_lease("aaa1", "late", now=4600.0, until=4615.0)
        assert late.take_lease("aaa1", "late", now=4616.0, until=4631.0)


def test_two_stores_in_two_schemas_of_a_database_are_apart(postgres: Server, tmp_path: Path) -> None:
    url = postgres.database(empty=True)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA one; CREATE SCHEMA two")
    one, two = (Store(tmp_path, f"{url}&options=-csearch_path%3D{name}") for name in ("one", "two"))
    one.add_run(record())
    assert not one.is_empty()
    assert two.is_empty()
    assert one.report().runs == 1
    one.close()
    two.close()
    with pytest.raises(RefusedStore, match="no schema of its search path exists"):
        Store(tmp_path, f"{url}&options=-csearch_path%3Dthree")
