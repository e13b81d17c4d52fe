"""The objects of a pack: their ids and kinds, read from its index without unpacking them."""

from __future__ import annotations

import mmap
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path

from corral.model.errors import GitTrouble

COMMIT, TREE = 1, 2  #: kinds of objects in a pack
BY_OFFSET, BY_NAME = 6, 7  #: kinds that are stored as a difference to another
HEAD = 8 + 256 * 4  #: bytes of an index before the ids: its version, and how many ids begin with each byte


class Objects:
    """The objects of a pack: ids in order and a byte for the kind of each, since there may be millions."""

    def __init__(self, table: bytes, width: int, kinds: Sequence[int] = b"") -> None:
        self._table, self.width, self._kinds = table, width, kinds
        self.count = int.from_bytes(table[HEAD - 4 : HEAD]) if table else 0

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.number_of(bytes.fromhex(name)) is not None

    def of_kind(self, *kinds: int) -> list[str]:
        return [self._id(number).hex() for number, kind in enumerate(self._kinds) if kind in kinds]

    def number_of(self, wanted: bytes) -> int | None:
        """Return which one has this id; None for none of them."""
        first, last = self._below(wanted[0]), self._below(wanted[0] + 1)
        found = bisect_left(range(self.count), wanted, first, last, key=self._id)
        return found if found < last and self._id(found) == wanted else None

    def place_of(self, number: int) -> int:
        """Return where in the pack one begins."""
        offsets = HEAD + self.count * (self.width + 4)
        place = int.from_bytes(self._table[offsets + number * 4 : offsets + number * 4 + 4])
        if not place >> 31:
            return place
        far = offsets + self.count * 4 + (place & 0x7FFFFFFF) * 8
        return int.from_bytes(self._table[far : far + 8])

    def _id(self, number: int) -> bytes:
        start = HEAD + number * self.width
        return self._table[start : start + self.width]

    def _below(self, byte: int) -> int:
        """Return how many ids begin with a smaller byte."""
        end = 8 + byte * 4
        return int.from_bytes(self._table[end - 4 : end]) if byte and self.count else 0


def read_pack(index: Path, width: int) -> Objects:
    """Read which objects a pack holds and of what kind they are."""
    table = index.read_bytes()
    objects = Objects(table, width)
    if not objects.count:
        return objects
    with index.with_suffix(".pack").open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as pack:
        return Objects(table, width, _kinds(pack, objects))


def names_of(index: Path, width: int) -> list[str]:
    """Read the ids of the objects of a pack from its index."""
    table = index.read_bytes()
    count = int.from_bytes(table[HEAD - 4 : HEAD])
    return [table[HEAD + number * width : HEAD + (number + 1) * width].hex() for number in range(count)]


def _kinds(pack: mmap.mmap, objects: Objects) -> bytearray:
    offsets = array("Q", map(objects.place_of, range(objects.count)))
    places = array("Q", sorted(offsets))
    found = bytearray(len(places))
    for first in range(len(places)):
        chain: list[int] = []
        at = first
        while not found[at]:
            kind, base = _entry(pack, places[at], objects)
            if base is None:
                found[at] = kind
                break
            chain.append(at)
            at = bisect_left(places, base)
            if len(chain) > len(places) or at == len(places) or places[at] != base:
                raise GitTrouble("the workspace's bundle holds objects that lead to themselves or nowhere")
        for each in chain:
            found[each] = found[at]
    return bytearray(found[bisect_left(places, offset)] for offset in offsets)


def _entry(pack: mmap.mmap, place: int, objects: Objects) -> tuple[int, int | None]:
    """Return the kind of an entry, and the place of the one that it is stored as a difference to."""
    kind, at = (pack[place] >> 4) & 7, place
    while pack[at] & 0x80:
        at += 1
    at += 1
    if kind == BY_OFFSET:
        back = pack[at] & 0x7F
        while pack[at] & 0x80:
            at += 1
            back = ((back + 1) << 7) | (pack[at] & 0x7F)
        return kind, place - back
    if kind == BY_NAME:
        base = objects.number_of(pack[at : at + objects.width])
        return kind, -1 if base is None else objects.place_of(base)
    return kind, None
