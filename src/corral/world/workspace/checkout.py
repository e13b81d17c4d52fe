"""A private checkout for each attempt: make it, fill it, repair it, remove it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec
from msgspec import Struct

from corral.model.errors import CorralError, GitTrouble, MissingWorkspace
from corral.world import locks, process
from corral.world.git import object_cache
from corral.world.git.command import CHECKOUT_SECONDS, ENV, LARGE, SAFE, GitLimits, run_git
from corral.world.git.repository import Repository, object_folders
from corral.world.process import Owner, ProcessStart
from corral.world.workspace import mounts, plain_files
from corral.world.workspace.plain_files import RememberedTree

#: What tools leave behind and nobody commits: not part of an agent's work even where .gitignore forgets it.
DROPPINGS = (
    "__pycache__/\n*.py[co]\n.pytest_cache/\n.mypy_cache/\n.ruff_cache/\n.venv/\nnode_modules/\n.DS_Store\n"
    ".auto-claude/\n"
)
INDEX = "index"  #: the file beside a workspace that is its index as it was made
MOST_GIVEN = 2000  #: entries; a program is quicker with more
WHO = {
    "GIT_AUTHOR_NAME": "Corral",
    "GIT_AUTHOR_EMAIL": "corral@localhost",
    "GIT_COMMITTER_NAME": "Corral",
    "GIT_COMMITTER_EMAIL": "corral@localhost",
}
#: An empty file in the place of a hidden one is no change; names are names, whatever signs they hold.
LEAVE_ALONE = """
export GIT_LITERAL_PATHSPECS=1
listed=$(mktemp) && git ls-files -z -- "$@" > "$listed" && git update-index --skip-worktree -z --stdin < "$listed"
"""


class Module(Struct, frozen=True):
    """A submodule that was filled."""

    path: str  #: below the tree
    git_dir: str  #: of the repository's own copy
    commit: str


class Loan(Struct, frozen=True):
    """Where a workspace gets git objects from."""

    cache: Path  #: of all workspaces
    folder: Path  #: of this one: what it borrows
    say: object_cache.Say
    templates: Path = Path("templates")  #: of all workspaces: their files


class Workspace(Struct, frozen=True):
    """Where an attempt works: a checkout with its own .git that borrows the objects that its base reaches."""

    tree: Path
    objects: tuple[str, ...] = ()  #: folders it borrows from
    modules: tuple[Module, ...] = ()  #: inner ones first
    shallow: tuple[str, ...] = ()  #: commits whose parents are not there
    kind: Literal["clone", "overlay", "pool"] = "clone"  #: how it was made

    @property
    def guarded_paths(self) -> tuple[Path, ...]:
        """What the agent may not change in its own checkout: from there code would run in later git commands."""
        return (self.tree / ".git" / "hooks", self.tree / ".git" / "config")

    @property
    def pinned_paths(self) -> tuple[Path, ...]:
        """What it may not put another in place of."""
        return (self.tree / ".git",)


async def make(
    repository: Repository, commits: Sequence[str], tree: Path, name: str, owner: Owner | None, loan: Loan
) -> Workspace:
    """Check the first of `commits` out into `tree`, on a branch of its own; what they reach can be read there."""
    objects: list[Path] = []
    modules: list[Module] = []
    commit = commits[0] if commits else None
    shallow = await lay_repository(repository, commits, tree, name, (loan, objects))
    known = plain_files.recall(repository.git_dir, commit) if commit else None
    if known and known.contents:
        await asyncio.to_thread(_write_small, known, tree, owner)
        owner = None
    elif commit:
        try:
            await check_out(tree)
        except GitTrouble:
            object_cache.forget(repository, commit, loan.cache)  # should it be to blame
            raise
        await fill_submodules(repository, commit, tree, loan, (tree, objects, modules))
    if owner and not await asyncio.to_thread(_give_small, tree, owner):
        await give(tree, owner)
    return Workspace(tree, tuple(map(str, objects)), tuple(modules), tuple(shallow))


def _write_small(known: RememberedTree, tree: Path, owner: Owner | None) -> None:
    plain_files.write(known, tree)
    if owner and not _give_small(tree, owner):
        raise CorralError(f"{tree} cannot be given to its agent")


def note(made: Workspace, rules: bytes | None = None) -> None:
    """Note beside a workspace how it was made, where no agent can write; `rules` say what is no work in it."""
    (made.tree.parent / "made.json").write_bytes(msgspec.json.encode(made, enc_hook=str))
    (made.tree.parent / "exclude").write_bytes(rules or DROPPINGS.encode())


def close_to_others(folder: Path) -> None:
    """Let nobody else enter the folder of all workspaces: a setuid file of an agent would make them its user."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)


