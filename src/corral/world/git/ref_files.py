"""Refs read and written as the files that git keeps them in; where they are not such files, git is to be asked."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Generator, Iterator
from pathlib import Path

from corral.world.git.made_objects import moment
from corral.world.process import Owner

TRIES = 3
PACKED = "packed-refs"
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY
LOG_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
NONE = "0" * 40
WHO = "Corral <corral@localhost>"
LOGGED = ("refs/heads/", "refs/notes/", "refs/remotes/")
#: Settings by which others than the usual refs are logged, files get other rights, or settings lie elsewhere.
UNUSUAL = re.compile(
    r"include|worktreeconfig|refstorage|sharedrepository|logallrefupdates\s*(?!\s*=\s*true\s*$)",
    re.IGNORECASE | re.MULTILINE,
)


def read(git_dir: Path, ref: str) -> str | None:
    """Return what the file of a ref says; None where there is no such file."""
    try:
        return (git_dir / ref).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None


def is_absent(git_dir: Path, ref: str) -> bool:
    """Tell whether there is surely no such ref."""
    if (git_dir / "reftable").exists() or (git_dir / ref).is_file():
        return False
    return all(name != ref for name, _ in _packed_refs(git_dir))


def list_below(git_dir: Path, folder: str, name: str) -> dict[str, str] | None:
    """Return the refs in a folder that are called `name` or `name-...`, in order; None: git is to be asked."""
    if (git_dir / "reftable").exists():
        return None
    found = {ref: commit for ref, commit in _packed_refs(git_dir) if _is_called(ref, folder, name)}
    with contextlib.suppress(FileNotFoundError), os.scandir(git_dir / folder) as entries:
        for entry in entries:
            ref = f"{folder}/{entry.name}"
            if not _is_called(ref, folder, name) or ref.endswith(".lock"):
                continue
            commit = read(git_dir, ref) if entry.is_file(follow_symlinks=False) else None
            if commit is None or len(commit) not in (40, 64):  # a folder, a link to another ref, or gone meanwhile
                return None
            found[ref] = commit
    return dict(sorted(found.items()))


def _is_called(ref: str, folder: str, name: str) -> bool:
    own = ref.removeprefix(f"{folder}/")
    return own != ref and (own == name or own.startswith((f"{name}-", f"{name}/")))


def _packed_refs(git_dir: Path) -> Iterator[tuple[str, str]]:
    with contextlib.suppress(FileNotFoundError), (git_dir / PACKED).open(encoding="utf-8", errors="replace") as file:
        for line in file:
            if line[0] not in "#^":
                commit, _, ref = line.rstrip("\n").partition(" ")
                yield ref, commit


def write(git_dir: Path, ref: str, commit: str, owner: Owner | None) -> bool:
    """Write a new ref as git lays it down, on the disk when this returns; tell whether that was possible.

    Its file gets its name when it is complete, and only where nothing has that name. There is no lock of git's that
    a killed process could leave.
    """
    if owner or (git_dir / "reftable").is_dir() or _is_taken(git_dir, ref):
        return False
    logged = ref.startswith(LOGGED)
    if logged and not is_usual(git_dir):
        return False
    try:
        with contextlib.ExitStack() as stack:
            log = stack.enter_context(_open(_made_for(git_dir / "logs" / ref)[0], LOG_FLAGS)) if logged else None
            nameless = stack.enter_context(_open(git_dir / "refs", os.O_TMPFILE | os.O_WRONLY))
            os.write(nameless, f"{commit}\n".encode())
            os.fsync(nameless)
            _link(nameless, git_dir / ref)
            if log is not None:
                os.write(log, f"{NONE} {commit} {WHO} {moment()}\n".encode())
    except (OSError, AttributeError):  # a disk or a system without nameless files, or another one was quicker
        return read(git_dir, ref) == commit
    return True


def _is_taken(git_dir: Path, ref: str) -> bool:
    """Tell whether there is such a ref, one below it or one above it, or whether git is at work on it."""
    file = git_dir / ref
    if os.path.lexists(file) or os.path.lexists(f"{file}.lock"):
        return True
    try:
        packed = (git_dir / PACKED).read_bytes()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    parts = ref.encode().split(b"/")
    above = (b" %s\n" % b"/".join(parts[:count]) for count in range(2, len(parts) + 1))
    return b" %s/" % ref.encode() in packed or any(name in packed for name in above)


def _link(nameless: int, file: Path) -> None:
    """Give a nameless file its name, and wait until the disk has that and the folders above."""
    for tries_left in reversed(range(TRIES)):  # git removes empty folders
        file, changed = _made_for(file)
        try:
            with _open(file.parent, FOLDER_FLAGS) as folder:
                os.link(f"/proc/self/fd/{nameless}", file.name, dst_dir_fd=folder)  # by a folder: it follows that link
                os.fsync(folder)
            for each in changed:
                with _open(each, FOLDER_FLAGS) as folder:
                    os.fsync(folder)
        except FileNotFoundError:
            if not tries_left:
                raise
            continue
        return


def _made_for(file: Path) -> tuple[Path, list[Path]]:
    """Make the folders above a file; return it, and the folders that hold new ones."""
    missing = [folder for folder in file.parents if not folder.is_dir()]
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
    return file, [folder.parent for folder in missing]


@contextlib.contextmanager
def _open(path: Path, flags: int) -> Generator[int]:
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o666)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def is_usual(git_dir: Path) -> bool:
    """Tell whether git would log what becomes of a branch, and of no other ref than those that it usually logs."""
    config = git_dir / "config"
    try:
        text = config.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return "bare = false" in text and not UNUSUAL.search(text)


def delete(git_dir: Path, ref: str, commit: str) -> bool:
    """Delete a ref that is a file alone and says `commit`; tell whether that was possible.

    A `git pack-refs` at this very moment may keep it: it is then deleted another time.
    """
    file, log = git_dir / ref, git_dir / "logs" / ref
    if log.exists() or any(name == ref for name, _ in _packed_refs(git_dir)):
        return False
    lock = file.with_name(f"{file.name}.lock")
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    except OSError:
        return False
    try:
        if read(git_dir, ref) != commit:
            return False
        file.unlink()
    except OSError:
        return False
    finally:
        lock.unlink(missing_ok=True)
    return True
