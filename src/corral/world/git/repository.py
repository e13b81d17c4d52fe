"""The only caller of git: always as the repository's owner, never with anybody's hooks, helpers or settings."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import tempfile
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from corral.world import process
from corral.world.git import commit_heads
from corral.world.git.command import (
    ENV,
    HARMLESS,
    LARGE,
    SAFE,
    STREAMED,
    WALKS,
    GitLimits,
    OverLimit,
    command_of,
    limits_of,
    run_git,
)
from corral.world.process import Owner, ProcessResult, ProcessStart

EMPTY_TREE = {
    40: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    64: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
GITLINK = "160000"  #: the mode of a submodule
BY_IDS = "ids:"  #: before a hash of a change that names files by the ids of their contents
PLAIN_DIFF = ("--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")


class DiffSummary(Struct, frozen=True):
    """What differs between two commits."""

    files: tuple[str, ...]
    insertions: int
    deletions: int
    lines: tuple[tuple[int, int], ...] = ()  #: of each file: how many came, how many went; none in a binary one


class ChangedBlob(Struct, frozen=True):
    """One file that differs between two commits; what is None was not there, or is gone."""

    path: str
    before: str | None
    after: str | None
    mode: str | None
    old_mode: str | None = None


class Repository:
    """A repository as the trusted side sees it."""

    def __init__(
        self, folder: Path, git_dir: Path, *, work_tree: bool = True, identity: tuple[str, str] | None = None
    ) -> None:
        self.folder, self.git_dir, self._work_tree = folder, git_dir, work_tree
        self.owner = _owner(git_dir)
        self._identity = identity
        self.quiet: dict[str, str] = {}  #: what keeps git from programs that settings name, once that was looked up
        self._apart: Mapping[str, str] = {}  #: where objects that it writes lie, if not with the others
        self.keeps: tuple[int, ...] = ()  #: locks that git holds with us: killed, we are not followed before it ends
        self._publish: Callable[[], Awaitable[None]] | None = None

    def apart(self, env: Mapping[str, str]) -> Repository:
        """Return the same repository, whose new objects lie in a folder of their own."""
        other = Repository(self.folder, self.git_dir, work_tree=self._work_tree, identity=self._identity)
        other.quiet, other._apart = self.quiet, env
        return other

    @contextlib.contextmanager
    def write_apart(self, env: Mapping[str, str], publish: Callable[[], Awaitable[None]]) -> Generator[None]:
        """Have git write new objects into a folder of their own; `publish` moves them to the others."""
        before = self._apart, self._publish
        self._apart, self._publish = env, publish
        try:
            yield
        finally:
            self._apart, self._publish = before

    def share_apart(self, other: Repository) -> None:
        """Write new objects where `other` does."""
        self._apart, self._publish, self.keeps = other._apart, other._publish, other.keeps

    async def publish(self) -> None:
        """Let everybody see the objects that were written apart: before a ref leads to them."""
        if self._publish:
            await self._publish()

    async def git(
        self,
        *arguments: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        fine: tuple[int, ...] = (0,),
        sink: Callable[[bytes], object] | None = None,
        more: asyncio.Queue[bytes | None] | None = None,
    ) -> ProcessResult:
        """Run git in this repository; a code that is not `fine` is an error with git's words."""
        place = [] if self._work_tree else [f"--git-dir={self.git_dir}"]
        command = command_of(arguments)
        large = LARGE if command in STREAMED else ()
        start = ProcessStart(
            argv=["git", *SAFE, *large, *place, *arguments],
            env={**ENV, **self._apart, **(env or {})},
            cwd=str(self.folder),
            stdin=stdin,
            owner=self.owner,
            pass_fds=self.keeps,
        )
        return await run_git(start, command, self._limits(command, arguments), fine, (sink, more))

    def _limits(self, command: str, arguments: Sequence[str]) -> GitLimits | None:
        return limits_of(command, arguments, object_folders(self.git_dir) if command in WALKS else ())

    async def text(self, *arguments: str, fine: tuple[int, ...] = (0,)) -> str:
        return (await self.git(*arguments, fine=fine)).out.decode(errors="replace").strip()

    async def commit_of(self, name: str) -> str | None:
        return await self.text("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", fine=(0, 1, 128)) or None

    async def tree_of(self, commit: str) -> str:
        return commit_heads.tree_of(self.git_dir, commit) or await self.text("rev-parse", f"{commit}^{{tree}}")

    async def branch(self) -> str | None:
        """Return the branch that is checked out, or None when none is."""
        name = await self.text("symbolic-ref", "--quiet", "HEAD", fine=(0, 1, 128))
        return name.removeprefix("refs/heads/") or None

    async def change(self, base: str | None, commit: str) -> DiffSummary:
        """Return which files differ between two commits, and by how much."""
        out = (await self.git("diff", "--numstat", "-z", *PLAIN_DIFF, base or empty_tree(commit), commit)).out
        return _change(out)

    async def change_and_sha256(self, base: str | None, commit: str) -> tuple[DiffSummary, str]:
        """Return what `change` does, and the hash of the whole change as `patch` writes it; git is asked once."""
        for by in ((), LARGE):
            with contextlib.suppress(OverLimit):
                return await self._change_and_sha256(base, commit, by)
        words = (*LARGE, "diff", "--numstat", "-z", *PLAIN_DIFF, base or empty_tree(commit), commit)
        return _change((await self.git(*words)).out), await self._ids_sha256(base, commit)

    async def _change_and_sha256(self, base: str | None, commit: str, by: tuple[str, ...]) -> tuple[DiffSummary, str]:
        digest, head = hashlib.sha256(), bytearray()
        over = False  # the rows of the numbers, each with a NUL at its end; a NUL alone; then the patch

        def sink(chunk: bytes) -> None:
            nonlocal over
            if over:
                digest.update(chunk)
                return
            head.extend(chunk)
            if end := head.find(b"\0\0") + 1:
                digest.update(bytes(head[end + 1 :]))
                del head[end:]
                over = True

        words = (*by, "diff", "--numstat", "--patch", "--binary", "--full-index", "-z", *PLAIN_DIFF)
        await self.git(*words, base or empty_tree(commit), commit, sink=sink)
        return _change(bytes(head)), digest.hexdigest()

    async def names_changed(self, base: str, commit: str) -> tuple[str, ...]:
        """Return which files differ between two commits, without looking into them."""
        out = (await self.git("diff", "--name-only", "-z", *PLAIN_DIFF, base, commit)).out
        return tuple(name.decode(errors="replace") for name in out.split(b"\0") if name)

    async def patch(self, base: str | None, commit: str, sink: Callable[[bytes], object]) -> None:
        """Hand the whole change to `sink` as it comes, binary files too, as `git apply` takes it."""
        await self._patch(base, commit, sink, ())

    async def _patch(self, base: str | None, commit: str, sink: Callable[[bytes], object], by: tuple[str, ...]) -> None:
        words = (*by, "diff", "--binary", "--full-index", *PLAIN_DIFF, base or empty_tree(commit), commit)
        await self.git(*words, sink=sink)

    async def patch_sha256(self, base: str | None, commit: str, *, like: str = "") -> str:
        """Return the hash of the whole change; by the same ways as `change_and_sha256`, or as `like` was made."""
        for by in ((), LARGE) if not like.startswith(BY_IDS) else ():
            digest = hashlib.sha256()
            with contextlib.suppress(OverLimit):
                await self._patch(base, commit, digest.update, by)
                return digest.hexdigest()
        return await self._ids_sha256(base, commit)

    async def _ids_sha256(self, base: str | None, commit: str) -> str:
        """Return the hash of which file became which, by the ids of their contents: files may be larger than memory."""
        digest = hashlib.sha256()
        words = ("diff", "--raw", "--no-abbrev", "-z", *PLAIN_DIFF, base or empty_tree(commit), commit)
        await self.git(*words, sink=digest.update)
        return BY_IDS + digest.hexdigest()

    async def blobs_changed(self, base: str | None, commit: str, *, modules: bool = False) -> list[ChangedBlob]:
        """Return the files and links that differ between two commits, by their ids; submodules only if asked for."""
        words = ("diff", "--raw", "--no-abbrev", "-z", *PLAIN_DIFF, base or empty_tree(commit), commit)
        parts = (await self.git(*words)).out.decode(errors="surrogateescape").split("\0")
        found: list[ChangedBlob] = []
        for row, path in zip(parts[::2], parts[1::2], strict=False):
            old_mode, mode, before, after, _ = row.removeprefix(":").split(" ")
            if modules or GITLINK not in (old_mode, mode):
                gone, new = not after.strip("0"), not before.strip("0")
                kept, now = (None, None) if new else (before, old_mode), (None, None) if gone else (after, mode)
                found.append(ChangedBlob(path, kept[0], now[0], now[1], kept[1]))
        return found

    async def blob(self, name: str) -> bytes:
        return (await self.git("cat-file", "blob", name)).out

    async def submodule_files(self, commit: str) -> list[str]:
        """Return the ids of the files of a commit that say which submodules there are."""
        rows = await self.text("ls-tree", "-r", commit)
        return [row.split()[2] for row in rows.splitlines() if row.endswith((".gitmodules", '.gitmodules"'))]

    async def index_pack(self, file: Path, start: int, env: Mapping[str, str], known: Sequence[str] = ()) -> None:
        """Take in the objects of a file from an offset on; refuse them all if one is bad or is not whole.

        `known` are objects that may be as they are.
        """
        rules = [f"{name}=ignore" for name in HARMLESS]
        with file.open("rb", buffering=0) as content, tempfile.NamedTemporaryFile("w", prefix="corral-known-") as list_:
            content.seek(start)
            if known:
                Path(list_.name).chmod(0o644)  # git may run as the repository's owner
                list_.write("".join(f"{name}\n" for name in known))
                list_.flush()
                rules.append(f"skiplist={list_.name}")
            words = [f"--strict={','.join(rules)}", "--fix-thin", "--threads=1", "--stdin"]
            argv = ["git", *SAFE, *LARGE, f"--git-dir={self.git_dir}", "index-pack", *words]
            begin = ProcessStart(
                argv=argv,
                env={**ENV, **env},
                cwd=str(self.folder),
                owner=self.owner,
                stdin_file=content.fileno(),
            )
            await run_git(begin, "index-pack", GitLimits())

    async def identity(self) -> tuple[str, str]:
        """Return the name and address that commits carry here, as the user set them."""
        if self._identity:
            return self._identity
        home = {name: value for name in ("HOME", "XDG_CONFIG_HOME") if (value := os.environ.get(name))}
        env = {**ENV, **home}
        del env["GIT_CONFIG_GLOBAL"], env["GIT_CONFIG_NOSYSTEM"]
        start = ProcessStart(
            argv=["git", *SAFE, "config", "--get-regexp", r"^user\.(name|email)$"], env=env, cwd=str(self.folder)
        )
        pairs = dict(
            line.split(" ", 1)
            for line in (await process.run(start)).out.decode(errors="replace").splitlines()
            if " " in line
        )
        self._identity = pairs.get("user.name", "Corral"), pairs.get("user.email", "corral@localhost")
        return self._identity


