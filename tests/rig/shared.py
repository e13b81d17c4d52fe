"""What is dear to make and safe to share: made once for all processes of a test run, removed by the last that needs it."""

import contextlib
import fcntl
import shutil
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path


@contextlib.contextmanager
def shared(record: Path, make: Callable[[Path], object]) -> Generator[Path]:
    """Give a folder that every user may enter, filled by `make`; `record` says where it is and how many have it."""
    with _held(record) as (known, users):
        folder = known or _made(record.name, make)
        record.write_text(f"{users + 1} {folder}")
    try:
        yield folder
    finally:
        with _held(record) as (_, users):
            record.write_text(f"{users - 1} {folder}" if users > 1 else "")
            if users == 1:
                shutil.rmtree(folder)


def _made(name: str, make: Callable[[Path], object]) -> Path:
    folder = Path(tempfile.mkdtemp(prefix=f"corral-{name}-"))
    folder.chmod(0o755)
    try:
        make(folder)
    except BaseException:
        shutil.rmtree(folder)
        raise
    return folder


@contextlib.contextmanager
def _held(record: Path) -> Generator[tuple[Path | None, int]]:
    """Keep other processes out; give the folder and the number of those who have it."""
    with record.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = record.read_text() if record.exists() else ""
        users, _, folder = known.partition(" ")
        yield (Path(folder), int(users)) if folder else (None, 0)
