"""Objects from an agent's bundle: examined in a folder of their own, then taken into the repository."""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import os
import re
import secrets
from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from corral.model.errors import GitTrouble
from corral.world.git import leftovers
from corral.world.git.pack_writing import write_pack
from corral.world.git.repository import Repository

MOST_ENTRIES = 1_000_000  #: paths of one commit, besides as many as its base has
MOST_PATH = 4095  #: bytes; no system opens a longer one
MOST_PARENTS = 1000
MOST_COMMIT, MOST_TREE = 8 << 20, 64 << 20  #: bytes
COMMIT, TREE = 1, 2  #: kinds of objects in a pack
BY_OFFSET, BY_NAME = 6, 7  #: kinds that are stored as a difference to another


class Objects(Struct, frozen=True):
    """The objects of a pack: their kinds by their ids."""

    kinds: Mapping[str, int]

    def of_kind(self, *kinds: int) -> list[str]:
        return [name for name, kind in self.kinds.items() if kind in kinds]


class Folder(Struct):
    """What was read of one tree object."""

    count: int  #: of its own entries
    below: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])  #: length of a name, and its tree
    longest: int = 0  #: name of a file in it


@contextlib.contextmanager
def quarantine(repository: Repository) -> Generator[Path]:
    """Lend a folder for objects beside the repository's own; it borrows those, and none of its own are seen there."""
    leftovers.remove(repository.git_dir / "objects")
    with leftovers.folder(repository.git_dir / "objects") as folder:
        made = [folder, folder / "pack", folder / "info"]
        for each in made[1:]:
            each.mkdir(mode=0o700)
        alternates = folder / "info" / "alternates"
        alternates.write_text(f"{repository.git_dir / 'objects'}\n")
        if repository.owner:
            for each in (*made, alternates):
                os.chown(each, repository.owner.uid, repository.owner.gid)
        yield folder


def environment(folder: Path) -> dict[str, str]:
    """Return what makes git write its objects into a quarantine."""
    return {"GIT_OBJECT_DIRECTORY": str(folder)}


