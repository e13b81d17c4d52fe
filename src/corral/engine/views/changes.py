"""The change that a run or an attempt made, as users look at it: its files, and of each the lines side by side."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from corral.model import Attempt
from corral.model.errors import BadRequest, NotFound
from corral.rules.merge import patches
from corral.rules.merge.patches import PatchBlock, PatchLine
from corral.world.git import blobs, changes
from corral.world.git.changes import FileHunks
from corral.world.git.repository import GITLINK, Repository

__all__ = [
    "AttemptChange",
    "ChangeSelection",
    "Ends",
    "FileDiff",
    "FileHunks",
    "Fold",
    "PatchBlock",
    "PatchLine",
    "change",
    "file",
    "lines",
]
MOST_LINES = 20_000  #: of one change; more than that nobody reads on a screen


class AttemptChange(Struct, frozen=True, kw_only=True):
    """What differs between two commits, and whose work that is."""

    attempt: Attempt
    base: str | None
    commit: str
    files: tuple[FileHunks, ...] = ()

    @property
    def insertions(self) -> int:
        return sum(each.insertions or 0 for each in self.files)

    @property
    def deletions(self) -> int:
        return sum(each.deletions or 0 for each in self.files)


class ChangeSelection(Struct, frozen=True, kw_only=True):
    """Whose change is looked at: an attempt's or the whole run's; against its base, or against another attempt."""

    run: str
    attempt: str | None = None
    against: str | None = None


class Ends(Struct, frozen=True, kw_only=True):
    """The two commits between which a change lies, and whose work it is."""

    attempt: Attempt
    repository: Repository
    base: str | None
    commit: str


class Fold(Struct, frozen=True, kw_only=True):
    """Lines that are the same on both sides and not shown; numbers count from 1."""

    old: int
    new: int
    count: int
    heading: str = ""  #: what the lines after it belong to, as git tells it


class FileDiff(Struct, frozen=True, kw_only=True):
    """One file, laid side by side."""

    file: FileHunks
    parts: tuple[PatchBlock | Fold, ...] = ()
    old_text: str | None = None  #: None: not there, not text, or too long
    new_text: str | None = None
    trouble: str = ""  #: why no lines are shown, in words


async def change(ends: Ends) -> AttemptChange:
    """Return what was changed."""
    listed = await changes.files(ends.repository, ends.base, ends.commit)
    return AttemptChange(attempt=ends.attempt, base=ends.base, commit=ends.commit, files=tuple(listed))


async def file(ends: Ends | None, path: str, old_path: str = "") -> FileDiff:
    """Return one file of a change, with its lines."""
    ends, found = await _file(ends, path, old_path)
    repository = ends.repository
    if why := await _why_not_shown(repository, found):
        return FileDiff(file=found, trouble=why)
    patch = await changes.patch(repository, ends.base, ends.commit, *{found.path, found.old_path})
    parsed = patches.parse(patch)
    first = parsed[0] if parsed else None
    if first is None or not (first.hunks or first.binary):
        return FileDiff(file=found)
    if first.binary or len(parsed) > 1:  # a file that became a link is two patches
        return FileDiff(file=found, trouble="not text" if first.binary else "it became another kind of file")
    old_text, new_text = await _texts(repository, found)
    total = len(_split(new_text)) if new_text is not None else 0
    return FileDiff(file=found, parts=_parts(first, total), old_text=old_text, new_text=new_text)


async def lines(ends: Ends | None, names: tuple[str, str], fold: Fold) -> FileDiff:
    """Return lines of a file (its new and its old name) that were folded, opened."""
    ends, found = await _file(ends, *names)
    old_text, new_text = await _texts(ends.repository, found)
    if old_text is None or new_text is None:
        raise BadRequest(f"{names[0]} cannot be shown as text", hint="git show shows its bytes")
    rows = _split(new_text)[fold.new - 1 : fold.new - 1 + fold.count]
    opened = [PatchLine(kind=" ", text=text, old=fold.old + at, new=fold.new + at) for at, text in enumerate(rows)]
    block = PatchBlock(changed=False, pairs=tuple((line, line) for line in opened))
    return FileDiff(file=found, parts=(block,), old_text=old_text, new_text=new_text)


async def _file(ends: Ends | None, path: str, old_path: str) -> tuple[Ends, FileHunks]:
    named = filter(None, {path, old_path})
    listed = await changes.files(ends.repository, ends.base, ends.commit, *named) if ends else []
    found = next((each for each in listed if each.path == path), None)
    if ends is None or found is None:
        raise NotFound(f"{path} was not changed", hint="look at the list of files")
    return ends, found


async def _why_not_shown(repository: Repository, file: FileHunks) -> str:
    """Return why the lines of a file cannot be shown."""
    if GITLINK in (file.old_mode, file.new_mode):
        return f"a submodule: {(file.old_blob or 'nothing')[:12]} became {(file.new_blob or 'nothing')[:12]}"
    sizes = await blobs.sizes(repository, [blob for blob in (file.old_blob, file.new_blob) if blob])
    sizes_text = ", now ".join(f"{size:,} bytes" for size in sizes.values())
    if file.binary:
        return f"not text: {sizes_text}"
    if file.lines > MOST_LINES or max(sizes.values(), default=0) > 4 * blobs.MOST_BYTES:
        return f"too large to be shown here: {file.lines:,} changed lines, {sizes_text}"
    return ""


async def _texts(repository: Repository, file: FileHunks) -> tuple[str | None, str | None]:
    names = [blob for blob in (file.old_blob, file.new_blob) if blob]
    found = await blobs.contents(repository, names)
    old, new = (found.get(blob) if blob else b"" for blob in (file.old_blob, file.new_blob))
    return _text(old), _text(new)


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode(errors="replace")


def _split(text: str) -> Sequence[str]:
    """Return lines as git counts them."""
    rows = text.split("\n")
    return rows[:-1] if rows and not rows[-1] else rows


def _parts(patch: patches.FilePatch, total: int) -> tuple[PatchBlock | Fold, ...]:
    """Return the blocks of all hunks, with a fold wherever lines are left out."""
    parts: list[PatchBlock | Fold] = []
    old = new = 1
    for hunk in patch.hunks:
        new_start = hunk.new_start if hunk.new_count else hunk.new_start + 1
        if new_start > new:
            parts.append(Fold(old=old, new=new, count=new_start - new, heading=hunk.heading))
        parts += patches.blocks(hunk.lines)
        old = (hunk.old_start if hunk.old_count else hunk.old_start + 1) + hunk.old_count
        new = new_start + hunk.new_count
    if patch.hunks and total >= new:
        parts.append(Fold(old=old, new=new, count=total - new + 1))
    return tuple(parts)
