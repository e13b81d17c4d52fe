"""Who is running, seen from outside."""

from collections.abc import Iterator
from pathlib import Path

from tests.rig.waiting import until

SHELLS = ("sh", "bash", "sleep", "nohup")


def running(sign: str) -> list[int]:
    """Return the shells and sleepers that carry `sign` on their command line."""
    return [pid for pid, words in _told() if Path(words[0]).name in SHELLS and any(sign in word for word in words)]


def gone(sign: str) -> None:
    """Wait until nobody carries `sign` any more."""
    until(lambda: not running(sign), f"processes with {sign} are gone")


def _told() -> Iterator[tuple[int, list[str]]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue  # it ended while we looked
            yield int(folder.name), words