async def examine(repository: Repository, folder: Path, heads: Sequence[str], known: str | None) -> None:
    """Refuse objects that would be too much for git, or that make a commit of others an agent's result.

    `known` is the commit that the work started from: what its history holds may be named, and nothing else that the
    repository has. Empty where there was none; None where that is not to be looked at.
    """
    (index,) = folder.glob("pack/*.idx")
    objects = read_pack(index, len(heads[0]) // 2 if heads else 20)
    await _measure(repository, folder, objects, known)
    if known is not None:
        await _refuse_foreign(repository, folder, objects, heads, known)


# --- what is in a pack


def read_pack(index: Path, width: int) -> Objects:
    """Read which objects a pack holds and of what kind they are, without unpacking them."""
    table = index.read_bytes()
    count = int.from_bytes(table[8 + 255 * 4 : 8 + 256 * 4])
    names, offsets = 8 + 256 * 4, 8 + 256 * 4 + count * (width + 4)
    places: dict[str, int] = {}
    for number in range(count):
        place = int.from_bytes(table[offsets + number * 4 : offsets + number * 4 + 4])
        if place >> 31:
            far = offsets + count * 4 + (place & 0x7FFFFFFF) * 8
            place = int.from_bytes(table[far : far + 8])
        places[table[names + number * width : names + (number + 1) * width].hex()] = place
    if not places:
        return Objects({})
    with index.with_suffix(".pack").open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as pack:
        return Objects(_kinds(pack, places, width))


def names_of(index: Path, width: int) -> list[str]:
    """Read the ids of the objects of a pack from its index."""
    table = index.read_bytes()
    count, start = int.from_bytes(table[8 + 255 * 4 : 8 + 256 * 4]), 8 + 256 * 4
    return [table[start + number * width : start + (number + 1) * width].hex() for number in range(count)]


def _kinds(pack: mmap.mmap, places: Mapping[str, int], width: int) -> dict[str, int]:
    found: dict[int, int] = {}
    for start in sorted(places.values()):
        chain: list[int] = []
        place = start
        while place not in found:
            kind, base = _entry(pack, place, places, width)
            if base is None:
                found[place] = kind
                break
            chain.append(place)
            place = base
            if len(chain) > len(places):
                raise GitTrouble("the workspace's bundle holds objects that lead to themselves")
        found.update(dict.fromkeys(chain, found[place]))
    return {name: found[place] for name, place in places.items()}


def _entry(pack: mmap.mmap, place: int, places: Mapping[str, int], width: int) -> tuple[int, int | None]:
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
        return kind, places[pack[at : at + width].hex()]
    return kind, None


# --- how much it is


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
            return
        if kind != "tree":
            raise GitTrouble(f"its work names {name} as a folder, which is a {kind}")
        folder = self.folders[name] = Folder(0)
        for mode, path, entry in self._row.findall(content):
            folder.count += 1
            if mode in (b"40000", b"040000"):
                folder.below.append((len(path) + 1, entry.hex()))
                self._below.append(entry.hex())
            else:
                folder.longest = max(folder.longest, len(path))

    def named(self) -> set[str]:
        """Return the trees that others name and that were not read yet."""
        return {name for folder in self.folders.values() for _, name in folder.below} - self.folders.keys()


async def _measure(repository: Repository, folder: Path, objects: Objects, known: str | None) -> None:
    """Count what git would have to list: each tree is read once, however often it is named, also those of the base."""
    width = len(next(iter(objects.kinds), "0" * 40)) // 2
    partial = any((repository.git_dir / "objects" / "pack").glob("*.promisor"))
    reader, near = _Reader(width, deep=not partial), repository.apart(environment(folder))
    await _read(near, objects.of_kind(COMMIT, TREE), reader)
    sums: dict[str, tuple[int, int]] = {}
    most = MOST_ENTRIES
    for root in reader.roots & reader.folders.keys():
        count, longest = _sum(root, reader.folders, sums)
        if count > most and known and most == MOST_ENTRIES:
            tree = await repository.tree_of(known)
            await _read(near, [tree], reader)
            most += _sum(tree, reader.folders, sums)[0] if tree in reader.folders else 0
        if count > most:
            raise GitTrouble(f"its work names {count:.3g} paths, more than {most:,}: it is not taken")
        if longest > MOST_PATH:
            raise GitTrouble(f"its work holds a path of {longest} bytes, more than {MOST_PATH}: it is not taken")


async def _read(near: Repository, names: Iterable[str], reader: _Reader) -> None:
    """Read objects, and all trees in them; git is started once, except where some may have to be fetched yet."""
    await _asked(near, names, reader)
    if reader.deep or not (trees := reader.named()):
        return
    words = ("rev-list", "--objects", "--no-object-names", "--filter=blob:none", "--missing=allow-any", "--stdin")
    listed = await near.git(*words, stdin="".join(f"{name}\n" for name in sorted(trees)).encode())
    await _asked(near, listed.out.decode().split(), reader)


async def _asked(near: Repository, names: Iterable[str], reader: _Reader) -> None:
    first = reader.begin(names)
    if first:
        await near.git("cat-file", "--batch", stdin=first, sink=reader.feed, more=reader.questions)
    if not reader.complete:
        raise GitTrouble("git did not list all that the work holds: it is not taken")


def _sum(root: str, folders: Mapping[str, Folder], sums: dict[str, tuple[int, int]]) -> tuple[int, int]:
    """Return how many paths lie below a tree, and the length of the longest."""
    waiting = [root]
    while waiting:
        name = waiting[-1]
        missing = [below for _, below in folders[name].below if below in folders and below not in sums]
        if missing and name not in sums:
            waiting += missing
            continue
        waiting.pop()
        here = folders[name]
        below = [(length, *sums.get(inner, (0, 0))) for length, inner in here.below]
        count = here.count + sum(inner for _, inner, _ in below)
        sums[name] = count, max([here.longest, *(length + longest for length, _, longest in below)])
    return sums[root]


# --- whose it is


async def _refuse_foreign(
    repository: Repository, folder: Path, objects: Objects, heads: Sequence[str], known: str
) -> None:
    """Refuse objects of the repository that neither came with the bundle nor belong to what the work started from."""
    strange = {head for head in heads if head not in objects.kinds and head != known}
    rest = bytearray()

    def listed(chunk: bytes) -> None:
        rest.extend(chunk)
        *lines, last = bytes(rest).split(b"\n")
        rest[:] = last
        strange.update(name for line in lines if (name := line[: len(heads[0])].decode()) not in objects.kinds)

    wanted = "\n".join([*heads, *([f"^{known}"] if known else [])]) + "\n"
    env = environment(folder)
    await repository.git("rev-list", "--objects", "--stdin", stdin=wanted.encode(), env=env, sink=listed)
    if strange and known:  # git leaves out of a bundle what any earlier commit had, and lists it all the same

        def had(chunk: bytes) -> None:
            rest.extend(chunk)
            *lines, last = bytes(rest).split(b"\n")
            rest[:] = last
            strange.difference_update(line[: len(known)].decode() for line in lines)

        rest.clear()
        await repository.git("rev-list", "--objects", known, "--", sink=had)
    if strange:
        raise GitTrouble(f"its work names {min(strange)[:12]}, an object that it was not given: it is not taken")


# --- into the repository


async def pack_up(repository: Repository, folder: Path) -> None:
    """Make one pack of the objects that git wrote into a quarantine."""
    loose = [file for file in folder.glob("[0-9a-f][0-9a-f]/*") if re.fullmatch(r"[0-9a-f]+", file.name)]
    if not loose or write_pack(folder / "pack", loose):
        if owner := repository.owner:
            for file in folder.glob("pack/pack-*"):
                os.chown(file, owner.uid, owner.gid)
        return
    names = "".join(f"{file.parent.name}{file.name}\n" for file in loose).encode()
    words = ("pack-objects", "-q", f"{folder}/pack/pack")
    await repository.git(*words, stdin=names, env=environment(folder))


@contextlib.contextmanager
def moved_in(repository: Repository, folder: Path) -> Generator[None]:
    """Move a quarantine's pack into the repository; marked, so that no git drops it, until a ref leads to it.

    It gets a name of its own: a `git repack` that has seen a pack of this name drops it at its end, marked or not.
    """
    with contextlib.ExitStack() as stack:
        for index in folder.glob("pack/*.idx"):
            name = f"pack-{secrets.token_hex((len(index.stem) - len('pack-')) // 2)}.idx"
            target = repository.git_dir / "objects" / "pack" / name
            target.parent.mkdir(exist_ok=True)
            mark = stack.enter_context(leftovers.mark(target.with_suffix(".keep")))
            if repository.owner:
                os.chown(mark, repository.owner.uid, repository.owner.gid)
            for suffix in (".pack", ".rev", ".idx"):  # the index last: by it git sees the pack
                source = index.with_suffix(suffix)
                if source.exists():
                    source.rename(target.with_suffix(suffix))
        yield
