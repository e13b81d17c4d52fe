"""Notes on commits: made aside, and taken into the repository together with the ref that holds them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import zlib
from pathlib import Path

from msgspec import Struct

from corral.model.errors import GitTrouble
from corral.world import locks
from corral.world.git import incoming_objects, ref_files
from corral.world.git.incoming_objects import fold
from corral.world.git.made_objects import FOLDER, TreeEntry, make_commit, make_object, read_tree, tree_content
from corral.world.git.repository import Repository
from corral.world.workspace.checkout import WHO

TRIES = 5
MOST_NOTES = 250  #: in one folder; git spreads more of them over several
MOST_KNOWN = 100
PLAIN = 0o100644
ADDED = "Notes added by 'git notes add'"
ANY_CODE = tuple(range(-64, 256))  #: also that a signal ended it
#: What git says of objects that are missing or damaged.
GONE = re.compile(
    rb"(?i)bad object|bad tree|missing|corrupt|could not (read|parse)|unable to (read|parse)|empty|invalid"
)
#: What it says when the machine lacks something.
FOR_A_MOMENT = re.compile(
    rb"(?i)too many open|memory|permission denied|input/output error|no space|resource|mmap|stale|timed out"
)


class _KnownNotes(Struct, frozen=True):
    """All notes of a ref, as this process wrote them last."""

    at: str
    pack: Path  #: the index of the one that holds them; gone, they may be gone, or elsewhere
    entries: dict[bytes, TreeEntry]


_known: dict[tuple[Path, str], _KnownNotes] = {}  #: of repositories and refs


async def add_note(repository: Repository, commit: str, notes: str, text: bytes) -> None:
    """Put a note on a commit, replacing an older one. Notes whose objects are gone for good are begun anew."""
    locks.check()
    if await _add_known(repository, commit, notes, text):
        await fold(repository)
        return
    for tries_left in reversed(range(TRIES)):
        older = await _where(repository, notes)
        with incoming_objects.quarantine(repository) as folder:
            try:
                made = await _write_note(repository, folder, (commit, notes, text), older)
            except GitTrouble:
                if not older or not await _is_lost(repository, older, commit):
                    raise
                await repository.git("update-ref", "-d", notes, older)  # with its reflog
                older = None
                made = await _write_note(repository, folder, (commit, notes, text), None)
            known = _read_notes(folder, made)
            await incoming_objects.pack_up(repository, folder)
            words = ("update-ref", notes, made, older or "0" * len(made))
            with incoming_objects.move_in(repository, folder) as pack:
                moved = await repository.git(*words, env=WHO, fine=ANY_CODE if tries_left else (0,))
        if moved.code == 0:  # otherwise someone else has written a note meanwhile
            _remember(repository, notes, _KnownNotes(made, pack, known) if known and pack else None)
            await fold(repository)
            return


def _remember(repository: Repository, notes: str, known: _KnownNotes | None) -> None:
    if len(_known) >= MOST_KNOWN:
        _known.clear()
    _known.pop((repository.git_dir, notes), None)
    if known:
        _known[repository.git_dir, notes] = known


def _read_notes(folder: Path, made: str) -> dict[bytes, TreeEntry] | None:
    """Read the notes that git has just written into a quarantine; None where they are many, or in another form."""
    try:
        commit = _loose(folder, made)
        entries = read_tree(_loose(folder, commit[5:45].decode()))
    except (OSError, ValueError, zlib.error):
        return None
    plain = all(len(name) == 40 and entry.mode != FOLDER for name, entry in entries.items())
    return entries if plain and len(made) == 40 else None


def _loose(folder: Path, name: str) -> bytes:
    return zlib.decompress((folder / name[:2] / name[2:]).read_bytes()).partition(b"\0")[2]


async def _add_known(repository: Repository, commit: str, notes: str, text: bytes) -> bool:
    """Put a note beside those that this process wrote last; tell whether they are still all there is."""
    known = _known.get((repository.git_dir, notes))
    if known is None or not known.pack.exists() or len(known.entries) >= MOST_NOTES:
        return False
    if ref_files.read(repository.git_dir, notes) != known.at:
        return False
    blob = make_object(b"blob", text)
    entries = {**known.entries, commit.encode(): TreeEntry(PLAIN, blob.name)}
    tree = make_object(b"tree", tree_content(entries))
    made = make_commit(tree.name, [known.at], (WHO["GIT_AUTHOR_NAME"], WHO["GIT_AUTHOR_EMAIL"]), ADDED)
    if made is None:
        return False
    name = made.name.hex()
    with contextlib.ExitStack() as stack:
        adding = incoming_objects.add_objects(repository, [blob, tree, made])
        pack = await asyncio.to_thread(stack.enter_context, adding)
        moved = await repository.git("update-ref", notes, name, known.at, env=WHO, fine=ANY_CODE)
    _remember(repository, notes, _KnownNotes(name, pack, entries) if moved.code == 0 else None)
    return moved.code == 0


async def is_whole(repository: Repository, commit: str) -> bool:
    """Tell whether git can read a commit and all its files; its history is not looked at."""
    words = ("rev-list", "--objects", "--quiet", "--max-count=1", commit, "--")
    return (await repository.git(*words, fine=ANY_CODE)).code == 0


async def _is_lost(repository: Repository, notes: str, commit: str) -> bool:
    """Tell whether git says that objects of notes are missing, and not only that it fails just now."""
    words = ("rev-list", "--objects", "--quiet", "--max-count=1", notes, "--")
    for _ in range(2):
        looked = await repository.git(*words, fine=ANY_CODE)
        if looked.code == 0 or not GONE.search(looked.err) or FOR_A_MOMENT.search(looked.err):
            return False
        if not await is_whole(repository, commit):  # then it is not about the notes
            return False
    return True


async def _write_note(repository: Repository, folder: Path, what: tuple[str, str, bytes], older: str | None) -> str:
    """Write a note and all that belongs to it into a quarantine; return the commit that a ref is to hold."""
    commit, notes, text = what
    apart = _git_dir(repository, folder / "git", commit, (notes, older)).apart(incoming_objects.environment(folder))
    await apart.git("notes", f"--ref={notes}", "add", "-f", "-F", "-", commit, stdin=text, env=WHO)
    return (apart.git_dir / notes).read_text().strip()


def _git_dir(repository: Repository, place: Path, like: str, ref: tuple[str, str | None]) -> Repository:
    """Lay a git folder with refs of its own: a ref of the repository must not lead to what is not there yet."""
    name, commit = ref
    sha256 = "[extensions]\n\tobjectformat = sha256\n" if len(like) == 64 else ""
    files = {"HEAD": "ref: refs/heads/none\n"}
    files["config"] = f"[core]\n\trepositoryformatversion = {1 if sha256 else 0}\n\tbare = true\n{sha256}"
    (place / "refs" / "heads").mkdir(parents=True, exist_ok=True)
    (place / name).parent.mkdir(parents=True, exist_ok=True)
    (place / name).unlink(missing_ok=True)
    if commit:
        files[name] = f"{commit}\n"
    for file, words in files.items():
        (place / file).write_text(words)
    if repository.owner:
        for each in (place, *place.rglob("*")):
            os.chown(each, repository.owner.uid, repository.owner.gid)
    return Repository(place, place, work_tree=False)


async def _where(repository: Repository, ref: str) -> str | None:
    """Return where a ref is, also one that leads to nothing; git is asked only where it is not a file."""
    with contextlib.suppress(OSError):
        return (repository.git_dir / ref).read_text().strip()
    return await repository.text("rev-parse", "--verify", "--quiet", ref, fine=(0, 1)) or None
