"""What is in a box, the programs around it, and the arguments by which bubblewrap builds it from an empty root."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct, field

from corral.world.sandbox.program_files import (
    SYSTEM,
    authorities,
    etc_files,
    etc_names,
    is_copied,
    is_system,
    needs,
    outermost,
)

HOME = "/home/agent"
SCRATCH = {"/dev/shm": 256 << 20, "/tmp": 2 << 30, "/run": 64 << 20, "/var/tmp": 2 << 30}  # noqa: S108 -- the box's own
LauncherKind = Literal["compiled", "python"]
Mode = Literal["hidden", "readonly", "writable"]
FOLDER = Path(__file__).parent
OUTDATED_SECONDS = 60.0  #: files of one installation are written in any order
IN_BOX = "/run/box/inner"  #: where the inner one is in a box


class ScopePath(Protocol):
    """A path on its way down through the patterns of a scope."""

    def enter(self, name: str, *, folder: bool = True) -> ScopePath: ...
    def is_settled(self) -> bool: ...
    def readable(self, *, below: bool = False) -> bool: ...
    def writable(self, *, below: bool = False) -> bool: ...
    def names_open(self) -> bool: ...
    def names_in_patterns(self) -> Mapping[str, bool]: ...


class Mask(Struct, frozen=True):
    """A path that is shown otherwise than the folder it lies in."""

    path: Path
    mode: Mode
    folder: bool


class TooManyEntries(Exception):
    """More entries to look through than is worth it."""


class Masks:
    """Walks a tree, only where its patterns are not yet settled."""

    def __init__(self, most_entries: int) -> None:
        self.found: list[Mask] = []
        self.missing: list[Path] = []  #: folders to be made, so that there is something to write in
        self._left = most_entries

    def workspace(self, tree: Path, place: ScopePath) -> None:
        """Find masks for a checkout, which is shown writable; its .git is the engine's affair."""
        self._walk(tree, place, "writable", inside=True)
        if any(mask.path == tree for mask in self.found):
            self.found.append(Mask(tree / ".git", "writable", folder=True))

    def elsewhere(self, path: Path, place: ScopePath) -> None:
        """Find what of an absolute path is to be shown; nothing of it is by itself."""
        if path.is_dir():
            self._walk(path, place, "hidden", inside=False)
        elif place.readable():
            self.found.append(Mask(path, _mode(place), folder=False))

    def _walk(self, start: Path, first: ScopePath, shown: Mode, *, inside: bool) -> None:
        waiting: list[tuple[str, ScopePath, Mode]] = [(str(start), first, shown)]
        while waiting:
            path, place, outer = waiting.pop()
            if place.is_settled():
                self._add(path, _mode(place, below=True), outer, folder=True)
                continue
            try:
                with os.scandir(path) as listed:
                    entries = [entry for entry in listed if entry.name != ".git" or path != str(start)]
            except FileNotFoundError:  # it is yet to be made
                entries = []
            except OSError:  # nobody can tell what is in it
                self._add(path, "hidden", outer, folder=True)
                continue
            self._left -= len(entries)
            if self._left < 0:
                raise TooManyEntries
            new = _new_names(place, {entry.name for entry in entries}) if inside else {}
            own = _own_entry(place, new, inside=inside)
            self._add(path, own, outer, folder=True)
            for name in (name for name, folder in new.items() if folder):
                self.missing.append(Path(path) / name)
                waiting.append((f"{path}/{name}", place.enter(name), own))
            for entry in entries:
                if entry.is_symlink():  # leads to what is looked at where it lies, or is not shown at all
                    continue
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, place.enter(entry.name), own))
                else:
                    self._add(entry.path, _mode(place.enter(entry.name, folder=False)), own, folder=False)

    def _add(self, path: str, mode: Mode, outer: Mode, *, folder: bool) -> None:
        if mode != outer:
            self.found.append(Mask(Path(path), mode, folder))


def _new_names(place: ScopePath, there: set[str]) -> dict[str, bool]:
    """Return the names that are not there yet and could be written, and whether each can only be a folder."""
    return {
        name: folder
        for name, folder in place.names_in_patterns().items()
        if name not in there and _may_be_writable(place.enter(name))
    }


def _own_entry(place: ScopePath, new: Mapping[str, bool], *, inside: bool) -> Mode:
    """Decide how a folder itself is shown, in which not all is alike; a checkout's folders are always seen."""
    if not inside:
        return _mode(place, below=True)
    grows = place.names_open() or not all(new.values())
    return "writable" if grows or place.writable(below=True) else "readonly"


