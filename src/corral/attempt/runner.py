"""One attempt, the central half; each step is stored before the next, so a crash repeats only what it cut off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from corral.attempt import artifacts, attempt_end, briefing
from corral.attempt.admission import AgentResolver
from corral.attempt.agent_work import AgentWork
from corral.attempt.attempt_end import AttemptEnd
from corral.attempt.attempt_machine import AttemptMachine
from corral.attempt.events import AttemptEvents
from corral.attempt.proof.evidence import EvidenceCollector, Proof
from corral.attempt.toolbox.toolbox import AttemptToolbox
from corral.model import AttemptRecord, Failure
from corral.model.errors import StoreTrouble
from corral.model.events import Ended, Noted
from corral.model.flow import Node
from corral.rules.checks import grading
from corral.rules.checks import verdict as judge
from corral.rules.checks.verdict import Verdict
from corral.rules.schedule import agent_tries
from corral.rules.text import names
from corral.world.concurrent import together
from corral.world.git import merge_commits
from corral.world.proxy.secret import SecretValue


class AttemptRunner:
    """Takes one attempt from wherever it stands to its end."""

    def __init__(
        self,
        attempt_events: AttemptEvents,
        node: Node,
        resolve: AgentResolver,
        where: AttemptMachine,
        toolbox: AttemptToolbox,
    ) -> None:
        self.toolbox, self.events = toolbox, attempt_events
        self.machine, self.host = where.machine, where.host
        self.record, self.attempt = attempt_events.record, attempt_events.attempt
        self._work = AgentWork(attempt_events, node, resolve, where, toolbox)
        self._end = AttemptEnd(self._work, self._collect)
        self.workspace = self._work.workspace

    @property
    def node(self) -> Node:
        return self._work.node

    async def execute(self) -> None:
        """Work, collect, prove: in whatever phase the record is.

        The workspace is removed only when all that was done in it is safe; whatever else happens, it stays.
        """
        try:
            async with self.machine.caches(self.workspace):
                await self._steps()
        except StoreTrouble:
            raise  # nothing can be recorded: all stays as it is for `resume`
        except Exception as error:  # noqa: BLE001 -- also what nobody foresaw ends this attempt, not the whole run
            await self.toolbox.close()
            await self._end.fail(error)
        finally:
            self.toolbox.children.abandon()  # all are over, unless this process is to leave at once
        if not self.record.kept and not can_continue(self.record):
            await self.machine.remove(self.workspace)

    async def fail(self, error: Exception) -> None:
        """End it as failed before anything was done."""
        await self.toolbox.close()
        await self._end.fail(error)

    async def _steps(self) -> None:
        if self.record.phase != "new":
            await self.machine.fit_again(self.attempt.agent)
        if self.record.phase == "working":
            token = await self.machine.attach(self.workspace)
            if token is not None:
                self.toolbox.token = SecretValue(token)
                await self._work.go_on()
            elif not self._had_finished():
                await self._salvage()
                return
            else:
                await self.toolbox.close()
        if self.record.phase == "new":
            await self._work.run()
        if self.record.phase == "worked":
            await self._collect()
        await self._prove()

    # --- what users want of it while it works

    def steer(self, text: str) -> bool:
        """Take in what a user wants besides; return whether the agent is told while it works."""
        return self._work.steer(text)

    def condense(self, by: str) -> bool:
        """Lead the agent over into a fresh session when its present step is over; return whether it is at work."""
        return self._work.condense(by)

    def stop(self) -> None:
        """End it, and keep its work."""
        self.machine.end()

    def pause(self) -> None:
        """End it so that it can be gone on with later: that uses up no try."""
        self._work.paused = True
        self.machine.end()

    # --- its work, once its agent has ended

    async def _collect(self) -> None:
        self._end.collecting = True
        taken, _ = await together(
            self.machine.collect(self.workspace, self.node.id, self.record.run), self._work.guard.compare()
        )
        if taken.left:
            self._keep_workspace(taken.left)
        wrong = await artifacts.collect(self.events, self.node, self.machine, self.workspace, self.host.state)
        for words in wrong:
            self._say(words)
        if taken.saved:
            self.events.emit(Noted("beside its branch it left work in: " + ", ".join(taken.saved)))
        self.record.saved = taken.saved
        if taken.commit:
            repository, base = self.host.repository, self.host.base
            (change, self.record.diff_sha256), self.record.tree = await together(
                repository.change_and_sha256(base, taken.commit), repository.tree_of(taken.commit)
            )
            # Only now: nobody starts from a commit that git could not compare. Its hidden ref and its workspace stay.
            self.attempt.commit = taken.commit
            self.attempt.branch = names.branch(self.record.run, self.node.id, self.attempt.id)
            self.attempt.files_changed = change.files
            self.attempt.insertions, self.attempt.deletions = change.insertions, change.deletions
            self._work.guard.violate(self.machine.fitted.outside(change.files))
        self.events.step("collected")

    def _keep_workspace(self, left: Sequence[str]) -> None:
        """Keep the workspace of work that is collected in part: what is missing on the branch is only there."""
        for line in left:
            self._say(f"not collected: {line}")
        self.record.kept = True
        self.attempt.not_collected = self.events.redactor.value(tuple(left))
        self.attempt.workspace = f"{self.machine.path_of(self.workspace)}/work"
        self._say(f"its workspace is kept: {self.attempt.workspace}")

    async def _prove(self) -> None:
        if self.record.outcome != "done":
            await self._end.over(Verdict(self.record.outcome or "failed", self.attempt.error))
            return
        if marked := await self._marks_left():
            await self._end.over(judge.of_marks(marked))
            return
        if missing := sorted(self.node.artifacts.keys() - {each.name for each in self.record.artifacts}):
            await self._end.over(judge.of_artifacts(missing))
            return
        if strayed := judge.of_scope(self.attempt.sandbox.violations, self._work.guard.patch):
            await self._end.over(strayed)
            return
        if await self._is_unrevised():
            words = f"it changed nothing since {self.attempt.revises}"
            await self._end.over(Verdict("failed", Failure("no_change", words, "its answer: corral show")))
            return
        proof = await self._checks()
        self.attempt.checks, self.record.evidence = proof.results, self.events.redactor.value(proof.detail)
        if self.host.stop.is_set():
            await self._end.over(Verdict("stopped"))
            return
        ended = Ended(ok=True, denied=self.record.denied)
        task, saved, fits = self.node.task, self.record.saved, self.node.output is not None
        verdict = judge.of_work(task, self.attempt, ended, proof.results, saved, gives_output=fits)
        if verdict.status == "done" and self.node.kind != "run":
            self.attempt.evidence = self.events.redactor.value(proof.evidence)
            verdict = judge.of_evidence(verdict, self.attempt, self.host.plan.evidence.require, task, gives_output=fits)
        if verdict.status == "done" and self.node.scorers:
            self.attempt.scores = await attempt_end.score(self.node.scorers, self.host, self.attempt, self._say)
        if verdict.status == "done" and self.attempt.evidence:
            briefing.confirm(self.events, self.attempt.evidence.grade)
        await self._end.over(verdict)

    def _say(self, text: str) -> None:
        self.events.emit(Noted(text))

    async def _is_unrevised(self) -> bool:
        """Tell whether a revision left all as it was reviewed."""
        if not self.attempt.revises or not self.record.start or not self.attempt.commit:
            return bool(self.attempt.revises and not self.attempt.commit)
        return self.record.tree == await self.host.repository.tree_of(self.record.start)

    async def _marks_left(self) -> list[str]:
        """Return files whose conflicts nobody resolved."""
        if not self.record.conflicts:
            return []
        commit = self.attempt.commit or self.host.base or "HEAD"
        return await merge_commits.with_marks(self.host.repository, commit, self.record.conflicts)

    async def _checks(self) -> Proof:
        """Find out what the checks prove of what was delivered."""
        task, base = self.node.task, self.host.base
        commit = self.attempt.commit or base
        unchanged_ok = task.read_only or task.unchanged_ok or self.node.output is not None
        if not task.checks or not (self.attempt.files_changed or unchanged_ok):
            return Proof(evidence=grading.unchecked_evidence("there was no check"))
        prover = EvidenceCollector(self.host, task, self.record, self.events.emit, self.events.store)
        return await prover.prove(commit, self.record.compared_with or base)

    def _had_finished(self) -> bool:
        """Look whether the agent had said its last word when its engine died: then it is not started again."""
        if not self.events.read_back():
            return False
        self._work.take("exited")
        self.events.step("worked")
        return True

    async def _salvage(self) -> None:
        """Its engine died while the agent worked: keep its work, let another try go on."""
        self.events.emit(Noted("corral was ended while this attempt worked; its work is kept"))
        self._work.run_questions.withdraw("it was ended before it was answered", self.attempt.id)
        if self.host.stop.is_set():
            await self.toolbox.close(paused=self._work.paused)
        else:
            self.toolbox.mail.close()  # whoever goes on with it goes on with its children
        # Said before its work is collected: whoever goes on after one more crash must know how it ended.
        lost = Failure("crash", "corral was ended while it worked; its work is kept")
        self.record.outcome, self.attempt.error = "stopped", lost
        self.attempt.cost = self.events.budget.lost_cost()
        if await self.machine.has(self.workspace):
            await self._collect()
        await self._end.over(Verdict("stopped", lost))


def can_continue(record: AttemptRecord) -> bool:
    """Tell whether a lost or limited attempt can be gone on with: by its agent's own session, or from a summary."""
    parked = record.attempt.status == "limited" or agent_tries.is_lost(record.attempt)
    return parked and bool((record.resumes and record.attempt.session) or record.summary)


class AttemptRun(Protocol):
    """One attempt that is carried out somewhere."""

    @property
    def record(self) -> AttemptRecord: ...
    async def execute(self) -> None: ...
    def steer(self, text: str) -> bool: ...
    def condense(self, by: str) -> bool: ...
    def stop(self) -> None: ...
    def pause(self) -> None: ...


AttemptFactory = Callable[[AttemptRecord, Node], AttemptRun]
