"""What the owner of a run writes for others to see."""

import asyncio
from pathlib import Path

import pytest

from corral.engine import run_owner
from corral.model import RunPlan, RunRecord
from corral.model.events import Said
from corral.model.flow import AgentChoice, Task
from corral.rules.flows import strategies
from corral.store.opening import open_store

PLAN = RunPlan(
    flow=strategies.single(Task(prompt="do"), AgentChoice("a")), repo="/r", git_dir="/r/.git", base=None, into=None
)


def test_an_event_after_a_silence_is_written_without_waiting_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_owner, "FLUSH_SECONDS", 31536000.0)  # what comes after the first one waits for it
    ours, others = open_store(tmp_path), open_store(tmp_path)
    ours.add_run(RunRecord(id="aaa1", status="queued", reason=None, plan=PLAN, created=1.0))

    async def say() -> None:
        flushing = asyncio.create_task(run_owner.keep_flushing(ours))
        bell = others.watch()
        await asyncio.sleep(0)
        ours.note("aaa1", Said("first"), at=1.0)
        async with asyncio.timeout(30):
            while not others.events("aaa1"):
                await bell.listen(1.0)
        ours.note("aaa1", Said("second"), at=2.0)
        await asyncio.sleep(0)
        flushing.cancel()
        await asyncio.gather(flushing, return_exceptions=True)
        bell.close()

    asyncio.run(say())
    assert [stored.event() for stored in others.events("aaa1")] == [Said("first")]
    ours.flush()
    assert [stored.event() for stored in others.events("aaa1")] == [Said("first"), Said("second")]
    ours.note("aaa1", Said("third"), at=3.0)  # nobody listens any more
    ours.close()
    others.close()