def _may_be_writable(place: ScopePath) -> bool:
    return not place.is_settled() or place.writable(below=True)


def _mode(place: ScopePath, *, below: bool = False) -> Mode:
    if not place.readable(below=below):
        return "hidden"
    return "writable" if place.writable(below=below) else "readonly"


class Box(Struct, frozen=True, kw_only=True):
    """What is inside: everything not named here does not exist for the agent."""

    folder: Path  #: the engine's own for this box: generated files lie there
    workspace: Path
    home: Path  #: becomes HOME
    readable: tuple[Path, ...] = ()
    pinned: tuple[Path, ...] = ()  #: within the workspace: cannot be moved away or replaced
    guarded: tuple[Path, ...] = ()  #: read-only, within the workspace
    writable: tuple[Path, ...] = ()
    readonly: tuple[Path, ...] = ()  #: within the workspace, outside the write scope: read-only, and it stays there
    hidden: tuple[Path, ...] = ()  #: within the workspace, outside the read scope: an empty file or folder is there
    masks: tuple[Mask, ...] = ()  #: paths of a scope, outer ones first: each is shown as its mode says
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    network: bool = True  #: the machine's own; never with listeners
    listeners: tuple[int, ...] = ()  #: ports on the box's own 127.0.0.1 that are answered from outside
    memory_mb: int | None = None  #: of one process; of all together where a control group holds
    processes: int | None = 4096  #: threads count
    file_mb: int | None = None  #: the largest file
    cpu_seconds: int | None = None  #: of one process
    nofile: int = 65536  #: open descriptors of one process

    @property
    def has_own_network(self) -> bool:
        return bool(self.listeners) or not self.network


class Mount(Struct, frozen=True):
    """A file or folder of this machine, and where it is in the box."""

    source: Path
    target: str
    writable: bool = False


class Profile(Struct, frozen=True):
    """Arguments for bubblewrap, and the sources among them that only root may reach."""

    arguments: list[str]
    staged: list[str]
    files: list[int]  #: descriptors of small files, which bubblewrap copies; the caller closes them


def build(box: Box, *, uid: int, gid: int, stage: bool) -> Profile:
    """Turn a box into bubblewrap's arguments; with `stage`, private sources are named as the launcher shows them."""
    staged: list[str] = []

    def source(path: Path) -> str:
        if not stage or is_system(path):
            return str(path)
        if str(path) not in staged:
            staged.append(str(path))
        return f"/run/box/{staged.index(str(path))}"

    arguments = [
        "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
        *(["--unshare-net"] if box.has_own_network else []),
        "--disable-userns", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv",
        "--hostname", "box",
    ]  # fmt: skip
    arguments += _system()
    files: list[int] = []
    for path, descriptor in (*etc_files(), *_user_files(uid, gid)):
        files.append(descriptor)
        arguments += ["--file", str(descriptor), path]
    arguments += ["--proc", "/proc", "--dev", "/dev"]
    most = (box.memory_mb or 1 << 20) << 20  # what lies there is memory too
    for folder, size in SCRATCH.items():
        arguments += ["--size", str(min(size, most)), "--tmpfs", folder]
    for mount in mounts(box):
        arguments += ["--bind" if mount.writable else "--ro-bind", source(mount.source), mount.target]
    # Both are memory, and nobody counts what would lie there; the devices in /dev are mounts of their own.
    arguments += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", str(box.workspace)]
    for name, value in box.env.items():
        arguments += ["--setenv", name, value]
    return Profile(arguments, staged, files)


def user_mounts(box: Box, uid: int, gid: int) -> Iterator[Mount]:
    """Write the files that say who the agent is, and yield where they are mounted."""
    for name, text in _users(uid, gid).items():
        (box.folder / name).write_text(text)
        yield Mount(box.folder / name, f"/etc/{name}")


def mounts(box: Box) -> Iterator[Mount]:
    """Yield what is mounted, in order: a later one covers an earlier one."""
    files, _ = inner(boxed=True)
    for path in outermost((*box.readable, *authorities(box.env), *files[1:])):
        if path.exists() and not is_system(path):
            yield Mount(path, str(path))
    yield Mount(files[0], IN_BOX)
    yield Mount(box.home, HOME, writable=True)
    yield Mount(box.workspace, str(box.workspace), writable=True)
    if box.hidden or any(mask.mode == "hidden" for mask in box.masks):
        _empty(box, folder=True).mkdir(exist_ok=True, mode=0o555)
        _empty(box, folder=False).touch(mode=0o444)
    masks = _masks(box)
    for mask in masks:
        source = _cover(box, mask, masks) if mask.mode == "hidden" else mask.path
        yield Mount(source, str(mask.path), writable=mask.mode == "writable")
    for path in (*box.pinned, *_pinned_folders(box), *box.writable):
        yield Mount(path, str(path), writable=True)
    for path in (*box.guarded, *box.readonly):
        yield Mount(path, str(path))
    for path in box.hidden:
        yield Mount(_empty(box, folder=path.is_dir()), str(path))


