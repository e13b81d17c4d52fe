"""What attempts made: the change, its proof, the agent's prompt, and what is kept of it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from corral.engine.context import Context
from corral.engine.views import run_document
from corral.model import OPEN, Artifact, Attempt, AttemptRecord, Receipt, Run
from corral.model.agent_api import AgentProfile
from corral.model.errors import BadRequest, NotFound
from corral.model.events import Started, StatusChanged
from corral.model.flow import Flow
from corral.rules.merge import merge
from corral.store.interface import Store

if TYPE_CHECKING:
    from corral.engine.inbox.inbox import Inbox
    from corral.engine.kept_work import Checkpoint, CleanedAttempt, RestoredWork
    from corral.engine.merge.api import Merges
    from corral.engine.user_folders import OpenedFolder
    from corral.engine.verify import Verification
    from corral.engine.views.changes import AttemptChange, ChangeSelection, Ends, FileDiff, Fold
    from corral.engine.views.compare import Comparison
    from corral.engine.views.evidence import EvidenceView
    from corral.engine.views.history import History
    from corral.world.git.hidden_refs import Snapshot


class Artifacts:
    """The work of attempts: look at it, prove it, choose among it, bring it back, clean it away."""

    def __init__(self, context: Context, merges: Merges, inbox: Inbox, history: History) -> None:
        self._context, self._merges, self._inbox, self._history = context, merges, inbox, history

    @property
    def _store(self) -> Store:
        return self._context.store

    def _show(self, name: str) -> Run:
        return run_document.build(self._store, self._store.find(name))

    def changed_by(self, name: str, attempt: str | None = None) -> Attempt:
        """Return the attempt whose change is meant: the winner, or else the last that made one."""
        return run_document.pick_attempt(self._show(name), attempt)

    async def diff(self, name: str, attempt: str | None, sink: Callable[[bytes], object]) -> None:
        """Hand over a change as a patch: what one attempt did, or what would be merged of the whole run."""
        from corral.attempt.repositories import (  # noqa: PLC0415 -- reading commands start without asyncio
            other_machines,
            repository_of,
            require,
        )
        from corral.model.merge import MergeRequest  # noqa: PLC0415

        store, run = self._store, self._show(name)
        plan = store.run(run.run).plan
        chosen, base = run_document.pick_attempt(run, attempt), plan.base
        commit = chosen.commit
        if attempt is not None:
            records = store.attempts(run.run)
            base = next((each.base for each in records if each.attempt.id == chosen.id and each.base), base)
        elif len(run.nodes) > 1 and any(node.winner for node in run.nodes):
            commit = await self._merges.candidate(MergeRequest(run=run.run)) or commit
        if commit is not None:
            repository = repository_of(plan, self._context.home)
            await require(repository, run.run, [commit], elsewhere=other_machines(self._context.store, plan.git_dir))
            await repository.patch(base, commit, sink)

    async def change(self, looked: ChangeSelection) -> AttemptChange | None:
        """Return the files of a change; None if nothing was changed."""
        from corral.engine.views import changes  # noqa: PLC0415

        ends = await self._ends(looked)
        return await changes.change(ends) if ends else None

    async def changed_file(self, looked: ChangeSelection, path: str, old_path: str = "") -> FileDiff:
        """Return one file of a change, with its lines."""
        from corral.engine.views import changes  # noqa: PLC0415

        return await changes.file(await self._ends(looked), path, old_path)

    async def folded_lines(self, looked: ChangeSelection, names: tuple[str, str], fold: Fold) -> FileDiff:
        """Return lines of a file (its new and its old name) that were folded, opened."""
        from corral.engine.views import changes  # noqa: PLC0415

        return await changes.lines(await self._ends(looked), names, fold)

    async def _ends(self, looked: ChangeSelection) -> Ends | None:
        from corral.attempt.repositories import repository_of  # noqa: PLC0415
        from corral.engine.views.changes import Ends  # noqa: PLC0415
        from corral.model.merge import MergeRequest  # noqa: PLC0415

        run = self._show(looked.run)
        plan, attempt = self._store.run(run.run).plan, run_document.pick_attempt(run, looked.attempt)
        base, commit = plan.base, attempt.commit
        if looked.against is not None:
            base = run_document.pick_attempt(run, looked.against).commit or base
        elif looked.attempt is not None:
            records = self._store.attempts(run.run)
            base = next((each.base for each in records if each.attempt.id == attempt.id), None) or base
        elif len(run.nodes) > 1 and any(node.winner for node in run.nodes):
            with contextlib.suppress(BadRequest):  # nothing of it would be merged; what was made is shown all the same
                commit = await self._merges.candidate(MergeRequest(run=run.run)) or commit
        repository = repository_of(plan, self._context.home)
        return Ends(attempt=attempt, repository=repository, base=base, commit=commit) if commit else None

    def compare(self, name: str) -> Comparison:
        """Put the attempts of a run side by side, each at the place it took."""
        from corral.engine.views import compare as comparing  # noqa: PLC0415

        return comparing.compare(self._store, self._store.find(name))

    async def choose(self, name: str, attempt: str, by: str) -> Run:
        """Make an attempt the winner of its node: a user's word counts more than the engine's."""
        run = self._show(name)
        if await self._inbox.take_choice(run, attempt, by):
            return self._show(run.run)
        return record_choice(self._store, run, attempt, by)

    # --- proof

    def receipt(self, name: str, attempt: str | None = None) -> Receipt:
        """Return the receipt of an attempt: the winner's, or else that of the last that has one."""
        run = self._show(name)
        records = {each.attempt.id: each.receipt for each in self._store.attempts(run.run)}
        chosen = run_document.pick_attempt(run, attempt)
        found = records[chosen.id]
        if found is None:
            why = chosen.error.message if chosen.error else chosen.status
            raise BadRequest(f"attempt {chosen.id} has no receipt: {why}", hint="only work that is done has one")
        return found

    def evidence(self, name: str, attempt: str | None = None) -> EvidenceView:
        """Return how an attempt was checked, and its grade: the winner's, or else that of the last with work."""
        from corral.engine.views import evidence as evidence_view  # noqa: PLC0415

        return evidence_view.view(self._store, self._store.find(name), attempt)

    async def verify(self, name: str, *, rerun: bool = False) -> Verification:
        """Look whether the receipts of a run still hold."""
        from corral.engine import verify as verifying  # noqa: PLC0415

        return await verifying.verify(self._store, self._store.find(name), rerun=rerun)

    def prompt(self, name: str, attempt: str | None = None) -> str:
        """Return the exact prompt of an attempt's agent."""
        run = self._show(name)
        attempts = [each for node in run.nodes for each in node.attempts]
        chosen = run_document.pick_attempt(run, attempt) if attempt or not attempts else attempts[-1]
        file = self._context.home / "logs" / chosen.id / "prompt.txt"
        if not file.is_file():
            raise BadRequest(f"attempt {chosen.id} has no prompt yet", hint="it has one once its agent starts")
        return file.read_text()

    async def record(self, name: str, attempt: str | None, file: Path) -> Attempt:
        """Write one attempt to a file that `--agent replay:FILE` plays; return which."""
        from corral import agents  # noqa: PLC0415
        from corral.attempt.repositories import load_trusted_settings, repository_of  # noqa: PLC0415
        from corral.engine import doctor, recordings  # noqa: PLC0415
        from corral.machines import logs  # noqa: PLC0415

        run, home = self._show(name), self._context.home
        plan = self._store.run(run.run).plan
        chosen = run_document.pick_attempt(run, attempt)
        if chosen.status in OPEN:
            raise BadRequest(f"attempt {chosen.id} is not over", hint=f"wait for it: corral logs -f {run.run}")
        if chosen.agent == "replay":
            raise BadRequest(f"attempt {chosen.id} is a replay itself", hint=f"its recording is {chosen.model}")
        record = next(each for each in self._store.attempts(run.run) if each.attempt.id == chosen.id)
        settings = load_trusted_settings(Path(plan.repo), home, trust=False)
        known = agents.find(chosen.agent, settings.agents)
        source = recordings.RecordingSource(
            attempt=chosen,
            turns=logs.recorded_turns(home / "logs" / chosen.id),
            profile=settings.agents.get(chosen.agent, AgentProfile()),
            keys=known.facts.keys,
            version=self._version(run.run, chosen.id) or await doctor.version_of(chosen.agent, settings),
            repository=repository_of(plan, home),
            base=plan.base if record.base is None else record.base,
            checks=_checks(plan.flow, record),
        )
        await recordings.write(file, source)
        return chosen

    def _version(self, run: str, attempt: str) -> str | None:
        """Return the version that an attempt's agent reported when it started."""
        heard = (stored.event() for stored in self._history.events(run) if stored.attempt == attempt)
        return next((event.version for event in heard if isinstance(event, Started) and event.version), None)

    # --- named files

    def artifacts(self, name: str) -> tuple[Artifact, ...]:
        """Return the named files that the attempts of a run left."""
        return self._show(name).artifacts

    def gone_artifacts(self, name: str) -> frozenset[str]:
        """Return the hashes of the named files of a run that were cleaned away."""
        from corral.attempt import artifacts  # noqa: PLC0415

        return frozenset(
            each.sha256 for each in self._show(name).artifacts if not artifacts.is_kept(self._context.home, each)
        )

    def artifacts_kept_until(self, name: str) -> float | None:
        """Return when a server cleans the named files of a run; None where that is left to the user."""
        from corral.engine import kept_work  # noqa: PLC0415

        ended = self._store.run(self._store.find(name)).ended
        return kept_work.kept_until(ended) if ended else None

    def artifact(self, name: str, wanted: str) -> tuple[Artifact, bytes]:
        """Return one named file, by NAME or NODE/NAME, and what it holds."""
        from corral.attempt import artifacts  # noqa: PLC0415

        found = self._show(name).artifacts
        fits = [each for each in found if wanted in (each.name, f"{each.node}/{each.name}")]
        if len(fits) == 1:
            return fits[0], artifacts.read(self._context.home, fits[0])
        known = ", ".join(f"{each.node}/{each.name}" for each in fits or found) or "none"
        if fits:
            raise BadRequest(f"several artifacts are called `{wanted}`", hint=f"name one of: {known}")
        raise NotFound(f"no artifact of run {name} is called `{wanted[:80]}`", hint=f"it has: {known}")

    # --- kept

    async def snapshots(self, attempt: str) -> list[Snapshot]:
        """Return what is kept of an attempt, oldest first."""
        from corral.engine import kept_work as keeping  # noqa: PLC0415

        return (await keeping.find_snapshots(self._store, keeping.split_moment(attempt)[0]))[2]

    async def open(self, name: str, attempt: str | None) -> OpenedFolder:
        """Make a folder in which a user tries the result of a run, or of one attempt."""
        from corral.engine import user_folders  # noqa: PLC0415

        run = self._show(name)
        plan, chosen = self._store.run(run.run).plan, run_document.pick_attempt(run, attempt)
        return await user_folders.open_result(self._context.home, run.run, plan, chosen)

    async def checkpoint(self, run: str, name: str) -> list[Checkpoint]:
        """Name the present state of a run, for `restore`."""
        from corral.engine import kept_work as keeping  # noqa: PLC0415

        return await keeping.checkpoint(self._store, run, name)

    async def checkpoints(self, run: str) -> list[Checkpoint]:
        """Return the named states of a run."""
        from corral.engine import kept_work as keeping  # noqa: PLC0415

        return await keeping.list_checkpoints(self._store, run)

    async def restore(self, attempt: str, into: str | None) -> RestoredWork:
        """Bring back the work of an attempt, or of an earlier moment of it (ATTEMPT@TIME)."""
        from corral.engine import kept_work as keeping  # noqa: PLC0415

        return await keeping.restore(self._store, attempt, into)

    async def clean(
        self,
        *,
        older: str | None,
        keep: int | None,
        disk: str | None,
        dry: bool,
        merged_only: bool = False,
        report: Callable[[int, int], None],
    ) -> list[CleanedAttempt]:
        """Clean away ended runs; of unmerged work a hidden ref stays. `report` hears how many of how many are done."""
        from corral.engine import kept_work as cleaning  # noqa: PLC0415
        from corral.rules.text.cleaning import CleaningLimits, age, size  # noqa: PLC0415

        unsaid = older is None and keep is None and disk is None
        limits = CleaningLimits(
            older_seconds=age(older or "30d") if older or unsaid else None,
            keep=keep,
            disk_bytes=size(disk) if disk else None,
        )
        return await cleaning.clean(self._store, limits, dry=dry, merged_only=merged_only, report=report)


