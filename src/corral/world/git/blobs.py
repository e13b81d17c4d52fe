"""Contents of many files at once, by one git; what is too long is not read."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from corral.world.git.repository import Repository

MOST_BYTES = 512 << 10  #: of one file
MOST_TOGETHER = 8 << 20


async def sizes(repository: Repository, names: Collection[str]) -> dict[str, int]:
    """Return how long blobs are; what is no blob of this repository is left out."""
    wanted = list(dict.fromkeys(names))
    if not wanted:
        return {}
    lines = "".join(f"{name}\n" for name in wanted).encode()
    answer = await repository.git("cat-file", "--batch-check=%(objectname) %(objecttype) %(objectsize)", stdin=lines)
    rows = [row.split(" ") for row in answer.out.decode().splitlines()]
    return {name: int(row[2]) for name, row in zip(wanted, rows, strict=True) if len(row) == 3 and row[1] == "blob"}


async def contents(repository: Repository, names: Sequence[str]) -> dict[str, bytes]:
    """Return contents of blobs, in their order, as far as they and all together are not too long."""
    left = MOST_TOGETHER
    wanted: list[tuple[str, int]] = []
    for name, size in (await sizes(repository, names)).items():
        if size <= min(left, MOST_BYTES):
            wanted.append((name, size))
            left -= size
    if not wanted:
        return {}
    lines = "".join(f"{name}\n" for name, _ in wanted).encode()
    out = (await repository.git("cat-file", "--batch", stdin=lines)).out
    found: dict[str, bytes] = {}
    place = 0
    for name, size in wanted:
        place = out.index(b"\n", place) + 1
        found[name] = out[place : place + size]
        place += size + 1
    return found
