"""One attempt, the central half; each step is stored before the next, so a crash repeats only what it cut off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from corral.attempt.agent_work import AgentWork
from corral.attempt.attempt_end import AttemptEnd
from corral.attempt.proof.verdict import judge_work
from corral.model import AttemptRecord
from corral.model.errors import StoreTrouble
from corral.model.flow import Node
from corral.rules.schedule import agent_tries
from corral.world.proxy.secret import SecretValue


class AttemptRunner:
    """Takes one attempt from wherever it is to its end."""

    def __init__(self, work: AgentWork) -> None:
        self._work, self._end = work, AttemptEnd(work)
        self.record, self.machine, self.workspace = work.record, work.machine, work.workspace

    async def execute(self) -> None:
        """Work, collect, prove: in whatever phase the record is. What it leaves is for `clean_up`."""
        try:
            async with self.machine.caches(self.workspace):
                await self._steps()
        except StoreTrouble:
            raise  # nothing can be recorded: all stays as it is for `resume`
        except Exception as error:  # noqa: BLE001 -- an unexpected error ends this attempt, not the whole run
            await self._work.toolbox.close()
            await self._end.fail(error)
        finally:
            self._work.toolbox.children.abandon()  # all are over, unless this process is to leave at once

    async def clean_up(self) -> None:
        """Note its receipt and remove its workspace: its end is stored, so all that was done there is safe."""
        await self._end.clean_up(keep=self.record.kept or agent_tries.can_continue(self.record))

    async def fail(self, error: Exception) -> None:
        """End it as failed before anything was done."""
        await self._work.toolbox.close()
        await self._end.fail(error)

    async def _steps(self) -> None:
        if self.record.phase != "new":
            await self.machine.fit_again(self.record.attempt.agent)
        if self.record.phase == "working" and not await self._take_up():
            await self._end.salvage()
            return
        if self.record.phase == "new":
            await self._work.run()
        if self.record.phase == "worked":
            await self._end.collect()
        await self._end.over(await judge_work(self._work))

    async def _take_up(self) -> bool:
        """Take up an attempt whose engine died while its agent worked; return whether its agent ended by itself."""
        token = await self.machine.attach(self.workspace)
        if token is not None:
            self._work.toolbox.token = SecretValue(token)
            await self._work.go_on()
            return True
        if not self._work.events.read_back():
            return False
        self._work.take("exited")  # it had said its last word: it is not started again
        self._work.events.step("worked")
        await self._work.toolbox.close()
        return True

    # --- orders of users while it works

    @property
    def is_starting(self) -> bool:
        """Tell whether its agent is about to work, before its first turn or between two, and cannot hear yet."""
        return self.record.phase in ("new", "working") and not self.machine.report.at_work

    def steer(self, text: str) -> bool:
        """Take in a user's message; return whether the agent gets it while it works."""
        return self._work.steer(text)

    def condense(self, by: str) -> bool:
        """Lead the agent over into a fresh session when its present step is over; return whether it is at work."""
        return self._work.condense(by)

    def stop(self) -> None:
        """End it, and keep its work."""
        self.machine.end()

    def pause(self) -> None:
        """End it so that it can be continued later: that uses up no try."""
        self._work.paused = True
        self.machine.end()


class AttemptRun(Protocol):
    """One attempt that is carried out somewhere."""

    @property
    def record(self) -> AttemptRecord: ...
    @property
    def is_starting(self) -> bool: ...
    async def execute(self) -> None: ...
    async def clean_up(self) -> None: ...
    def steer(self, text: str) -> bool: ...
    def condense(self, by: str) -> bool: ...
    def stop(self) -> None: ...
    def pause(self) -> None: ...


AttemptFactory = Callable[[AttemptRecord, Node], AttemptRun]