def _checks(flow: Flow, record: AttemptRecord) -> tuple[str, ...]:
    """Return the checks that hold for an attempt, as they were run; else as its node names them."""
    ran = tuple(check.command for check in record.attempt.checks)
    named = next((node.task.checks for node in flow.nodes if node.id == record.node), ())
    return ran or tuple(check for check in named if "{{" not in check)


def record_choice(store: Store, run: Run, named: str, by: str) -> Run:
    """Make an attempt the winner of its node; only work that is there, of a run that is over."""
    if run.status in OPEN:
        raise BadRequest(f"run {run.run} is not over: {run.status}", hint="choose when all attempts are over")
    if run.merge.status == "merged":
        raise BadRequest(f"run {run.run} is merged already", hint=f"take that back first: corral undo {run.run}")
    node, attempt = merge.attempts_to_merge(run, named)[0]
    why = f"chosen by {by}"
    if attempt.status != "done":
        why += f", though it is {attempt.status}"
    with store.transaction():
        store.move_node(run.run, structs.replace(node, winner=attempt.id, why=why))
        moved = StatusChanged("node", node.id, node.status, f"{attempt.id} {why}")
        store.note(run.run, moved, at=time.time(), node=node.id, attempt=attempt.id)
    store.flush()
    return run_document.build(store, run.run)
