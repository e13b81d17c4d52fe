"""Pull requests that are looked after: red CI and review comments become revisions on the same branch."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from msgspec import Struct, structs

from corral import amounts
from corral.attempt.repositories import load_forge_settings, load_trusted_settings, repository_of
from corral.engine.context import Context, LocalRuns, Say
from corral.engine.planning import redo
from corral.engine.views import run_document
from corral.model import OPEN, Run, winner
from corral.model.errors import BadRequest, ChecksFailed, CorralError
from corral.model.events import Listener
from corral.model.forge import FollowRecord, PullLook, PullRequest, Unpushed, Unstarted
from corral.model.merge import MergeRecord, MergeRequest
from corral.rules.context import untrusted
from corral.rules.merge import pull_request as rules
from corral.rules.money.limits import granted_raise
from corral.store.interface import Store, Watch
from corral.world.forge.client import ForgeRefusal
from corral.world.forge.finding import forge_at
from corral.world.forge.forge import Forge
from corral.world.forge.remotes import ForeignCommits, place_of, push_remote

LOOK_SECONDS = 1.0
CLAIM_SECONDS = 60.0  #: for so long nobody else looks at what one process has begun to look at
TASK = "Your work is in a pull request. Make it right: what fails there or was asked for is below."
Merge = Callable[[MergeRequest, Say], Awaitable[MergeRecord]]
log = logging.getLogger("corral.follow")


class Reviser(Protocol):
    """What revises runs: the engine as a whole."""

    async def revise(self, name: str, text: str, attempt: str | None, by: str, listen: Listener) -> Run: ...
    async def resume(self, name: str, listen: Listener) -> Run: ...


class Follow(Struct, frozen=True):
    """One pull request at one look: where it is, and what to report meanwhile."""

    forge: Forge
    number: int
    listen: Listener
    say: Say


class Follows:
    """The pull requests of one store that are looked after."""

    def __init__(self, context: Context, reviser: Reviser, local_runs: LocalRuns, merge: Merge) -> None:
        self._context, self._reviser, self._local_runs, self._merge = context, reviser, local_runs, merge
        self._looks: dict[str, asyncio.Task[None]] = {}

    @property
    def _store(self) -> Store:
        return self._context.store

    def begin(self, name: str, by: str, *, every_seconds: float, most: int) -> FollowRecord:
        """Look after the pull request of a run from now on; what was counted before stays counted."""
        run = self._store.find(name)
        pull = self._store.merges.pull_request(run)
        if pull is None or pull.number is None:
            hint = f"open one: corral merge {run} --strategy pr"
            raise BadRequest(f"run {run} has no pull request that corral can look after", hint=hint)
        known = self._store.forge.follow(run)
        record = known[0] if known else FollowRecord(run=run)
        if record.unstarted and self._store.run(run).status not in redo.PARKED:  # a user asks: it is tried now
            record = structs.replace(record, unstarted=structs.replace(record.unstarted, again_at=0.0))
        record = structs.replace(record, state="following", by=by, every_seconds=every_seconds, most=most)
        self._store.forge.put_follow(record, time.time())
        return record

    def find(self, name: str) -> tuple[FollowRecord, float | None] | None:
        """Return what is known of a run's pull request, and when it is looked at next."""
        return self._store.forge.follow(self._store.find(name))

    def stop(self, name: str, by: str) -> FollowRecord:
        """Look after a pull request no longer."""
        found = self.find(name)
        if found is None:
            raise BadRequest(
                f"the pull request of run {self._store.find(name)} is not looked after", hint=f"corral follow {name}"
            )
        stopped = structs.replace(found[0], state="stopped", reason=f"stopped by {by}")
        self._store.forge.put_follow(stopped, None)
        return stopped

    async def keep(self, listen: Listener) -> None:
        """Look at what is due until cancelled."""
        bell = self._store.watch()
        try:
            while True:
                for run in [run for run, task in self._looks.items() if task.done()]:
                    del self._looks[run]
                for run in self._store.forge.due_follows(time.time()):
                    if run not in self._looks:
                        self._looks[run] = asyncio.create_task(self._look_quietly(run, listen))
                await bell.listen(LOOK_SECONDS)
        finally:
            bell.close()
            for task in self._looks.values():
                task.cancel()
            await asyncio.gather(*self._looks.values(), return_exceptions=True)

    async def _look_quietly(self, run: str, listen: Listener) -> None:
        try:
            record = await self.look(run, listen, lambda _: None)
            log.info("%s", record.reason, extra={"run": run})
        except CorralError as error:
            log.warning("%s", error, extra={"run": run})

    async def look_until_over(self, name: str, listen: Listener, say: Say) -> FollowRecord:
        """Look again and again until it is over, or this process is to stop."""
        bell = self._store.watch()
        try:
            while True:
                try:
                    record = await self.look(name, listen, say)
                except ForgeRefusal as refused:
                    if not refused.passes:
                        raise
                    say(str(refused))
                    record = self._latest(self._store.find(name))
                if record.state != "following" or not await self._sleep(record.run, bell):
                    return record
        finally:
            bell.close()

    async def _sleep(self, run: str, bell: Watch) -> bool:
        """Wait for the next look; tell whether there is to be one."""
        while (found := self._store.forge.follow(run)) and found[1] and found[1] > time.time():
            if self._local_runs.stopping:
                return False
            await bell.listen(min(0.5, max(0.01, found[1] - time.time())))
        return not self._local_runs.stopping

    async def look(self, name: str, listen: Listener, say: Say) -> FollowRecord:
        """Look once, and do what follows from it; what others look at now is left to them."""
        run, now = self._store.find(name), time.time()
        found = self._store.forge.follow(run)
        if found is None:
            raise BadRequest(f"the pull request of run {run} is not looked after", hint=f"corral follow {run}")
        if found[0].state != "following" or not self._store.forge.begin_follow(run, now, now + CLAIM_SECONDS):
            return found[0]
        record, wait = found[0], found[0].every_seconds
        try:
            record = await self._look(record, listen, say)
        except ForgeRefusal as refused:
            record, wait = structs.replace(self._latest(run), reason=str(refused)), max(wait, refused.wait_seconds)
            raise
        except CorralError as error:
            record = structs.replace(self._latest(run), reason=str(error))
            raise
        finally:
            if self._latest(run).state == "following":
                self._store.forge.put_follow(record, time.time() + wait if record.state == "following" else None)
        return record

    def _latest(self, run: str) -> FollowRecord:
        found = self._store.forge.follow(run)
        return found[0] if found else FollowRecord(run=run)

    async def _look(self, record: FollowRecord, listen: Listener, say: Say) -> FollowRecord:
        run = record.run
        here = await self._forge(run, listen, say)
        record = await self._speak(record, here)
        look = await self._ask(run, here)
        if look.state not in ("merged", "closed"):
            if self._store.run(run).status in OPEN:
                if not self._local_runs.is_left(run):
                    return structs.replace(record, reason="its agent is at work")
                await self._reviser.resume(run, listen)
            before = self._pull(run).commit
            record = await self._publish(record, here, look, "after an interruption")
            if self._pull(run).commit != before:
                look = await self._ask(run, here)
        pull = self._pull(run)
        authors = {each.author for each in rules.new_remarks(look, record)} | {*look.approved_by}
        writers = {author for author in sorted(authors) if author and await here.forge.may_write(author)}
        step = rules.decide(look, record, pull, writers)
        if step.act == "revise" and (why := self._holds_back(record)):
            step = rules.FollowStep(act="wait", reason=why)
        say(f"{pull.url}: {step.reason}")
        record = structs.replace(record, reason=step.reason)
        if step.act == "revise":
            return await self._revise(record, here, look, step)
        record = structs.replace(record, seen=(*record.seen, *step.seen))
        if step.act == "wait":
            return record
        if not step.good and look.state != "closed":
            record = await self._speak(_with_words(record, f"Corral stops here: {step.reason}."), here)
        return structs.replace(record, state="ended", good=step.good)

    async def _ask(self, run: str, here: Follow) -> PullLook:
        """Return how the pull request is doing, and store it."""
        look = await here.forge.look(here.number)
        self._store.merges.put_pull_request(run, structs.replace(self._pull(run), state=look.state, checks=look.checks))
        return look

    def _pull(self, run: str) -> PullRequest:
        found = self._store.merges.pull_request(run)
        if found is None:
            raise BadRequest(f"run {run} has no pull request", hint=f"open one: corral merge {run} --strategy pr")
        return found

    async def _forge(self, run: str, listen: Listener, say: Say) -> Follow:
        plan, pull = self._store.run(run).plan, self._pull(run)
        settings = load_forge_settings(Path(plan.repo), self._context.home)
        place = place_of((await push_remote(repository_of(plan, self._context.home)))[1], settings)
        forge = forge_at(place, settings) if place else None
        if forge is None or pull.number is None:
            raise BadRequest(
                f"the pull request of run {run} is on no forge that corral can ask",
                hint="name the forge in corral.toml: [forge] url and kind",
            )
        return Follow(forge, pull.number, listen, say)

    # --- revisions

    async def _revise(self, before: FollowRecord, here: Follow, look: PullLook, step: rules.FollowStep) -> FollowRecord:
        """Let the agent do what CI and reviewers ask for; what cannot begin neither counts nor is seen."""
        run, parked = before.run, before.unstarted
        waits = parked is not None and self._store.run(run).status in redo.PARKED
        tries = parked.tries if parked else 0
        seen, about = (parked.seen, parked.about) if parked and waits else (step.seen, step.reason)
        record = structs.replace(
            before, revisions=before.revisions + 1, seen=(*before.seen, *seen), reason=about, unstarted=None
        )
        self._store.forge.put_follow(record, time.time() + CLAIM_SECONDS)  # counted, if this process is killed
        known = {each.attempt.id: each.tree for each in self._store.attempts(run)}
        try:
            if waits:
                found = await self._reviser.resume(run, here.listen)
            else:
                text = untrusted.enclose(self._pull(run).url, rules.remark_parts(step), os.urandom(8).hex())
                found = await self._reviser.revise(run, f"{TASK}\n\n{text}", None, before.by, here.listen)
        except BadRequest as error:
            return await self._note_unstarted(
                before, here, Unstarted(why=str(error), about=about, seen=seen, tries=tries)
            )
        fresh = [each for node in found.nodes for each in node.attempts if each.id not in known]
        fresh.sort(key=lambda each: each.id)
        records = self._store.attempts(run)
        changed = [each.attempt.id for each in records if each.attempt.commit and each.tree not in known.values()]
        if why := rules.not_begun(fresh, changed):
            until = max((each.until or 0.0 for each in records), default=0.0)
            again = time.time() + rules.again_seconds(tries)
            again = min(until, again) if until > time.time() else again
            unstarted = Unstarted(
                why=why, about=about, seen=seen, sign=self._sign(run), again_at=again, tries=tries + 1
            )
            return await self._note_unstarted(before, here, unstarted)
        last = fresh[-1] if fresh else None
        count = f"revision {record.revisions} of {record.most}"
        if last and last.status == "done" and last.revises:
            return await self._publish(record, here, look, f"{count}, for {about}")
        why = (last.error.message if last.error else last.status) if last else found.reason or found.status
        words = f"Corral tried {count}, for {about}, and did not get it done: {' '.join(why.split())[:300]}"
        return await self._speak(_with_words(record, f"{words}. Nothing was pushed."), here)

    async def _note_unstarted(self, before: FollowRecord, here: Follow, unstarted: Unstarted) -> FollowRecord:
        """Return the record as it was before a revision that could not begin; say so once."""
        known = before.unstarted
        record = structs.replace(before, reason=f"waits: {unstarted.why}", unstarted=unstarted)
        here.say(record.reason)
        if known is None or known.about != unstarted.about:
            words = f"Corral could not begin a revision for {unstarted.about}: {' '.join(unstarted.why.split())[:300]}"
            record = await self._speak(_with_words(record, f"{words}. It tries again when that is possible."), here)
        return record

    def _holds_back(self, record: FollowRecord) -> str:
        """Return why a revision that could not begin still cannot; empty where it is tried again."""
        unstarted, run = record.unstarted, record.run
        if unstarted is None or unstarted.again_at <= time.time():
            return ""
        entries = [each for each in self._store.inbox.of_run(run) if "/budget/" in each.key]
        asked = entries[-1].as_of(time.time()) if entries and self._store.run(run).status == "over_budget" else None
        if asked is not None and not asked.is_open and not granted_raise(asked)[0]:
            return f"stopped by {asked.answered_by}: {unstarted.why}"
        return f"waits: {unstarted.why}" if unstarted.sign == self._sign(run) else ""

    def _sign(self, run: str) -> str:
        """Return what changes when a run that a limit keeps from working may be able to work."""
        folder = Path(self._store.run(run).plan.repo)
        own = load_trusted_settings(folder, self._context.home, trust=False).budget.limits
        limits = [(each.window, each.agent, each.repo, each.usd) for each in (*own, *self._store.ledger.limits())]
        answers = [(each.id, each.answer) for each in self._store.inbox.of_run(run)]
        return f"{limits} {answers} {time.strftime('%Y-%m-%d', time.gmtime())}"

    # --- what is pushed and said

    async def _publish(self, record: FollowRecord, here: Follow, look: PullLook, why: str) -> FollowRecord:
        """Push what is new since the last push, and say so there; what keeps it from being pushed is said once."""
        run = run_document.build(self._store, record.run)
        pull, won, known = self._pull(record.run), winner(run.nodes), record.unpushed
        if run.status != "done" or won is None or won.id in pull.attempts:
            return structs.replace(record, unpushed=None)
        if record.unstarted and won.revises:  # a user or a server continued it
            unstarted = record.unstarted
            record = structs.replace(
                record, revisions=record.revisions + 1, seen=(*record.seen, *unstarted.seen), unstarted=None
            )
            why = f"revision {record.revisions} of {record.most}, for {unstarted.about}"
        why = known.why if known and known.attempt == won.id else why
        repository = repository_of(self._store.run(record.run).plan, self._context.home)
        sign = f"{await repository.commit_of(f'refs/heads/{pull.into}')} {look.commit}"
        if known and (known.attempt, known.sign) == (won.id, sign) and not 0 < known.again_at <= time.time():
            return record
        unpushed = Unpushed(attempt=won.id, trouble="", why=why, sign=sign)
        try:
            merged = await self._merge(MergeRequest(run=record.run, strategy="pr", into=pull.into), here.say)
        except CorralError as error:
            if isinstance(error.__cause__, ForgeRefusal):
                raise error.__cause__ from None
            lasting = isinstance(error, ChecksFailed | ForeignCommits)
            again_at = 0.0 if lasting else time.time() + rules.AGAIN_SECONDS
            unpushed = structs.replace(unpushed, trouble=str(error).splitlines()[0][:300], again_at=again_at)
        else:
            if merged.state == "conflict":
                unpushed = structs.replace(unpushed, trouble=rules.conflict_trouble(merged, pull.into))
        if unpushed.trouble:
            return await self._note_unpushed(record, here, unpushed)
        pushed = self._pull(record.run)
        self._store.merges.put_pull_request(record.run, structs.replace(pushed, revisions=record.revisions))
        record = structs.replace(record, unpushed=None)
        if pushed.commit == pull.commit:
            return record
        usd = "unknown cost" if won.cost.usd is None else amounts.usd(won.cost.usd)
        checks = f"{amounts.count(len(won.checks), 'check')} passed" if won.checks else "there was no check"
        words = f"Corral pushed {pushed.commit[:12]} ({why}): {checks}, {usd}. Attempt `{won.id}`."
        return await self._speak(_with_words(structs.replace(record, reason=words), words), here)

    async def _note_unpushed(self, record: FollowRecord, here: Follow, unpushed: Unpushed) -> FollowRecord:
        """Keep in mind what could not be pushed, and say so on the pull request, once."""
        known, run = record.unpushed, record.run
        pull = structs.replace(self._pull(run), trouble=unpushed.trouble, revisions=record.revisions)
        self._store.merges.put_pull_request(run, pull)
        record = structs.replace(record, unpushed=unpushed, reason=f"nothing is pushed: {unpushed.trouble}")
        here.say(record.reason)
        if known and (known.attempt, known.trouble) == (unpushed.attempt, unpushed.trouble):
            return record
        words = f"Corral has new work ({unpushed.why}) and could not push it: {unpushed.trouble}."
        hint = f"A user of Corral can settle that: `corral merge {run} --strategy pr`."
        return await self._speak(_with_words(record, f"{words} Nothing was pushed. {hint}"), here)

    async def _speak(self, record: FollowRecord, here: Follow) -> FollowRecord:
        """Say on the pull request what is still to be said; what fails is said at the next look."""
        for words in record.to_say:
            self._store.forge.put_follow(record, time.time() + CLAIM_SECONDS)
            await here.forge.say(here.number, f"{words}\n\n{rules.MARK}")
            here.say(words)
            record = structs.replace(record, to_say=record.to_say[1:])
        return record


def _with_words(record: FollowRecord, words: str) -> FollowRecord:
    return structs.replace(record, to_say=(*record.to_say, words))
