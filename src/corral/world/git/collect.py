"""Take an agent's work into the repository: by bundles made on its side, fetched on ours; nothing of it runs here."""

from __future__ import annotations

import io
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from msgspec import Struct

from corral.model.errors import GitTrouble
from corral.world.git import incoming_objects
from corral.world.git.command import BadSubmodules
from corral.world.git.incoming_objects import fold
from corral.world.git.repository import Repository
from corral.world.workspace import checkout
from corral.world.workspace.checkout import WHO, Workspace, read_below

TIDY = (Path(__file__).with_name("tidy.sh")).read_text(encoding="utf-8")
SCRIPT = TIDY + (Path(__file__).with_name("collect.sh")).read_text(encoding="utf-8")
CHANGED_SCRIPT = (Path(__file__).with_name("collect_changed.sh")).read_text(encoding="utf-8")
MOST_BUNDLE = 4 << 30
MOST_REFS = 200
MOST_HEAD = 4 << 20  #: bytes, also of what is taken over in memory
MOST_RULES = 60_000  #: signs; a word that a program is started with holds 128 KB at most
MOST_NOTES = 20  #: lines about what could not be collected
IN_BOX_SECONDS = 20  #: for collecting in the agent's own box; what takes longer gets a box of its own

#: In a box, the program and then the collecting: what it left running is ended in between (the box holds nobody else).
THEN_COLLECT = """
collect=$1 message=$2 base=$3 out=$4 modules=$5
shift 5
"$@"
code=$?
kill -9 -1 2>/dev/null
eval "set -- $modules"
limit=$(command -v timeout) && limit="$limit -s KILL IN_BOX_SECONDS"
$limit /bin/sh -c "$collect" collect "$message" "$base" "$out" "$@" </dev/null >/dev/null 2>&1 && : > "$out/done"
exit $code
""".replace("IN_BOX_SECONDS", str(IN_BOX_SECONDS))


class CollectedWork(Struct, frozen=True):
    """What came over."""

    commit: str | None  #: where its HEAD stood, when that is not the base
    saved: tuple[str, ...] = ()  #: refs under which its other branches and its stash are kept
    left: tuple[str, ...] = ()  #: what of its work could not be taken, and why


def collect_command(made: Workspace, message: str, base: str | None, out: Path) -> list[str]:
    """Return the command that collects, to be run in the box of the attempt."""
    modules = [word for module in made.modules for word in (module.path, module.commit)]
    return ["/bin/sh", "-c", _script(made), "collect", message, base or "", str(out), *modules]


def changed_command(
    made: Workspace, message: str, base: str, out: Path, changes: Mapping[str, Sequence[str]]
) -> list[str]:
    """Return the command that collects these paths alone, `there` and `gone`; what it needs is laid into `out`."""
    for name, paths in changes.items():
        (out / name).write_bytes(b"".join(os.fsencode(path) + b"\n" for path in paths))
    shutil.copyfile(made.tree.parent / checkout.INDEX, out / "index")
    script = f"rules={_quote(_rules(made))}\n{CHANGED_SCRIPT}"
    return ["/bin/sh", "-c", script, "collect", message, base, str(out)]


def then_collect(argv: Sequence[str], made: Workspace, message: str, base: str | None, out: Path) -> list[str]:
    """Return a command that runs `argv` and then collects; it ends with the code of `argv`. For a box only."""
    modules = " ".join(_quote(word) for module in made.modules for word in (module.path, module.commit))
    return ["/bin/sh", "-c", THEN_COLLECT, "work", _script(made), message, base or "", str(out), modules, *argv]


def _script(made: Workspace) -> str:
    """Return what collects, with the rules that count in the place of those that the agent may have written."""
    return f"rules={_quote(_rules(made))}\n{SCRIPT}"


def _rules(made: Workspace) -> str:
    rules = os.fsdecode(checkout.exclude_rules(made.tree) or b"")
    return rules if len(rules) <= MOST_RULES else ""


