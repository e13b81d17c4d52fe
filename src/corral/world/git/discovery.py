"""The repository of a folder: found by git, or without it; a hidden one is behind a plain folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from msgspec import Struct

from corral.model.errors import BadRequest
from corral.world import process
from corral.world.git.command import ENV
from corral.world.git.repository import Repository
from corral.world.process import ProcessStart
from corral.world.workspace.checkout import WHO

MOST_FILES, MOST_BYTES = 20_000, 1 << 30  #: a folder larger than this is more likely a mistake than a project
#: The machine's own folders: a project may lie in them, but is none of them.
SYSTEM = (
    "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/opt", "/proc", "/root", "/run", "/sbin", "/sys",
    "/usr", "/var",
)  # fmt: skip
SYSTEM_THROUGHOUT = ("/boot", "/etc", "/proc", "/sys")  #: no project lies in these


class DiscoveredRepository(Struct, frozen=True):
    """A repository and where its HEAD is."""

    repository: Repository
    head: str | None  #: None: no commit yet
    branch: str | None  #: None: detached


async def discover(folder: Path) -> DiscoveredRepository | None:
    """Return the repository that holds `folder`, or None where there is none."""
    probe = Repository(folder, folder)
    asked = (
        "--is-bare-repository",
        "--git-common-dir",
        "HEAD^{commit}",
        "--symbolic-full-name",
        "HEAD",
        "--show-toplevel",
    )
    finished = await probe.git("rev-parse", *asked, fine=(0, 128))
    lines = finished.out.decode(errors="replace").splitlines()
    if finished.code == 0 and len(lines) == 5:
        repository = Repository(Path(lines[4]), (folder / lines[1]).resolve())
        branch = lines[3].removeprefix("refs/heads/") if lines[3].startswith("refs/heads/") else None
        return DiscoveredRepository(repository, lines[2], branch)
    words = finished.err.decode(errors="replace").strip()
    if "dubious ownership" in words:
        raise BadRequest(f"{folder} belongs to another user, and git refuses it", hint="run corral as its owner")
    if len(lines) < 2:
        if "not a git repository" in words and not any(
            (place / ".git").exists() for place in (folder, *folder.parents)
        ):
            return None
        raise BadRequest(f"{folder}: {words}", hint="is the repository whole? try `git status` there")
    # No commit yet, or no work tree: ask step by step.
    git_dir = (folder / lines[1]).resolve()
    top = await probe.text("rev-parse", "--show-toplevel", fine=(0, 128))
    repository = Repository(Path(top), git_dir) if top else Repository(git_dir, git_dir)
    return DiscoveredRepository(repository, await repository.commit_of("HEAD"), await repository.branch())


def top_folder(folder: Path) -> Path:
    """Return the top of the checkout that holds `folder`, or the folder itself outside of a repository."""
    here = folder.resolve()
    return next((place for place in (here, *here.parents) if (place / ".git").exists()), here)


def git_dir_of(folder: Path) -> Path | None:
    """Return the git folder of the repository that holds `folder`, found without starting git."""
    here = folder.resolve()
    for place in (here, *here.parents):
        link = place / ".git"
        if link.is_dir():
            return link.resolve()
        if link.is_file():  # a linked worktree, or a submodule
            own = (place / link.read_text(errors="replace").removeprefix("gitdir:").strip()).resolve()
            common = own / "commondir"
            return (own / common.read_text().strip()).resolve() if common.is_file() else own
    return None


class CopiedFolder(Struct, frozen=True):
    """A plain folder as it was copied: the repository behind it, its content as a commit, and the note for the user."""

    repository: Repository
    commit: str
    words: str


async def folder_as_repository(folder: Path, state: Path) -> CopiedFolder:
    """Put a hidden repository behind a plain folder, and record the folder's present content as a commit."""
    _refuse_system(folder)
    changed, within = _refuse_large(folder)
    git_dir = hidden_git_dir(folder, state)
    if not (git_dir / "HEAD").exists():
        git_dir.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        await process.run(ProcessStart(argv=["git", "init", "--quiet", "--bare", str(git_dir)], env=ENV))
    repository = Repository(folder, git_dir, work_tree=False)
    await _refuse_repositories(repository, within)
    await repository.git(f"--work-tree={folder}", "-c", "core.bare=false", "add", "--all")
    tree = await repository.text("write-tree")
    # The same content is the same commit, for which workspaces have the objects already.
    date = f"@{max(0, int(changed))} +0000"
    env = {**WHO, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    finished = await repository.git("commit-tree", tree, "-m", f"{folder} as it was", env=env)
    commit = finished.out.decode().strip()
    await repository.git("update-ref", f"refs/corral/bases/{commit}", commit)
    return CopiedFolder(repository, commit, await _words(repository, tree))


def hidden_git_dir(folder: Path, state: Path) -> Path:
    """Return where the repository lies that is behind a plain folder."""
    return state / "folders" / (folder.name + "-" + _short_hash(str(folder)) + ".git")


async def _words(repository: Repository, tree: str) -> str:
    """Say what was copied: what the folder's .gitignore leaves out was not."""
    listed = await repository.git("ls-tree", "-r", "-l", "-z", tree)
    sizes = [row.split()[3] for row in listed.out.split(b"\0") if row]
    total = sum(int(size) for size in sizes if size.isdigit())
    files = "1 file" if len(sizes) == 1 else f"{len(sizes)} files"
    copied = f"{files} ({_size(total)}) {'is' if len(sizes) == 1 else 'are'} copied"
    return f"{repository.folder} is no git repository: {copied}, and kept in {repository.git_dir}"


def _size(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def _refuse_system(folder: Path) -> None:
    inside = any(folder.is_relative_to(Path(name).resolve()) for name in SYSTEM_THROUGHOUT)
    if inside or folder in [Path.home().resolve(), *(Path(name).resolve() for name in SYSTEM)]:
        raise BadRequest(
            f"{folder} is not a repository, and no project: it would be copied whole",
            hint="name your project with --repo, or `git init` there first",
        )


async def _refuse_repositories(repository: Repository, within: list[str]) -> None:
    """Refuse a folder that repositories are in: a copy would have their names and nothing of what is in them."""
    if not within:
        return
    asked = "".join(f"{name}\0" for name in within).encode(errors="surrogateescape")
    work_tree = (f"--work-tree={repository.folder}", "-c", "core.bare=false")
    ignored = await repository.git(*work_tree, "check-ignore", "-z", "--stdin", stdin=asked, fine=(0, 1))
    names = ignored.out.decode(errors="surrogateescape").split("\0")
    copied = [name for name in within if name not in names]
    if copied:
        others = f", {copied[1]}" if len(copied) == 2 else f" and {len(copied) - 1} more" if len(copied) > 2 else ""
        raise BadRequest(
            f"{repository.folder} is not copied as a plain folder: repositories are in it: {copied[0]}{others}",
            hint=f"name one of them: --repo {repository.folder / copied[0]}",
        )


def _refuse_large(folder: Path) -> tuple[float, list[str]]:
    """Refuse a folder with too much in it; return when a file of it was changed last, and the repositories in it."""
    count = size = 0
    changed = 0.0
    within: list[str] = []
    for root, folders, files in os.walk(folder):
        count += len(files)
        if root != str(folder) and (".git" in folders or ".git" in files):
            within.append(os.path.relpath(root, folder))
            folders.clear()  # git adds nothing of it
            continue
        for name in files:
            with contextlib.suppress(OSError):
                about = os.lstat(os.path.join(root, name))  # noqa: PTH118 -- a loop over many
                size += about.st_size
                changed = max(changed, about.st_mtime)
        if count > MOST_FILES or size > MOST_BYTES:
            raise BadRequest(
                f"{folder} is not a repository, and too much to copy",
                hint="`git init` there, or name a smaller folder with --repo",
            )
    return changed, sorted(within)


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
