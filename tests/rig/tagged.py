"""Processes by what stands in their environment, wherever they run."""

from pathlib import Path


def tagged(sign: str) -> list[int]:
    """Return the processes in whose environment `sign` stands."""
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if sign.encode() in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
            except OSError:
                continue  # it ended while we looked
    return found
