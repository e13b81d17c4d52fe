"""One attempt, the central half; each step is stored before the next, so a crash repeats only what it cut off."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from corral import __version__
from corral.adapter import AgentTask, Answer, Hook, Steer
from corral.engine import briefing, forms, hooks, scoping
from corral.engine.evidence import Evidence
from corral.engine.guarding import Guard
from corral.engine.host import Ears, Host
from corral.engine.letterbox import Letterbox
from corral.engine.network import is_open
from corral.engine.outfit import Outfit
from corral.engine.purse import Terms
from corral.engine.questions import Questions
from corral.engine.recorder import Recorder
from corral.engine.toolbox import Toolbox
from corral.errors import Blocked, CorralError, SetupFailed, StoreTrouble
from corral.events import Asked, Ended, Event, Heeded, Moved, Noted
from corral.flow import Node
from corral.model import AttemptRecord, CheckResult, ErrorClass, Failure, Receipt, SandboxReport, Tokens
from corral.rules import budget, judge, lanes, naming, prompt, receipts
from corral.rules.judge import Verdict
from corral.world import collecting, merging, workspace
from corral.world.merging import Combined
from corral.world.process import Limits
from corral.world.sealing import made_key
from corral.world.workspace import Workspace


class AttemptCourse:
    """Takes one attempt from wherever it stands to its end."""

    def __init__(
        self, recorder: Recorder, node: Node, dress: Callable[[], Outfit], host: Host, toolbox: Toolbox
    ) -> None:
        self.toolbox = toolbox
        self.recorder, self.node, self._dress, self.host = recorder, node, dress, host
        self.record, self.attempt = recorder.record, recorder.attempt
        self.folder = Path(self.record.folder)
        self._hooks: tuple[Hook, ...] = ()
        self._guard = Guard(recorder, host)
        self._guide = ""
        self._desk = recorder.desk()
        self._questions = Questions(self.record, self._desk, node.task.idle_seconds, self)

    async def carry_out(self) -> None:
        """Work, collect, prove: in whatever phase the record is.

        The workspace is removed only when all that was done in it is safe; whatever else happens, it stays.
        """
        try:
            async with self.host.with_cache(self.folder):
                await self._steps()
        except StoreTrouble:
            raise  # nothing can be recorded: all stays as it is for `resume`
        except Exception as error:  # noqa: BLE001 -- also what nobody foresaw ends this attempt, not the whole run
            await self.toolbox.close()
            await self._fail(error)
        finally:
            self.toolbox.children.abandon()  # all are over, unless this process is to leave at once
        if not self.record.kept and not can_continue(self.record):
            await workspace.remove(self.folder)

    async def _steps(self) -> None:
        if self.record.phase != "new":
            await self.host.fit_again(self.attempt.agent)
        if self.record.phase == "working" and not self._had_finished():
            await self._salvage()
            return
        if self.record.phase == "new":
            await self._work()
        if self.record.phase == "worked":
            await self._collect()
        await self._prove()

    # --- the steps

    async def _work(self) -> None:
        record, task = self.record, self.node.task
        record.started = time.time()
        self.attempt.status = "running"
        self.attempt.sandbox = SandboxReport(self.host.level)
        if self.host.stop.is_set():
            record.outcome = "stopped"
            self.recorder.step("collected")
            return
        dressed = await forms.as_installed(self._dress(), self.host.state)
        self.recorder.has_account = bool(dressed.agent.facts.keys or dressed.agent.facts.login)
        if not await self._may_start(dressed):
            return
        self._hooks = dressed.hooks
        await hooks.run("before_start", self._hooks, self._about())
        record.resumes = dressed.agent.facts.resumes
        record.cost_usd = dressed.profile.cost_usd
        fitted = scoping.of_agent(self.host.plan.scopes, self.attempt.agent, self.host.plan.ignore)
        self._guard.keep_secrets(dressed, fitted.scope.env, self.toolbox.token.reveal())
        if is_open(self.host.level, fitted.scope.net):
            self.attempt.sandbox = SandboxReport(self.host.level, net="open")
        self.host.boxes.fitted = fitted
        if record.continues:
            made, _ = await asyncio.gather(self.host.take_over(self.folder), self._guard.look())
            told = prompt.continued(record.steers)
        else:
            await self._start_from()
            made, _ = await asyncio.gather(
                self.host.make(self.folder, record.start or self.host.base), self._guard.look()
            )
            self._guide = briefing.guide(made.tree, dressed.agent.facts.reads)
            told = self._told()
        letters = self._letterbox(dressed)
        told = "\n\n".join(filter(None, (told, letters.words() if letters and not record.continues else "")))
        for note in await self.host.fit(made, fitted):
            self.recorder.emit(Noted(note))
        await hooks.run("before_prompt", self._hooks, {**self._about(), "prompt": told})
        self.host.keep("prompt.txt", told)
        record.steers = ()
        self.recorder.step("working")
        asked = AgentTask(
            prompt=told,
            workspace="",
            home="",
            model=self.attempt.model,
            session=self.attempt.session if record.continues else None,
            interrupted=record.continues is not None,
            budget_usd=self.recorder.purse.left(),
            read_only=task.read_only,
            number=self.attempt.number,
            mcp=dressed.servers(),
            asks=dressed.profile.permissions == "ask",
        )
        why = await self._turns(made, dressed, asked, letters)
        if self.host.boxes.memory_kills:
            self.recorder.emit(Noted(f"the kernel ended {self.host.boxes.memory_kills} processes for want of memory"))
        self._take(why)
        self.recorder.step("worked")

    def _told(self) -> str:
        if self.node.kind == "run":
            return self.node.task.prompt
        task = self.node.task
        if self.record.conflicts:
            task = msgspec.structs.replace(
                task, handoff=f"{task.handoff}\n\n{prompt.conflicting(self.record.conflicts)}"
            )
        return prompt.build(task, self.record.fed_back, self.record.steers, guide=self._guide)

    async def _start_from(self) -> None:
        """Find the commit to start from: those of the nodes before it, combined where there are several."""
        record, heads = self.record, self.record.heads
        if len(heads) > 1:
            found = await merging.combine(self.host.repository, heads, f"Combine {len(heads)} steps")
            if found.commit is None:
                found = await self._with_marks(found)
            heads, record.conflicts = (found.commit or "",), tuple(each.path for each in found.conflicts)
        record.base = heads[0] if heads else self.host.plan.base
        self.host.base = record.base

    async def _with_marks(self, found: Combined) -> Combined:
        """Let an agent resolve what does not go together; a command cannot."""
        paths = [each.path for each in found.conflicts]
        if self.node.kind == "run":
            raise CorralError(
                f"the work of the nodes before it does not go together: {', '.join(paths[:5])}",
                hint="put a task between them, whose agent resolves it",
            )
        self.recorder.emit(Noted(f"it is to resolve conflicts in: {', '.join(paths)}"))
        return await merging.combine_marked(self.host.repository, self.record.heads, "Combine steps, with conflicts")

    async def _turns(self, made: Workspace, dressed: Outfit, asked: AgentTask, letters: Letterbox | None) -> str:
        """Let the agent work, and once more for all that it could not be told while it did; return how it ended."""
        task, scope = self.node.task, self.host.boxes.fitted.scope
        seconds = min(task.timeout_seconds, scope.timeout_seconds or task.timeout_seconds)
        limits = Limits(timeout_seconds=seconds, idle_seconds=task.idle_seconds)
        tools = self.toolbox if self.host.plan.toolbox.enabled else None
        ears = Ears(self._hear, self._guard.reached, self._meter, tools)
        try:
            async with letters.open() if letters else contextlib.nullcontext():
                ended = await self.host.work(made, dressed, asked, limits, ears)
                while self.record.steers and self._ended_well(ended.why):
                    asked = self._another_turn(asked)
                    ended = await self.host.work(made, dressed, asked, limits, ears)
        finally:
            await self._questions.over()
        if letters and self._ended_well(ended.why):
            letters.dealt_with()
        await self.toolbox.close()
        return ended.why

    def _letterbox(self, dressed: Outfit) -> Letterbox | None:
        """Return what an agent without MCP is given instead of tools, if there is anybody to write to."""
        if dressed.agent.facts.mcp or self.node.kind == "run" or not self.host.plan.toolbox.enabled:
            return None
        letterbox = Letterbox(self.toolbox, self.host, self.folder)
        return letterbox if letterbox.words() else None

    async def _may_start(self, dressed: Outfit) -> bool:
        """Look whether its agent has quota and there is money for it; hold that money."""
        if cooling := self.recorder.cooldown():  # another run found that out: asking again would only cost tries
            self._park(*cooling)
            return False
        if not await self.recorder.purse.open(self._terms(dressed), self.host.plan.repo):
            return True
        self.record.outcome, self.attempt.error = "over_budget", self._out_of_money()
        self.recorder.emit(Noted(f"not started: {self.attempt.error.message}"))
        self.recorder.step("collected")
        return False

    def _terms(self, dressed: Outfit) -> Terms:
        plan = self.host.plan
        facts = dressed.agent.facts
        return Terms(
            budget=dressed.budget,
            fixed_usd=dressed.profile.cost_usd,
            local=facts.local or self.node.kind == "run",
            tells=facts.reports_cost or facts.reports_tokens,
            flow_usd=plan.flow.budget_usd,
            sharers=max(1 + len(self.node.rivals), min(8, len(plan.flow.nodes))),
            go_on=plan.go_on,
        )

    def _park(self, until: float, reason: str) -> None:
        """End an attempt before it starts: its agent's quota is known to be used up."""
        self.record.until, self.record.outcome = until, "limited"
        self.attempt.error = Failure(
            "rate_limit", f"{self.attempt.agent} is limited, as another run found out: {reason}"
        )
        self.recorder.emit(Noted(f"not started: {self.attempt.error.message}"))
        self.recorder.step("collected")

    def stop(self) -> None:
        """End it, and keep its work."""
        self.host.stop.set()

    def steer(self, text: str) -> bool:
        """Take in what a person wants besides; return whether the agent is told while it works."""
        self.record.steers = (*self.record.steers, text)
        self.recorder.step(self.record.phase)
        return self.host.tell(Steer(text))

    def answer(self, order: Answer) -> bool:
        """Pass an answer on; return whether the agent waits for it."""
        return self.host.answer(order)

    def _ended_well(self, why: str) -> bool:
        ended = self.recorder.ended
        return why in ("exited", "lingered") and ended is not None and ended.ok and not self.host.stop.is_set()

    def _another_turn(self, asked: AgentTask) -> AgentTask:
        """Prepare the turn in which an agent hears what it could not be told while it worked."""
        steers, session = self.record.steers, self.attempt.session if self.record.resumes else None
        for text in steers:
            self.recorder.emit(Heeded(text))
        told = prompt.steered(self.node.task, steers, remembers=session is not None, guide=self._guide)
        self.host.keep("prompt-next.txt", told)
        self.recorder.new_turn()
        self.toolbox.new_turn()
        left = self.recorder.purse.left()
        return msgspec.structs.replace(asked, prompt=told, session=session, interrupted=False, budget_usd=left)

    def _hear(self, event: Event) -> None:
        self.recorder.emit(event)
        self._guard.heard(event, (str(self.folder),))
        if isinstance(event, Asked):
            self._questions.heard(self.recorder.redactor.value(event))
        self._watch_money()

    def _meter(self, model: str | None, tokens: Tokens, answer: int) -> None:
        self.recorder.purse.meter(model, tokens, answer)
        self._watch_money()

    def _watch_money(self) -> None:
        if self.recorder.purse.over or self.recorder.purse.too_long:
            self.host.stop.set()

    def _take(self, why: str) -> None:
        """Note how the agent's own part ended."""
        self.recorder.settle_tokens()
        ended = self.recorder.ended
        limit = self.node.task.idle_seconds if why == "idle" else self.node.task.timeout_seconds
        verdict = judge.of_agent(ended, why, f"{limit:.0f} s", parked=self.record.until is not None)
        verdict = judge.of_provider(verdict, self.host.unreached)
        verdict = judge.of_limits(verdict, self.host.last_words, killed=self.host.boxes.memory_kills)
        purse = self.recorder.purse
        if purse.over or purse.too_long or (verdict and verdict.status == "over_budget"):
            verdict = Verdict("over_budget", self._out_of_money())
        self.record.outcome = verdict.status if verdict else "done"
        self.attempt.error = verdict.error if verdict else None
        if ended:
            self.attempt.output = ended.output if ended.output is not None else ended.text
            self.record.denied = ended.denied
        self.attempt.cost = purse.cost()

    def _out_of_money(self) -> Failure:
        """Say which limit stopped it, and ask a person whether it may go on."""
        purse = self.recorder.purse
        question = purse.question()
        if question:
            entry = self._desk.ask(question)
            if not entry.open:  # that was answered, and is used up again
                entry = self._desk.ask(msgspec.structs.replace(question, key=f"{question.key}/{self.attempt.id}"))
            return Failure("denied", budget.words(purse.over) if purse.over else "", f"corral answer {entry.id} yes")
        return Failure("denied", purse.too_long or "its own limit of money is used up")

    async def _collect(self) -> None:
        taken, _ = await asyncio.gather(
            self.host.collect(self.folder, self.node.id, self.record.run), self._guard.compare()
        )
        if taken.saved:
            self.recorder.emit(Noted("beside its branch it left work in: " + ", ".join(taken.saved)))
        self.record.saved = taken.saved
        if taken.commit:
            repository, base = self.host.repository, self.host.base
            change, self.record.tree, self.record.diff_sha256 = await asyncio.gather(
                repository.change(base, taken.commit),
                repository.tree_of(taken.commit),
                repository.patch_sha256(base, taken.commit),
            )
            self.attempt.commit = taken.commit
            self.attempt.branch = naming.branch(self.record.run, self.node.id, self.attempt.id)
            self.attempt.files_changed = change.files
            self.attempt.insertions, self.attempt.deletions = change.insertions, change.deletions
            self._guard.violate(self.host.boxes.fitted.outside(change.files))
        self.recorder.step("collected")

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
        checks = await self._checks()
        self.attempt.checks = tuple(checks)
        if self.host.stop.is_set():
            await self._over(Verdict("stopped"))
            return
        ended = Ended(ok=True, denied=self.record.denied)
        await self._over(judge.of_work(self.node.task, self.attempt, ended, checks, self.record.saved))

    async def _marks_left(self) -> list[str]:
        """Return files whose conflicts nobody resolved."""
        if not self.record.conflicts:
            return []
        commit = self.attempt.commit or self.host.base or "HEAD"
        return await merging.with_marks(self.host.repository, commit, self.record.conflicts)

    async def _checks(self) -> list[CheckResult]:
        """Find out what the checks prove of what was delivered."""
        task, base = self.node.task, self.host.base
        commit = self.attempt.commit or base
        if not task.checks or not (self.attempt.files_changed or task.read_only or task.unchanged_ok):
            return []
        prover = Evidence(self.recorder, self.host, task, races=bool(self.node.rivals))
        return await prover.prove(commit, base)

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
        await self.toolbox.close()
        if (self.folder / "work").exists():
            await self._collect()
        await self._over(Verdict("stopped", Failure("crash", "corral was ended while it worked; its work is kept")))

    # --- the end

    async def _fail(self, error: Exception) -> None:
        if "No space left" in str(error):
            hint = f"make room, then: corral resume {self.record.run}"
            raise StoreTrouble(f"the disk is full: {error}", hint=hint) from error
        self.record.kept = self.record.phase in ("working", "worked")
        where = f"; its workspace is kept: {self.folder}" if self.record.kept else ""
        kinds: dict[type, ErrorClass] = {SetupFailed: "check_failed", Blocked: "denied"}
        kind = kinds.get(type(error), "crash")
        words = str(error) if isinstance(error, CorralError | OSError) else f"{type(error).__name__}: {error}"
        hint = error.hint if isinstance(error, CorralError) else ""
        self.host.forget_logins(self.folder)
        await self._over(Verdict("failed", Failure(kind, words + where, hint)))

    async def _over(self, verdict: Verdict) -> None:
        record, attempt, clean = self.record, self.attempt, self.recorder.redactor.value
        verdict = clean(verdict)
        attempt.status, attempt.error = verdict.status, verdict.error
        record.ended = time.time()
        attempt.seconds = round(record.ended - record.started, 3)
        if attempt.commit and attempt.status == "done":
            record.receipt = receipts.seal(clean(self._receipt(attempt.commit)), made_key(self.host.state))
            await asyncio.gather(self._note(record.receipt), workspace.remove(self.folder))
        reason = verdict.error.message if verdict.error else None
        try:
            moment = "after_done" if attempt.status == "done" else "after_failure"
            await hooks.run(moment, self._hooks, {**self._about(), "status": attempt.status, "reason": reason})
        except Blocked as error:
            self.recorder.emit(Noted(str(error)))  # it is over: too late to block anything
        with self.recorder.transaction():
            self.recorder.emit(Moved(f"attempt {attempt.id}", attempt.status, reason))
            self.recorder.purse.settle()
            self.recorder.step("over")

    def _receipt(self, commit: str) -> Receipt:
        attempt = self.attempt
        return Receipt(
            attempt=attempt.id,
            agent=attempt.agent,
            base=self.host.base,
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
        async with self.host.repository_lock():
            await collecting.add_note(self.host.repository, receipt.commit, naming.NOTES, receipts.text(receipt))

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
    """Tell whether a lost or limited attempt can be gone on with: the agent can resume, and its session is known."""
    parked = record.attempt.status == "limited" or lanes.lost(record.attempt)
    return parked and record.resumes and record.attempt.session is not None
