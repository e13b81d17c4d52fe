"""Who is running, seen from outside: by the words of their command line or of their environment."""

from collections.abc import Iterator
from pathlib import Path

from tests.rig.waiting import until


def running(sign: str) -> list[int]:
    """Return the processes that carry `sign` in their command line or environment."""
    return [pid for pid, text in _told() if sign.encode() in text]


def gone(sign: str) -> None:
    """Wait until nobody carries `sign` any more."""
    until(lambda: not running(sign), f"processes with {sign} are gone")


def _told() -> Iterator[tuple[int, bytes]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                yield int(folder.name), (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
            except OSError:
                continue  # it ended while we looked
