"""A private checkout for each attempt: make it, fill it, collect what was done there, remove it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Generator, Sequence
from pathlib import Path

from msgspec import Struct

from corral.errors import BadRequest, GitTrouble
from corral.world import process
from corral.world.git import ENV, SAFE, Repository, object_folders
from corral.world.process import Owner, Start

MOST_FILES, MOST_BYTES = 20_000, 1 << 30  #: a plain folder larger than this is more likely a mistake than a project
MOST_BUNDLE = 4 << 30
#: What tools leave behind and nobody commits: not part of an agent's work even where .gitignore forgets it.
DROPPINGS = "__pycache__/\n*.py[co]\n.pytest_cache/\n.mypy_cache/\n.ruff_cache/\n.venv/\nnode_modules/\n.DS_Store\n"
WHO = {
    "GIT_AUTHOR_NAME": "Corral",
    "GIT_AUTHOR_EMAIL": "corral@localhost",
    "GIT_COMMITTER_NAME": "Corral",
    "GIT_COMMITTER_EMAIL": "corral@localhost",
}


class Workspace(Struct, frozen=True):
    """Where an attempt works: a checkout with its own .git that borrows the repository's objects."""

    tree: Path
    objects: tuple[Path, ...]

    @property
    def guarded(self) -> tuple[Path, ...]:
        """What the agent may not change in its own checkout: from there code would run in later git commands."""
        return (self.tree / ".git" / "hooks", self.tree / ".git" / "config")

    @property
    def pinned(self) -> tuple[Path, ...]:
        """What it may not put another in place of."""
        return (self.tree / ".git",)


async def make(repository: Repository, commit: str | None, tree: Path, name: str, owner: Owner | None) -> Workspace:
    """Check `commit` out into `tree`, on a branch of its own, for `owner` to work in."""
    objects = await _lay_repository(repository, commit, tree, name, owner)
    if commit:
        await _checkout(tree)
        objects += await _submodules(repository, commit, tree, owner)
    if owner:
        give(tree, owner)
    made = Workspace(tree, tuple(objects))
    (tree.parent / "objects").write_text("".join(f"{folder}\n" for folder in made.objects))
    return made


def made_before(tree: Path) -> Workspace:
    """Return a workspace as it was made, from what was noted beside it, where no agent can write."""
    lines = (tree.parent / "objects").read_text().splitlines()
    return Workspace(tree, tuple(Path(line) for line in lines))


async def mend(repository: Repository, commit: str | None, tree: Path, name: str, owner: Owner | None) -> None:
    """Give a workspace whose agent destroyed its .git a new one; the files are what counts."""
    git_dir = tree / ".git"
    parts = ("HEAD", "objects/info", "refs", "hooks", "config")
    if not git_dir.is_symlink() and all((git_dir / part).exists() for part in parts):
        return
    git_dir.unlink() if git_dir.is_symlink() or git_dir.is_file() else remove(git_dir)
    await _lay_repository(repository, commit, tree, name, owner)
    if owner:
        give(git_dir, owner)


async def _lay_repository(
    repository: Repository, commit: str | None, tree: Path, name: str, owner: Owner | None
) -> list[Path]:
    """Write a .git that borrows the repository's objects; return where they lie."""
    objects = object_folders(repository.git_dir)
    _empty_repository(tree / ".git", commit, f"corral/{name}", await repository.identity())
    with contextlib.suppress(FileNotFoundError):
        shutil.copyfile(repository.git_dir / "shallow", tree / ".git" / "shallow")
    if owner and not all(folder.stat().st_mode & 0o005 == 0o005 for folder in objects):
        for folder in objects:  # only root and their owner may read the originals
            shutil.copytree(folder, tree / ".git" / "objects", dirs_exist_ok=True)
        return []
    (tree / ".git/objects/info/alternates").write_text("".join(f"{folder}\n" for folder in objects))
    return objects


