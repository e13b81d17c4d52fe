"""Merge commits as objects, with git's own merge: no ref, no index, no file of anybody's checkout is touched."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from corral.model.errors import GitTrouble
from corral.model.merge import Conflict
from corral.world.git.repository import Repository
from corral.world.workspace.checkout import WHO

#: Programs that a repository's settings name for merging and for filtering files; git's own ways stand in for them.
PROGRAMS = r"^(merge\..*\.driver|filter\..*\.(clean|smudge|process|required))$"
#: The beginning of a section that can name one, or that can name a file which does.
MAY_NAME = re.compile(rb"\[\s*(?:merge|filter|include)", re.IGNORECASE)
REVERTS = re.compile(r"This reverts commit ([0-9a-f]{40,64})")
#: What is said of commits. `git show` would fail on a .gitmodules in the checkout that is not well formed.
ABOUT = ("rev-list", "--no-walk", "--no-commit-header")
OWN_DRIVER = "git merge-file --quiet --marker-size=%L %A %O %B"
#: What a repository's settings may not switch on: each would start programs, or reach into other repositories.
QUIET = (
    ("merge.renormalize", "false"),
    ("submodule.recurse", "false"),
    ("core.untrackedCache", "false"),
    ("merge.conflictStyle", "merge"),
)


class MergeResult(Struct, frozen=True):
    """What merging two commits gives: a tree; where there are conflicts, their places in it carry marks."""

    tree: str
    conflicts: tuple[Conflict, ...] = ()


class CombinedCommit(Struct, frozen=True):
    """Several commits in one; or which paths of which two did not go together."""

    commit: str | None
    conflicts: tuple[Conflict, ...] = ()
    between: tuple[str, str] | None = None


async def neutral_environment(repository: Repository, *, again: bool = False) -> dict[str, str]:
    """Return an environment in which git starts none of the programs that the repository's settings name."""
    if repository.quiet and not again:
        return repository.quiet
    out = b""
    if not _names_no_program(repository):
        out = (await repository.git("config", "--null", "--name-only", "--get-regexp", PROGRAMS, fine=(0, 1))).out
    pairs = list(QUIET)
    for name in out.decode(errors="surrogateescape").split("\0"):
        if name:
            key = name.rpartition(".")[2]
            pairs.append((name, {"driver": OWN_DRIVER, "required": "false"}.get(key, "")))
    env = {"GIT_CONFIG_COUNT": str(len(pairs))}
    for place, (name, value) in enumerate(pairs):
        env[f"GIT_CONFIG_KEY_{place}"], env[f"GIT_CONFIG_VALUE_{place}"] = name, value
    repository.quiet = env
    return env


def _names_no_program(repository: Repository) -> bool:
    """Tell whether its settings surely name no program: no section of them can, and no other file is read with them."""
    own = repository.git_dir
    if repository.folder != own and not (repository.folder / ".git").is_dir():
        return False  # a second work tree: it may have settings of its own, elsewhere
    try:
        words = (own / "config").read_bytes()
    except OSError:
        return False
    return not (own / "config.worktree").exists() and not MAY_NAME.search(words)


async def merge_trees(
    repository: Repository, ours: str, theirs: str, env: Mapping[str, str] | None = None
) -> MergeResult:
    """Merge two commits, as `git merge` would, into a tree."""
    finished = await repository.git(
        "merge-tree", "--write-tree", "-z", "--messages", "--allow-unrelated-histories", ours, theirs,
        env=env if env is not None else await neutral_environment(repository), fine=(0, 1),
    )  # fmt: skip
    return read_merged(finished.out)


def read_merged(out: bytes) -> MergeResult:
    """Read what `merge-tree -z` says: a tree, the conflicting entries, and words about them."""
    parts = out.decode(errors="surrogateescape").split("\0")
    tree, rest = parts[0].strip(), parts[1:]
    entries: dict[str, dict[int, tuple[str, str]]] = {}
    while rest and rest[0]:
        about, _, path = rest.pop(0).partition("\t")
        mode, blob, stage = about.split(" ")
        entries.setdefault(path, {})[int(stage)] = mode, blob
    if not entries:
        return MergeResult(tree)
    words = _words(rest[1:])
    return MergeResult(tree, tuple(_conflict(path, stages, words) for path, stages in sorted(entries.items())))


def _words(parts: Sequence[str]) -> dict[str, list[tuple[str, str]]]:
    """Return what is said of each path: kind and message."""
    found: dict[str, list[tuple[str, str]]] = {}
    place = 0
    while place < len(parts) and parts[place].isdigit():
        count = int(parts[place])
        paths = parts[place + 1 : place + 1 + count]
        kind, message = parts[place + 1 + count], parts[place + 2 + count]
        place += count + 3
        if kind.startswith("CONFLICT"):
            for path in paths:
                found.setdefault(path, []).append((kind, message.strip()))
    return found


