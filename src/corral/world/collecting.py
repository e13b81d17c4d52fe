"""Take an agent's work into the repository: by bundles made on its side, fetched on ours; nothing of it runs here."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Generator, Sequence
from pathlib import Path

from msgspec import Struct

from corral.errors import GitTrouble
from corral.world.git import Repository
from corral.world.process import Owner
from corral.world.workspace import WHO, Workspace

SCRIPT = (Path(__file__).with_name("collect.sh")).read_text(encoding="utf-8")
MOST_BUNDLE = 4 << 30
MOST_REFS = 200

#: In a box, the program and then the collecting: what it left running is ended in between (the box holds nobody else).
THEN_COLLECT = """
collect=$1 message=$2 base=$3 out=$4 modules=$5
shift 5
"$@"
code=$?
kill -9 -1 2>/dev/null
eval "set -- $modules"
sh -c "$collect" collect "$message" "$base" "$out" "$@" </dev/null >/dev/null 2>&1 && : > "$out/done"
exit $code
"""


class Taken(Struct, frozen=True):
    """What came over."""

    commit: str | None  #: where its HEAD stood, when that is not the base
    saved: tuple[str, ...] = ()  #: refs under which its other branches and its stash are kept


def collect_command(made: Workspace, message: str, base: str | None, out: Path) -> list[str]:
    """Return the command that collects, to be run in the box of the attempt."""
    modules = [word for module in made.modules for word in (module.path, module.commit)]
    return ["/bin/sh", "-c", SCRIPT, "collect", message, base or "", str(out), *modules]


def then_collect(argv: Sequence[str], made: Workspace, message: str, base: str | None, out: Path) -> list[str]:
    """Return a command that runs `argv` and then collects; it ends with the code of `argv`. For a box only."""
    modules = " ".join(_quoted(word) for module in made.modules for word in (module.path, module.commit))
    return ["/bin/sh", "-c", THEN_COLLECT, "work", SCRIPT, message, base or "", str(out), modules, *argv]


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


async def take(repository: Repository, made: Workspace, out: Path, attempt: str, references: Sequence[str]) -> Taken:
    """Fetch the bundles in `out`: the work under `references`, whatever else there is under refs/corral/saved."""
    for number, module in enumerate(made.modules):
        bundle = out / f"module-{number}.bundle"
        if bundle.exists():
            inner = Repository(Path(module.git_dir), Path(module.git_dir), work_tree=False)
            await fetch(inner, bundle, [f"HEAD:refs/corral/attempts/{attempt}"])
    bundle = out / "work.bundle"
    if not bundle.exists():
        return Taken(None)
    found = _refs(bundle)
    head = found.pop("HEAD", None)
    others = {name: commit for name, commit in found.items() if commit != head}
    saved = {
        name: f"refs/corral/saved/{attempt}/{name.removeprefix('refs/').removeprefix('heads/')}" for name in others
    }
    wanted = [f"HEAD:{reference}" for reference in references] if head else []
    await fetch(repository, bundle, [*wanted, *(f"{name}:{kept}" for name, kept in saved.items())])
    return Taken(head, tuple(saved.values()))


async def fetch(repository: Repository, bundle: Path, specs: Sequence[str]) -> None:
    """Fetch refs of a bundle that was made on an agent's side: every object is looked at, nothing is followed."""
    if bundle.is_symlink() or not bundle.is_file() or bundle.stat().st_size > MOST_BUNDLE:
        raise GitTrouble("the workspace's bundle is not a plain file of a sane size")
    with _for_owner(bundle, repository.owner) as path:
        await repository.git(
            "-c", "transfer.fsckObjects=true", "-c", "fetch.fsck.zeroPaddedFilemode=ignore",
            "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-gc", "--no-recurse-submodules",
            "--force", "--update-shallow", str(path), *specs,
        )  # fmt: skip


def _refs(bundle: Path) -> dict[str, str]:
    """Read from a bundle's head which refs it brings; git makes sure that it really does."""
    found: dict[str, str] = {}
    with bundle.open("rb") as file:
        for line in iter(lambda: file.readline(4096), b"\n"):
            match = re.fullmatch(
                rb"([0-9a-f]{40}|[0-9a-f]{64}) (HEAD|refs/stash|refs/heads/[^\0-\x20~^:?*\[\\]+)\n", line
            )
            if match and len(found) < MOST_REFS:
                found[match.group(2).decode(errors="replace")] = match.group(1).decode()
            if not line:
                break
    return {name: commit for name, commit in found.items() if "\ufffd" not in name}


async def add_note(repository: Repository, commit: str, notes: str, text: bytes) -> None:
    """Put a note on a commit, replacing an older one."""
    await repository.git("notes", f"--ref={notes}", "add", "-f", "-F", "-", commit, stdin=text, env=WHO)


async def with_files_of(repository: Repository, commit: str, base: str, paths: Sequence[str]) -> str:
    """Make a commit that is `commit` but for these paths, which are as they were at `base`, or gone if not there."""
    listed = await repository.git("ls-tree", "-r", "-z", "--full-tree", base, "--", *paths)
    gone = b"".join(b"0 " + b"0" * len(commit) + b"\t" + os.fsencode(path) + b"\0" for path in paths)
    with tempfile.TemporaryDirectory(prefix="corral-") as name:
        if repository.owner:
            os.chown(name, repository.owner.uid, repository.owner.gid)
        env = {**WHO, "GIT_INDEX_FILE": f"{name}/index"}
        await repository.git("read-tree", commit, env=env)
        await repository.git("update-index", "-z", "--index-info", stdin=gone + listed.out, env=env)
        tree = (await repository.git("write-tree", env=env)).out.decode().strip()
        made = await repository.git("commit-tree", tree, "-p", commit, "-m", "with the base's tests", env=env)
    return made.out.decode().strip()


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