def _change(numbers: bytes) -> DiffSummary:
    files: list[str] = []
    lines: list[tuple[int, int]] = []
    for row in numbers.split(b"\0"):
        if row:
            plus, minus, name = row.split(b"\t", 2)
            files.append(name.decode(errors="replace"))
            lines.append((int(plus) if plus != b"-" else 0, int(minus) if minus != b"-" else 0))
    return DiffSummary(tuple(files), sum(plus for plus, _ in lines), sum(minus for _, minus in lines), tuple(lines))


def empty_tree(like: str) -> str:
    return EMPTY_TREE[len(like)]


def object_folders(git_dir: Path) -> list[Path]:
    """Return where a repository's objects lie: its own folder and all it borrows from."""
    folders: list[Path] = []
    waiting = [git_dir / "objects"]
    while waiting:
        folder = waiting.pop(0).resolve()
        if folder in folders or not folder.is_dir():
            continue
        folders.append(folder)
        with contextlib.suppress(OSError):
            lines = (folder / "info" / "alternates").read_text().splitlines()
            waiting += [folder / line for line in lines if line and not line.startswith("#")]
    return folders


def _owner(path: Path) -> Owner | None:
    """Return whom git must act as: root drops to the repository's owner, others are themselves."""
    if os.getuid() != 0:
        return None
    try:
        about = path.stat()
    except OSError:
        return None
    return Owner(about.st_uid, about.st_gid) if about.st_uid else None