def read_workspace(tree: Path) -> Workspace:
    """Return a workspace as it was made, from what was noted beside it, where no agent can write."""
    try:
        noted = (tree.parent / "made.json").read_bytes()
    except FileNotFoundError as error:
        name = tree.parent.name
        raise MissingWorkspace(
            f"the workspace {name} is not there any more", hint=f"what was kept of it: corral restore {name} --list"
        ) from error
    return msgspec.json.decode(noted, type=Workspace, dec_hook=lambda _, value: Path(value))


def exclude_rules(tree: Path) -> bytes | None:
    """Return what of a workspace is not part of the work, as noted beside it: an agent can write rules of its own."""
    with contextlib.suppress(OSError):
        return (tree.parent / "exclude").read_bytes()
    return None  # an older corral made it


async def restore_git_folder(
    repository: Repository, commit: str | None, tree: Path, name: str, owner: Owner | None
) -> None:
    """Give a workspace whose agent destroyed its .git a new one; the files are what counts."""
    git_dir = tree / ".git"
    parts = ("HEAD", "objects/info", "refs", "hooks", "config")
    if not git_dir.is_symlink() and all((git_dir / part).exists() for part in parts):
        return
    await remove(git_dir)
    _empty_repository(git_dir, commit, f"corral/{name}", await repository.identity())
    made = read_workspace(tree)
    objects = [Path(folder) for folder in made.objects]
    if not all(folder.is_dir() for folder in objects):  # removed by an agent without a box
        objects = object_folders(repository.git_dir)
    _borrow(git_dir, objects, made.shallow)
    if owner:
        await give(git_dir, owner)


async def lay_repository(
    repository: Repository, commits: Sequence[str], tree: Path, name: str, borrows: tuple[Loan, list[Path]]
) -> list[str]:
    """Write a .git that borrows what the commits reach, and note from where; return its shallow boundary."""
    loan, objects = borrows
    commit = commits[0] if commits else None
    _empty_repository(tree / ".git", commit, f"corral/{name}", await repository.identity())
    if commit is None:
        return []
    objects.append(loan.folder / str(len(objects)))
    shallow = await object_cache.lend(repository, commits, loan.cache, objects[-1], loan.say)
    _borrow(tree / ".git", objects[-1:], shallow)
    return shallow


def _borrow(git_dir: Path, objects: Sequence[Path], shallow: Sequence[str]) -> None:
    (git_dir / "objects/info/alternates").write_text("".join(f"{folder}\n" for folder in objects))
    if shallow:
        (git_dir / "shallow").write_text("".join(f"{commit}\n" for commit in shallow))


