"""Notes on commits: made aside, and taken into the repository together with the ref that holds them."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from corral.model.errors import GitTrouble
from corral.world.git import incoming_objects
from corral.world.git.incoming_objects import fold
from corral.world.git.repository import Repository
from corral.world.workspace.checkout import WHO

TRIES = 5
ANY_CODE = tuple(range(-64, 256))  #: also that a signal ended it
#: What git says of objects that are missing or damaged.
GONE = re.compile(
    rb"(?i)bad object|bad tree|missing|corrupt|could not (read|parse)|unable to (read|parse)|empty|invalid"
)
#: What it says when the machine lacks something.
FOR_A_MOMENT = re.compile(
    rb"(?i)too many open|memory|permission denied|input/output error|no space|resource|mmap|stale|timed out"
)


async def add_note(repository: Repository, commit: str, notes: str, text: bytes) -> None:
    """Put a note on a commit, replacing an older one. Notes whose objects are gone for good are begun anew."""
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
            await incoming_objects.pack_up(repository, folder)
            words = ("update-ref", notes, made, older or "0" * len(made))
            with incoming_objects.move_in(repository, folder):
                moved = await repository.git(*words, env=WHO, fine=ANY_CODE if tries_left else (0,))
        if moved.code == 0:  # otherwise somebody else has written a note meanwhile
            await fold(repository)
            return


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
    """Return where a ref stands, also one that leads to nothing; git is asked only where it is not a file."""
    with contextlib.suppress(OSError):
        return (repository.git_dir / ref).read_text().strip()
    return await repository.text("rev-parse", "--verify", "--quiet", ref, fine=(0, 1)) or None
