"""Review: comments on what attempts changed, the files they are about, and revisions that answer them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import structs

from corral import amounts
from corral.attempt import conversations
from corral.attempt.repositories import load_trusted_settings, other_machines, repository_of, require
from corral.engine.context import Context
from corral.engine.views import run_document
from corral.machines.resolved_agent import interactive_command, resolve_agent
from corral.model import OPEN, Attempt, AttemptRecord, NodeState, Run, RunPlan, moment, winner
from corral.model.agent_api import AgentTask
from corral.model.errors import BadRequest, NotFound
from corral.model.events import Noted
from corral.model.flow import Node
from corral.model.records import NodeEnd
from corral.model.review import Comment, CommentState, NewComment
from corral.rules.context import review as wording
from corral.rules.text import names
from corral.store.interface import Store
from corral.world import clock
from corral.world.git import blobs
from corral.world.git.repository import GITLINK, Repository

MOST_COMMENTS = 10_000  #: of one run
MOST_TEXT = 10_000  #: characters of one comment
MOST_MESSAGE = 200_000  #: characters of all that are sent at once
MOST_LINES = 1000  #: that one comment is about
BINARY_BYTES = 8000  #: a NUL byte in the first of them makes a file binary, as for git


class Review:
    """What reviewers say about the work of runs."""

    def __init__(self, context: Context) -> None:
        self._context = context

    @property
    def _store(self) -> Store:
        return self._context.store

    def comments(self, name: str) -> list[Comment]:
        return self._store.review.of_run(self._store.find(name))

    async def comment(self, name: str, wanted: Sequence[NewComment], by: str) -> list[Comment]:
        """Store comments, all or none; each is about lines that are there."""
        run = run_document.build(self._store, self._store.find(name))
        if len(run.comments) + len(wanted) > MOST_COMMENTS:
            hint = f"send them: corral revise {run.run}"
            raise BadRequest(f"a run has at most {MOST_COMMENTS:,} comments", hint=hint)
        known, files = {each.id: each for each in run.comments}, FileTexts(self._store, run)
        made = [await self._new(each, by, known, files) for each in wanted]
        reopened = {each.reply_to for each in made if each.reply_to}
        roots = [each for each in run.comments if each.id in reopened and each.state != "open"]
        with self._store.transaction():
            self._store.review.save(run.run, [structs.replace(each, state="open") for each in roots])
            return self._store.review.add(run.run, made)

    async def _new(self, wanted: NewComment, by: str, known: dict[str, Comment], files: FileTexts) -> Comment:
        text, at = wanted.text.strip(), moment(time.time())
        if not text:
            raise BadRequest("the comment is empty", hint='corral comment RUN a.py:3 "use the helper"')
        if len(text) > MOST_TEXT:
            raise BadRequest(
                f"a comment has at most {MOST_TEXT:,} characters, not {len(text):,}", hint="make two comments of it"
            )
        if wanted.reply_to is not None:
            root = _find(known, wanted.reply_to)
            root = known.get(root.reply_to or root.id, root)
            return structs.replace(
                root, id="", author=by, text=text, state="open", reply_to=root.id, at=at, sent_to=None
            )
        attempt = files.attempt(wanted)
        quote, last = "", wanted.last_line if wanted.last_line is not None else wanted.line
        content = await files.read(attempt, wanted)
        if wanted.line is not None and last is not None:
            rows = read_lines(wanted.file, content)
            wording.check_lines(wanted.file, rows, wanted.line, last)
            if last - wanted.line >= MOST_LINES:
                raise BadRequest(
                    f"a comment is about at most {MOST_LINES:,} lines", hint="comment on the lines that matter"
                )
            quote = "\n".join(rows[wanted.line - 1 : last])
        return Comment(
            id="",
            attempt=attempt.id,
            file=wanted.file,
            line=wanted.line,
            last_line=last,
            side=wanted.side,
            author=by,
            text=text,
            at=at,
            quote=quote,
        )

    def move(self, name: str, ids: Iterable[str], state: CommentState) -> list[Comment]:
        """Resolve threads, or open them again; `all` means every one."""
        run = self._store.find(name)
        known = {each.id: each for each in self._store.review.of_run(run)}
        wanted = list(ids)
        roots = {known[each].reply_to or each for each in known} if "all" in wanted else set[str]()
        for each in wanted if "all" not in wanted else ():
            found = _find(known, each)
            roots.add(found.reply_to or found.id)
        moved = [structs.replace(each, state=state) for each in known.values() if (each.reply_to or each.id) in roots]
        self._store.review.save(run, moved)
        return moved

    # --- revisions

    def refuse_open(self, run: str) -> None:
        """Raise unless a run is over."""
        if (status := self._store.run(run).status) in OPEN:
            hint = f"wait for it: corral logs -f {run}; or tell its agents now: corral steer {run} TEXT"
            raise BadRequest(f"run {run} is not over: {status}", hint=hint)

    async def begin(self, name: str, text: str, attempt: str | None, by: str) -> AttemptRecord:
        """Store the attempt that answers all open comments; the process that drives the run carries it out."""
        await self.refresh(name)
        run = run_document.build(self._store, self._store.find(name))
        plan, chosen, comments = self._store.run(run.run).plan, _attempt_to_revise(run, attempt), _open(run)
        node = next(node for node in run.nodes if any(each.id == chosen.id for each in node.attempts))
        about = {each.id for each in node.attempts}
        comments = [each for each in comments if each.attempt in about]
        if not comments and not text.strip():
            hint = f'corral comment {run.run} FILE:LINE "…", or corral revise {run.run} "…"'
            raise BadRequest(f"run {run.run} has no open comment, and no text was given", hint=hint)
        message = wording.review_message(comments, text)
        if len(message) > MOST_MESSAGE:
            words = f"{len(comments):,} open comments are {len(message):,} characters, more than {MOST_MESSAGE:,}"
            raise BadRequest(words, hint=f"resolve some: corral comment {run.run} --resolve ID")
        records = {each.attempt.id: each for each in self._store.attempts(run.run)}
        revised = records[chosen.id]
        _task_node(plan, node.id, revised)
        if not chosen.machine:
            settings = load_trusted_settings(Path(plan.repo), self._context.home, trust=False)
            resolve_agent(chosen.agent, settings, chosen.account)  # one that is gone is refused before anything starts
        elsewhere = other_machines(self._context.store, plan.git_dir)
        await require(repository_of(plan, self._context.home), run.run, [chosen.commit or ""], elsewhere=elsewhere)
        return self._store_revision(run, node, list(records.values()), revised, (message, comments, by))

    async def begin_by_hand(self, name: str, attempt: str | None, by: str) -> AttemptRecord:
        """Store the attempt in which a user continues another by hand; the process with the terminal carries it out."""
        run = run_document.build(self._store, self._store.find(name))
        plan, chosen = self._store.run(run.run).plan, run_document.pick_attempt(run, attempt)
        node = next(node for node in run.nodes if any(each.id == chosen.id for each in node.attempts))
        records = {each.attempt.id: each for each in self._store.attempts(run.run)}
        if _task_node(plan, node.id, records[chosen.id]).machine or chosen.machine:
            hint = f"corral revise {run.run} TEXT, or a copy to work in: corral open {run.run}"
            raise BadRequest(f"attempt {chosen.id} works on another machine, which has no terminal", hint=hint)
        settings = load_trusted_settings(Path(plan.repo), self._context.home, trust=False)
        resolved = resolve_agent(chosen.agent, settings, chosen.account)
        resolved.resolve(interactive_command(resolved, AgentTask(prompt="", workspace="", home="", model=chosen.model)))
        if chosen.commit:
            elsewhere = other_machines(self._context.store, plan.git_dir)
            await require(repository_of(plan, self._context.home), run.run, [chosen.commit], elsewhere=elsewhere)
        return self._store_revision(run, node, list(records.values()), records[chosen.id], ("", (), by))

    def _store_revision(
        self,
        run: Run,
        node: NodeState,
        records: Sequence[AttemptRecord],
        revised: AttemptRecord,
        said: tuple[str, Sequence[Comment], str],
    ) -> AttemptRecord:
        message, comments, by = said
        before, store = revised.attempt, self._store
        kept = not revised.kept and conversations.is_kept(store.folder, before.id)
        with store.transaction():
            name = names.attempt_id(run.run, store.next_place(run.run))
            record = AttemptRecord(
                attempt=Attempt(
                    id=name,
                    number=max(each.attempt.number for each in records if each.node == node.id) + 1,
                    revises=before.id,
                    agent=before.agent,
                    account=before.account,
                    model=before.model,
                    role=before.role,
                    session=before.session if kept else None,
                ),
                run=run.run,
                node=node.id,
                lane=revised.lane,
                chosen=revised.chosen,
                # An agent finds its session by the folder it worked in.
                folder=revised.folder if kept else str(store.folder / "workspaces" / name),
                heads=(revised.base,) if revised.base else (),
                compared_with=revised.compared_with,
                start=before.commit,
                review=message,
                by_hand=not message,
                before=NodeEnd(status=node.status, reason=node.reason, winner=node.winner, why=node.why),
                started=time.time(),
                clock=clock.reading(),
            )
            for other in records:  # an earlier revision of the same work that was not accepted
                if other.attempt.revises == before.id and other.attempt.status != "done" and not other.void:
                    other.void = True
                    store.save_attempt(other)
            store.save_attempt(record)
            store.review.save(run.run, [structs.replace(each, state="sent", sent_to=name) for each in comments])
            store.move_node(run.run, structs.replace(node, status="running", reason=None))
            group = _group(store.run(run.run).plan, node.id)
            if group != node.id:
                store.move_node(run.run, NodeState(id=group, status="queued"))
            store.move_run(run.run, "queued", None, None)
            count = f"{amounts.count(len(comments), 'comment')}"
            asked = f"{by} asks for a revision of {before.id}: {count}"
            note = Noted(asked if message else f"{by} continues {before.id} by hand")
            store.note(run.run, note, at=time.time(), node=node.id, attempt=name)
        return record

    async def refresh(self, name: str) -> None:
        """Bring comments up to date: open again where a revision failed, outdated where their lines are gone."""
        run = run_document.build(self._store, self._store.find(name))
        attempts = {each.id: each for node in run.nodes for each in node.attempts}
        files, moved = FileTexts(self._store, run), list[Comment]()
        for each in run.comments:
            answer = attempts.get(each.sent_to or "")
            if each.state != "sent" or answer is None or answer.status in OPEN:
                continue
            if answer.status != "done":
                moved.append(structs.replace(each, state="open"))
            elif each.line is not None and each.side == "new" and not await files.still_has(answer, each):
                moved.append(structs.replace(each, state="outdated"))
        if moved:
            self._store.review.save(run.run, moved)


def _find(known: dict[str, Comment], name: str) -> Comment:
    found = known.get(name) or known.get(f"c{name}")
    if found is None:
        raise NotFound(f"no comment is called `{name}`", hint="corral comment RUN lists them")
    return found


def _open(run: Run) -> list[Comment]:
    states = {each.id: each.state for each in run.comments}
    return [each for each in run.comments if each.state == "open" and states.get(each.reply_to or each.id) == "open"]


def _attempt_to_revise(run: Run, named: str | None) -> Attempt:
    """Return the attempt that is revised: what is named, else the winner of the node that comments are about."""
    found = run_document.pick_attempt(run, named) if named is not None else None
    for each in _open(run) if found is None else ():
        node = next((node for node in run.nodes if any(one.id == each.attempt for one in node.attempts)), None)
        if node is not None:
            found = winner([node]) or next(one for one in node.attempts if one.id == each.attempt)
            break
    found = found or run_document.pick_attempt(run, None)
    if found.commit is None:
        raise BadRequest(
            f"attempt {found.id} changed nothing: there is nothing to revise", hint=f"corral retry {run.run}"
        )
    return found


def _task_node(plan: RunPlan, name: str, record: AttemptRecord) -> Node:
    """Return the node of the flow that an attempt worked on, if that was an agent's work on a task."""
    found = next((each for each in plan.flow.nodes if each.id == _group(plan, name) and each.kind == "task"), None)
    if found is None or record.lane < 0:
        raise BadRequest(f"attempt {record.attempt.id} is no agent's work on a task", hint="name another attempt")
    return found


