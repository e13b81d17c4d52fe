"""The end of a run with a result: its diffs as an edit, and the question whether they are merged."""

from __future__ import annotations

import asyncio
from pathlib import Path

from corral import amounts
from corral.engine.engine import Engine
from corral.engine.views.changes import ChangeSelection
from corral.frontends.acp.questions import Asker, FormOption
from corral.frontends.acp.updates import Content, ShownCall, Updates, diff_content, text_content
from corral.frontends.text import one_line
from corral.model import Attempt, Entry, Run
from corral.model.errors import CorralError
from corral.model.merge import MergeRequest

LOOK_SECONDS = 1.0
MOST_FILES = 100  #: that are shown as edits
MERGE, COMPARE, LATER, REJECT = (
    FormOption("merge", "Merge", "allow_once"),
    FormOption("compare", "Compare the attempts", "allow_once"),
    FormOption("later", "Not now", "reject_once"),
    FormOption("reject", "Reject", "reject_once"),
)


class MergeQuestion:
    """What a user is asked about a result that is ready to be merged."""

    def __init__(self, engine: Engine, updates: Updates, run: Run) -> None:
        self._engine, self._updates, self._run = engine, updates, run
        self._call = f"{run.run}/merge"
        self._shown = ShownCall(self._call, "Merge the result", "edit")

    async def show(self, *, ask: bool) -> None:
        """Show the change as edits at the paths of the checkout."""
        files, content = await change_content(self._engine, self._run)
        into = self._run.merge.into or "its branch"
        if ask:
            self._shown = ShownCall(self._call, f"Merge {_count(files)} into {into}", "edit", content)
            self._updates.begin_question(self._shown)
        else:
            title = f"{_count(files)} changed, not merged: `/merge` merges into {into}"
            self._updates.begin_call(self._call, title, "edit", "completed", content)

    async def ask(self, asker: Asker, say_by: str) -> str | None:
        """Ask until there is a decision, here or in the inbox; return it. None: nobody answered in time."""
        entry = self._engine.inbox.ask_result(self._run)
        here = asyncio.create_task(self._ask_here(asker))
        elsewhere = asyncio.create_task(self._answered_elsewhere(entry.id))
        try:
            await asyncio.wait((here, elsewhere), return_when=asyncio.FIRST_COMPLETED)
            chosen = here.result() if here.done() else None
            if chosen is not None and self._engine.inbox.close_result(entry, chosen, say_by):
                await self._carry_out(chosen, say_by)
                return chosen
            if here.done() and not elsewhere.done() and chosen is None:
                self._leave_open(entry.id)
                return None
            return self._tell_answer(await elsewhere)
        finally:
            here.cancel()
            elsewhere.cancel()
            await asyncio.gather(here, elsewhere, return_exceptions=True)

    async def _ask_here(self, asker: Asker) -> str | None:
        several = sum(len(node.attempts) for node in self._run.nodes) > 1
        chosen = await asker.permit(self._shown, [MERGE, *([COMPARE] if several else []), LATER, REJECT])
        while chosen == COMPARE.id:
            self._updates.say("\n".join(comparison(self._engine, self._run.run)) + "\n\n")
            chosen = await asker.permit(self._shown, [MERGE, LATER, REJECT])
        return chosen

    async def _answered_elsewhere(self, number: str) -> Entry:
        """Wait until the question has an answer in the inbox, and it is known what came of it."""
        bell = self._engine.changes()
        try:
            while True:
                entries = self._engine.inbox.entries(whole=True)
                found = next((each for each in entries if each.id == number), None)
                if found is not None and not found.is_open and found.outcome:
                    return found
                await bell.listen(LOOK_SECONDS)
        finally:
            bell.close()

    def _tell_answer(self, entry: Entry) -> str | None:
        """Say what was decided elsewhere."""
        words = f"Answered elsewhere ({entry.answered_by}): {entry.answer or 'taken back'}; {entry.outcome}"
        merged = self._engine.show(self._run.run).merge.status == "merged"
        self._updates.change_call(self._call, status="completed" if merged else "failed", title=words)
        self._updates.say(f"\n\n{words}")
        return entry.answer or None

    def _leave_open(self, number: str) -> None:
        words = (
            f"Nobody answered; the question stays in the inbox. `/answer {number} merge` merges it, as `/merge` does."
        )
        self._updates.change_call(self._call, status="failed", title=words)
        self._updates.say(f"\n\n{words}")

    async def _carry_out(self, chosen: str, by: str) -> None:
        if chosen == MERGE.id:
            self._updates.change_call(self._call, status="in_progress")
            ok, words = await merge(self._engine, self._run.run)
            self._updates.change_call(self._call, status="completed" if ok else "failed", title=words)
            self._updates.say(f"\n\n{words}")
            return
        later = f"Not merged. `/merge` merges it; `corral merge {self._run.run}` does, too."
        words = f"Rejected by {by}: the work stays on its branch." if chosen == REJECT.id else later
        self._updates.change_call(self._call, status="failed", title=words)
        self._updates.say(f"\n\n{words}")


