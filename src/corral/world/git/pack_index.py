"""The objects of a pack: their ids and kinds, read from its index without unpacking them."""

from __future__ import annotations

import asyncio
import mmap
import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from corral.model.errors import GitTrouble
from corral.world.git import commit_heads
from corral.world.git.repository import Repository

COMMIT, TREE = 1, 2  #: kinds of objects in a pack
BY_OFFSET, BY_NAME = 6, 7  #: kinds that are stored as a difference to another
HEAD = 8 + 256 * 4  #: bytes of an index before the ids: its version, and how many ids begin with each byte
MOST_ENTRIES = 1_000_000  #: paths of one commit, besides as many as its base has
MOST_PATH = 4095  #: bytes; no system opens a longer one
MOST_PARENTS = 1000
MOST_COMMIT, MOST_TREE = 8 << 20, 64 << 20  #: bytes
MOST_TREES = 1 << 30  #: bytes of all trees together
MOST_FOLDERS = 1_000_000  #: folders in folders, of all trees together; each is kept in memory
COUNTED = 10**15  #: paths; more are counted as so many


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


class Folder(Struct):
    """What was read of one tree object."""

    count: int = 0  #: of its own entries
    longest: int = 0  #: name of a file in it
    #: The trees in it: how often each is named there, and by what length of a name at most.
    below: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])


class _Reader:
    """Talks with `git cat-file --batch`: asks for objects and keeps numbers alone; trees in trees are asked for too."""

    def __init__(self, width: int, *, deep: bool) -> None:
        self._rest = bytearray()
        self.deep = deep
        self._asked: set[str] = set()
        self._answered = 0
        self._below: list[str] = []  #: trees that were named since the last question
        self.questions: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._row = re.compile(rb"(\d+) ([^\0]*)\0(.{%d})" % width, re.DOTALL)
        self.folders: dict[str, Folder] = {}
        self.roots: set[str] = set()
        self._bytes = self._named = 0  #: of all trees so far

    @property
    def complete(self) -> bool:
        return self._answered == len(self._asked)

    def begin(self, names: Iterable[str]) -> bytes | None:
        """Return the first question; None where there is none."""
        self.questions = asyncio.Queue()
        self.ask(names)
        return self.questions.get_nowait()

    def ask(self, names: Iterable[str]) -> None:
        """Ask for objects that were not asked for yet; nothing more is asked when all were answered."""
        new = [name for name in dict.fromkeys(names) if name not in self._asked]
        self._asked.update(new)
        if new:
            self.questions.put_nowait("".join(f"{name}\n" for name in new).encode())
        elif self.complete:
            self.questions.put_nowait(None)

    def feed(self, chunk: bytes) -> None:
        answered = self._answered
        self._take(chunk)
        if self._answered > answered:
            below, self._below = self._below if self.deep else [], []
            self.ask(below)

    def _take(self, chunk: bytes) -> None:
        self._rest += chunk
        while (end := self._rest.find(b"\n")) >= 0:
            name, kind, *sizes = self._rest[:end].decode().split(" ")
            if not sizes:  # it is missing, as in a repository that was cloned in part
                del self._rest[: end + 1]
                self._answered += 1
                continue
            size = sizes[0]
            most = MOST_COMMIT if kind == "commit" else MOST_TREE
            if int(size) > most:
                raise GitTrouble(f"its work holds a {kind} object of more than {most >> 20} MB: {name}")
            if len(self._rest) < end + 2 + int(size):
                return
            self._read(name, kind, bytes(self._rest[end + 1 : end + 1 + int(size)]))
            del self._rest[: end + 2 + int(size)]
            self._answered += 1

    def _read(self, name: str, kind: str, content: bytes) -> None:
        if kind == "commit":
            head = content.partition(b"\n\n")[0]
            if head.count(b"\nparent ") > MOST_PARENTS:
                raise GitTrouble(f"its work holds a commit with more than {MOST_PARENTS} parents: {name}")
            self.roots.add(head[5:].partition(b"\n")[0].decode(errors="replace"))
            commit_heads.remember(name, content)
            return
        if kind != "tree":
            raise GitTrouble(f"its work names {name} as a folder, which is a {kind}")
        folder = self.folders[name] = self._folder(content)
        self._below += folder.below
        self._bytes += len(content)
        self._named += len(folder.below)
        if self._bytes > MOST_TREES or self._named > MOST_FOLDERS:
            raise GitTrouble(
                f"its work holds trees of more than {MOST_TREES >> 20} MB or {MOST_FOLDERS:,} folders: it is not taken"
            )

    def _folder(self, content: bytes) -> Folder:
        """Read the rows of a tree one by one: there may be millions."""
        folder = Folder()
        for row in self._row.finditer(content):
            folder.count += 1
            length = row.end(2) - row.start(2)
            if row[1] not in (b"40000", b"040000"):
                folder.longest = max(folder.longest, length)
                continue
            name = row[3].hex()
            times, longest = folder.below.get(name, (0, 0))
            folder.below[name] = times + 1, max(longest, length + 1)
        return folder

    def missing_trees(self) -> set[str]:
        """Return the trees that others name and that were not read yet."""
        return {name for folder in self.folders.values() for name in folder.below} - self.folders.keys()