def _empty_repository(git_dir: Path, commit: str | None, branch: str, identity: tuple[str, str]) -> None:
    for folder in ("objects/info", "objects/pack", "refs/heads", "hooks", "info"):
        (git_dir / folder).mkdir(parents=True)
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


async def _checkout(tree: Path) -> None:
    # Nobody has worked here yet, so git may run; its own settings name no filter, so files arrive as they are stored.
    finished = await process.run(Start(argv=["git", *SAFE, "reset", "--hard", "--quiet"], env=ENV, cwd=str(tree)))
    if finished.code != 0:
        words = finished.err.decode(errors="replace").strip()
        hint = "the disk is full: make room, then try again" if "No space left" in words else "is the repository whole?"
        raise GitTrouble(f"the workspace cannot be checked out: {words[-400:]}", hint=hint)


async def _submodules(repository: Repository, commit: str, tree: Path, owner: Owner | None) -> list[Path]:
    """Fill submodules from what the repository has of them; what it lacks stays an empty folder."""
    objects: list[Path] = []
    if not (tree / ".gitmodules").is_file():
        return objects
    listed = await repository.git(
        "config", "--blob", f"{commit}:.gitmodules", "--null", "--get-regexp", r"\.path$", fine=(0, 1)
    )
    entries = await repository.git("ls-tree", "-r", "-z", commit)
    links = {
        row.split(b"\t", 1)[1]: row.split()[2].decode()
        for row in entries.out.split(b"\0")
        if row.startswith(b"160000 ")
    }
    for row in listed.out.split(b"\0"):
        key, _, path = row.partition(b"\n")
        name = key.decode(errors="replace").removeprefix("submodule.").removesuffix(".path")
        modules = (repository.git_dir / "modules").resolve()
        git_dir = (modules / name).resolve()
        place = (tree / path.decode(errors="replace")).resolve()
        if path not in links or not git_dir.is_relative_to(modules) or not place.is_relative_to(tree):
            continue
        if (git_dir / "objects").is_dir():
            inner = Repository(git_dir, git_dir, work_tree=False)
            objects += await _lay_repository(inner, links[path], place, "submodule", owner)
            await _checkout(place)
            objects += await _submodules(inner, links[path], place, owner)
    return objects


def write_below(root: Path, name: str, content: bytes) -> None:
    """Write a file below a folder that an agent may have prepared: no link in it is followed."""
    *folders, last = Path(name).parts
    place = os.open(root, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for folder in folders:
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder, 0o700, dir_fd=place)
            inner = os.open(folder, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place)
            os.close(place)
            place = inner
        with contextlib.suppress(FileNotFoundError):
            os.unlink(last, dir_fd=place)
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(last, flags, 0o600, dir_fd=place), "wb") as file:
            file.write(content)
    finally:
        os.close(place)


def give(tree: Path, owner: Owner) -> None:
    """Make everything in `tree` belong to `owner`."""
    os.lchown(tree, owner.uid, owner.gid)
    for folder, folders, files in os.walk(tree):
        for name in (*folders, *files):
            os.lchown(os.path.join(folder, name), owner.uid, owner.gid)  # noqa: PTH118 -- ten times faster, and this is a loop


