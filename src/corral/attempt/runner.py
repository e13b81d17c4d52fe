"""One attempt, the central half; each step is stored before the next, so a crash repeats only what it cut off."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import PurePath

from msgspec import UNSET

from corral.attempt import base_commit, briefing, hooks
from corral.attempt.admission import Admission
from corral.attempt.affordable_fallback import Dress
from corral.attempt.agent_questions import Questions
from corral.attempt.attempt_machine import AttemptMachine
from corral.attempt.events import AttemptEvents
from corral.attempt.mail.file_transport import FileMail
from corral.attempt.notional import is_notional
from corral.attempt.proof import judge_input, receipt, scoring
from corral.attempt.proof.evidence import Evidence, Proof
from corral.attempt.toolbox.toolbox import Toolbox
from corral.attempt.turns import Scene, Turns
from corral.attempt.violations import Guard
from corral.machines import scope as scoping
from corral.machines.host import AgentListeners
from corral.machines.network import is_open
from corral.machines.resolved_agent import ResolvedAgent
from corral.model import AttemptRecord, Cost, ErrorClass, Failure, SandboxReport, Tokens
from corral.model.agent_api import AgentTask, Answer, Hook, Steer
from corral.model.errors import Blocked, CorralError, SetupFailed, StoreTrouble
from corral.model.events import Asked, Ended, Event, Moved, Noted
from corral.model.flow import Node
from corral.model.money import notional_words
from corral.rules.checks import grading
from corral.rules.checks import verdict as judge
from corral.rules.checks.verdict import Verdict
from corral.rules.context import prompt
from corral.rules.schedule import agent_tries
from corral.rules.scope.refusals import of_refusals
from corral.rules.text import names
from corral.world import clock, machine_limits
from corral.world.concurrent import together
from corral.world.git import merge_commits
from corral.world.git.limits import OverLimit
from corral.world.process import Limits

NOTHING = Cost(0.0, "fixed")  #: of what did not start


class AttemptRunner:
    """Takes one attempt from wherever it stands to its end."""

    def __init__(
        self, recorder: AttemptEvents, node: Node, dress: Dress, where: AttemptMachine, toolbox: Toolbox
    ) -> None:
        self.toolbox = toolbox
        self.recorder, self.node = recorder, node
        self.machine, self.host = where.machine, where.host
        self.record, self.attempt = recorder.record, recorder.attempt
        self.workspace = PurePath(self.record.folder).name
        self._hooks: tuple[Hook, ...] = ()
        self._paused = self._by_login = False
        self._collecting = False  #: its work was collected, or that was tried
        self._admission = Admission(recorder, node, dress, self.host)
        self._guard = Guard(recorder, self.host)
        recorder.purse.asked_nobody = self._asked_nobody
        self._desk = recorder.desk()
        self._questions = Questions(self.recorder, self._desk, node.task.idle_limit_seconds, self)
        self._turns = Turns(recorder, node, where, toolbox)

    async def carry_out(self) -> None:
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
            await self._fail_surely(error)
        finally:
            self.toolbox.children.abandon()  # all are over, unless this process is to leave at once
        if not self.record.kept and not can_continue(self.record):
            await self.machine.remove(self.workspace)

    async def _steps(self) -> None:
        if self.record.phase != "new":
            await self.machine.fit_again(self.attempt.agent)
        if self.record.phase == "working":
            if not self._had_finished():
                await self._salvage()
                return
            await self.toolbox.close()
        if self.record.phase == "new":
            await self._work()
        if self.record.phase == "worked":
            await self._collect()
        await self._prove()

    # --- the steps

    async def _work(self) -> None:
        record = self.record
        record.started, record.clock = time.time(), clock.reading()
        self.attempt.status, self.attempt.cost = "running", NOTHING  # until its agent starts
        self.attempt.sandbox = SandboxReport(self.machine.level)
        if self.host.stop.is_set():
            record.outcome = "stopped"
            self.recorder.step("collected")
            return
        dressed = await self._admission.dressed()
        if not await self._admission.may_start(dressed):
            return
        self._hooks = dressed.hooks
        self._by_login = is_notional(dressed)
        await hooks.run("before_start", self._hooks, self._about())
        record.resumes = dressed.agent.facts.resumes
        self._confine(dressed)
        guide, told = await self._moved_in(dressed)
        self.toolbox.children.go_on()
        letters = self._letterbox(dressed)
        others = letters.words() if letters and not record.continues else ""
        told = "\n\n".join(filter(None, (told, self.toolbox.children.words(), others)))
        told = self._turns.shaped(told, dressed)
        for note in await self.machine.fit(self.workspace):
            self.recorder.emit(Noted(note))
        await hooks.run("before_prompt", self._hooks, {**self._about(), "prompt": told})
        self.host.keep("prompt.txt", told)
        record.steers, self.attempt.cost = (), Cost()
        self.recorder.step("working")
        scene = Scene(self.workspace, dressed, self._limits(), self._ears(), guide)
        why = await self._worked(scene, self._asked(dressed, told), letters)
        if killed := self.machine.report.memory_kills:
            self.recorder.emit(Noted(f"the kernel ended {killed} processes for want of memory"))
        self._take(why)
        self.recorder.step("worked")

    def _confine(self, dressed: ResolvedAgent) -> None:
        """Settle what its box will show and let through, and which words must never be told on."""
        fitted = scoping.of_agent(self.host.plan.scopes, self.attempt.agent, self.host.plan.ignore)
        redactor = self._guard.keep_secrets(dressed, fitted.scope.env, self.toolbox.token.reveal())
        if is_open(self.machine.level, fitted.scope.net):
            self.attempt.sandbox = SandboxReport(self.machine.level, net="open")
        self.machine.confine(fitted, redactor)

    async def _moved_in(self, dressed: ResolvedAgent) -> tuple[str, str]:
        """Make its workspace, or take over the one it goes on in; return what guides it there, and its prompt."""
        record = self.record
        if record.continues:
            await together(self.machine.take_over(self.workspace), self._guard.look())
            return "", self._going_on()
        base = await base_commit.find_base(self.recorder, self.node, self.host)
        self.machine.start_from(base)
        if record.candidates:
            others = self.recorder.store.attempts(record.run)
            self.node = self._turns.node = await judge_input.briefed(self.node, self.host, record, others)
        needs = [base] if base and record.start else []  # its work is bundled from the base on
        making = self.machine.make(self.workspace, record.start or base, needs=needs, say=self._say)
        await together(making, self._guard.look())
        guide = briefing.guide(self.machine, self.workspace, dressed.agent.facts.reads)
        return guide, self._told(guide)

    def _asked(self, dressed: ResolvedAgent, told: str) -> AgentTask:
        record = self.record
        return AgentTask(
            prompt=told,
            workspace="",
            home="",
            model=self.attempt.model,
            session=self.attempt.session if record.continues else None,
            interrupted=record.continues is not None,
            budget_usd=self.recorder.purse.left(),
            read_only=self.node.task.read_only,
            number=self.attempt.number,
            mcp=dressed.servers(),
            asks=dressed.profile.permissions == "ask",
            schema=self._turns.schema(dressed),
        )

    def _told(self, guide: str) -> str:
        if self.node.kind == "run":
            return self.node.task.prompt
        return prompt.build(self._turns.task, self.record.fed_back, self.record.steers, guide=guide)

    def _limits(self) -> Limits:
        task, scope = self.node.task, self.machine.fitted.scope
        seconds = min(task.time_limit_seconds, scope.timeout_seconds or task.time_limit_seconds)
        return Limits(timeout_seconds=seconds, idle_seconds=task.idle_limit_seconds)

    def _ears(self) -> AgentListeners:
        tools = self.toolbox if self._has_tools() else None
        count = self.recorder.purse.count
        count.ended = self._watch_money
        return AgentListeners(self._hear, self._guard.reached, self._meter, tools, self._admission.turnstile, count)

    async def _worked(self, scene: Scene, asked: AgentTask, letters: FileMail | None) -> str:
        """Let the agent work, and once more for all that it could not be told while it did; return how it ended."""
        try:
            async with letters.open() if letters else contextlib.nullcontext():
                ended = await self._turns.work(scene, asked)
        finally:
            await self._questions.over()
        if letters and self._turns.ended_well(ended.why):
            letters.dealt_with()
        await self.toolbox.close(paused=self._paused)
        return ended.why

    def _letterbox(self, dressed: ResolvedAgent) -> FileMail | None:
        """Return what an agent without MCP is given instead of tools, if there is anybody to write to."""
        if dressed.agent.facts.mcp or self.node.kind == "run" or not self._has_tools():
            return None
        letterbox = FileMail(self.toolbox, self.machine, self.workspace)
        return letterbox if letterbox.words() else None

    def _has_tools(self) -> bool:
        """Tell whether it may talk to others; a judge may not, for it is not to know whose work it compares."""
        return self.host.plan.toolbox.enabled and not self.record.candidates

    def stop(self) -> None:
        """End it, and keep its work."""
        self.machine.end()

    def pause(self) -> None:
        """End it so that it can be gone on with later: that uses up no try."""
        self._paused = True
        self.machine.end()

    def steer(self, text: str) -> bool:
        """Take in what a person wants besides; return whether the agent is told while it works."""
        self.record.steers = (*self.record.steers, text)
        self.recorder.step(self.record.phase)
        return self.machine.tell(Steer(text))

    def answer(self, order: Answer) -> bool:
        """Pass an answer on; return whether the agent waits for it."""
        return self.machine.answer(order)

    def condense(self, by: str) -> bool:
        """Lead the agent over into a fresh session when its present step is over; return whether it is at work."""
        return self._turns.condense(by)

    def _going_on(self) -> str:
        """Return what an agent hears that goes on with what another attempt began."""
        record = self.record
        if self.attempt.session is None and record.summary:
            told = prompt.from_summary(self._turns.task, record.summary, "~/condensed")
            return "\n\n".join([told, *record.steers])
        return prompt.continued(record.steers)

    def _hear(self, event: Event) -> None:
        self.recorder.emit(event)
        self._turns.heard(event)
        self._guard.heard(event, (self.machine.path_of(self.workspace),))
        if isinstance(event, Asked):
            self._questions.heard(self.recorder.redactor.value(event))
        self._watch_money()

    def _meter(self, model: str | None, tokens: Tokens, answer: int) -> None:
        self.recorder.purse.meter(model, tokens, answer)
        if self.recorder.gauge is not None:
            self.recorder.gauge.metered(model, tokens)
        self._watch_money()

    def _asked_nobody(self) -> bool:
        """Tell whether no request of its agent can have cost money: none passed by us, and there is no other way."""
        report = self.machine.report
        if report.unmetered or self.recorder.purse.requests:
            return False
        return report.metered or not self._guard.reached_any

    def _watch_money(self) -> None:
        purse = self.recorder.purse
        if purse.over or purse.too_long or purse.count.reason:
            self.machine.end()

    def _take(self, why: str) -> None:
        """Note how the agent's own part ended."""
        self.recorder.settle_tokens()
        ended = self.recorder.ended
        if why == "cut" and self.host.stop.is_set():
            why = "stopped"
        task, guard, report = self.node.task, self._guard, self.machine.report
        answered = bool(self.recorder.purse.count.answered)
        limit = task.idle_limit_seconds if why == "idle" else task.time_limit_seconds
        verdict = judge.of_agent(ended, why, f"{limit:.0f} s", parked=self.record.until is not None)
        verdict = judge.of_provider(verdict, report.unreached)
        verdict = of_refusals(verdict, guard.refusals, report.last_words, reached=guard.reached_any or answered)
        verdict = judge.of_limits(
            verdict,
            report.last_words,
            killed=report.memory_kills,
            disk_has_room=report.disk_has_room,
        )
        self.attempt.output, verdict = judge.of_output(
            verdict, ended, self.node.output, command=self.node.kind == "run"
        )
        purse = self.recorder.purse
        purse.reported_whole &= ended is not None
        if purse.over or purse.too_long or purse.count.reason or (verdict and verdict.status == "over_budget"):
            verdict = Verdict("over_budget", self._admission.out_of_money())
        if verdict and verdict.error and verdict.error.kind == "rate_limit":
            verdict = self._admission.elsewhere(verdict, verdict.error)
        self.record.outcome = verdict.status if verdict else "done"
        self.attempt.error = verdict.error if verdict else None
        if ended:
            self.record.denied = ended.denied
        self.attempt.cost = purse.cost()
        if self._by_login and self.attempt.cost.usd:
            self._say(f"its cost is notional: {notional_words(self.recorder.windows())}")

    async def _collect(self) -> None:
        self._collecting = True
        taken, _ = await together(
            self.machine.collect(self.workspace, self.node.id, self.record.run), self._guard.compare()
        )
        if taken.left:
            self._keep_workspace(taken.left)
        if taken.saved:
            self.recorder.emit(Noted("beside its branch it left work in: " + ", ".join(taken.saved)))
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
            self._guard.violate(self.machine.fitted.outside(change.files))
        self.recorder.step("collected")

    def _keep_workspace(self, left: Sequence[str]) -> None:
        """Keep the workspace of work that is collected in part: what is missing on the branch is only there."""
        for line in left:
            self._say(f"not collected: {line}")
        self.record.kept = True
        self.attempt.not_collected = self.recorder.redactor.value(tuple(left))
        self.attempt.workspace = f"{self.machine.path_of(self.workspace)}/work"
        self._say(f"its workspace is kept: {self.attempt.workspace}")

    async def _prove(self) -> None:
        if self.record.outcome != "done":
            await self._over(Verdict(self.record.outcome or "failed", self.attempt.error))
            return
        if marked := await self._marks_left():
            await self._over(judge.of_marks(marked))
            return
        if strayed := judge.of_scope(self.attempt.sandbox.violations, self._guard.patch):
            await self._over(strayed)
            return
        proof = await self._checks()
        self.attempt.checks, self.record.evidence = proof.results, self.recorder.redactor.value(proof.detail)
        if self.host.stop.is_set():
            await self._over(Verdict("stopped"))
            return
        ended = Ended(ok=True, denied=self.record.denied)
        task, saved, fits = self.node.task, self.record.saved, self.node.output is not None
        verdict = judge.of_work(task, self.attempt, ended, proof.results, saved, gives_output=fits)
        if verdict.status == "done" and self.node.kind != "run":
            self.attempt.evidence = self.recorder.redactor.value(proof.evidence)
            verdict = judge.of_evidence(verdict, self.attempt, self.host.plan.evidence.require, task, gives_output=fits)
        if verdict.status == "done" and self.node.scorers:
            self.attempt.scores = await scoring.score(self.node.scorers, self.host, self.attempt, self._say)
        await self._over(verdict)

    def _say(self, text: str) -> None:
        self.recorder.emit(Noted(text))

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
            return Proof(evidence=grading.unchecked("there was no check"))
        prover = Evidence(self.host, task, self.record, self.recorder.emit, self.recorder.store)
        return await prover.prove(commit, self.record.compared_with or base)

    def _had_finished(self) -> bool:
        """Look whether the agent had said its last word when its engine died: then it is not started again."""
        if not self.recorder.read_back():
            return False
        self._take("exited")
        self.recorder.step("worked")
        return True

    async def _salvage(self) -> None:
        """Its engine died while the agent worked: keep its work, let another try go on."""
        self.recorder.emit(Noted("corral was ended while this attempt worked; its work is kept"))
        self._desk.withdraw("it was ended before it was answered", self.attempt.id)
        if self.host.stop.is_set():
            await self.toolbox.close(paused=self._paused)
        else:
            self.toolbox.mail.close()  # whoever goes on with it goes on with its children
        # Said before its work is collected: whoever goes on after one more crash must know how it ended.
        lost = Failure("crash", "corral was ended while it worked; its work is kept")
        self.record.outcome, self.attempt.error = "stopped", lost
        if self.machine.has(self.workspace):
            await self._collect()
        await self._over(Verdict("stopped", lost))

    # --- the end

    async def _fail_surely(self, error: Exception) -> None:
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
            with self.recorder.transaction():
                self.recorder.purse.settle()
                self.recorder.step("over")

    async def _fail(self, error: Exception) -> None:
        if "No space left" in str(error):
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
        await self._over(Verdict("failed", Failure(kind, words + where, hint, lasting=lasting)))

    async def _rescue(self) -> str:
        """Collect what the agent made before something else failed; return why that is not possible."""
        if self._collecting or self.record.phase not in ("working", "worked") or not self.machine.has(self.workspace):
            return ""
        try:
            await self._collect()
        except StoreTrouble:
            raise
        except Exception as error:  # noqa: BLE001 -- the first failure is the one to report
            return f"; its work cannot be collected: {error}"
        return ""

    async def _over(self, verdict: Verdict) -> None:
        record, attempt, clean = self.record, self.attempt, self.recorder.redactor.value
        if self._paused and verdict.status == "stopped":
            verdict = Verdict("stopped", Failure("crash", "it was paused; its work is kept"))
        verdict = clean(verdict)
        attempt.status, attempt.error = verdict.status, verdict.error
        record.ended = time.time()
        attempt.seconds = clock.seconds_since(record.clock, record.started)
        if record.kept:
            self.machine.forget_logins(self.workspace)
        if attempt.commit and attempt.status == "done":
            record.receipt = receipt.made(self.recorder, self.node.task, self.host, attempt.commit)
            noted = receipt.note(self.host, record.receipt, self._say)
            await (noted if record.kept else together(noted, self.machine.remove(self.workspace)))
        reason = verdict.error.message if verdict.error else None
        try:
            moment = "after_done" if attempt.status == "done" else "after_failure"
            await hooks.run(moment, self._hooks, {**self._about(), "status": attempt.status, "reason": reason})
        except Blocked as error:
            self.recorder.emit(Noted(str(error)))  # it is over: too late to block anything
        with self.recorder.transaction():
            self.recorder.emit(Moved(f"attempt {attempt.id}", attempt.status, reason))
            if attempt.cost.usd is None and record.cost_usd is not None:  # a fixed price is owed however it ended
                attempt.cost = Cost(record.cost_usd, "fixed")
            self.recorder.purse.settle()
            self.recorder.step("over")

    def _about(self) -> dict[str, str | None]:
        """Return what a hook is told."""
        plan, attempt = self.host.plan, self.attempt
        return {
            "run": self.record.run,
            "attempt": attempt.id,
            "agent": attempt.agent,
            "model": attempt.model,
            "type": self.node.task.type,
            "repo": plan.repo,
            "branch": attempt.branch,
        }


def can_continue(record: AttemptRecord) -> bool:
    """Tell whether a lost or limited attempt can be gone on with: by its agent's own session, or from a summary."""
    parked = record.attempt.status == "limited" or agent_tries.lost(record.attempt)
    return parked and bool((record.resumes and record.attempt.session) or record.summary)