def _conflict(path: str, stages: dict[int, tuple[str, str]], words: dict[str, list[tuple[str, str]]]) -> Conflict:
    said = words.get(path, [])
    kinds = [kind.removeprefix("CONFLICT (").removesuffix(")") for kind, _ in said]
    kind = "binary" if "binary" in kinds else kinds[-1] if kinds else "contents"
    if kind == "contents" and 1 not in stages:
        kind = "add/add"
    modes, blobs = ([stages[stage][part] if stage in stages else None for stage in (1, 2, 3)] for part in (0, 1))
    return Conflict(
        path=path,
        kind=kind,
        base=blobs[0],
        ours=blobs[1],
        theirs=blobs[2],
        modes=(modes[0], modes[1], modes[2]),
        words=said[-1][1] if said else "",
    )


async def commit_tree(
    repository: Repository, tree: str, parents: Sequence[str], message: str, by: tuple[str, str] | None = None
) -> str:
    """Make a commit: of a user, now; or of ours, dated like its newest parent, so that it is the same every time."""
    who = _identity_environment(*by) if by else {**WHO, **await _dates(repository, parents)}
    words = [word for parent in parents for word in ("-p", parent)]
    made = await repository.git("commit-tree", tree, *words, "-F", "-", stdin=message.encode(errors="replace"), env=who)
    return made.out.decode().strip()


async def _dates(repository: Repository, parents: Sequence[str]) -> dict[str, str]:
    stamps = await repository.text(*ABOUT, "--format=%ct", *parents, "--") if parents else "0"
    date = max(int(stamp) for stamp in stamps.split())
    return {"GIT_AUTHOR_DATE": f"{date} +0000", "GIT_COMMITTER_DATE": f"{date} +0000"}


def _identity_environment(name: str, email: str) -> dict[str, str]:
    return {
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": email,
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": email,
    }


async def is_ancestor(repository: Repository, older: str, newer: str) -> bool:
    return (await repository.git("merge-base", "--is-ancestor", older, newer, fine=(0, 1))).code == 0


async def combine(repository: Repository, commits: Sequence[str], message: str) -> CombinedCommit:
    """Merge several commits one after another into one; the same commits always give the same one.

    Only objects are written: hold the result by a ref. What another of them contains already is left out; a single
    commit that contains all the rest is itself the answer.
    """
    heads = await _heads(repository, commits)
    if not heads:
        raise GitTrouble("there is nothing to combine")
    env = await neutral_environment(repository)
    sum_so_far, tree = heads[0], ""
    for place, head in enumerate(heads[1:], 2):
        merged = await merge_trees(repository, sum_so_far, head, env)
        if merged.conflicts:
            return CombinedCommit(None, merged.conflicts, await _between(repository, heads[: place - 1], head, env))
        tree = merged.tree
        if place < len(heads):
            sum_so_far = await commit_tree(repository, tree, heads[:place], message)
    return CombinedCommit(await commit_tree(repository, tree, heads, message) if tree else sum_so_far)


async def _heads(repository: Repository, commits: Sequence[str]) -> list[str]:
    """Return the commits that no other of them contains, in their order."""
    different = list(dict.fromkeys(commits))
    if len(different) < 2:
        return different
    kept = set((await repository.text("merge-base", "--independent", *different)).split())
    return [commit for commit in different if commit in kept]


async def _between(repository: Repository, before: Sequence[str], head: str, env: Mapping[str, str]) -> tuple[str, str]:
    """Return which of those merged before does not go together with `head`; the last if it is only all of them."""
    for commit in before:
        if (await merge_trees(repository, commit, head, env)).conflicts:
            return commit, head
    return before[-1], head


async def combine_marked(repository: Repository, commits: Sequence[str], message: str) -> CombinedCommit:
    """Merge several commits as `combine` does, but go past conflicts: their places carry marks, for an agent."""
    heads = await _heads(repository, commits)
    env = await neutral_environment(repository)
    sum_so_far = heads[0]
    conflicts: dict[str, Conflict] = {}
    for place, head in enumerate(heads[1:], 2):
        merged = await merge_trees(repository, sum_so_far, head, env)
        conflicts.update((each.path, each) for each in merged.conflicts)
        sum_so_far = await commit_tree(repository, merged.tree, heads[:place], message)
    return CombinedCommit(sum_so_far, tuple(conflicts.values()))


async def with_marks(repository: Repository, commit: str, paths: Sequence[str]) -> list[str]:
    """Return which of these files still carry conflict marks in a commit."""
    literal = [f":(literal){path}" for path in paths]
    found = await repository.git(
        "grep", "-lz", "-e", "^<<<<<<< ", "-e", "^>>>>>>> ", commit, "--", *literal, fine=(0, 1)
    )
    return [name.partition(":")[2] for name in found.out.decode(errors="surrogateescape").split("\0") if name]