async def copy_ignored(repository: Repository, patterns: Sequence[str], tree: Path, owner: Owner | None) -> list[str]:
    """Copy ignored files that attempts need: those that fit `patterns` or the repository's .worktreeinclude."""
    include = repository.folder / ".worktreeinclude"
    wanted = [f"--exclude={pattern}" for pattern in patterns]
    wanted += [f"--exclude-from={include}"] if include.is_file() and not include.is_symlink() else []
    if not wanted:
        return []
    listing = ("ls-files", "-z", "--others", "--ignored")
    fitting = (await repository.git(*listing, *wanted)).out.split(b"\0")
    ignored = set((await repository.git(*listing, "--exclude-standard")).out.split(b"\0"))
    copied: list[str] = []
    for path in sorted(set(fitting) & ignored - {b""}):
        name = os.fsdecode(path)
        source, target = repository.folder / name, tree / name
        if source.is_symlink() or not source.is_file() or not target.parent.resolve().is_relative_to(tree.resolve()):
            continue  # a link in the checkout, or one in the commit, would lead elsewhere
        _folders_for(target, tree, owner)
        shutil.copy2(source, target, follow_symlinks=False)
        if owner:
            os.lchown(target, owner.uid, owner.gid)
        copied.append(name)
    # What is ignored only by the person's own settings must not come back as the agent's work.
    exclude = tree / ".git" / "info" / "exclude"
    exclude.write_text(exclude.read_text() + "".join(f"/{name}\n" for name in copied))
    return copied


