"""Requests under way never become more unpriced ones than the limit allows, and nobody waits in a busy loop."""

import asyncio

import pytest

from corral.machines.request_count import RequestCount
from corral.world.proxy.listener import RequestRefused


def test_never_more_than_the_limit_pass_at_once_or_after_each_other() -> None:
    async def work() -> RequestCount:
        count = RequestCount()
        count.most = 5
        under_way = 0

        async def ask() -> bool:
            nonlocal under_way
            try:
                number = await count.enter()
            except RequestRefused:
                return False
            under_way += 1
            assert under_way + count.unpriced <= 5
            await asyncio.sleep(0)
            under_way -= 1
            count.leave(number, charged=True, known=False)
            return True

        passed = await asyncio.gather(*(ask() for _ in range(100)))
        assert sum(passed) == 5
        return count

    count = asyncio.run(work())
    assert (count.passed, count.unpriced) == (5, 5)
    assert count.reason == "it made 5 requests the meter cannot price; the limit is 5"


def test_priced_requests_go_on_without_end_and_errors_count_for_nothing() -> None:
    async def work() -> RequestCount:
        count = RequestCount()
        count.most = 2
        for _ in range(50):
            count.leave(await count.enter(), charged=True, known=True)
            count.leave(await count.enter(), charged=False, known=False)
        count.is_priced = lambda number: number % 2 == 0  # of half of them nobody knows the price
        first = await count.enter()
        count.leave(first, charged=True, known=True)
        return count

    count = asyncio.run(work())
    assert (count.passed, count.unpriced, count.reason) == (51, 1, None)


def test_a_request_that_waits_takes_no_turns_of_the_loop() -> None:
    async def work() -> int:
        count = RequestCount()
        count.most = 1
        number = await count.enter()
        waiting = asyncio.create_task(count.enter())
        await asyncio.sleep(0)
        steps = 0
        woken = count._left.wait

        async def counted() -> bool:
            nonlocal steps
            steps += 1
            return await woken()

        count._left.wait = counted  # type: ignore[method-assign]
        for _ in range(1000):
            await asyncio.sleep(0)
        count.leave(number, charged=True, known=True)
        await waiting
        return steps

    assert asyncio.run(work()) == 0


def test_nothing_passes_once_the_budget_is_used_up() -> None:
    async def work() -> None:
        count = RequestCount()
        count.refusal = lambda: "its budget is used up"
        with pytest.raises(RequestRefused, match="used up"):
            await count.enter()

    asyncio.run(work())


def test_requests_wait_for_one_another_where_all_at_once_cost_too_much() -> None:
    """One at a time always passes, so the limit is passed by one answer, and every wait ends."""
    price, left = 3, 10

    async def work() -> int:
        count, spent, most = RequestCount(), 0, 0
        count.affords = lambda requests: spent + requests * price <= left
        count.refusal = lambda: "its budget is used up" if spent > left else None

        async def ask() -> bool:
            nonlocal spent, most
            try:
                number = await count.enter()
            except RequestRefused:
                return False
            most = max(most, len(count.open))
            await asyncio.sleep(0)
            spent += price
            count.leave(number, charged=True, known=True)
            return True

        passed = await asyncio.gather(*(ask() for _ in range(100)))
        assert sum(passed) == 4
        assert most == 3
        return spent

    assert asyncio.run(work()) <= left + price