async def measure_trees(repository: Repository, near: Repository, objects: Objects, known: str | None) -> None:
    """Refuse commits that name more than git could list; `near` sees the objects of the bundle, too.

    `known` is the commit that the work started from: as many paths as it has are allowed besides.
    """
    partial = any((repository.git_dir / "objects" / "pack").glob("*.promisor"))
    reader = _Reader(objects.width, deep=not partial)
    await _read_sizes(near, objects.of_kind(COMMIT, TREE), reader)
    sums: dict[str, tuple[int, int]] = {}
    most = MOST_ENTRIES
    for root in reader.roots & reader.folders.keys():
        count, longest = _sum(root, reader.folders, sums)
        if count > most and known and most == MOST_ENTRIES:
            tree = await repository.tree_of(known)
            await _read_sizes(near, [tree], reader)
            most += _sum(tree, reader.folders, sums)[0] if tree in reader.folders else 0
        if count > most:
            raise GitTrouble(f"its work names {count:.3g} paths, more than {most:,}: it is not taken")
        if longest > MOST_PATH:
            raise GitTrouble(f"its work holds a path of {longest} bytes, more than {MOST_PATH}: it is not taken")


async def _read_sizes(near: Repository, names: Iterable[str], reader: _Reader) -> None:
    """Read objects, and all trees in them; git is started once, except where some may have to be fetched yet."""
    await _read_trees(near, names, reader)
    if reader.deep or not (trees := reader.missing_trees()):
        return
    words = ("rev-list", "--objects", "--no-object-names", "--filter=blob:none", "--missing=allow-any", "--stdin")
    listed = await near.git(*words, stdin="".join(f"{name}\n" for name in sorted(trees)).encode())
    await _read_trees(near, listed.out.decode().split(), reader)


async def _read_trees(near: Repository, names: Iterable[str], reader: _Reader) -> None:
    first = reader.begin(names)
    if first:
        await near.git("cat-file", "--batch", stdin=first, sink=reader.feed, more=reader.questions)
    if not reader.complete:
        raise GitTrouble("git did not list all that the work holds: it is not taken")


def _sum(root: str, folders: Mapping[str, Folder], sums: dict[str, tuple[int, int]]) -> tuple[int, int]:
    """Return how many paths lie below a tree, and the length of the longest; each tree is looked at twice at most."""
    waiting = [root]
    while waiting:
        name = waiting[-1]
        if name in sums:
            waiting.pop()
            continue
        here = folders[name]
        if missing := [below for below in here.below if below in folders and below not in sums]:
            waiting += missing
            continue
        waiting.pop()
        below = [(times, length, *sums.get(inner, (0, 0))) for inner, (times, length) in here.below.items()]
        count = here.count + sum(times * inner for times, _, inner, _ in below)
        sums[name] = min(count, COUNTED), max([here.longest, *(length + longest for _, length, _, longest in below)])
    return sums[root]