def _folders_for(target: Path, tree: Path, owner: Owner | None) -> None:
    missing = [folder for folder in target.parents if folder.is_relative_to(tree) and not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir()
        if owner:
            os.lchown(folder, owner.uid, owner.gid)


#: Run on the agent's side, in its box: what it left is committed, and all its commits leave as one bundle.
COLLECT = """
rm -f .git/index.lock .git/HEAD.lock
unless() { case $said in *"$1"*) ;; *) echo "$said" >&2; exit 3 ;; esac; }
said=$(git add -A 2>&1) || { rm -f .git/index && git read-tree HEAD && said=$(git add -A 2>&1); } || unless "no error"
said=$(git commit -q --no-verify -m "$1" 2>&1) || unless "nothing"
said=$(git bundle create -q "$3" HEAD ${2:+"^$2"} 2>&1) || unless "empty bundle"
"""


#: In a box, the program and then the collecting: what it left running is ended in between (the box holds nobody else).
THEN_COLLECT = """
message=$1 base=$2 bundle=$3
shift 3
"$@"
code=$?
kill -9 -1 2>/dev/null
( set -- "$message" "$base" "$bundle"; %s ) </dev/null >/dev/null 2>&1 && : > "$bundle.done"
exit $code
"""


def collect_command(message: str, base: str | None, bundle: Path) -> list[str]:
    """Return the command that collects, to be run in the box of the attempt."""
    return ["/bin/sh", "-c", _collect_script(), "collect", message, base or "", str(bundle)]


def then_collect(argv: Sequence[str], message: str, base: str | None, bundle: Path) -> list[str]:
    """Return a command that runs `argv` and then collects; it ends with the code of `argv`. For a box only."""
    return ["/bin/sh", "-c", THEN_COLLECT % _collect_script(), "work", message, base or "", str(bundle), *argv]


def _collect_script() -> str:
    return COLLECT.replace("git ", f"git {_shell_safe()} ")


def _shell_safe() -> str:
    return " ".join(SAFE[: SAFE.index("core.quotePath=false") - 1])


async def fetch(repository: Repository, bundle: Path, references: Sequence[str]) -> str:
    """Take the agent's commits into the repository under `references`; return the last commit."""
    if bundle.is_symlink() or not bundle.is_file() or bundle.stat().st_size > MOST_BUNDLE:
        raise GitTrouble("the workspace's bundle is not a plain file of a sane size")
    tip = _tip(bundle)
    with _for_owner(bundle, repository.owner) as path:
        await repository.git(
            "-c", "transfer.fsckObjects=true", "-c", "fetch.fsck.zeroPaddedFilemode=ignore",
            "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-gc", "--no-recurse-submodules",
            "--force", "--update-shallow", str(path), *(f"HEAD:{reference}" for reference in references),
        )  # fmt: skip
    return tip


def _tip(bundle: Path) -> str:
    """Read from a bundle's head which commit it brings; git makes sure that it really does."""
    with bundle.open("rb") as file:
        for line in iter(lambda: file.readline(4096), b"\n"):
            match = re.fullmatch(rb"([0-9a-f]{40}|[0-9a-f]{64}) HEAD\n", line)
            if match:
                return match.group(1).decode()
            if not line:
                break
    raise GitTrouble("the workspace's bundle names no commit")


async def add_note(repository: Repository, commit: str, notes: str, text: bytes) -> None:
    """Put a note on a commit, replacing an older one."""
    await repository.git("notes", f"--ref={notes}", "add", "-f", "-F", "-", commit, stdin=text, env=WHO)


@contextlib.contextmanager
def _for_owner(file: Path, owner: Owner | None) -> Generator[Path]:
    """Show a file to a repository's owner who may not enter our state folder."""
    if owner is None:
        yield file
        return
    with tempfile.TemporaryDirectory(prefix="corral-") as name:
        shown = Path(name) / "bundle"
        shutil.copyfile(file, shown)
        for path in (Path(name), shown):
            os.chown(path, owner.uid, owner.gid)
        yield shown


async def with_files_of(repository: Repository, commit: str, base: str, paths: Sequence[str]) -> str:
    """Make a commit that is `commit` but for these paths, which are as they were at `base`."""
    listed = await repository.git("ls-tree", "-r", "-z", "--full-tree", base, "--", *paths)
    with tempfile.TemporaryDirectory(prefix="corral-") as name:
        if repository.owner:
            os.chown(name, repository.owner.uid, repository.owner.gid)
        env = {**WHO, "GIT_INDEX_FILE": f"{name}/index"}
        await repository.git("read-tree", commit, env=env)
        await repository.git("update-index", "-z", "--index-info", stdin=listed.out, env=env)
        tree = (await repository.git("write-tree", env=env)).out.decode().strip()
        made = await repository.git("commit-tree", tree, "-p", commit, "-m", "with the base's tests", env=env)
    return made.out.decode().strip()


async def folder_as_repository(folder: Path, state: Path) -> tuple[Repository, str]:
    """Stand a hidden repository behind a plain folder, and record the folder's present content as a commit."""
    _refuse_large(folder)
    git_dir = state / "folders" / (folder.name + "-" + _short_hash(str(folder)) + ".git")
    if not (git_dir / "HEAD").exists():
        git_dir.parent.mkdir(parents=True, exist_ok=True)
        await process.run(Start(argv=["git", "init", "--quiet", "--bare", str(git_dir)], env=ENV))
    repository = Repository(folder, git_dir, work_tree=False)
    await repository.git(f"--work-tree={folder}", "-c", "core.bare=false", "add", "--all")
    tree = await repository.text("write-tree")
    finished = await repository.git("commit-tree", tree, "-m", f"{folder} as it was", env=WHO)
    commit = finished.out.decode().strip()
    await repository.git("update-ref", f"refs/corral/bases/{commit}", commit)
    return repository, commit


def _refuse_large(folder: Path) -> None:
    count = size = 0
    if folder in (Path.home(), Path("/")):
        raise BadRequest(
            f"{folder} is not a repository, and too much to copy", hint="change into your project, or `git init` there"
        )
    for root, _, files in os.walk(folder):
        count += len(files)
        for name in files:
            with contextlib.suppress(OSError):
                size += os.lstat(os.path.join(root, name)).st_size  # noqa: PTH118 -- a loop over many
        if count > MOST_FILES or size > MOST_BYTES:
            raise BadRequest(
                f"{folder} is not a repository, and too much to copy",
                hint="`git init` there, or name a smaller folder with --repo",
            )


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def remove(folder: Path) -> None:
    """Remove a folder whatever the modes that were set in it."""
    if not folder.exists():
        return
    try:
        shutil.rmtree(folder)
    except PermissionError:
        for root, folders, _ in os.walk(folder):
            for name in folders:
                with contextlib.suppress(OSError):
                    Path(root, name).chmod(0o700)
        shutil.rmtree(folder)
