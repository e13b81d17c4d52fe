"""Git objects that are made here, without git: trees, commits, and the packs that hold them."""

from __future__ import annotations

import hashlib
import os
import re
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path

from msgspec import Struct

KINDS = {b"commit": 1, b"tree": 2, b"blob": 3, b"tag": 4}
MOST_BYTES = 8 << 20  #: of loose objects, unpacked; git packs more
FOLDER = 0o40000  #: the mode of a folder in a tree
#: What git would cut off or refuse in a name or an address.
ODD_SIGNS = re.compile(r'[\0-\x1f<>]|^[\s.,:;"\\\']|[\s.,:;"\\\']$')


class GitObject(Struct, frozen=True):
    """An object and the name that its content gives it; SHA-1 alone."""

    kind: bytes
    content: bytes
    name: bytes


class TreeEntry(Struct, frozen=True):
    """A file of a tree: its mode, and the name of its blob."""

    mode: int
    name: bytes


def make_object(kind: bytes, content: bytes) -> GitObject:
    head = b"%s %d\0" % (kind, len(content))
    return GitObject(kind, content, hashlib.sha1(head + content, usedforsecurity=False).digest())


def make_trees(files: Mapping[str, TreeEntry]) -> list[GitObject]:
    """Return the trees of all these files, the whole one last."""
    folders: dict[str, dict[bytes, TreeEntry]] = {"": {}}
    for path, entry in files.items():
        above, _, name = path.rpartition("/")
        if above not in folders:
            parts = above.split("/")
            for count in range(1, len(parts) + 1):
                folders.setdefault("/".join(parts[:count]), {})
        folders[above][os.fsencode(name)] = entry
    made: list[GitObject] = []
    for path in sorted(folders, key=lambda path: path.count("/") + bool(path), reverse=True):
        tree = make_object(b"tree", tree_content(folders[path]))
        made.append(tree)
        if path:
            above, _, name = path.rpartition("/")
            folders[above][os.fsencode(name)] = TreeEntry(FOLDER, tree.name)
    return made


def tree_content(entries: Mapping[bytes, TreeEntry]) -> bytes:
    """Return a tree as git writes it: a folder is sorted as if its name ended with a slash."""
    rows = sorted(entries.items(), key=lambda row: row[0] + b"/" if row[1].mode == FOLDER else row[0])
    return b"".join(b"%o %s\0%s" % (entry.mode, name, entry.name) for name, entry in rows)


def read_tree(content: bytes) -> dict[bytes, TreeEntry]:
    """Return the entries of a tree."""
    found: dict[bytes, TreeEntry] = {}
    place = 0
    while place < len(content):
        end = content.index(b"\0", place)
        mode, _, name = content[place:end].partition(b" ")
        found[name] = TreeEntry(int(mode, 8), content[end + 1 : end + 21])
        place = end + 21
    return found


def make_commit(tree: bytes, parents: Sequence[str], identity: tuple[str, str], message: str) -> GitObject | None:
    """Return a commit of this moment; None where git would write a name, an address or a message differently."""
    name, address = identity
    if not name or ODD_SIGNS.search(name) or ODD_SIGNS.search(address) or "\0" in message:
        return None
    lines = [line.rstrip() for line in message.strip().split("\n")]
    who = f"{name} <{address}> {moment()}"
    head = [f"tree {tree.hex()}", *(f"parent {parent}" for parent in parents), f"author {who}", f"committer {who}"]
    try:
        return make_object(b"commit", "\n".join([*head, "", *lines, ""]).encode())
    except UnicodeEncodeError:
        return None


def moment() -> str:
    """Return the time as git writes it, with the offset of this machine's zone."""
    now = time.time()
    offset = time.localtime(now).tm_gmtoff
    hours, minutes = divmod(abs(offset) // 60, 60)
    return f"{int(now)} {'-' if offset < 0 else '+'}{hours:02}{minutes:02}"


# --- packs


def pack_objects(objects: Iterable[GitObject]) -> tuple[bytes, bytes]:
    """Return a pack and its index."""
    unique = {each.name: each for each in objects}
    return _pack([(each.name, KINDS[each.kind], each.content) for each in unique.values()])


def write_pack(folder: Path, loose: Sequence[Path]) -> bool:
    """Pack loose objects into `folder`; return False, with nothing written, where that is better left to git."""
    rows, total = list[tuple[bytes, int, bytes]](), 0
    for file in loose:
        whole = zlib.decompressobj()
        content = whole.decompress(file.read_bytes(), MOST_BYTES)
        total += len(content)
        if whole.unconsumed_tail or not whole.eof or total > MOST_BYTES:
            return False
        head, _, body = content.partition(b"\0")
        rows.append((bytes.fromhex(file.parent.name + file.name), KINDS[head.split(b" ")[0]], body))
    pack, index = _pack(rows)
    width = len(rows[0][0])
    for suffix, content in ((".pack", pack), (".idx", index)):
        write_durably(folder / f"pack-{pack[-width:].hex()}{suffix}", content)
    return True


def _pack(rows: Sequence[tuple[bytes, int, bytes]]) -> tuple[bytes, bytes]:
    width = len(rows[0][0])
    pack, listed = bytearray(b"PACK" + (2).to_bytes(4) + len(rows).to_bytes(4)), list[tuple[bytes, int, int]]()
    for name, kind, content in rows:
        entry = _head(kind, len(content)) + zlib.compress(content, 1)
        listed.append((name, zlib.crc32(entry), len(pack)))
        pack += entry
    pack += _digest(pack, width)
    return bytes(pack), _index(sorted(listed), bytes(pack[-width:]))


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
    begin = [0] * 256
    for name, _, _ in rows:
        begin[name[0]] += 1
    parts = [b"\xfftOc", (2).to_bytes(4), *(count.to_bytes(4) for count in accumulate(begin))]
    parts += [name for name, _, _ in rows]
    parts += [check.to_bytes(4) for _, check, _ in rows] + [place.to_bytes(4) for _, _, place in rows]
    table = b"".join([*parts, checksum])
    return table + _digest(table, len(checksum))


def _digest(data: bytes | bytearray, width: int) -> bytes:
    return (hashlib.sha1(data, usedforsecurity=False) if width == 20 else hashlib.sha256(data)).digest()


def write_durably(file: Path, content: bytes) -> None:
    """Write a new file that nobody changes any more; it is on the disk then."""
    descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o444)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(descriptor)