def _empty(box: Box, *, folder: bool) -> Path:
    return box.folder / ("empty-folder" if folder else "empty-file")


def _cover(box: Box, mask: Mask, masks: Sequence[Mask]) -> Path:
    """Return what is in the place of something hidden: nothing, or places for what of it is shown after all."""
    below = [each for each in masks if each.path != mask.path and each.path.is_relative_to(mask.path)]
    if not below:
        return _empty(box, folder=mask.folder)
    cover = box.folder / f"cover-{masks.index(mask)}"
    for each in below:
        place = cover / each.path.relative_to(mask.path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.mkdir(exist_ok=True) if each.folder else place.touch()
    return cover


def _masks(box: Box) -> list[Mask]:
    """Return the masks, and folders above them that stay writable: moved away, another could be in their place."""
    modes = {mask.path: mask.mode for mask in box.masks}
    held: dict[Path, Mask] = {}
    for mask in box.masks:
        for above in mask.path.parents:
            if above == box.workspace or not above.is_relative_to(box.workspace):
                break
            covering = next((modes[each] for each in above.parents if each in modes), "writable")
            if above not in modes and covering == "writable":
                held[above] = Mask(above, "writable", folder=True)
    return sorted((*box.masks, *held.values()), key=lambda mask: len(mask.path.parts))


def _pinned_folders(box: Box) -> list[Path]:
    """Return the folders above what is read-only or hidden: moved away, something else could be in its place."""
    above = {
        parent
        for path in (*box.readonly, *box.hidden)
        for parent in path.parents
        if parent.is_relative_to(box.workspace) and parent != box.workspace
    }
    return sorted(above - set(box.pinned))


def _system() -> list[str]:
    arguments: list[str] = []
    for root in SYSTEM:
        if os.path.islink(root):  # noqa: PTH114 -- where the link itself points is wanted
            arguments += ["--symlink", os.readlink(root), root]  # noqa: PTH115
        elif Path(root).is_dir():
            arguments += ["--ro-bind", root, root]
    for name in etc_names():
        if not is_copied(Path("/etc", name)):
            arguments += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return arguments


def _user_files(uid: int, gid: int) -> Iterator[tuple[str, int]]:
    for name, text in _users(uid, gid).items():
        descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
        os.write(descriptor, text.encode())
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield f"/etc/{name}", descriptor


def _users(uid: int, gid: int) -> dict[str, str]:
    return {
        "passwd": f"agent:x:{uid}:{gid}::{HOME}:/bin/bash\nnobody:x:65534:65534::/:/bin/false\n",
        "group": f"agent:x:{gid}:\nnogroup:x:65534:\n",
    }


def kind() -> LauncherKind:
    """Tell which of them are used."""
    return "compiled" if _is_compiled() and not os.environ.get("CORRAL_PYTHON_LAUNCHER") else "python"


@cache
def _is_compiled() -> bool:
    """Tell whether both are built, and of the present source: an older one does not know every argument."""
    for name in ("launcher", "inner"):
        program, source = FOLDER / name, FOLDER / f"{name}.c"
        if not os.access(program, os.X_OK):
            return False
        if source.exists() and source.stat().st_mtime - program.stat().st_mtime > OUTDATED_SECONDS:
            return False
    return True


def launcher() -> list[str]:
    """Return the launcher: the compiled one, or its twin."""
    if kind() == "compiled":
        return [str(FOLDER / "launcher")]
    return [sys.executable, "-IS", str(FOLDER / "launcher.py")]


def inner(*, boxed: bool) -> tuple[list[Path], list[str]]:
    """Return the files the inner launcher needs, itself first, and the command that starts it."""
    if kind() == "compiled":
        program = FOLDER / "inner"
        return [program], [IN_BOX if boxed else str(program)]
    program = FOLDER / "inner.py"
    python = Path(sys.executable)
    return [program, *needs(python, os.environ)], [str(python), "-IS", IN_BOX if boxed else str(program)]