def _group(plan: RunPlan, node: str) -> str:
    """Return the node of the flow that a node was made for."""
    known = {each.id for each in plan.flow.nodes}
    return node if node in known else node.rpartition(".")[0]


class FileTexts:
    """Files as attempts of one run left them, or found them; each is read once."""

    def __init__(self, store: Store, run: Run) -> None:
        self._run, self._plan = run, store.run(run.run).plan
        self._repository: Repository = repository_of(self._plan, store.folder)
        self._bases = {each.attempt.id: each.base for each in store.attempts(run.run)}
        self._known: dict[tuple[str | None, str], bytes | None] = {}

    def attempt(self, wanted: NewComment) -> Attempt:
        """Return whose work a comment is about: what it names, else the winner that changed the file."""
        won = [each for node in self._run.nodes for each in node.attempts if each.id == node.winner]
        changed = [each for each in won if wanted.file in each.files_changed]
        found = (
            changed[-1] if wanted.attempt is None and changed else run_document.pick_attempt(self._run, wanted.attempt)
        )
        if found.commit is None:
            hint = f"tell its agent while it works: corral steer {self._run.run}"
            words = "is at work, and has left no change yet" if found.status in OPEN else "changed nothing"
            raise BadRequest(f"attempt {found.id} {words}", hint=hint if found.status in OPEN else "")
        return found

    async def read(self, attempt: Attempt, wanted: NewComment) -> bytes:
        """Return a file as a comment sees it."""
        base = self._bases.get(attempt.id) or self._plan.base
        if not _is_path(wanted.file):
            raise BadRequest(f"`{wanted.file}` names no file of a repository", hint="as `git diff` shows it: src/a.py")
        new = await self._content(attempt.commit, wanted.file)
        if wanted.side == "new" and new is not None:
            return new
        old = await self._content(base, wanted.file)
        if wanted.side == "old" and old is not None:
            return old
        if wanted.side == "new" and old is not None:
            hint = "comment on its old lines: --side old"
            raise BadRequest(f"{wanted.file} was deleted by attempt {attempt.id}", hint=hint)
        if wanted.side == "old" and new is not None:
            raise BadRequest(f"{wanted.file} is new in attempt {attempt.id}: it has no old lines", hint="--side new")
        changed = ", ".join(attempt.files_changed[:10])
        raise NotFound(f"attempt {attempt.id} has no file `{wanted.file}`", hint=f"it changed: {changed}")

    async def still_has(self, attempt: Attempt, comment: Comment) -> bool:
        content = await self._content(attempt.commit, comment.file)
        text = None if content is None else content.decode(errors="replace")
        return text is not None and wording.find_lines(comment.quote, text, comment.line or 1) is not None

    async def _content(self, commit: str | None, file: str) -> bytes | None:
        if (commit, file) not in self._known:
            self._known[commit, file] = await self._read(commit, file) if commit else None
        return self._known[commit, file]

    async def _read(self, commit: str, file: str) -> bytes | None:
        env = {"GIT_LITERAL_PATHSPECS": "1"}
        listed = (await self._repository.git("ls-tree", "-z", "--full-tree", commit, "--", file, env=env)).out
        head, _, name = listed.partition(b"\0")[0].partition(b"\t")
        mode, kind, blob = (*head.decode().split(), "", "", "")[:3]
        if not name or kind == "tree":
            return None
        if mode == GITLINK:
            return b"\0"
        sizes = await blobs.sizes(self._repository, [blob])
        return await self._repository.blob(blob) if sizes.get(blob, 0) <= blobs.MOST_TOGETHER else b"\0"


def _is_path(file: str) -> bool:
    return bool(file) and "\0" not in file and not {"", ".", ".."} & set(file.split("/"))


def read_lines(file: str, content: bytes) -> list[str]:
    """Return the lines of a file that is text."""
    if b"\0" in content[:BINARY_BYTES]:
        raise BadRequest(f"{file} is not text: it has no lines", hint=f"comment on the file as a whole: {file}")
    rows = content.decode(errors="replace").split("\n")
    return rows[:-1] if rows and not rows[-1] else rows
