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

from corral.attempt.repositories import load_forge_settings, repository_of
from corral.engine.context import Context, LocalRuns, Say
from corral.engine.views import run_document, run_status
from corral.model import OPEN, Run, winner
from corral.model.errors import BadRequest, CorralError
from corral.model.events import Listener
from corral.model.forge import FollowRecord, PullRequest
from corral.model.merge import MergeRecord, MergeRequest
from corral.rules.context import untrusted
from corral.rules.merge import pull_request as rules
from corral.store.interface import Store, Watch
from corral.world.forge.client import ForgeRefusal
from corral.world.forge.finding import forge_at
from corral.world.forge.forge import Forge
from corral.world.forge.remotes import place_of, push_remote

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
    """One pull request at one look: where it is, and what is told meanwhile."""

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
        record = structs.replace(
            known[0] if known else FollowRecord(run=run),
            state="following",
            by=by,
            every_seconds=every_seconds,
            most=most,
        )
        self._store.forge.put_follow(record, time.time())
        return record

    def find(self, name: str) -> tuple[FollowRecord, float | None] | None:
        """Return what is known of a run's pull request, and when it is looked at next."""
        return self._store.forge.follow(self._store.find(name))

    def stop(self, name: str, by: str) -> FollowRecord:
        """Look after a pull request no longer."""
        found = self.find(name)
        if found is None:
            raise BadRequest(f"the pull request of run {self._store.find(name)} is not looked after")
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
        if self._store.run(run).status in OPEN:
            if not run_status.is_orphaned(self._store.run(run).owner):
                return structs.replace(record, reason="its agent is at work")
            await self._reviser.resume(run, listen)
        record = await self._publish(record, here, "after an interruption")
        pull = self._pull(run)
        look = await here.forge.look(here.number)
        self._store.merges.put_pull_request(run, structs.replace(pull, state=look.state, checks=look.checks))
        authors = {each.author for each in rules.new_remarks(look, record)} | {*look.approved_by}
        writers = {author for author in sorted(authors) if author and await here.forge.may_write(author)}
        step = rules.decide(look, record, pull, writers)
        say(f"{pull.url}: {step.reason}")
        record = structs.replace(record, reason=step.reason, seen=(*record.seen, *step.seen))
        match step.act:
            case "wait":
                return record
            case "end":
                if not step.good and look.state != "closed":
                    record = await self._speak(_with_words(record, f"Corral stops here: {step.reason}."), here)
                return structs.replace(record, state="ended", good=step.good)
            case "revise":
                return await self._revise(record, here, step)

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
            raise BadRequest(f"the pull request of run {run} is on no forge that corral can ask")
        return Follow(forge, pull.number, listen, say)

    async def _revise(self, record: FollowRecord, here: Follow, step: rules.FollowStep) -> FollowRecord:
        record = structs.replace(record, revisions=record.revisions + 1)
        self._store.forge.put_follow(record, time.time() + CLAIM_SECONDS)  # counted, whatever becomes of it
        text = untrusted.enclose(self._pull(record.run).url, rules.remark_parts(step), os.urandom(8).hex())
        run = await self._reviser.revise(record.run, f"{TASK}\n\n{text}", None, record.by, here.listen)
        last = max((each for node in run.nodes for each in node.attempts), key=lambda each: each.id)
        count = f"revision {record.revisions} of {record.most}"
        if last.status == "done" and last.revises:
            return await self._publish(record, here, f"{count}, for {step.reason}")
        why = last.error.message if last.error else last.status
        words = f"Corral tried {count}, for {step.reason}, and did not get it done: {' '.join(why.split())[:300]}"
        return await self._speak(_with_words(record, f"{words}. Nothing was pushed."), here)

    async def _publish(self, record: FollowRecord, here: Follow, why: str) -> FollowRecord:
        """Push what is new since the last push, and say so there."""
        run = run_document.build(self._store, record.run)
        pull, won = self._pull(record.run), winner(run.nodes)
        if run.status != "done" or won is None or won.id in pull.attempts:
            return record
        await self._merge(MergeRequest(run=record.run, strategy="pr", into=pull.into), here.say)
        pushed = self._pull(record.run)
        self._store.merges.put_pull_request(record.run, structs.replace(pushed, revisions=record.revisions))
        usd = "unknown cost" if won.cost.usd is None else f"${won.cost.usd:.2f}"
        checks = f"{len(won.checks)} checks pass" if won.checks else "there was no check"
        words = f"Corral pushed {pushed.commit[:12]} ({why}): {checks}, {usd}. Attempt `{won.id}`."
        return await self._speak(_with_words(structs.replace(record, reason=words), words), here)

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