def _empty_repository(git_dir: Path, commit: str | None, branch: str, identity: tuple[str, str]) -> None:
    git_dir.parent.mkdir(exist_ok=True, parents=True)
    for folder in ("", "objects", "objects/info", "objects/pack", "refs", "refs/heads", "hooks", "info"):
        (git_dir / folder).mkdir()
    name, email = (value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") for value in identity)
    sha256 = commit is not None and len(commit) == 64
    (git_dir / "HEAD").write_text(f"ref: refs/heads/{branch}\n")
    (git_dir / "config").write_text(
        f"[core]\n\trepositoryformatversion = {1 if sha256 else 0}\n\tfilemode = true\n\tbare = false\n"
        + ("[extensions]\n\tobjectformat = sha256\n" if sha256 else "")
        + f'[user]\n\tname = "{name}"\n\temail = "{email}"\n[gc]\n\tauto = 0\n'
    )
    (git_dir / "info" / "exclude").write_text(DROPPINGS)
    if commit:
        reference = git_dir / "refs" / "heads" / branch
        reference.parent.mkdir(parents=True, exist_ok=True)
        reference.write_text(commit + "\n")


async def check_out(tree: Path) -> None:
    """Check out what HEAD names, in a tree that nobody has worked in."""
    # Nobody has worked here yet, so git may run; its own settings name no filter, so files arrive as they are stored.
    start = ProcessStart(argv=["git", *SAFE, *LARGE, "reset", "--hard", "--quiet"], env=ENV, cwd=str(tree))
    try:
        await run_git(start, "reset", GitLimits(seconds=CHECKOUT_SECONDS))
    except GitTrouble as error:
        hint = error.hint or "is the repository whole?"
        raise GitTrouble(f"the workspace cannot be checked out: {str(error)[-400:]}", hint=hint) from error


async def move_to(tree: Path, base: str, commit: str) -> None:
    """Check out a commit in a tree that holds the files of another one, which nobody has worked in."""
    start = ProcessStart(argv=["git", *SAFE, *LARGE, "read-tree", "-m", "-u", base, commit], env=ENV, cwd=str(tree))
    try:
        await run_git(start, "read-tree", GitLimits(seconds=CHECKOUT_SECONDS))
    except GitTrouble:  # the objects of the other one are not seen here
        await check_out(tree)


async def fill_submodules(
    repository: Repository,
    commit: str,
    place: Path,
    loan: Loan,
    into: tuple[Path, list[Path], list[Module]],
) -> None:
    """Fill submodules from what the repository has of them; what it lacks stays an empty folder."""
    top, objects, modules = into
    if not (place / ".gitmodules").is_file():
        return
    listed = await repository.git(
        "config", "--blob", f"{commit}:.gitmodules", "--null", "--get-regexp", r"\.path$", fine=(0, 1)
    )
    entries = await repository.git("ls-tree", "-r", "-z", commit)
    links = {
        row.split(b"\t", 1)[1]: row.split()[2].decode()
        for row in entries.out.split(b"\0")
        if row.startswith(b"160000 ")
    }
    kept = (repository.git_dir / "modules").resolve()
    for row in listed.out.split(b"\0"):
        key, _, path = row.partition(b"\n")
        git_dir = (kept / key.decode(errors="replace").removeprefix("submodule.").removesuffix(".path")).resolve()
        inner_place = (place / path.decode(errors="replace")).resolve()
        if path not in links or not git_dir.is_relative_to(kept) or not inner_place.is_relative_to(top):
            continue
        inner = Repository(git_dir, git_dir, work_tree=False, identity=await repository.identity())
        if not (git_dir / "objects").is_dir() or await inner.commit_of(links[path]) is None:
            continue
        await lay_repository(inner, [links[path]], inner_place, "submodule", (loan, objects))
        await check_out(inner_place)
        await fill_submodules(inner, links[path], inner_place, loan, into)
        modules.append(Module(str(inner_place.relative_to(top)), str(git_dir), links[path]))


def write_below(root: Path, name: str, source: BinaryIO, owner: Owner | None = None, mode: int = 0o600) -> None:
    """Write a file below a folder that an agent, or its commit, may have prepared: no link in it is followed."""
    *folders, last = Path(name).parts
    place = os.open(root, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for folder in folders:
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder, 0o755, dir_fd=place)
                if owner:
                    os.chown(folder, owner.uid, owner.gid, dir_fd=place, follow_symlinks=False)
            inner = os.open(folder, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place)
            os.close(place)
            place = inner
        with contextlib.suppress(FileNotFoundError):
            os.unlink(last, dir_fd=place)
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(last, flags, mode, dir_fd=place), "wb") as file:
            shutil.copyfileobj(source, file)
            if owner:
                os.fchown(file.fileno(), owner.uid, owner.gid)
    finally:
        os.close(place)


def make_below(tree: Path, folder: Path, owner: Owner | None) -> None:
    """Make a folder, and those above it, in a workspace where nobody has worked yet."""
    for place in (*reversed(folder.parents), folder):
        if place.is_relative_to(tree) and not place.exists():
            place.mkdir()
            if owner:
                os.chown(place, owner.uid, owner.gid)


def leave_alone(paths: Sequence[str]) -> list[str]:
    """Return a command, for a box that shows all, by which git takes what will be hidden as it was."""
    return ["/bin/sh", "-c", LEAVE_ALONE, "hide", *paths]


