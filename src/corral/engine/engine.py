"""What every front end holds: submit, drive, watch, stop, resume, show, diff, export."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from corral import config
from corral.adapter import AgentProfile
from corral.engine import document
from corral.errors import BadRequest, Conflicting, CorralError, Stopped, StoreTrouble
from corral.events import Condensed, Heard, Noted, Started, Stored
from corral.model import OPEN, Attempt, Entry, NodeState, Receipt, Request, Run, RunPlan, RunRecord, Status, TrackRecord
from corral.rules import naming
from corral.world import custody
from corral.world.notice import Bell
from corral.world.store import history, inbox, merges, paging, waiting
from corral.world.store.sqlite import LEASE_SECONDS, RunLine, Store
from corral.world.trust import Trust

if TYPE_CHECKING:
    from corral.engine.access import Access
    from corral.engine.automation import Automation
    from corral.engine.cleaning import Cleaned
    from corral.engine.comparing import Comparison
    from corral.engine.estimating import Estimate
    from corral.engine.glances import Glances
    from corral.engine.keeping import Restored
    from corral.engine.loop import Drive
    from corral.engine.merging import Merger
    from corral.engine.office import Family, Office
    from corral.engine.outfit import Outfit
    from corral.engine.outgoing import Webhooks
    from corral.engine.pending import Queue
    from corral.engine.post import Posted
    from corral.engine.presence import Presence
    from corral.engine.submit import Submission
    from corral.engine.telling import Listener
    from corral.engine.verifying import Verification
    from corral.flow import Flow, TaskType
    from corral.merging import MergeRecord, MergeRequest, Overlap, Preview, QueueRecord
    from corral.serving import Logged, RunFilter, Ticket
    from corral.world.snapshots import Snapshot

    Sink = Callable[[bytes], object]
    Say = Callable[[str], None]


PARKED = ("limited", "waiting", "over_budget")  #: on a quota, a question or a budget: a person wakes it up
ANSWER_SECONDS = 5.0  #: how long the process that drives a run may take to say what became of an order


class Engine:
    """The one engine; it may live in any process. Its reading half needs no event loop and starts quickly."""

    def __init__(self, home: Path | None = None) -> None:
        self.home = home or config.home()
        self.owner = custody.me()
        self._store: Store | None = None
        self._drives: dict[str, Drive] = {}
        self._family: Family | None = None
        self._stopping: str | None = None
        self._glances: Glances | None = None

    @property
    def store(self) -> Store:
        if self._store is None:
            self._store = Store(self.home)
        return self._store

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    @property
    def access(self) -> Access:
        """Who may use the server."""
        from corral.engine.access import Access  # noqa: PLC0415

        return Access(self.store)

    @property
    def automation(self) -> Automation:
        """What starts runs by itself."""
        from corral.engine.automation import Automation  # noqa: PLC0415

        return Automation(self)

    @property
    def webhooks(self) -> Webhooks:
        """Whom we tell of what happens."""
        from corral.engine.outgoing import Webhooks  # noqa: PLC0415

        return Webhooks(self)

    @property
    def queue(self) -> Queue:
        """Return what waits to be taken up."""
        from corral.engine.pending import Queue  # noqa: PLC0415

        return Queue(self.store)

    # --- look

    def runs(self, most: int = 1_000_000) -> list[RunLine]:
        return self.store.list_runs(most)

    def page(self, wanted: RunFilter) -> list[RunLine]:
        """Return a page of runs, newest first."""
        return paging.runs(self.store, wanted)

    def log(self, run: str | None, after: int, most: int, node: str | None = None) -> list[Logged]:
        """Return events of all runs, of one, or of one node of it, oldest first."""
        return paging.events(self.store, run, after, most, node)

    def log_before(self, run: str, before: int, most: int) -> list[Logged]:
        """Return the events of a run just before a sequence number, oldest first."""
        return paging.last_events(self.store, run, before, most)

    def last_sequence(self) -> int:
        return paging.last_sequence(self.store)

    def run_counts(self) -> dict[str, int]:
        """Return how many runs have each status."""
        return paging.counts(self.store)

    def attempt_counts(self) -> list[tuple[str, str, int, float]]:
        """Return agent, status, how many attempts, and what is known of their cost."""
        return paging.attempt_counts(self.store)

    def check_writable(self) -> None:
        """Raise unless the store can be written to."""
        waiting.set_value(self.store, "alive", str(int(time.time())))

    def flush(self) -> None:
        """Write down what happened in this process, so that others see it."""
        self.store.flush()

    def status(self, run: str) -> Status:
        return self.store.status(run)

    def find(self, name: str) -> str:
        """Return the id of a run that is named by a part of it, or by `@last`."""
        return self.store.find(name)

    def show(self, name: str) -> Run:
        return document.build(self.store, self.store.find(name))

    def driven(self, name: str) -> bool:
        """Tell whether some process drives a run."""
        return not self._orphaned(self.store.find(name))

    def flow_of(self, name: str) -> Flow:
        """Return what a run carries out."""
        return self.store.run(self.store.find(name)).plan.flow

    def node_states(self, name: str) -> dict[str, Status]:
        """Return the nodes of a run, and how each stands."""
        return {node.id: node.status for node in self.store.nodes(self.store.find(name))}

    async def at_work(self, name: str | None, folder: Path) -> Presence:
        """Return who is at work on which files: of a run, or of all runs of the repository that `folder` is in."""
        from corral.engine import presence  # noqa: PLC0415

        return await presence.at_work(self.store, self.store.find(name) if name else None, folder)

    def events(self, run: str, after: int = 0) -> Iterator[Stored]:
        """Yield what is stored of a run's events, oldest first."""
        while batch := self.store.events(run, after):
            yield from batch
            after = batch[-1].seq

    def follow(self, name: str, after: int = 0) -> Iterator[Stored]:
        """Yield events as they come, from any process, until the run is over."""
        run = self.store.find(name)
        bell = Bell(self.store.folder)
        try:
            while True:
                over = self.store.run(run).status not in OPEN
                for stored in self.events(run, after):
                    after = stored.seq
                    yield stored
                if over or self._orphaned(run):
                    return
                bell.wait(1.0)
        finally:
            bell.close()

    async def watch(self, name: str, after: int = 0) -> AsyncGenerator[list[Stored]]:
        """Yield what is new each time something was written, from any process, and at least once a second.

        It ends when the run is over, or when nobody drives it any more.
        """
        run = self.store.find(name)
        bell = Bell(self.store.folder)
        try:
            while True:
                over = self.store.run(run).status not in OPEN or (run not in self._drives and self._orphaned(run))
                new = list(self.events(run, after))
                after = new[-1].seq if new else after
                yield new
                if over:
                    return
                await bell.listen(1.0)
        finally:
            bell.close()

    def export(self, name: str | None, say: Callable[[str], None]) -> Iterator[Run | Stored]:
        """Yield everything: each run's document, then its events. What cannot be read is said, and passed over."""
        names = [self.store.find(name)] if name else [line.run for line in reversed(self.runs())]
        for run in names:
            try:
                yield document.build(self.store, run)
                yield from self.events(run)
            except StoreTrouble as trouble:
                say(f"run {run} is not whole: {trouble}")

    def changed_by(self, name: str, attempt: str | None = None) -> Attempt:
        """Return the attempt whose change is meant: the winner, or else the last that made one."""
        return _pick(self.show(name), attempt)

    def compare(self, name: str) -> Comparison:
        """Put the attempts of a run side by side, each at the place it took."""
        from corral.engine import comparing  # noqa: PLC0415

        return comparing.compare(self.store, self.store.find(name))

    def receipt(self, name: str, attempt: str | None = None) -> Receipt:
        """Return the receipt of an attempt: the winner's, or else that of the last that has one."""
        run = self.show(name)
        records = {each.attempt.id: each.receipt for each in self.store.attempts(run.run)}
        chosen = _pick(run, attempt)
        found = records[chosen.id]
        if found is None:
            why = chosen.error.message if chosen.error else chosen.status
            raise BadRequest(f"attempt {chosen.id} has no receipt: {why}", hint="only work that is done has one")
        return found

    async def verify(self, name: str, *, rerun: bool = False) -> Verification:
        """Look whether the receipts of a run still hold."""
        from corral.engine import verifying  # noqa: PLC0415

        return await verifying.verify(self.store, self.store.find(name), rerun=rerun)

    def prompt(self, name: str, attempt: str | None = None) -> str:
        """Return exactly what an attempt's agent was told."""
        run = self.show(name)
        attempts = [each for node in run.nodes for each in node.attempts]
        chosen = _pick(run, attempt) if attempt or not attempts else attempts[-1]
        file = self.home / "logs" / chosen.id / "prompt.txt"
        if not file.is_file():
            raise BadRequest(f"attempt {chosen.id} was told nothing yet")
        return file.read_text()

    def settings_file(self, folder: Path) -> Path | None:
        """Return the repository's settings file that holds for `folder`."""
        for place in (folder.resolve(), *folder.resolve().parents):
            if (place / config.REPOSITORY_FILE).is_file():
                return place / config.REPOSITORY_FILE
            if (place / ".git").exists():
                return None
        return None

    def trust(self, file: Path, content: bytes) -> None:
        """Remember that the person trusts this file with this content."""
        Trust(self.home).add(config.fingerprint(file, content))

    async def diff(self, name: str, attempt: str | None, sink: Callable[[bytes], object]) -> None:
        """Hand over a change as a patch: what one attempt did, or what would be merged of the whole run."""
        from corral.engine.places import repository_of  # noqa: PLC0415 -- reading commands start without asyncio
        from corral.merging import MergeRequest  # noqa: PLC0415

        run = self.show(name)
        plan = self.store.run(run.run).plan
        chosen, base = _pick(run, attempt), plan.base
        commit = chosen.commit
        if attempt is not None:
            records = self.store.attempts(run.run)
            base = next((each.base for each in records if each.attempt.id == chosen.id and each.base), base)
        elif len(run.nodes) > 1 and any(node.winner for node in run.nodes):
            commit = (await self._merger(run.run, _unsaid).candidate(MergeRequest(run=run.run))).commit or commit
        if commit is not None:
            await repository_of(plan, self.home).patch(base, commit, sink)

    async def record(self, name: str, attempt: str | None, file: Path) -> Attempt:
        """Write one attempt to a file that `--agent replay:FILE` plays; return which."""
        from corral import agents  # noqa: PLC0415
        from corral.engine import doctor, recording, tape  # noqa: PLC0415
        from corral.engine.places import repository_of  # noqa: PLC0415
        from corral.engine.submit import load  # noqa: PLC0415

        run = self.show(name)
        plan = self.store.run(run.run).plan
        chosen = _pick(run, attempt)
        if chosen.status in OPEN:
            raise BadRequest(f"attempt {chosen.id} is not over", hint=f"wait for it: corral logs -f {run.run}")
        if chosen.agent == "replay":
            raise BadRequest(f"attempt {chosen.id} is a replay itself", hint=f"its recording is {chosen.model}")
        settings = load(Path(plan.repo), self.home, trust=False)
        known = agents.find(chosen.agent, settings.agents)
        starts = [event for stored in self.events(run.run) if stored.attempt == chosen.id
                  and isinstance(event := stored.event(), Started)]  # fmt: skip
        told = next((event.version for event in starts if event.version), None)
        source = recording.Source(
            attempt=chosen,
            turns=tape.turns(self.home / "logs" / chosen.id),
            profile=settings.agents.get(chosen.agent, AgentProfile()),
            keys=known.facts.keys,
            version=told or await doctor.version_of(chosen.agent, settings),
            repository=repository_of(plan, self.home),
            base=plan.base,
        )
        await recording.write(file, source)
        return chosen

    def mail(self, name: str) -> list[Posted]:
        """Return the letters that the agents of a run wrote and got."""
        from corral.engine import post  # noqa: PLC0415

        return post.of_run(self.store, self.store.find(name))

    def inbox(self, *, whole: bool = False) -> list[Entry]:
        """Return what waits for a person; the whole inbox has what was answered besides, newest first."""
        inbox.answer_due(self.store, time.time())
        return inbox.newest(self.store, 1000) if whole else inbox.waiting(self.store)

    # --- money

    def settings(self, folder: Path) -> config.Config:
        """Return what holds for this person in a folder; what is not trusted there is left out."""
        file = self.settings_file(folder)
        return config.load(file.parent if file else None)

    def spent(self, run: str, node: str = "") -> float:
        """Return what a run has spent so far, or one node of it."""
        from corral.engine import money  # noqa: PLC0415

        return money.spent_usd(self.store, run, node)

    def usual_cost(self, run: str) -> tuple[float, float, float] | None:
        """Return what attempts like those of a run of one task cost here before; None where too little is known."""
        from corral.engine import money  # noqa: PLC0415

        nodes = self.store.run(run).plan.flow.nodes
        agent = nodes[0].agent
        return money.usual(self.store, agent.name, agent.model, nodes[0].task.type) if len(nodes) == 1 else None

    def halt(self, by: str) -> list[str]:
        """Stop every run now, whoever drives it, and let none start; return which."""
        from corral.engine import money  # noqa: PLC0415

        stopped = money.halt(self.store, by)
        for run in stopped:
            self._poke(run)
        return stopped

    def halted(self) -> str | None:
        """Return who halted everything, if somebody did."""
        from corral.engine import money  # noqa: PLC0415

        found = money.halted(self.store)
        return found.where if found else None

    def _refuse_halted(self) -> None:
        if where := self.halted():
            raise Conflicting(f"everything is halted ({where})", hint="corral halt --off")

    # --- act

    async def answer(self, number: str, text: str, by: str) -> Entry:
        """Answer what waits in the inbox; a process that drives its run hears it at once. What came of it is on it."""
        from corral.engine import answering  # noqa: PLC0415

        entry = answering.take(self.store, number, text, by)
        if entry.about == "limit" and entry.answer == "no":
            await self.stop(entry.run, by)
        if entry.about == "merge":
            await self._settle_merge(entry)
        self._poke(entry.run)
        return answering.told(self.store, entry)

    async def submit(self, request: Request, say: Callable[[str], None] = lambda _: None) -> str:
        """Check a request and open its run, owned by this process; from here on a crash loses nothing."""
        from corral.engine import submit  # noqa: PLC0415 -- reading commands start without it

        self._refuse_halted()
        submission = await submit.prepare(request, self.home, self._history)
        if self._stopping:
            raise Stopped(f"{self._stopping} before anything was started")
        for note in submission.notes:
            say(note)
        record = self._record(submission.plan, self.owner)
        self.store.add_run(record)
        return record.id

    def submitted(self, request: Request, ticket: Ticket) -> str | None:
        """Return the run that was made for the same request under the same key already."""
        from corral.engine import pending  # noqa: PLC0415

        return pending.before(self.store, ticket, request)

    async def enqueue(
        self,
        request: Request,
        ticket: Ticket,
        say: Callable[[str], None] = lambda _: None,
        vet: Callable[[RunPlan], None] = lambda _: None,
    ) -> str:
        """Check a request and leave its run to whichever process takes it up; `vet` may refuse what came of it."""
        from corral.engine import pending  # noqa: PLC0415

        self._refuse_halted()
        submission = await self.prepare(request)
        vet(submission.plan)
        for note in submission.notes:
            say(note)
        plan = structs.replace(submission.plan, priority=ticket.priority or submission.plan.priority)
        return pending.add(self.store, self._record(plan, None), ticket, request)

    async def to_background(self, run: str) -> str:
        """See that a queued run is taken up: by the server of this store, or else by a process of its own."""
        from corral.engine import detaching  # noqa: PLC0415

        return await detaching.to_background(self.store, run)

    def _record(self, plan: RunPlan, owner: str | None) -> RunRecord:
        now = time.time()
        return RunRecord(
            id=naming.run_id(int(now * 1000), int.from_bytes(os.urandom(4))),
            status="queued",
            reason=None,
            plan=plan,
            created=now,
            owner=owner,
            lease_until=now + LEASE_SECONDS if owner else 0.0,
        )

    async def prepare(self, request: Request) -> Submission:
        """Check a request as `submit` does; nothing is started."""
        from corral.engine import submit  # noqa: PLC0415
        from corral.engine.glances import Glances  # noqa: PLC0415

        _ = self.store
        self._glances = self._glances or Glances()
        return await submit.prepare(request, self.home, self._history, self._glances)

    def _history(self, kind: TaskType | None) -> list[TrackRecord]:
        """Return how agents did tasks of a type here before."""
        return history.track_records(self.store, kind)

    def estimate(self, plan: RunPlan) -> Estimate:
        """Say what would happen and about how dear it would be."""
        from corral.engine import estimating  # noqa: PLC0415

        return estimating.estimate(plan, self.store)

    async def drive(self, run: str, listen: Listener, *, patient: bool = False) -> Run:
        """Carry a run out to its end in this process; a patient one waits for people, others leave the run to them."""
        from corral.engine.local import here  # noqa: PLC0415
        from corral.engine.loop import Drive  # noqa: PLC0415

        place = here(self.store.run(run).plan, self._office(run, listen))
        drive = Drive(run, self.owner, self.store, place, listen)
        drive.patient = patient
        drive.land_with(self.merge)
        drive.slot_freed = self._look_up
        self._drives[run] = drive
        waiting.leave(self.store, run)
        if self._stopping:
            drive.stop(self._stopping)
        try:
            await drive.to_the_end()
        finally:
            del self._drives[run]
            if self.store.run(run).owner == self.owner:  # not over: whoever resumes it need not wait
                self.store.release_lease(run, self.owner)
        await self._land(run, listen)
        return document.build(self.store, run)

    async def _land(self, run: str, listen: Listener) -> None:
        """Merge a run that was to land by itself; what stands against it is told, and left to the person."""
        from corral.merging import MergeRequest  # noqa: PLC0415

        record = self.store.run(run)
        if record.plan.merge != "auto" or record.status != "done" or self._stopping:
            return
        if document.build(self.store, run).merge.status == "ready":
            say = partial(_tell, listen, run)
            try:
                await self.merge(MergeRequest(run=run), say)
            except CorralError as error:
                say(f"not merged: {error}")
                self.store.note(run, Noted(f"not merged: {error}"), at=time.time())
                self.store.flush()

    def _office(self, run: str, listen: Listener) -> Office:
        """Return what the toolboxes of a run share; all runs of this process are one family."""
        from corral.engine.office import Family, Office  # noqa: PLC0415

        self._family = self._family or Family(self.owner, self.drive, self._stop_child)
        return Office(self._family, self.store, self._dresser(run), listen)

    async def _stop_child(self, run: str) -> None:
        if run in self._drives:
            self._drives[run].stop("the attempt that spawned it has ended")
        else:
            await self.stop(run, "its parent")

    def _dresser(self, run: str) -> Callable[[str], Outfit]:
        """Return what makes agents ready. Settings that have become wrong matter only when one is to start."""
        from corral.engine.outfit import outfit  # noqa: PLC0415
        from corral.engine.submit import load  # noqa: PLC0415

        repo = Path(self.store.run(run).plan.repo)
        return lambda name: outfit(name, load(repo, self.home, trust=False))

    async def detach(self, run: str) -> None:
        """Leave a run to a process of its own, which outlives this one; return once that drives it."""
        from corral.engine import detaching  # noqa: PLC0415

        self.store.release_lease(run, self.owner)
        await detaching.detach(self.store, run)

    def choose(self, name: str, attempt: str, by: str) -> Run:
        """Make an attempt the winner of its node: a person's word counts more than the engine's."""
        from corral.engine import choosing  # noqa: PLC0415

        return choosing.choose(self.store, self.show(name), attempt, by)

    def stop_here(self, reason: str) -> None:
        """Stop everything that this process drives, now or in a moment."""
        self._stopping = self._stopping or reason
        for drive in self._drives.values():
            drive.stop(reason)

    async def stop(self, name: str, by: str) -> Run:
        """Stop a run, whoever owns it, and wait until it is over and its work is saved."""
        run = self.store.find(name)
        if self.store.run(run).status not in OPEN:
            return document.build(self.store, run)
        if run not in self._drives and self._take_over(run):
            self._order(run, "stop", by)
            return await self.drive(run, _nobody)
        self._order(run, "stop", by)
        bell = Bell(self.store.folder)
        try:
            while self.store.run(run).status in OPEN:
                if run not in self._drives and self._take_over(run):  # its owner died meanwhile
                    return await self.drive(run, _nobody)
                await bell.listen(0.5)
        finally:
            bell.close()
        return document.build(self.store, run)

    async def pause(self, name: str, node: str | None, by: str) -> str:
        """Let a run, or a node of it, rest; what is at work ends so that it can be gone on with."""
        run = self.store.find(name)
        if self.store.run(run).status not in OPEN:
            raise BadRequest(f"run {run} is over: {self.store.run(run).status}")
        if self._orphaned(run):
            with self.store.transaction():
                if node is None:
                    self.store.move_run(run, "paused", f"paused by {by}", None)
                else:
                    self.store.move_node(run, NodeState(id=node, status="paused", reason=f"paused by {by}"))
            return "paused; nobody was driving it"
        return (
            await self._answer(run, self._order(run, "pause", by, node or ""))
            or "it is paused as soon as its process hears of it"
        )

    async def unpause(self, name: str, node: str, by: str) -> str:
        """Let a paused node go on."""
        run = self.store.find(name)
        if self._orphaned(run):
            self.store.move_node(run, NodeState(id=node))
            return f"`{node}` goes on with the run: corral resume {run}"
        return (
            await self._answer(run, self._order(run, "unpause", by, node))
            or "it goes on as soon as its process hears of it"
        )

    async def retry(self, name: str, node: str | None, listen: Listener, say: Say, *, patient: bool = False) -> Run:
        """Do what did not get done once more, or one node and all after it."""
        from corral.engine import redoing  # noqa: PLC0415

        run = self.store.find(name)
        self._own(run)
        redoing.again(self.store, run, node, say)
        return await self.drive(run, listen, patient=patient)

    async def resume_with(self, name: str, request: Request, listen: Listener, say: Say, *, patient: bool) -> Run:
        """Go on with a run by a flow file that was changed."""
        from corral.engine import redoing, submit  # noqa: PLC0415

        run = self.store.find(name)
        request = structs.replace(request, repo=self.store.run(run).plan.repo)
        flow = (await submit.prepare(request, self.home, self._history)).plan.flow
        self._own(run)
        redoing.changed(self.store, run, flow, say)
        return await self.drive(run, listen, patient=patient)

    def _own(self, run: str) -> None:
        if not self._take_over(run):
            raise BadRequest(f"run {run} is being driven by another process", hint=f"watch it: corral logs -f {run}")

    async def resume(self, name: str, listen: Listener, *, patient: bool = False) -> Run:
        """Go on with a run whose process is gone."""
        run = self.store.find(name)
        record = self.store.run(run)
        if record.status in PARKED:
            self._wake_up(run)
        elif record.status == "done" and record.plan.merge == "auto":
            await self._land(run, listen)  # it was cut off between its end and its landing
            return document.build(self.store, run)
        elif record.status not in OPEN:
            again = (
                "every node of it is done" if record.status == "done" else f"do again what is not: corral retry {run}"
            )
            raise BadRequest(f"run {run} is over: {record.status}", hint=again)
        self._own(run)
        return await self.drive(run, listen, patient=patient)

    async def steer(self, name: str, text: str, by: str) -> str:
        """Tell the agents of a run something while they work; return what became of it, in words."""
        run = self.store.find(name)
        record = self.store.run(run)
        if not text.strip():
            raise BadRequest("there is nothing to tell", hint='say it: corral steer @last "also update the docs"')
        if record.status not in (*OPEN, "limited"):
            raise BadRequest(f"run {run} is over: {record.status}", hint="start a new one with `corral run`")
        order = self._order(run, "steer", by, text)
        if (answer := await self._answer(run, order)) is not None:
            return answer
        waits = f"kept: it is told when run {run} goes on (corral resume {run})"
        return waits if self._orphaned(run) or record.status == "limited" else "kept: it is told at the next turn"

    async def condense(self, name: str, by: str) -> str:
        """Have the agents of a run go on in fresh sessions from summaries; return what became of it, in words."""
        run = self.store.find(name)
        if self.store.run(run).status not in OPEN or self._orphaned(run):
            raise BadRequest(f"no agent of run {run} is at work", hint="only what is at work can be condensed")
        order = self._order(run, "condense", by)
        return await self._answer(run, order) or "kept: it is done as soon as an agent is at work"

    def _order(self, run: str, verb: str, by: str, text: str = "") -> int:
        """Store what a person wants of a run; who drives it elsewhere is woken by that, here it is told."""
        order = self.store.order(run, verb, by, time.time(), text)
        if run in self._drives:
            self._drives[run].hear()
        return order

    async def _answer(self, run: str, order: int) -> str | None:
        """Wait for what the process that drives a run says to an order; None if it says nothing."""
        self._poke(run)
        bell, until = Bell(self.store.folder), time.monotonic() + ANSWER_SECONDS
        try:
            while time.monotonic() < until and not self._orphaned(run):
                answer = self.store.order_answer(order)
                if answer is not None:
                    return answer
                await bell.listen(0.2)
        finally:
            bell.close()
        return None

    def summaries(self, name: str) -> Iterator[Stored]:
        """Yield the summaries from which agents of a run went on, oldest first."""
        return (stored for stored in self.events(self.store.find(name)) if isinstance(stored.event(), Condensed))

    # --- keep or take back

    async def preview(self, request: MergeRequest) -> Preview:
        """Return what a merge would do; nothing is changed."""
        return await self._merger(request.run, _unsaid).preview(request)

    async def merge(self, request: MergeRequest, say: Callable[[str], None], sink: Sink | None = None) -> MergeRecord:
        """Land a run's work; a conflict is stored and told, and nothing moves. A patch goes to `sink`."""
        from corral.engine import publishing, resolution  # noqa: PLC0415

        merger = self._merger(request.run, say)
        if request.strategy == "patch":
            return await publishing.patch(merger, request, sink or _unsaid)
        if request.strategy == "branch":
            return await merger.as_branch(request)
        if request.strategy == "pr":
            return await publishing.pull_request(merger, request)
        record = await merger.merge(request)
        if record.state == "conflict" and request.resolve_with:
            record = await resolution.by_agent(self, merger, request, record)
        return record

    async def merge_queue(self, names: Sequence[str], request: MergeRequest, say: Callable[[str], None]) -> QueueRecord:
        """Land several runs in order, tested together; without names go on with what was cut off."""
        from corral.engine.queueing import Queue  # noqa: PLC0415

        mergers = [self._merger(name, say) for name in names]
        return await Queue(self.store, mergers, lambda run: self._merger(run, say), say).land(request)

    def abort_merge(self, name: str) -> Run:
        """Give up a merge that is in conflict."""
        merger = self._merger(name, _unsaid)
        merger.abort()
        return self.show(merger.run.run)

    async def undo(self, name: str | None, folder: Path, say: Callable[[str], None]) -> MergeRecord:
        """Take back a run's last merge, or the last merge in the repository of `folder`: refs and files, exactly."""
        from corral.engine import undoing  # noqa: PLC0415

        return await undoing.undo(self.store, self.store.find(name) if name else None, folder, say)

    async def overlap(self, folder: Path) -> Overlap:
        """Return the unmerged work of a repository, and what of it will clash."""
        from corral.engine import overlap  # noqa: PLC0415

        return await overlap.overlap(self.store, folder)

    async def kept(self, attempt: str) -> list[Snapshot]:
        """Return what is kept of an attempt, oldest first."""
        from corral.engine import keeping  # noqa: PLC0415

        return (await keeping.kept(self.store, attempt))[1]

    async def restore(self, attempt: str, into: str | None) -> Restored:
        """Bring back the work of an attempt, or of an earlier moment of it (ATTEMPT@TIME)."""
        from corral.engine import keeping  # noqa: PLC0415

        return await keeping.restore(self.store, attempt, into)

    async def clean(self, *, older: str | None, keep: int | None, disk: str | None, dry: bool) -> list[Cleaned]:
        """Clean away ended runs; of unmerged work a hidden ref stays."""
        from corral.engine import cleaning  # noqa: PLC0415
        from corral.rules.cleaning import Limits, age, size  # noqa: PLC0415

        unsaid = older is None and keep is None and disk is None
        limits = Limits(
            older_seconds=age(older or "30d") if older or unsaid else None,
            keep=keep,
            disk_bytes=size(disk) if disk else None,
        )
        return await cleaning.clean(self.store, limits, dry=dry)

    def _merger(self, name: str, say: Callable[[str], None]) -> Merger:
        from corral.engine.merging import Merger  # noqa: PLC0415
        from corral.engine.places import repository_of  # noqa: PLC0415

        run = self.show(name)
        repository = repository_of(self.store.run(run.run).plan, self.home)
        return Merger(self.store, run, repository, say)

    async def _settle_merge(self, entry: Entry) -> None:
        """Carry out what a person wants of a merge that is in conflict; a run that is not over does it itself."""
        from corral.merging import MergeRequest  # noqa: PLC0415

        if self.store.run(entry.run).status in OPEN:
            return
        if entry.answer == "abort":
            self.abort_merge(entry.run)
            outcome = "nothing was moved"
        else:
            waiting = merges.latest(merges.of_run(self.store, entry.run))
            into = waiting.into if waiting else None
            record = await self.merge(MergeRequest(run=entry.run, into=into), _unsaid)
            outcome = f"{record.state} into {record.into}"
        inbox.note_outcome(self.store, entry.id, outcome)

    def _wake_up(self, run: str) -> None:
        """Open a parked run again: the person says that its quota is back."""
        with self.store.transaction():
            for node in self.store.nodes(run):
                waited = node.status == "skipped" and (node.reason or "").endswith(("is over_budget", "is limited"))
                if node.status in PARKED or waited:
                    self.store.move_node(run, NodeState(id=node.id, status="queued"))
            for parked in self.store.attempts(run):
                if parked.attempt.status in ("limited", "over_budget"):
                    parked.until = 0.0
                    if parked.attempt.status == "limited":
                        self.store.warm_up(parked.attempt.agent)
                    self.store.save_attempt(parked)
            self.store.move_run(run, "queued", None, None)

    def _poke(self, run: str) -> None:
        """Let a run that this process drives know at once; others hear the bell."""
        if run in self._drives:
            self._drives[run].hear()

    def _look_up(self) -> None:
        """Let all runs of this process look whether there is room for them now."""
        for drive in self._drives.values():
            drive.look_up()

    def _take_over(self, run: str) -> bool:
        """Own a run whose owner is dead (at once on this machine, by an expired lease elsewhere)."""
        if run in self._drives:
            return False
        owner = self.store.run(run).owner
        dead = owner if owner and custody.alive(owner) is False else None
        now = time.time()
        if owner and owner != self.owner and custody.alive(owner) is True:
            return False
        return self.store.take_lease(run, self.owner, now=now, until=now + LEASE_SECONDS, dead=dead)

    def _orphaned(self, run: str) -> bool:
        return document.orphaned(self.store.run(run).owner)


def _tell(listen: Listener, run: str, words: str) -> None:
    listen(Heard(run, None, None, Noted(words)))


def _unsaid(_: object) -> None:
    """Say nothing."""


def _nobody(_: Heard) -> None:
    """Listen to nothing."""


def _pick(run: Run, named: str | None) -> Attempt:
    attempts = [attempt for node in run.nodes for attempt in node.attempts]
    if not attempts:
        raise BadRequest(f"run {run.run} has no attempt yet")
    if named is None:
        won = document.winner(run.nodes)
        with_work = [attempt for attempt in attempts if attempt.commit]
        return won or (with_work or attempts)[-1]
    for attempt in attempts:
        if named in (attempt.id, attempt.id.rpartition("-")[2]):
            return attempt
    raise BadRequest(f"run {run.run} has no attempt `{named}`", hint="it has: " + ", ".join(a.id for a in attempts))
