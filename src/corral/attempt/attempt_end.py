"""The end of an attempt: its scores, verdict and receipt, and its money settled, whatever went wrong before."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence

from msgspec import UNSET, Struct

from corral.attempt import hooks
from corral.attempt.agent_work import AgentWork
from corral.attempt.hooks import about
from corral.attempt.proof import receipt
from corral.machines import checks
from corral.machines.host import Host
from corral.model import Attempt, CheckResult, Cost, ErrorClass, Failure, Tokens
from corral.model.errors import BadRequest, Blocked, CorralError, SetupFailed, StoreTrouble
from corral.model.events import Noted, StatusChanged
from corral.rules.checks.verdict import Verdict
from corral.world import clock, machine_limits
from corral.world.concurrent import together
from corral.world.git.limits import OverLimit

GROUP = "corral.scorers"
MOST_PATCH = 16 << 20


class AttemptEnd:
    """Ends one attempt; what is not collected yet is rescued first."""

    def __init__(self, work: AgentWork, collect: Callable[[], Awaitable[None]]) -> None:
        self.work, self._collect = work, collect
        self.events, self.host, self.machine, self.workspace = work.events, work.host, work.machine, work.workspace
        self.record, self.attempt = work.record, work.attempt
        self.collecting = False  #: its work was collected, or that was tried

    async def fail(self, error: Exception) -> None:
        """End it as failed; where even that fails, end it with nothing but its error: others go on."""
        try:
            await self._fail(error)
        except StoreTrouble:
            raise
        except Exception as again:  # noqa: BLE001 -- one attempt's bad data must not end the whole run
            attempt, words = self.attempt, f"{type(again).__name__}: {again}"[:500]
            attempt.status, attempt.error = "failed", Failure("crash", words)
            attempt.cost, attempt.tokens, attempt.output = Cost(), Tokens(), None
            self.record.ended, self.record.receipt = time.time(), None
            with self.events.transaction():
                self.events.budget.settle()
                self.events.step("over")

    async def _fail(self, error: Exception) -> None:
        if machine_limits.is_disk_full(str(error)):
            hint = f"make room, then: corral resume {self.record.run}"
            raise StoreTrouble(f"the disk is full: {error}", hint=hint) from error
        lost = await self._rescue()
        whole = self.record.phase in ("working", "worked")  # nothing of it is collected
        self.record.kept |= whole
        where = f"{lost}; its workspace is kept: {self.machine.path_of(self.workspace)}" if whole else ""
        kinds: dict[type, ErrorClass] = {SetupFailed: "check_failed", Blocked: "denied"}
        kind = kinds.get(type(error), "crash")
        short = machine_limits.of(error)
        limit = isinstance(error, OverLimit) or (short and not isinstance(error, SetupFailed))
        lasting = True if limit else UNSET  # another try would meet it too
        error = short or error
        words = str(error) if isinstance(error, CorralError | OSError) else f"{type(error).__name__}: {error}"
        hint = error.hint if isinstance(error, CorralError) else ""
        if whole:
            hint = hint or f"corral restore {self.attempt.id} tries once more to collect it"
        await self.over(Verdict("failed", Failure(kind, words + where, hint, lasting=lasting)))

    async def _rescue(self) -> str:
        """Collect what the agent made before something else failed; return why that is not possible."""
        if self.collecting or self.record.phase not in ("working", "worked"):
            return ""
        try:
            if not await self.machine.has(self.workspace):
                return ""
            await self._collect()
        except StoreTrouble:
            raise
        except Exception as error:  # noqa: BLE001 -- the first failure is the one to report
            return f"; its work cannot be collected: {error}"
        return ""

    async def over(self, verdict: Verdict) -> None:
        record, attempt, clean = self.record, self.attempt, self.events.redactor.value
        if self.work.paused and verdict.status == "stopped":
            verdict = Verdict("stopped", Failure("crash", "it was paused; its work is kept"))
        verdict = clean(verdict)
        attempt.status, attempt.error = verdict.status, verdict.error
        record.ended = time.time()
        attempt.seconds = clock.seconds_since(record.clock, record.started)
        if record.kept:
            await self.machine.forget_logins(self.workspace)
        if attempt.commit and attempt.status == "done":
            record.receipt = receipt.make_receipt(self.events, self.work.node.task, self.host, attempt.commit)
            noted = receipt.note(self.host, record.receipt, self.work.say)
            await (noted if record.kept else together(noted, self.machine.remove(self.workspace)))
        reason = verdict.error.message if verdict.error else None
        try:
            moment = "after_done" if attempt.status == "done" else "after_failure"
            await hooks.run(
                moment,
                self.work.hooks,
                {**about(self.events, self.work.node, self.host), "status": attempt.status, "reason": reason},
            )
        except Blocked as error:
            self.events.emit(Noted(str(error)))  # it is over: too late to block anything
        with self.events.transaction():
            self.events.emit(StatusChanged("attempt", attempt.id, attempt.status, reason))
            if attempt.cost.usd is None and record.cost_usd is not None:  # a fixed price is owed however it ended
                attempt.cost = Cost(record.cost_usd, "fixed")
            self.events.budget.settle()
            self.events.step("over")


class ScorerInput(Struct, frozen=True, kw_only=True):
    """What a plug-in is given: the attempt as the run document has it, and its change as a patch."""

    attempt: Attempt
    task: str
    patch: str


Scorer = Callable[[ScorerInput], float]


def plug_in(name: str) -> Scorer | None:
    from importlib.metadata import entry_points  # noqa: PLC0415 -- dear to load, and seldom needed

    for point in entry_points(group=GROUP):
        if point.name == name:
            try:
                return point.load()
            except Exception as error:
                raise BadRequest(f"the scorer `{name}` cannot be loaded: {error}") from error
    return None


async def score(scorers: Sequence[str], host: Host, attempt: Attempt, say: Callable[[str], None]) -> dict[str, float]:
    """Ask every scorer; one that fails gives no score, and it is told."""
    found: dict[str, float] = {}
    known = {name: plug_in(name) for name in scorers}
    for name, scorer in known.items():
        if scorer is not None:
            given = ScorerInput(attempt=attempt, task=host.task.prompt, patch=await _patch(host, attempt))
            try:
                value = float(await asyncio.to_thread(scorer, given))
            except Exception as error:  # noqa: BLE001 -- anybody's code
                say(f"the scorer `{name}` failed: {error}")
                continue
            _take(name, value, found, say)
    commands = [name for name, scorer in known.items() if scorer is None]
    if commands and attempt.commit:
        folder = host.state / "workspaces" / f"{attempt.id}-score"
        for result in await checks.run(host, folder, attempt.commit, commands, lambda _: None):
            value = number(result)
            if value is None:
                say(f"the scorer `{result.command}` printed no number, or failed ({result.exit_code})")
            else:
                _take(result.command, value, found, say)
    return found


def _take(name: str, value: float, found: dict[str, float], say: Callable[[str], None]) -> None:
    if math.isfinite(value):
        found[name] = value
        say(f"score {value:g} by `{name}`")
    else:
        say(f"the scorer `{name}` gave no number: {value}")


def number(result: CheckResult) -> float | None:
    """Return the number on the last line of what a command printed."""
    lines = [line.strip() for line in result.output.splitlines() if line.strip()]
    if not result.passed or not lines:
        return None
    try:
        return float(lines[-1])
    except ValueError:
        return None


async def _patch(host: Host, attempt: Attempt) -> str:
    parts: list[bytes] = []

    def take(part: bytes) -> None:
        if sum(map(len, parts)) < MOST_PATCH:
            parts.append(part)

    if attempt.commit:
        await host.repository.patch(host.base, attempt.commit, take)
    return b"".join(parts).decode(errors="replace")