async def rebase(repository: Repository, onto: str, commit: str, by: tuple[str, str]) -> MergeResult | str:
    """Lay what `onto` lacks of `commit` on top of it, one by one; return the last, or what is in conflict."""
    env = await neutral_environment(repository)
    listed = await repository.text("rev-list", "--reverse", "--topo-order", "--no-merges", f"{onto}..{commit}", "--")
    tip = onto
    for each in listed.split():
        parent = await repository.commit_of(f"{each}^")
        # git merges by what both sides have in common: a commit of our tip's files on that parent makes it that parent
        common = [parent] if parent else []
        ours = await commit_tree(repository, await repository.tree_of(tip), common, "where we are")
        merged = await merge_trees(repository, ours, each, env)
        if merged.conflicts:
            return merged
        if merged.tree != await repository.tree_of(tip):
            tip = await _again(repository, each, merged.tree, tip, by)
    return tip


async def _again(repository: Repository, commit: str, tree: str, parent: str, by: tuple[str, str]) -> str:
    """Make a commit like another, with its author and words, elsewhere."""
    shown = await repository.git(*ABOUT, "--format=%an%x00%ae%x00%aI%x00%B", commit, "--")
    name, email, date, words = shown.out.split(b"\0", 3)
    env = {**_identity_environment(*by), "GIT_AUTHOR_DATE": date.decode()}
    env |= {
        "GIT_AUTHOR_NAME": name.decode(errors="replace") or "unknown",
        "GIT_AUTHOR_EMAIL": email.decode(errors="replace"),
    }
    made = await repository.git("commit-tree", tree, "-p", parent, "-F", "-", stdin=words, env=env)
    return made.out.decode().strip()


async def merge_since(repository: Repository, base: str, ours: str, theirs: str) -> MergeResult:
    """Merge what `theirs` changed since `base` into `ours`, whatever else their histories have in common."""
    one, other = [
        await commit_tree(repository, await repository.tree_of(side), [base], "a side") for side in (ours, theirs)
    ]
    return await merge_trees(repository, one, other)


async def has_some(repository: Repository, branch: str, before: str, after: str) -> bool | None:
    """Tell whether taking back what changed between two commits would change a branch: it has some of it then.

    None: all that it could have was changed since, so that its files do not tell.
    """
    merged = await merge_since(repository, after, branch, before)
    changed = await repository.names_changed(branch, merged.tree)
    if {*changed} - {conflict.path for conflict in merged.conflicts}:
        return True
    return None if merged.conflicts else False


async def only_adds(repository: Repository, before: str, after: str) -> bool:
    """Tell whether from one commit to another files came, and none that was there before changed."""
    return not await repository.text("diff", "--name-only", "--no-renames", "--diff-filter=a", before, after, "--")


async def is_on_user_branch(repository: Repository, commit: str) -> bool:
    """Tell whether a branch of the user's has a commit in its history."""
    words = ("for-each-ref", "--format=%(refname)", f"--contains={commit}", "refs/heads", "refs/remotes")
    return any(not name.startswith("refs/heads/corral/") for name in (await repository.text(*words)).split())


async def is_reverted(repository: Repository, branch: str, before: str, after: str) -> bool:
    """Tell whether the commits from one to another were reverted in a branch, by what `git revert` says of itself."""
    listed = await repository.text("rev-list", "--no-merges", f"{before}..{after}", "--")
    words = await repository.text(
        "log", "--reverse", "--format=%x00%H %B", "--grep=This reverts commit ", f"{after}..{branch}", "--"
    )
    gone: dict[str, str] = {}  # what was reverted, and by which commit
    for entry in words.split("\0")[1:]:
        commit, _, said = entry.partition(" ")
        for named in REVERTS.findall(said):
            back = [original for original, by in gone.items() if by == named]
            gone = {original: by for original, by in gone.items() if by != named} if back else {**gone, named: commit}
    return after in gone or ({*listed.split()} <= {*gone} and bool(listed.strip()))


async def behind(repository: Repository, commit: str, branch: str) -> int:
    """Return how many commits a branch has that `commit` does not know."""
    return int(await repository.text("rev-list", "--count", f"{commit}..{branch}", "--"))


async def contains(repository: Repository, branch: str, commit: str, env: Mapping[str, str] | None = None) -> bool:
    """Tell whether a branch has the work of a commit, also squashed or rebased: merging it changes nothing."""
    if await is_ancestor(repository, commit, branch):
        return True
    merged = await merge_trees(repository, branch, commit, env)
    return not merged.conflicts and merged.tree == await repository.tree_of(branch)
