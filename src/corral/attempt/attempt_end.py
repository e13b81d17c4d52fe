"""The end of an attempt: its work collected, its verdict and receipt stored, and its money settled."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import UNSET

from corral.attempt import artifacts, hooks
from corral.attempt.agent_work import AgentWork
from corral.attempt.hooks import about
from corral.attempt.proof.verdict import add_receipt_note, make_receipt
from corral.model import Cost, ErrorClass, Failure, Tokens
from corral.model.errors import (
    Blocked,
    CorralError,
    GitTrouble,
    MissingWorkspace,
    OutOfResources,
    SetupFailed,
    StoreTrouble,
)
from corral.model.events import Noted, StatusChanged
from corral.rules.checks.verdict import Verdict
from corral.rules.text import names
from corral.world import clock, machine_limits
from corral.world.concurrent import together
from corral.world.git.command import OverLimit


class AttemptEnd:
    """Ends one attempt; what is not collected yet is rescued first."""

    def __init__(self, work: AgentWork) -> None:
        self.work = work
        self.events, self.host, self.machine, self.workspace = work.events, work.host, work.machine, work.workspace
        self.record, self.attempt = work.record, work.attempt
        self._collecting = False  #: its work was collected, or that was tried

    async def collect(self) -> None:
        """Collect the work onto its branch, and the files that its node names."""
        self._collecting = True
        record, attempt, node = self.record, self.attempt, self.work.node
        taken, _ = await together(self.machine.collect(self.workspace, node.id, record.run), self.work.guard.compare())
        if taken.left:
            self._keep_workspace(taken.left)
        for words in await artifacts.collect(self.events, node, self.machine, self.workspace, self.host.state):
            self.work.say(words)
        if taken.saved:
            self.work.say("beside its branch it left work in: " + ", ".join(taken.saved))
        record.saved = taken.saved
        if taken.commit:
            repository, base = self.host.repository, self.host.base
            (change, record.diff_sha256), record.tree = await together(
                repository.change_and_sha256(base, taken.commit), repository.tree_of(taken.commit)
            )
            # Only now: nobody starts from a commit that git could not compare. Its hidden ref and its workspace stay.
            attempt.commit = taken.commit
            attempt.branch = names.branch(record.run, node.id, attempt.id)
            attempt.files_changed = change.files
            attempt.insertions, attempt.deletions = change.insertions, change.deletions
            self.work.guard.violate(self.machine.fitted.outside(change.files))
        if node.task.checks or node.scorers or self.work.hooks:
            self.events.step("collected")
        else:
            record.phase = "collected"  # stored with its end, which comes at once: to collect it again changes nothing

    def _keep_workspace(self, left: Sequence[str]) -> None:
        """Keep the workspace of work that is collected in part: what is missing on the branch is only there."""
        for line in left:
            self.work.say(f"not collected: {line}")
        self.record.kept = True
        self.attempt.not_collected = self.events.redactor.value(tuple(left))
        self.attempt.workspace = f"{self.machine.path_of(self.workspace)}/work"
        self.work.say(f"its workspace is kept: {self.attempt.workspace}")

    async def salvage(self) -> None:
        """End it as lost after its engine died while the agent worked: keep its work, let another try continue."""
        self.work.say("corral was ended while this attempt worked; its work is kept")
        self.work.run_questions.withdraw("it was ended before it was answered", self.attempt.id)
        if self.host.stop.is_set():
            await self.work.toolbox.close(paused=self.work.paused)
        else:
            self.work.toolbox.mail.close()  # a resumed attempt continues with its children
        # Said before its work is collected: after one more crash, the next process must know how it ended.
        lost = Failure("crash", "corral was ended while it worked; its work is kept")
        self.record.outcome, self.attempt.error = "stopped", lost
        self.attempt.cost = self.events.budget.lost_cost()
        if await self.machine.has(self.workspace):
            await self.collect()
        await self.over(Verdict("stopped", lost))

    async def fail(self, error: Exception) -> None:
        """End it as failed; where even that fails, end it with nothing but its error: others continue."""
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
        elsewhere = self.work.node.machine is not None or self.attempt.machine is not None
        full = machine_limits.is_disk_full(str(error))
        if full and (not elsewhere or self._is_own_disk_full()):
            hint = f"make room, then: corral resume {self.record.run}"
            raise StoreTrouble(f"the disk is full: {error}", hint=hint) from error
        if isinstance(error, Blocked):
            self.events.emit(Noted(str(error), hook=error.moment))
        lost = await self._rescue()
        gone = isinstance(error, MissingWorkspace)
        whole = not gone and self.record.phase in ("working", "worked")  # nothing of it is collected
        self.record.kept |= whole
        where = f"{lost}; its workspace is kept: {self.machine.path_of(self.workspace)}" if whole else ""
        kinds: dict[type, ErrorClass] = {SetupFailed: "check_failed", Blocked: "denied"}
        kind = kinds.get(type(error), "crash")
        short = None if elsewhere and not isinstance(error, OSError | OutOfResources) else machine_limits.of(error)
        limit = isinstance(error, OverLimit) or (short and not isinstance(error, SetupFailed))
        lasting = True if limit else UNSET  # another try would meet it too
        error = short or error
        words = str(error) if isinstance(error, CorralError | OSError) else f"{type(error).__name__}: {error}"
        hint = error.hint if isinstance(error, CorralError) else ""
        if full:
            kind, hint = "disk", f"make room there, then: corral retry {self.record.run} {self.record.node}"
            words = (
                f"the disk of the machine `{self.attempt.machine}` is full: {words}" if self.attempt.machine else words
            )
        if whole and not elsewhere:
            hint = hint or f"corral restore {self.attempt.id} tries once more to collect it"
        await self.over(Verdict("failed", Failure(kind, words + where, hint, lasting=lasting)))

    def _is_own_disk_full(self) -> bool:
        """Look whether a disk of ours is full: the words of an attempt elsewhere may be its machine's."""
        folders = (self.host.state, self.host.repository.git_dir, Path(tempfile.gettempdir()))
        return any(machine_limits.has_no_room(each, machine_limits.FEW_BLOCKS) for each in folders)

    async def _rescue(self) -> str:
        """Collect what the agent made before something else failed; return why that is not possible."""
        if self._collecting or self.record.phase not in ("working", "worked"):
            return ""
        try:
            if not await self.machine.has(self.workspace):
                return ""
            await self.collect()
        except StoreTrouble:
            raise
        except Exception as error:  # noqa: BLE001 -- the first failure is the one to report
            return f"; its work cannot be collected: {error}"
        return ""

    async def over(self, verdict: Verdict) -> None:
        """Store how it ended, with its receipt, and settle its money."""
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
            record.receipt = make_receipt(self.events, self.work.node.task, self.host, attempt.commit)
            if self._notes_before_end:
                await add_receipt_note(self.host, record.receipt, self.work.say)
        reason = verdict.error.message if verdict.error else None
        try:
            moment = "after_done" if attempt.status == "done" else "after_failure"
            await hooks.run(
                moment,
                self.work.hooks,
                {**about(self.events, self.work.node, self.host), "status": attempt.status, "reason": reason},
            )
        except Blocked as error:
            self.events.emit(Noted(str(error), hook=error.moment))  # it is over: too late to block anything
        with self.events.transaction():
            self.events.emit(StatusChanged("attempt", attempt.id, attempt.status, reason))
            if attempt.cost.usd is None and record.cost_usd is not None:  # a fixed price is owed however it ended
                attempt.cost = Cost(record.cost_usd, "fixed")
            self.events.budget.settle()
            self.events.step("over")

    @property
    def _notes_before_end(self) -> bool:
        """Tell whether its receipt is noted before its end is stored: a hook may read it, or its workspace stays."""
        return bool(self.work.hooks or self.record.kept or self.attempt.machine)

    async def clean_up(self, *, keep: bool) -> None:
        """Note its receipt, then remove its workspace: as long as that is there, a note may be missing."""
        if self.record.receipt and not self._notes_before_end:
            try:
                await add_receipt_note(self.host, self.record.receipt, self.work.say)
            except (GitTrouble, OSError) as error:
                todo = f"make room, then: corral verify {self.record.run}"
                self.work.say(f"its receipt is not noted on its commit yet, {todo}: {error}"[:500])
                return
        if not keep:
            await self.machine.remove(self.workspace)