def read_below(root: Path, name: str, most: int) -> bytes | None:
    """Read a file below a folder that an agent may have prepared: no link is followed, no pipe waited for."""
    *folders, last = Path(name).parts
    place = os.open(root, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for folder in folders:
            inner = os.open(folder, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place)
            os.close(place)
            place = inner
        with os.fdopen(os.open(last, os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=place), "rb") as file:
            return file.read(most) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None
    except OSError:
        return None
    finally:
        os.close(place)


def remove_below(root: Path, name: str) -> None:
    """Remove a file below a folder that an agent may have prepared: no link is followed."""
    *folders, last = Path(name).parts
    with contextlib.ExitStack() as stack, contextlib.suppress(FileNotFoundError, NotADirectoryError):
        place = os.open(root, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        stack.callback(os.close, place)
        for folder in folders:
            try:
                place = os.open(folder, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place)
            except OSError as error:
                if error.errno == errno.ELOOP:
                    return  # a link: what it leads to is not ours
                raise
            stack.callback(os.close, place)
        os.unlink(last, dir_fd=place)


def _give_small(tree: Path, owner: Owner) -> bool:
    """Do what `give` does, without a program, in a tree that nobody has worked in; tell whether it was small enough."""
    left, waiting = MOST_GIVEN, [str(tree)]
    with contextlib.suppress(OSError):  # a path may be too long for us
        os.chown(tree, owner.uid, owner.gid, follow_symlinks=False)
        while waiting:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    left -= 1
                    if not left:
                        return False
                    os.chown(entry.path, owner.uid, owner.gid, follow_symlinks=False)
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        return True
    return False


async def give(tree: Path, owner: Owner) -> None:
    """Make everything in `tree` belong to `owner`, links themselves and folders of any depth included."""
    who = f"{owner.uid}:{owner.gid}"
    finished = await process.run(ProcessStart(argv=["chown", "-hR", who, "--", str(tree)], env=ENV))
    if finished.code != 0:
        raise CorralError(
            f"{tree} cannot be given to its agent: {finished.err.decode(errors='replace').strip()[-200:]}"
        )


async def ignored_files(repository: Repository, patterns: Sequence[str]) -> list[str]:
    """Return the ignored files that attempts need: those that fit `patterns` or the repository's .worktreeinclude."""
    include = repository.folder / ".worktreeinclude"
    wanted = [f"--exclude={pattern}" for pattern in patterns]
    wanted += [f"--exclude-from={include}"] if include.is_file() and not include.is_symlink() else []
    if not wanted:
        return []
    listing = ("ls-files", "-z", "--others", "--ignored")
    fitting = (await repository.git(*listing, *wanted)).out.split(b"\0")
    ignored = set((await repository.git(*listing, "--exclude-standard")).out.split(b"\0"))
    named = [os.fsdecode(path) for path in sorted(set(fitting) & ignored - {b""})]
    # A link would lead elsewhere.
    return [name for name in named if not (file := repository.folder / name).is_symlink() and file.is_file()]


async def copy_ignored(repository: Repository, patterns: Sequence[str], tree: Path, owner: Owner | None) -> None:
    """Copy ignored files that attempts need into a workspace."""
    copied: list[str] = []
    for name in await ignored_files(repository, patterns):
        source = repository.folder / name
        with source.open("rb") as content:
            if lay_ignored(tree, name, content, owner, source.stat().st_mode & 0o777):
                copied.append(name)
    if copied:
        exclude_copied(tree, copied)


def lay_ignored(tree: Path, name: str, content: BinaryIO, owner: Owner | None, mode: int) -> bool:
    """Lay an ignored file into a workspace; what the commit has itself stays as the commit has it."""
    if os.path.lexists(tree / name):
        return False
    with contextlib.suppress(NotADirectoryError):
        write_below(tree, name, content, owner, mode)
        return True
    return False


def exclude_copied(tree: Path, copied: Sequence[str]) -> None:
    """Let what is ignored only by the user's own settings not come back as the agent's work."""
    rules = DROPPINGS + "".join(f"/{name}\n" for name in copied)
    for exclude in (tree / ".git" / "info" / "exclude", tree.parent / "exclude"):
        exclude.write_text(rules)


def names(folder: Path) -> frozenset[str]:
    """Return what lies in a folder; nothing where there is none."""
    try:
        return frozenset(path.name for path in folder.iterdir())
    except OSError:
        return frozenset()


async def remove(folder: Path) -> None:
    """Remove a file or a folder, of any depth, whatever the modes that were set in it."""
    if not os.path.lexists(folder):
        return
    locks.check()
    if not folder.is_symlink() and (folder / mounts.OVERLAY).is_dir():
        await asyncio.to_thread(mounts.unmount, folder / "work")
    with contextlib.suppress(OSError, RuntimeError):  # quicker than a program; what it cannot do, that one can
        if not folder.is_symlink() and folder.is_dir():
            await asyncio.to_thread(shutil.rmtree, folder)
            return
    finished = await process.run(ProcessStart(argv=["rm", "-rf", "--", str(folder)], env=ENV))
    if finished.code != 0:
        await process.run(ProcessStart(argv=["chmod", "-R", "u+rwx", "--", str(folder)], env=ENV))
        finished = await process.run(ProcessStart(argv=["rm", "-rf", "--", str(folder)], env=ENV))
    if finished.code != 0:
        raise CorralError(f"{folder} cannot be removed: {finished.err.decode(errors='replace').strip()[-200:]}")