async def merge(engine: Engine, run: str, pick: str | None = None) -> tuple[bool, str]:
    """Merge a run; return whether that went, and what became of it in words."""
    said: list[str] = []
    try:
        record = await engine.merges.merge(MergeRequest(run=run, pick=pick), said.append)
    except CorralError as error:
        return False, f"Not merged: {error}" + (f" ({error.hint})" if error.hint else "")
    if record.state == "conflict":
        named = ", ".join(f"`{each.path}`" for each in record.conflicts[:20])
        return False, f"Not merged: conflicts in {named}; nothing was moved. `corral merge {run}` shows them."
    notes = "".join(f" {one_line(each, 300)}" for each in said)
    return True, f"Merged into {record.into}.{notes} `/undo` takes it back."


async def change_content(engine: Engine, run: Run, attempt: str | None = None) -> tuple[int, list[Content]]:
    """Return how many files a run changed, and each as a diff that an editor shows."""
    looked = ChangeSelection(run=run.run, attempt=attempt)
    change = await engine.work.change(looked)
    if change is None:
        return 0, []
    content: list[Content] = []
    for each in change.files[:MOST_FILES]:
        found = await engine.work.changed_file(looked, each.path, each.old_path)
        path = str(Path(run.repo) / each.path)
        old, new = found.old_text, found.new_text
        if found.trouble or (old is None and new is None):
            content.append(text_content(f"{each.path}: {found.trouble or 'no lines'}"))
        else:
            content.append(diff_content(path, old if each.old_blob else None, new or ""))
    if len(change.files) > MOST_FILES:
        content.append(text_content(f"and {len(change.files) - MOST_FILES} more files: corral diff {run.run}"))
    return len(change.files), content


def comparison(engine: Engine, run: str) -> list[str]:
    """Say how the attempts of a run compare, one line each."""
    found = engine.show(run)
    return [_comparison_line(attempt, node.winner) for node in found.nodes for attempt in node.attempts]


def _comparison_line(attempt: Attempt, won: str | None) -> str:
    passed = sum(check.passed for check in attempt.checks)
    grade = f", {attempt.evidence.grade}" if attempt.evidence else ""
    cost = "" if attempt.cost.usd is None else f", {amounts.usd(attempt.cost.usd)}"
    mark = " **(winner)**" if attempt.id == won else ""
    change = f"+{attempt.insertions} -{attempt.deletions}"
    return (
        f"- `{attempt.id}` {attempt.agent}{mark}: {attempt.status}{grade}, "
        f"checks {passed}/{len(attempt.checks)}, {change}{cost}, {attempt.seconds:.0f} s"
    )


def _count(files: int) -> str:
    return f"{files} file" if files == 1 else f"{files} files"
