"""The protocol of `corral host`, fuzzed from both ends: bad frames end the connection, and nothing else."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.machines.calls import PROTOCOL, Hello, MachineFacts, Renewal
from corral.machines.far_end.server import HostServer
from corral.machines.far_end.turn import END, STDOUT, RecordReader
from corral.machines.frames import MOST_FRAME, WINDOW, ByteStream, CallFrame, Connection, MachineLost, encode_frame
from corral.model.errors import BadRequest, CorralError
from corral.version import __version__

Part = Callable[[Connection, Connection], Awaitable[Any]]
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=20) | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
TAGS = st.sampled_from(["call", "answer", "refuse", "open", "piece", "room", "cut", "other"])


async def _ends() -> list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    return [await asyncio.open_connection(sock=each) for each in socket.socketpair()]


def talk(part: Part) -> Any:
    """Run a test between two ends that are connected."""

    async def run() -> Any:
        (one, two) = await _ends()
        engine, host = Connection(*one, first=0), Connection(*two, first=1)
        tasks = [asyncio.create_task(each.serve()) for each in (engine, host)]
        try:
            async with asyncio.timeout(60):
                return await part(engine, host)
        finally:
            engine.close()
            host.close()
            await asyncio.gather(*tasks)

    return asyncio.run(run())


def test_calls_are_answered_and_refused_by_their_numbers() -> None:
    async def part(engine: Connection, host: Connection) -> None:
        async def answer(call: CallFrame) -> object:
            if call.verb == "no":
                raise BadRequest("never", hint="ask otherwise")
            return [call.verb, call.attempt, msgspec.msgpack.decode(call.body)]

        host.on_call = answer
        assert await engine.ask("yes", {"a": 1}, list[object], attempt="x-1") == ["yes", "x-1", {"a": 1}]
        with pytest.raises(BadRequest, match="never") as caught:
            await engine.ask("no")
        assert caught.value.hint == "ask otherwise"
        with pytest.raises(CorralError, match="cannot be read"):
            await engine.ask("yes", None, int)
        host.close()
        with pytest.raises(MachineLost):
            await engine.ask("yes")

    talk(part)


def test_a_stream_is_as_long_as_its_reader_is_slow() -> None:
    async def part(engine: Connection, host: Connection) -> int:
        size, got = 5 * WINDOW, asyncio.get_running_loop().create_future()

        async def take(stream: ByteStream, _: msgspec.Raw) -> None:
            found = 0
            while data := await stream.read():
                found += len(data)
                await asyncio.sleep(0)
            await stream.write(b"thanks")
            await stream.end()
            got.set_result(found)

        host.on_stream = take
        stream = await engine.open("bytes")
        await stream.write(b"x" * size)
        await stream.end()
        assert await stream.read_all(100) == b"thanks"
        return int(await got) - size

    assert talk(part) == 0


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_any_bytes_end_the_connection_and_nothing_else(pieces: list[bytes]) -> None:
    async def run() -> None:
        (one, two) = await _ends()
        engine = Connection(*one, first=0)
        for piece in pieces:
            two[1].write(piece)
        two[1].close()
        async with asyncio.timeout(60):
            await engine.serve()
        assert engine.gone.is_set()
        with pytest.raises(MachineLost):
            await engine.ask("anything")

    asyncio.run(run())


@given(st.lists(st.tuples(TAGS, st.lists(JUNK, max_size=4)), max_size=6))
def test_no_frame_of_a_hostile_far_end_gets_past_the_connection(frames: list[tuple[str, list[Any]]]) -> None:
    async def run() -> None:
        (one, two) = await _ends()
        engine = Connection(*one, first=0)
        for tag, rest in frames:
            data = msgspec.msgpack.encode([tag, *rest])
            two[1].write(len(data).to_bytes(4) + data)
        two[1].close()
        async with asyncio.timeout(60):
            await engine.serve()
        assert engine.gone.is_set()

    asyncio.run(run())


def test_a_frame_that_claims_to_be_huge_is_not_waited_for() -> None:
    async def run() -> str:
        (one, two) = await _ends()
        engine = Connection(*one, first=0)
        two[1].write((MOST_FRAME + 1).to_bytes(4))
        async with asyncio.timeout(60):
            await engine.serve()
        two[1].close()
        return engine.reason

    assert "this is not `corral host`" in asyncio.run(run())
    with pytest.raises(CorralError, match="more than a frame holds"):
        encode_frame(CallFrame(2, "x", "", msgspec.Raw(b"x" * (MOST_FRAME + 1))))


VERBS = st.sampled_from(
    ["hello", "open", "renew", "mirror", "close", "programs", "make", "read", "work", "say", "nothing"]
)


@given(st.lists(st.tuples(VERBS, st.text(max_size=10), JUNK), max_size=8))
def test_a_host_answers_any_engine_and_does_nothing_for_one_that_talks_nonsense(
    tmp_path_factory: pytest.TempPathFactory, calls: list[tuple[str, str, Any]]
) -> None:
    state = tmp_path_factory.getbasetemp() / "host-state"

    async def run() -> None:
        (one, two) = await _ends()
        engine, server = Connection(*one, first=0), HostServer(state)
        tasks = [asyncio.create_task(engine.serve()), asyncio.create_task(server.attend(*two))]
        async with asyncio.timeout(120):
            facts = await engine.ask("hello", Hello(version=__version__, protocol=PROTOCOL, engine="x"), MachineFacts)
            assert facts.version == __version__
            for verb, attempt, body in calls:
                if verb in ("hello", "open", "make", "read", "work", "say", "nothing"):
                    with pytest.raises(CorralError):
                        await engine.ask(verb, body, attempt=attempt)
                else:
                    await asyncio.gather(engine.ask(verb, body, attempt=attempt), return_exceptions=True)
            assert (await engine.ask("renew", Renewal(), list[str])) == []  # it still answers
        engine.close()
        await asyncio.gather(*tasks)
        assert not (state / "workspaces").exists()

    asyncio.run(run())


def test_a_host_of_another_version_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        (one, two) = await _ends()
        engine, server = Connection(*one, first=0), HostServer(tmp_path)
        tasks = [asyncio.create_task(engine.serve()), asyncio.create_task(server.attend(*two))]
        with pytest.raises(BadRequest, match="an engine says hello first"):
            await engine.ask("renew", Renewal())
        with pytest.raises(BadRequest, match=r"the engine is corral 9\.9\.9"):
            await engine.ask("hello", Hello(version="9.9.9", protocol=PROTOCOL, engine="x"), MachineFacts)
        engine.close()
        await asyncio.gather(*tasks)

    asyncio.run(run())


@given(st.lists(st.binary(max_size=50), max_size=8), st.integers(1, 7))
def test_records_are_read_again_from_any_of_them_on(contents: list[bytes], piece: int) -> None:
    written = b"".join(bytes([STDOUT]) + len(each).to_bytes(4) + each for each in contents)
    written += bytes([END]) + (0).to_bytes(4)
    reader, found = RecordReader(), list[tuple[int, bytes]]()
    offsets = [0]
    for start in range(0, len(written), piece):
        for record in reader.feed(written[start : start + piece]):
            found.append(record)
            offsets.append(reader.offset)
    assert found == [*((STDOUT, each) for each in contents), (END, b"")]
    for count, offset in enumerate(offsets[:-1]):
        assert list(RecordReader(offset).feed(written[offset:])) == found[count:]
