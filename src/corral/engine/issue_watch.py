"""Issues that are found by their label: each becomes a run, and its result a pull request or a comment."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec import Struct, structs

from corral.attempt.repositories import load_forge_settings
from corral.engine.context import Context, Driver, LocalRuns, Say
from corral.engine.planning.requests import Requests
from corral.engine.views import run_document
from corral.model import OPEN, Request, Run, winner
from corral.model.errors import BadRequest, CorralError
from corral.model.events import Listener
from corral.model.forge import IssueWork, WatchedIssues
from corral.model.merge import MergeRecord, MergeRequest
from corral.model.server import Ticket
from corral.rules.merge import pull_request as wording
from corral.store.interface import Store
from corral.world.forge.client import ForgeRefusal
from corral.world.forge.finding import forge_at
from corral.world.forge.forge import Forge
from corral.world.forge.remotes import place_of, push_remote
from corral.world.git.discovery import discover

Merge = Callable[[MergeRequest, Say], Awaitable[MergeRecord]]
SLICE_SECONDS = 0.5
MOST_WORDS = 1500


class WatchOrder(Struct, frozen=True, kw_only=True):
    """What is watched, and what is done with each issue."""

    request: Request  #: without the issue
    label: str
    by: str
    listen: Listener
    say: Say


class IssueWatch:
    """The labelled issues of repositories."""

    def __init__(
        self, context: Context, requests: Requests, driver: Driver, local_runs: LocalRuns, merge: Merge
    ) -> None:
        self._context, self._requests, self._driver = context, requests, driver
        self._local_runs, self._merge = local_runs, merge

    @property
    def _store(self) -> Store:
        return self._context.store

    async def keep(self, watch: WatchOrder, every_seconds: float) -> None:
        """Look again and again until this process is to stop; what passes by itself is waited for."""
        bell = self._store.watch()
        try:
            while not self._local_runs.stopping:
                wait = every_seconds
                try:
                    await self.look(watch)
                except ForgeRefusal as refused:
                    if not refused.passes:
                        raise
                    watch.say(str(refused))
                    wait = max(wait, refused.wait_seconds)
                until = time.time() + wait
                while (left := until - time.time()) > 0 and not self._local_runs.stopping:
                    await bell.listen(min(SLICE_SECONDS, left))
        finally:
            bell.close()

    async def look(self, watch: WatchOrder) -> WatchedIssues:
        """Finish what was begun, then begin what is new, one after another."""
        forge = await self.forge(watch.request)
        repository = f"{forge.place.host}/{forge.place.path}"
        done = [
            (await self._apart(each, self._finish(each, forge, watch), watch))[0]
            for each in self._store.forge.issue_work(repository)
            if each.run and not each.reported
        ]
        tag = f"issues {repository} {watch.label}"
        found = await forge.labelled_issues(watch.label, self._store.queue.value(tag) or "")
        known = {each.number: each for each in self._store.forge.issue_work(repository)}
        all_good = True
        for number, url in found.numbers:
            if self._local_runs.stopping:
                return WatchedIssues(repository=repository, label=watch.label, work=tuple(done))
            before = known.get(number)
            if before is None or before.run is None or (before.reported and before.empty):
                work = IssueWork(repository=repository, number=number, url=url, label=watch.label)
                work, good = await self._apart(before or work, self._begin(work, before, forge, watch), watch)
                all_good = all_good and good
                if work != before:
                    done.append(work)
        if not found.unchanged and found.etag and all_good:
            self._store.queue.set_value(tag, found.etag)  # only now: what was cut off is found again
        return WatchedIssues(repository=repository, label=watch.label, unchanged=found.unchanged, work=tuple(done))

    async def forge(self, request: Request) -> Forge:
        folder = Path(request.repo).expanduser()
        found = await discover(folder) if folder.is_dir() else None
        if found is None:
            raise BadRequest(
                f"--repo {request.repo}: that is no git repository", hint="its remote says where issues are"
            )
        settings = load_forge_settings(found.repository.folder, self._context.home)
        place = place_of((await push_remote(found.repository))[1], settings)
        forge = forge_at(place, settings) if place else None
        if forge is None:
            raise BadRequest("the remote is no forge whose issues can be read", hint='config.toml: [forge] kind = "…"')
        if not forge.client.may_write:
            raise BadRequest(f"{forge.place.host}: reporting results needs a token", hint=forge.client.token_hint())
        return forge

    # --- one issue

    async def _apart(self, work: IssueWork, step: Awaitable[IssueWork], watch: WatchOrder) -> tuple[IssueWork, bool]:
        """Do what is next for one issue; its trouble is its own, and it is tried again at the next look."""
        try:
            return await step, True
        except CorralError as error:
            if isinstance(error, ForgeRefusal) and (error.passes or error.status == 401):
                raise  # that is not about one issue
            stored = {each.number: each for each in self._store.forge.issue_work(work.repository)}
            return self._save(stored.get(work.number, work), f"to be tried again: {error}", watch.say), False

    async def _begin(self, work: IssueWork, before: IssueWork | None, forge: Forge, watch: WatchOrder) -> IssueWork:
        """Start the run of an issue, if the one who set its label may push; say so if not, once."""
        label = await forge.labelled_by(work.number, work.label)
        if before and before.run and label.times <= before.times:
            return before
        who, work = label.by, structs.replace(work, by=label.by, times=label.times)
        if not who or not await forge.may_write(who):
            words = f"the label `{work.label}` was set by {who or 'an unknown user'}, who has no write access"
            if before and before.by == who and before.reported and not before.run:
                return before
            await self.say(forge, work, f"Corral ignores this issue: {words}.")
            return self._save(work, f"ignored: {words}", watch.say, reported=True)
        asked = structs.replace(watch.request, issue=work.url)
        key = f"issue {work.repository}#{work.number} {work.label}"
        ticket = Ticket(by=watch.by, key=f"{key} {work.times}" if before and before.run else key)
        run = self._requests.before(asked, ticket) or await self._requests.enqueue(asked, ticket, watch.say)
        work = structs.replace(work, run=run, reason="at work")
        self._store.forge.put_issue_work(work)
        watch.say(f"#{work.number}, labelled by {who}: run {run}")
        return await self._finish(work, forge, watch)

    async def _finish(self, work: IssueWork, forge: Forge, watch: WatchOrder) -> IssueWork:
        """Drive a run to its end, and tell its result: by a pull request, or in the issue."""
        await self._drive(work.run or "", watch)
        return await self.deliver(work, forge, watch.say)

    async def deliver(self, work: IssueWork, forge: Forge, say: Say) -> IssueWork:
        """Report the result of a run that is over: by a pull request, or in the issue."""
        name = work.run or ""
        run = run_document.build(self._store, name)
        if run.status in (*OPEN, "limited"):
            return self._save(work, f"run {name} is {run.status}: {run.reason or ''}".rstrip(": "), say)
        won = winner(run.nodes)
        if run.status == "done" and won is not None and won.files_changed:
            try:
                record = await self._merge(MergeRequest(run=name, strategy="pr"), say)
            except CorralError as error:
                return self._save(work, f"no pull request yet: {error}", say)
            if record.state == "conflict":
                files = ", ".join(f"`{each.path}`" for each in record.conflicts[:20])
                await self.say(
                    forge, work, f"Corral has a result that conflicts with the branch, in {files}. Run `{name}`."
                )
                work = structs.replace(work, empty=True)
                return self._save(work, f"run {name} conflicts with the branch", say, reported=True)
            return self._save(work, f"pull request {record.url}", say, reported=True)
        await self.say(forge, work, _nothing(run))
        work = structs.replace(work, empty=True)
        return self._save(work, f"nothing changed: run {name} is {run.status}", say, reported=True)

    async def _drive(self, run: str, watch: WatchOrder) -> None:
        """See a run to its end, here or in the process that drives it; one that waits for the user is left to them."""
        bell = self._store.watch()
        try:
            while self._store.run(run).status in OPEN and not self._local_runs.stopping:
                left = self._local_runs.is_left(run)
                if left and self._store.run(run).status in ("waiting", "paused"):
                    return
                if not left:
                    await bell.listen(SLICE_SECONDS)
                    continue
                try:
                    await self._driver.resume(run, watch.listen)
                except BadRequest:  # a server was quicker
                    await bell.listen(SLICE_SECONDS)
        finally:
            bell.close()

    def _save(self, work: IssueWork, reason: str, say: Say, *, reported: bool = False) -> IssueWork:
        saved = structs.replace(work, reason=reason, reported=reported)
        if saved != work:
            say(f"#{work.number}: {reason}")
        self._store.forge.put_issue_work(saved)
        return saved

    async def say(self, forge: Forge, work: IssueWork, words: str) -> None:
        await forge.say_in_issue(work.number, f"{words}\n\n{wording.MARK}")


def _nothing(run: Run) -> str:
    """Return the comment for an issue whose run changed nothing."""
    last = next((each for node in reversed(run.nodes) for each in reversed(node.attempts)), None)
    why = (last.error.message if last and last.error else None) or run.reason or run.status
    said = last.output if last and isinstance(last.output, str) else ""
    words = f"Corral worked on this and changed nothing: {' '.join(why.split())[:300]}. Run `{run.run}`."
    quoted = f"\n\nThe agent's own words:\n\n{wording.quote(said, MOST_WORDS)}" if said.strip() else ""
    return words + quoted
