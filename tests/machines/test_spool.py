"""What an agent elsewhere prints is kept for its engine, also where the disk is full."""

import asyncio
import resource
from collections.abc import Generator
from pathlib import Path

import pytest

from corral.machines.far_end import turn
from corral.machines.far_end.turn import END, STDOUT, RecordKind, RecordReader, Spool


@pytest.fixture
def full_at() -> Generator[int]:
    """Let files grow no further than this, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    yield 1000
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def read(spool: Spool, offset: int = 0) -> list[tuple[int, bytes]]:
    async def follow() -> list[tuple[int, bytes]]:
        reader, found = RecordReader(), list[tuple[int, bytes]]()
        async for data in spool.follow(offset):
            found += reader.feed(data)
        return found

    return asyncio.run(follow())


def test_records_that_find_no_room_are_kept_in_memory(tmp_path: Path, full_at: int) -> None:
    spool = Spool(tmp_path / "1")
    records: list[tuple[RecordKind, bytes]] = [(STDOUT, bytes([number]) * 300) for number in range(10)]
    records.append((END, b"end"))
    for kind, data in records:
        spool.write(kind, data)
    spool.close()
    assert (tmp_path / "1").stat().st_size == full_at
    assert read(spool) == records
    assert read(spool, 305 * 2) == records[2:]
    assert read(spool, 305 * 7) == records[7:]
    assert not spool.full


def test_what_is_too_much_is_left_out_and_the_end_still_comes(
    tmp_path: Path, full_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn, "MOST_REST", full_at)
    spool = Spool(tmp_path / "1")
    for _ in range(20):
        spool.write(STDOUT, b"x" * 300)
    spool.write(END, b"end")
    spool.close()
    found = read(spool)
    assert found[-1] == (END, b"end")
    assert 3 <= len(found) < 20
    assert "No space left" in spool.full
