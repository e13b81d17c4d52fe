"""Plans that agents write in this server, whether or not someone still looks at the page that asked for them."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable

from msgspec import Struct, field

from corral.engine.engine import Engine
from corral.engine.planner import PlannedFlow, PlanOrder
from corral.frontends.web.problems import RefusedRequest
from corral.model import Request
from corral.model.errors import CorralError

MOST_AT_ONCE = 4
MOST_KEPT = 100  #: that are remembered


class RunningPlan(Struct, kw_only=True):
    """A plan that this server was asked for, for as long as it remembers."""

    order: PlanOrder
    began: float
    said: list[str] = field(default_factory=list[str])
    found: PlannedFlow | None = None
    trouble: CorralError | None = None


class RunningPlans:
    """What one server has planned."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[str, RunningPlan] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def of(self, name: str) -> RunningPlan | None:
        return self._known.get(name)

    def begin(self, order: PlanOrder, vet: Callable[[Request], Request]) -> str:
        """Start an agent that plans; return by what name the plan is asked for."""
        if len(self._tasks) >= MOST_AT_ONCE:
            raise RefusedRequest(
                429, "planning", f"{MOST_AT_ONCE} plans are being written", hint="wait for one of them"
            )
        while len(self._known) >= MOST_KEPT:
            del self._known[next(iter(self._known))]
        name = secrets.token_hex(6)
        planning = self._known[name] = RunningPlan(order=order, began=time.time())
        task = asyncio.create_task(self._plan(planning, vet))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return name

    async def _plan(self, planning: RunningPlan, vet: Callable[[Request], Request]) -> None:
        try:
            planning.found = await self._engine.planner.plan(planning.order, lambda _: None, planning.said.append, vet)
        except CorralError as error:
            planning.trouble = error
        except Exception as error:  # noqa: BLE001 -- the page must show unexpected errors too
            planning.trouble = CorralError(f"{type(error).__name__}: {error}")

    async def close(self) -> None:
        """End what is being planned; its runs are continued as after a crash."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
