"""A pack of a few loose objects, written without a program: git would be started for it at each note."""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Sequence
from pathlib import Path

KINDS = {b"commit": 1, b"tree": 2, b"blob": 3, b"tag": 4}
MOST_BYTES = 8 << 20  #: of loose objects, unpacked; git packs more


def write_pack(folder: Path, loose: Sequence[Path]) -> bool:
    """Pack loose objects into `folder`; return False, with nothing written, where that is better left to git."""
    width = len(loose[0].parent.name + loose[0].name) // 2
    pack, rows, total = bytearray(b"PACK" + (2).to_bytes(4) + len(loose).to_bytes(4)), list[tuple[bytes, int, int]](), 0
    for file in loose:
        whole = zlib.decompressobj()
        content = whole.decompress(file.read_bytes(), MOST_BYTES)
        total += len(content)
        if whole.unconsumed_tail or not whole.eof or total > MOST_BYTES:
            return False
        head, _, body = content.partition(b"\0")
        entry = _head(KINDS[head.split(b" ")[0]], len(body)) + zlib.compress(body)
        rows.append((bytes.fromhex(file.parent.name + file.name), zlib.crc32(entry), len(pack)))
        pack += entry
    checksum = _digest(pack, width)
    _write(folder / f"pack-{checksum.hex()}.pack", bytes(pack) + checksum)
    _write(folder / f"pack-{checksum.hex()}.idx", _index(sorted(rows), checksum))
    return True


def _head(kind: int, size: int) -> bytes:
    """Return how an entry of a pack begins: its kind and size."""
    head, rest = [kind << 4 | size & 15], size >> 4
    while rest:
        head[-1] |= 0x80
        head.append(rest & 0x7F)
        rest >>= 7
    return bytes(head)


def _index(rows: Sequence[tuple[bytes, int, int]], checksum: bytes) -> bytes:
    """Return the index of a pack, version 2: counts by first byte, names, check sums, places."""
    counts = [sum(name[0] <= byte for name, _, _ in rows) for byte in range(256)]
    parts = [b"\xfftOc", (2).to_bytes(4), *(count.to_bytes(4) for count in counts), *(name for name, _, _ in rows)]
    parts += [check.to_bytes(4) for _, check, _ in rows] + [place.to_bytes(4) for _, _, place in rows]
    table = b"".join([*parts, checksum])
    return table + _digest(table, len(checksum))


def _digest(data: bytes | bytearray, width: int) -> bytes:
    return (hashlib.sha1(data, usedforsecurity=False) if width == 20 else hashlib.sha256(data)).digest()


def _write(file: Path, content: bytes) -> None:
    descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o444)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(descriptor)
