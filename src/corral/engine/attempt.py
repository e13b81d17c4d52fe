"""One attempt, the central half; each step is stored before the next, so a crash repeats only what it cut off."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from corral import __version__
from corral.engine.host import Host
from corral.engine.outfit import Outfit
from corral.errors import CorralError, SetupFailed, StoreTrouble
from corral.events import VITAL, Checked, Ended, Event, Heard, Limited, Moved, Noted, Spent, Started
from corral.model import (
    ENCODER,
    AgentTask,
    AttemptRecord,
    CheckResult,
    Cost,
    ErrorClass,
    Failure,
    Node,
    Phase,
    Receipt,
    SandboxReport,
)
from corral.rules import judge, naming, prompt, schedule
from corral.rules.judge import Verdict
from corral.world import workspace
from corral.world.custody import sweep
from corral.world.process import Limits
from corral.world.store.sqlite import Store

MOST_EVENTS, MOST_EVENT_BYTES = 50_000, 64 << 20  #: of an attempt, in the store; the raw log has more
Listener = Callable[[Heard], None]


class AttemptCourse:
    """Takes one attempt from wherever it stands to its end."""

    def __init__(
        self, record: AttemptRecord, node: Node, dressed: Outfit, host: Host, store: Store, listen: Listener
    ) -> None:
        self.record, self.node, self.dressed, self.host, self.store, self.listen = (
            record,
            node,
            dressed,
            host,
            store,
            listen,
        )
        self.attempt = record.attempt
        self.folder = Path(record.folder)
        self.over_budget = False
        self._events = self._event_bytes = 0

    async def carry_out(self) -> None:
        """Work, collect, prove: in whatever phase the record is.

        The workspace is removed only when all that was done in it is safe; whatever else happens, it stays for
        `resume`, and a full disk is such a thing: make room, resume.
        """
        try:
            if self.record.phase == "working" and not self._had_finished():
                await self._salvage()
            else:
                if self.record.phase == "new":
                    await self._work()
                if self.record.phase == "worked":
                    await self._collect()
                await self._prove()
        except (CorralError, OSError) as error:
            if isinstance(error, StoreTrouble):
                raise
            if "No space left" in str(error):
                hint = f"make room, then: corral resume {self.record.run}"
                raise StoreTrouble(f"the disk is full: {error}", hint=hint) from error
            safe = self.record.phase in ("new", "collected")
            await self._fail(error, "" if safe else f"; its workspace is kept: {self.folder}")
            if not safe:
                return
        if not can_continue(self.record, self.dressed):
            await asyncio.to_thread(workspace.remove, self.folder)

    # --- the steps

    async def _work(self) -> None:
        record, task = self.record, self.node.task
        record.started = time.time()
        self.attempt.status = "running"
        self.attempt.sandbox = SandboxReport(self.host.level)
        if record.continues:
            made, told = self.host.take_over(self.folder), prompt.continued()
        else:
            made, told = await self.host.make(self.folder, self.host.plan.base), prompt.build(task, record.fed_back)
        self.host.logs.mkdir(parents=True, exist_ok=True)
        (self.host.logs / "prompt.txt").write_text(told)
        self._step("working")
        limits = Limits(timeout_seconds=task.timeout_seconds, idle_seconds=task.idle_seconds)
        asked = AgentTask(
            prompt=told,
            workspace="",
            home="",
            model=self.attempt.model,
            session=self.attempt.session if record.continues else None,
            budget_usd=self._remaining_usd(),
            read_only=task.read_only,
            number=self.attempt.number,
        )
        worked = await self.host.work(made, self.folder, self.dressed, asked, limits, self._emit)
        self._take(worked.ended, worked.exit.why)
        self._step("worked")

    def _take(self, ended: Ended | None, why: str) -> None:
        limit = self.node.task.idle_seconds if why == "idle" else self.node.task.timeout_seconds
        verdict = judge.of_agent(ended, why, f"{limit:.0f} s", parked=self.record.until is not None)
        if self.over_budget:
            verdict = Verdict("over_budget")
        self.record.outcome = verdict.status if verdict else "done"
        self.attempt.error = verdict.error if verdict else None
        if ended:
            self.attempt.output = ended.output if ended.output is not None else ended.text
            self.record.denied = ended.denied
        if self.dressed.profile.cost_usd is not None:
            self.attempt.cost = Cost(self.dressed.profile.cost_usd, "fixed")

    async def _collect(self) -> None:
        commit = await self.host.collect(self.folder, self.node.id, self.record.run)
        if commit:
            repository = self.host.repository
            change, self.record.tree = await asyncio.gather(
                repository.change(self.host.plan.base, commit), repository.tree_of(commit)
            )
            self.record.diff_sha256 = hashlib.sha256(change.patch).hexdigest()
            self.attempt.commit = commit
            self.attempt.branch = naming.branch(self.record.run, self.node.id, self.attempt.id)
            self.attempt.files_changed = change.files
            self.attempt.insertions, self.attempt.deletions = change.insertions, change.deletions
        self._step("collected")

    async def _prove(self) -> None:
        if self.record.outcome != "done":
            await self._over(Verdict(self.record.outcome or "failed", self.attempt.error))
            return
        checks = await self._checks()
        self.attempt.checks = tuple(checks)
        for check in checks:
            self._emit(Checked(check))
        ended = Ended(ok=True, denied=self.record.denied)
        stopped = self.host.stop.is_set()
        await self._over(Verdict("stopped") if stopped else judge.of_work(self.node.task, self.attempt, ended, checks))

    async def _checks(self) -> list[CheckResult]:
        """Run the checks on what was delivered, and once more with the base's own tests where those were changed."""
        task, host, base = self.node.task, self.host, self.host.plan.base
        commit = self.attempt.commit or base
        if not task.checks or not (self.attempt.files_changed or task.read_only):
            return []
        results = await host.check(self._beside("check"), commit, task.checks, "check")
        if base is None or commit is None or commit == base or not all(result.passed for result in results):
            return results
        changed = judge.guarded_by(task.checks, task, await host.repository.changed_since(base, commit))
        if not changed:
            return results
        original = await workspace.with_files_of(host.repository, commit, base, changed)
        again = await host.check(self._beside("recheck"), original, task.checks, "recheck")
        files = ", ".join(changed[:5])
        return [
            first
            if second.passed
            else _noted(first, second, f"`{first.command}` passes only with changed tests: {files}")
            for first, second in zip(results, again, strict=True)
        ]

    def _had_finished(self) -> bool:
        """Look whether the agent had said its last word when its engine died: then it is not started again."""
        after, found = 0, False
        while batch := self.store.events(self.record.run, after):
            after = batch[-1].seq
            for event in (stored.event() for stored in batch if stored.attempt == self.attempt.id):
                if isinstance(event, Spent):
                    self._spend(event)
                if isinstance(event, Limited):
                    self.record.until = event.until
                if isinstance(event, Ended):
                    self._take(event, "exited")
                    found = True
        if found:
            sweep(self.attempt.id)
            self._step("worked")
        return found

    async def _salvage(self) -> None:
        """Its engine died while the agent worked: end what may be left of it, keep its work, let another try go on."""
        sweep(self.attempt.id)
        self._emit(Noted("corral was ended while this attempt worked; its work is kept"))
        if (self.folder / "work" / ".git").exists():
            await self._collect()
        await self._over(Verdict("stopped", Failure("crash", "corral was ended while it worked; its work is kept")))

    # --- recording

    async def _fail(self, error: CorralError | OSError, kept: str) -> None:
        kind: ErrorClass = "check_failed" if isinstance(error, SetupFailed) else "crash"
        hint = error.hint if isinstance(error, CorralError) else ""
        await self._over(Verdict("failed", Failure(kind, f"{error}{kept}", hint)))

    async def _over(self, verdict: Verdict) -> None:
        record, attempt = self.record, self.attempt
        attempt.status, attempt.error = verdict.status, verdict.error
        record.ended = time.time()
        attempt.seconds = round(record.ended - record.started, 3)
        if attempt.commit and attempt.status == "done":
            record.receipt = self._receipt(attempt.commit)
            await asyncio.gather(self._note(record.receipt), asyncio.to_thread(workspace.remove, self.folder))
        reason = verdict.error.message if verdict.error else None
        with self.store.transaction():
            self._emit(Moved(f"attempt {attempt.id}", attempt.status, reason))
            self._step("over")

    def _receipt(self, commit: str) -> Receipt:
        attempt = self.attempt
        return Receipt(
            attempt=attempt.id,
            agent=attempt.agent,
            base=self.host.plan.base,
            commit=commit,
            tree=self.record.tree,
            diff_sha256=self.record.diff_sha256,
            checks=attempt.checks,
            cost=attempt.cost,
            tokens=attempt.tokens,
            sandbox=attempt.sandbox,
            status=attempt.status,
            task_sha256=hashlib.sha256(self.node.task.prompt.encode()).hexdigest(),
            corral=__version__,
            at=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    async def _note(self, receipt: Receipt) -> None:
        text = msgspec.json.format(ENCODER.encode(receipt), indent=1) + b"\n"
        async with self.host.repository_lock():
            await workspace.add_note(self.host.repository, receipt.commit, naming.NOTES, text)

    def _step(self, phase: Phase) -> None:
        self.record.phase = phase
        self.store.save_attempt(self.record)

    def _emit(self, event: Event) -> None:
        """Store an event, tell whoever watches, and act on what it says."""
        if not isinstance(event, VITAL):
            self._events += 1
            if self._events > MOST_EVENTS or self._event_bytes > MOST_EVENT_BYTES:
                return
            if self._events == MOST_EVENTS:
                event = Noted("it says too much: the rest is in its raw log only")
            self._event_bytes += len(getattr(event, "text", "") or getattr(event, "output", ""))
        self.store.note(self.record.run, event, at=time.time(), node=self.node.id, attempt=self.attempt.id)
        self.listen(Heard(self.record.run, self.node.id, self.attempt.id, event))
        if isinstance(event, Started):
            self.attempt.session = event.session or self.attempt.session
            self.attempt.model = self.attempt.model or event.model
            self._step(self.record.phase)  # by its session the agent can go on after a crash
        elif isinstance(event, Spent):
            self._spend(event)
        elif isinstance(event, Limited):
            self.record.until = event.until

    def _spend(self, spent: Spent) -> None:
        self.attempt.tokens = spent.tokens
        if spent.usd is None:
            return
        self.attempt.cost = Cost(spent.usd, "reported")
        remaining = self._remaining_usd()
        if remaining is not None and spent.usd > remaining:
            self.over_budget = True
            self.host.stop.set()

    def _remaining_usd(self) -> float | None:
        if self.node.task.budget_usd is None:
            return None
        tries = [record.attempt for record in self.store.attempts(self.record.run) if record.node == self.node.id]
        return self.node.task.budget_usd - sum(each.cost.usd or 0.0 for each in tries if each.id != self.attempt.id)

    def _beside(self, name: str) -> Path:
        return self.folder.with_name(f"{self.attempt.id}-{name}")


def can_continue(record: AttemptRecord, dressed: Outfit) -> bool:
    """Tell whether a lost or limited attempt can be gone on with: the agent can resume, and its session is known."""
    parked = record.attempt.status == "limited" or schedule.lost(record.attempt)
    return parked and dressed.agent.facts.resumes and record.attempt.session is not None


def _noted(first: CheckResult, second: CheckResult, note: str) -> CheckResult:
    return msgspec.structs.replace(first, note=note, output=second.output, log=second.log)
