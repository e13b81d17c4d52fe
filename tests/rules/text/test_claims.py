"""Claims: who waits for whom, every circle found and named, and no file held twice by racing processes."""

import asyncio
import multiprocessing
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.model import Claim
from corral.rules.text.claims import Deadlock, deadlocks, in_the_way, overlap, ready, waits_for
from corral.store.parts.claims import ClaimRequest, Claims
from corral.store.sqlite.store import Store
from corral.world import process_identity
from corral.world.locks import hold_lock
from tests.rig.tries import tries
from tests.rig.waiting import until


def held(attempt: str, path: str, place: int, *, exclusive: bool = True) -> Claim:
    return Claim(attempt=attempt, path=path, place=place, exclusive=exclusive)


def wants(attempt: str, path: str, place: int, *, exclusive: bool = True) -> Claim:
    return Claim(attempt=attempt, path=path, place=place, exclusive=exclusive, held=False)


def test_paths_that_meet() -> None:
    assert overlap("a", "a")
    assert overlap("src", "src/a.py")
    assert overlap("src/a.py", "src/")
    assert not overlap("src", "srcs")
    assert overlap("", "anything")


def test_readers_share_and_writers_do_not() -> None:
    shared = held("a", "x", 1, exclusive=False)
    assert in_the_way(wants("b", "x", 2, exclusive=False), [shared]) == []
    assert in_the_way(wants("b", "x", 2), [shared]) == [shared]


def test_who_asked_first_goes_first() -> None:
    line = [held("a", "x", 1), wants("b", "x", 2), wants("c", "x", 3, exclusive=False)]
    assert waits_for(line) == {"b": {"a"}, "c": {"a", "b"}}
    assert ready(line) == []
    assert ready(line[1:]) == [2]


def test_all_or_none_is_granted() -> None:
    assert ready([held("a", "x", 1), wants("b", "x", 2), wants("b", "y", 3)]) == []
    assert ready([wants("b", "x", 2), wants("b", "y", 3), wants("c", "z", 4)]) == [2, 3, 4]


def test_a_circle_names_all_of_it_and_the_youngest_gives_way() -> None:
    claims = [
        held("a", "1", 1), held("b", "2", 2), held("c", "3", 3),
        wants("a", "2", 4), wants("b", "3", 5), wants("c", "1", 6), wants("d", "1", 7),
    ]  # fmt: skip
    found = deadlocks(waits_for(claims), {"a": 5.0, "b": 9.0, "c": 7.0})
    assert found == [Deadlock(("a", "b", "c"), "b")]


def test_two_that_read_and_both_want_to_write() -> None:
    both = [
        held("a", "x", 1, exclusive=False),
        held("b", "x", 2, exclusive=False),
        wants("a", "x", 3),
        wants("b", "x", 4),
    ]
    assert [found.victim for found in deadlocks(waits_for(both), {"a": 1.0, "b": 2.0})] == ["b"]


def test_a_long_chain_is_no_circle() -> None:
    chain = {f"{number:05}": [f"{number + 1:05}"] for number in range(5000)}
    assert deadlocks(chain, {}) == []
    assert deadlocks({**chain, "05000": ["00000"]}, {})[0].victim == "05000"


graphs = st.dictionaries(st.sampled_from("abcdef"), st.sets(st.sampled_from("abcdef"), max_size=3), max_size=6)


def reaches_itself(graph: dict[str, set[str]], first: str) -> bool:
    seen: set[str] = set()
    waiting = list(graph.get(first, ()))
    while waiting:
        each = waiting.pop()
        if each == first:
            return True
        if each not in seen:
            seen.add(each)
            waiting += graph.get(each, ())
    return False


@given(graphs)
@settings(max_examples=tries(150), deadline=None)
def test_circles_are_found_exactly_where_there_are_some(graph: dict[str, set[str]]) -> None:
    found = deadlocks(graph, {})
    assert bool(found) == any(reaches_itself(graph, each) for each in graph)
    for each in found:
        for one, following in zip(each.circle, (*each.circle[1:], each.circle[0]), strict=True):
            assert following in graph[one]
    left = {name: others for name, others in graph.items() if name not in {each.victim for each in found}}
    assert not any(reaches_itself(left, each) for each in left)


# --- in the store, by real processes


def who(attempt: str, owner: str | None = None) -> ClaimRequest:
    return ClaimRequest(space="w", run="r", attempt=attempt, owner=owner or process_identity.own_name())


