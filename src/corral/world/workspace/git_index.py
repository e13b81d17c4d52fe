"""The index of a checkout: what it lists, a copy for another owner of its files, and one that is made of them."""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

from corral.world.git.made_objects import TreeEntry

MAGIC, VERSION = b"DIRC", 2
HEAD_BYTES = 12
OWNER = 28  #: bytes of an entry before the user and the group of its file
LONG_NAME = 0xFFF
EXTENDED = 0x4000
MODULE = 0o16  #: the kind of an entry that is a submodule
SPECIAL = 0xF000  #: flags of an entry that is more than a file: merged, assumed to be unchanged
CACHED_TREES = b"TREE"  #: a part of an index that says nothing new
SHORT = 0xFFFFFFFF


class UnknownIndex(ValueError):
    """An index of a form that is not read here."""


def count_entries(file: Path) -> int:
    """Return how many files an index lists; 0 where there is none that can be read."""
    try:
        with file.open("rb") as opened:
            head = opened.read(HEAD_BYTES)
    except OSError:
        return 0
    return int.from_bytes(head[8:]) if head.startswith(MAGIC) and len(head) == HEAD_BYTES else 0


def entry_places(data: bytes, hash_bytes: int) -> array[int]:
    """Return where each entry begins."""
    places = array("I")
    places.extend(place for place, _ in entry_paths(data, hash_bytes))
    return places


def entry_paths(data: bytes, hash_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Yield where each entry begins, and the path of its file."""
    if not data.startswith(MAGIC) or int.from_bytes(data[4:8]) != VERSION:
        raise UnknownIndex("not an index of version 2")
    place, fixed, count = HEAD_BYTES, 42 + hash_bytes, int.from_bytes(data[8:12])
    if count * fixed > len(data):  # an agent may have written any number
        raise UnknownIndex("an index that is cut off")
    for _ in range(count):
        name = place + fixed
        flags = int.from_bytes(data[name - 2 : name])
        if flags & EXTENDED:
            raise UnknownIndex("an index with extended flags")
        length = flags & LONG_NAME
        if length == LONG_NAME:
            length = data.index(b"\0", name) - name
        yield place, data[name : name + length]
        place += (fixed + length + 8) // 8 * 8
    if place > len(data) - hash_bytes:
        raise UnknownIndex("an index that is cut off")


def with_digest(changed: bytearray, hash_bytes: int) -> bytes:
    """Return an index that was changed, with the sum that git expects at its end."""
    digest = hashlib.sha256 if hash_bytes == hashlib.sha256().digest_size else hashlib.sha1
    changed[-hash_bytes:] = digest(memoryview(changed)[:-hash_bytes], usedforsecurity=False).digest()
    return bytes(changed)


def with_owner(data: bytes, places: array[int], uid: int, gid: int, hash_bytes: int) -> bytes:
    """Return an index for the same files where they belong to another user: git reads none of them again."""
    owner = uid.to_bytes(4) + gid.to_bytes(4)
    changed = bytearray(data)
    for place in places:
        changed[place + OWNER : place + OWNER + 8] = owner
    return with_digest(changed, hash_bytes)


def index_entries(data: bytes) -> dict[str, TreeEntry]:
    """Return the files that an index of SHA-1 names lists, where it says nothing else of them."""
    try:
        places = entry_places(data, 20)
    except (IndexError, ValueError) as error:
        raise UnknownIndex("an index that cannot be read") from error
    found: dict[str, TreeEntry] = {}
    end = HEAD_BYTES
    for place in places:
        flags = int.from_bytes(data[place + 60 : place + 62])
        if flags & SPECIAL:
            raise UnknownIndex("an index with flags")
        stop = data.index(b"\0", place + 62)
        found[os.fsdecode(data[place + 62 : stop])] = TreeEntry(
            int.from_bytes(data[place + 24 : place + 28]), data[place + 40 : place + 60]
        )
        end = place + (62 + (stop - place - 62) + 8) // 8 * 8
    while end < len(data) - 20:
        if data[end : end + 4] != CACHED_TREES:
            raise UnknownIndex("an index with more than files")
        end += 8 + int.from_bytes(data[end + 4 : end + 8])
    return found


def make_index(rows: Sequence[tuple[str, TreeEntry, os.stat_result]]) -> bytes:
    """Return the index of files as they lie there: git reads none of them again."""
    parts = [MAGIC + VERSION.to_bytes(4) + len(rows).to_bytes(4)]
    for path, entry, about in sorted(rows, key=lambda row: os.fsencode(row[0])):
        name = os.fsencode(path)
        numbers = (
            *divmod(about.st_ctime_ns, 10**9), *divmod(about.st_mtime_ns, 10**9), about.st_dev, about.st_ino,
            entry.mode, about.st_uid, about.st_gid, about.st_size,
        )  # fmt: skip
        head = b"".join((number & SHORT).to_bytes(4) for number in numbers)
        row = head + entry.name + min(len(name), LONG_NAME).to_bytes(2) + name
        parts.append(row + b"\0" * (8 - len(row) % 8))
    data = b"".join(parts)
    return data + hashlib.sha1(data, usedforsecurity=False).digest()