def _quote(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


async def take(
    repository: Repository, made: Workspace, out: Path, attempt: str, references: Sequence[str], base: str | None
) -> CollectedWork:
    """Fetch the bundles in `out`: the work under `references`, whatever else there is under refs/corral/saved."""
    for number, module in enumerate(made.modules):
        bundle = out / f"module-{number}.bundle"
        if bundle.exists():
            inner = Repository(Path(module.git_dir), Path(module.git_dir), work_tree=False)
            await fetch(inner, bundle, [f"HEAD:refs/corral/attempts/{attempt}"], module.commit)
    bundle = out / "work.bundle"
    if not bundle.exists():
        return CollectedWork(None)
    found = _refs(bundle)
    head = found.pop("HEAD", None)
    others = {name: commit for name, commit in found.items() if commit != head}
    saved = {
        name: f"refs/corral/saved/{attempt}/{name.removeprefix('refs/').removeprefix('heads/')}" for name in others
    }
    wanted = [f"HEAD:{reference}" for reference in references] if head else []
    specs = [*wanted, *(f"{name}:{kept}" for name, kept in saved.items())]
    if not specs:
        return CollectedWork(None)
    await fetch(repository, bundle, specs, base or "")
    return CollectedWork(head, tuple(saved.values()))


async def fetch(repository: Repository, bundle: Path, specs: Sequence[str], known: str | None = None) -> None:
    """Take refs over from a bundle that was made on an agent's side: `name in it:ref here`.

    Every object is looked at, and each that it names must be there. `git fetch` of git 2.39 does neither with a
    bundle, whatever its settings say, so this is done step by step. `known`: see `incoming.examine`.
    """
    start = _pack(bundle)
    found = _refs(bundle)
    wanted = [spec.split(":", 1) for spec in specs]
    if missing := [name for name, _ in wanted if name not in found]:
        raise GitTrouble(f"the workspace's bundle does not hold {missing[0]}")
    lines = "".join(f"update {ref} {found[name]}\n" for name, ref in wanted).encode()
    with incoming_objects.quarantine(repository) as folder:
        await _index_pack(repository, bundle, start, incoming_objects.environment(folder), known)
        await incoming_objects.examine(
            repository, folder, list(dict.fromkeys(found[name] for name, _ in wanted)), known
        )
        # Never as objects of their own: a `git prune` of the user's could take them before a ref leads to them.
        with incoming_objects.move_in(repository, folder):
            await repository.git("update-ref", "--stdin", stdin=lines, env=WHO)
    await fold(repository)


async def _index_pack(
    repository: Repository, bundle: Path, start: int, env: Mapping[str, str], known: str | None
) -> None:
    """Index a pack; a .gitmodules that its base has already is not the agent's."""
    try:
        await repository.index_pack(bundle, start, env)
    except BadSubmodules:
        own = await repository.submodule_files(known) if known else []
        if not own:
            raise
        await repository.index_pack(bundle, start, env, own)


def _open_bundle(bundle: Path) -> io.BufferedReader:
    """Open a file that an agent may have put there: no link is followed, no pipe or device waited for."""
    try:
        descriptor = os.open(bundle, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise GitTrouble(f"the workspace's bundle cannot be read: {error.strerror}") from error
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode) or about.st_size > MOST_BUNDLE:
        os.close(descriptor)
        raise GitTrouble("the workspace's bundle is not a plain file of a sane size")
    return open(descriptor, "rb")  # noqa: PTH123 -- a descriptor


def _pack(bundle: Path) -> int:
    """Return where the objects of a bundle begin."""
    with _open_bundle(bundle) as file:
        head = file.read(MOST_HEAD)
    start = head.find(b"\n\n") + 2
    kind, _, rest = head[:start].partition(b"\n")
    own = {line for line in rest.splitlines() if line.startswith(b"@") and not line.startswith(b"@object-format=")}
    known = kind in (b"# v2 git bundle", b"# v3 git bundle") and not own  # a filtered one is not whole
    if start < 2 or not known or not head.startswith(b"PACK\0\0\0\2", start):
        raise GitTrouble("the workspace's bundle is not of a known kind")
    if (count := int.from_bytes(head[start + 8 : start + 12])) > incoming_objects.MOST_OBJECTS:
        most = incoming_objects.MOST_OBJECTS
        raise GitTrouble(f"its work holds {count:,} objects, more than {most:,}: it is not taken")
    return start


def _refs(bundle: Path) -> dict[str, str]:
    """Read from a bundle's head which refs it brings; git makes sure that it really does."""
    found: dict[str, str] = {}
    with _open_bundle(bundle) as file:
        head = io.BytesIO(file.read(MOST_HEAD))
        for line in iter(lambda: head.readline(4096), b"\n"):
            match = re.fullmatch(
                rb"([0-9a-f]{40}|[0-9a-f]{64}) (HEAD|refs/stash|refs/heads/[^\0-\x20~^:?*\[\\]+)\n", line
            )
            if match and len(found) < MOST_REFS:
                found[match.group(2).decode(errors="replace")] = match.group(1).decode()
            if not line:
                break
    return {name: commit for name, commit in found.items() if "\ufffd" not in name}


def omissions(out: Path) -> tuple[str, ...]:
    """Return what the collecting could not store, as it was listed in a folder that the agent could write to."""
    words = read_below(out, "left", MOST_HEAD) or b""
    lines = words.decode(errors="replace").splitlines()
    return tuple(line[:300] for line in lines[:MOST_NOTES])


class CommitEntry(Struct, frozen=True):
    """A file of a commit."""

    mode: str
    blob: str


async def with_entries(
    repository: Repository,
    commit: str,
    entries: Mapping[str, CommitEntry | None],
    contents: Mapping[str, bytes],
    why: str,
) -> str:
    """Make a commit that is `commit` but for these paths: another entry, gone (None), or another content."""
    zeros = b"0" * len(commit)
    given = dict(entries)
    for path, content in contents.items():
        made = await repository.git("hash-object", "-w", "--stdin", stdin=content)
        known = entries.get(path)
        given[path] = CommitEntry(known.mode if known else "100644", made.out.decode().strip())
    gone = [path for path, entry in given.items() if entry is None]
    # A file may be where a folder was, and the other way round: what is in the way goes first.
    gone += [str(parent) for path, entry in given.items() if entry for parent in list(PurePosixPath(path).parents)[:-1]]
    lines = [b"0 " + zeros + b"\t" + os.fsencode(path) + b"\0" for path in dict.fromkeys(gone)]
    lines += [
        f"{entry.mode} {entry.blob}\t".encode() + os.fsencode(path) + b"\0" for path, entry in given.items() if entry
    ]
    with tempfile.TemporaryDirectory(prefix="corral-") as name:
        if repository.owner:
            os.chown(name, repository.owner.uid, repository.owner.gid)
        env = {**WHO, "GIT_INDEX_FILE": f"{name}/index"}
        await repository.git("read-tree", commit, env=env)
        await repository.git("update-index", "-z", "--index-info", stdin=b"".join(lines), env=env)
        tree = (await repository.git("write-tree", env=env)).out.decode().strip()
        made = await repository.git("commit-tree", tree, "-p", commit, "-m", why, env=env)
    return made.out.decode().strip()