def claims_of(folder: Path) -> Claims:
    return Claims(Store(folder), ready, process_identity.is_alive)


def test_a_claim_waits_and_is_granted_when_released(tmp_path: Path) -> None:
    claims = claims_of(tmp_path)
    assert claims.claim(who("a"), ["x", "y"], exclusive=True, at=1.0)
    assert not claims.claim(who("b"), ["y"], exclusive=True, at=2.0)
    assert [(each.attempt, each.path) for each in claims.waiters("w")] == [("b", "y")]
    claims.release(who("a"), ["x"])
    assert not claims.holds_all(who("b"))
    claims.release(who("a"))
    assert claims.holds_all(who("b"))
    assert claims.waiters("w") == []
    assert claims.claim(who("b"), ["y"], exclusive=True, at=3.0)  # asking again changes nothing


def test_a_deadlock_in_the_store_is_seen(tmp_path: Path) -> None:
    claims = claims_of(tmp_path)
    claims.claim(who("a"), ["1"], exclusive=True, at=1.0)
    claims.claim(who("b"), ["2"], exclusive=True, at=1.0)
    assert not claims.claim(who("a"), ["2"], exclusive=True, at=2.0)
    assert not claims.claim(who("b"), ["1"], exclusive=True, at=2.0)
    assert deadlocks(waits_for(claims.all("w")), {"a": 1.0, "b": 2.0}) == [Deadlock(("a", "b"), "b")]
    claims.release(who("b"))
    assert claims.holds_all(who("a"))


SPAWN: Any = multiprocessing.get_context("spawn")


def race(folder: str, name: str, rounds: int) -> None:
    """Take a file, note it on disk in a way that shows a second holder, and give it back."""
    claims = claims_of(Path(folder))
    for turn in range(rounds):
        asking = who(f"{name}-{turn}")
        granted = claims.claim(asking, ["x"], exclusive=True, at=float(turn))
        while not granted:
            granted = claims.holds_all(asking)
        inside = os.open(f"{folder}/inside", os.O_CREAT | os.O_EXCL)  # fails where another is inside
        os.close(inside)
        os.unlink(f"{folder}/inside")  # noqa: PTH108
        claims.release(asking)
    Path(folder, f"done-{name}").touch()


@pytest.mark.slow
def test_racing_processes_never_hold_the_same_file(tmp_path: Path) -> None:
    claims_of(tmp_path)
    racers = [SPAWN.Process(target=race, args=(str(tmp_path), f"p{number}", 10)) for number in range(4)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(120)
    assert [racer.exitcode for racer in racers] == [0, 0, 0, 0]
    assert len(list(tmp_path.glob("done-*"))) == 4
    assert claims_of(tmp_path).all("w") == []


def hold_and_stay(folder: str) -> None:
    claims_of(Path(folder)).claim(who("dying"), ["x"], exclusive=True, at=1.0)
    Path(folder, "held").touch()
    signal.pause()


def test_a_dead_owners_claim_is_released(tmp_path: Path) -> None:
    claims = claims_of(tmp_path)
    owner = SPAWN.Process(target=hold_and_stay, args=(str(tmp_path),))
    owner.start()
    until((tmp_path / "held").exists, "the other holds the file")
    assert not claims.claim(who("next"), ["x"], exclusive=True, at=2.0)
    owner.kill()
    owner.join()
    assert claims.holds_all(who("next"))


def lock_and_stay(folder: str) -> None:
    async def stay() -> None:
        async with hold_lock(Path(folder) / "locks" / "merge"):
            Path(folder, "locked").touch()
            await asyncio.Event().wait()

    asyncio.run(stay())


def try_lock(folder: str) -> None:
    async def take() -> None:
        async with asyncio.timeout(2):
            async with hold_lock(Path(folder) / "locks" / "merge"):
                pass

    try:
        asyncio.run(take())
    except TimeoutError:
        sys.exit(7)


def test_the_merge_lock_holds_across_processes_and_dies_with_its_holder(tmp_path: Path) -> None:
    holder = SPAWN.Process(target=lock_and_stay, args=(str(tmp_path),))
    holder.start()
    until((tmp_path / "locked").exists, "the lock is held")
    codes: list[int] = []
    for _ in range(2):
        other = SPAWN.Process(target=try_lock, args=(str(tmp_path),))
        other.start()
        other.join()
        codes.append(other.exitcode)
        if holder.is_alive():
            holder.kill()
            holder.join()
    assert codes == [7, 0]
