"""Files as attempts left them, or found them: what comments of reviewers are about."""

from __future__ import annotations

from corral.attempt.repositories import repository_of
from corral.engine.views import run_document
from corral.model import OPEN, Attempt, Run
from corral.model.errors import BadRequest, NotFound
from corral.model.review import Comment, NewComment
from corral.rules.context import review
from corral.store.interface import Store
from corral.world.git import blobs
from corral.world.git.repository import GITLINK, Repository

BINARY_BYTES = 8000  #: a NUL byte in the first of them makes a file binary, as for git


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
        return text is not None and review.find_lines(comment.quote, text, comment.line or 1) is not None

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
