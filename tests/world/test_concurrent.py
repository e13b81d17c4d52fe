"""Work done together ends together."""

import asyncio

import pytest

from corral.world.concurrent import together


def test_the_other_is_at_its_end_when_one_fails() -> None:
    ended: list[str] = []

    async def fails() -> None:
        raise ValueError("first")

    async def slow() -> str:
        for _ in range(10):
            await asyncio.sleep(0)
        ended.append("slow")
        return "slow"

    async def both() -> None:
        with pytest.raises(ValueError, match="first"):
            await together(fails(), slow())
        assert ended == ["slow"]
        with pytest.raises(ValueError, match="first"):
            await together(slow(), fails())
        assert await together(slow(), slow()) == ("slow", "slow")
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(both())
