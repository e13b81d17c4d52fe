"""Requests of an account in the last minute, and how its windows stand, shared by all processes."""

import contextlib
import multiprocessing
from pathlib import Path

from corral.model.money import QuotaWindow
from tests.rig.stores import opened

NOW = 1_790_000_000.0


def test_a_minute_has_room_for_so_many(tmp_path: Path) -> None:
    with contextlib.closing(opened(tmp_path)) as store:
        waits = [store.accounts.ask("claude@work", 3, NOW + each) for each in range(5)]
        assert waits == [0.0, 0.0, 0.0, 57.0, 56.0]
        assert store.accounts.ask("claude@home", 3, NOW) == 0.0
        assert store.accounts.ask("claude@work", 3, NOW + 60) == 0.0  # the first is a minute old
        assert store.accounts.ask("claude@work", 3, NOW - 7200) == 0.0  # the clock was put back: nobody waits hours


def _asks(folder: Path, count: int, let_in: "multiprocessing.Queue[int]") -> None:
    with contextlib.closing(opened(folder)) as store:
        let_in.put(sum(store.accounts.ask("claude", 10, NOW) == 0.0 for _ in range(count)))


def test_several_processes_share_it(tmp_path: Path) -> None:
    opened(tmp_path).close()
    context = multiprocessing.get_context("spawn")
    let_in = context.Queue()
    processes = [context.Process(target=_asks, args=(tmp_path, 8, let_in)) for _ in range(3)]
    for each in processes:
        each.start()
    assert sum(let_in.get(timeout=60) for _ in processes) == 10
    for each in processes:
        each.join()


def test_windows_are_as_they_were_told_last(tmp_path: Path) -> None:
    with contextlib.closing(opened(tmp_path)) as store:
        for used in (0.2, 0.4):
            store.accounts.see([QuotaWindow(agent="claude@work", name="5h", used=used, resets=NOW, at=NOW)])
        assert [(each.name, each.used) for each in store.accounts.windows()] == [("5h", 0.4)]
