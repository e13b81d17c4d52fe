"""What we say of merges: how to merge, what was moved, what prevents it."""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import Struct

from corral.model import CheckResult
from corral.model.flow import MergeStrategy

Strategy = MergeStrategy
MergeStateName = Literal["begun", "merged", "conflict", "undoing", "undone"]
Side = Literal["ours", "theirs", "base"]
Blobs = tuple[str | None, str | None, str | None]  #: base, ours, theirs
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)


class Conflict(Struct, frozen=True, kw_only=True):
    """A path that two commits changed in ways that do not go together; what is None is not there on that side."""

    path: str
    kind: str  #: git's word: contents, modify/delete, rename/rename, binary, file/directory ...
    base: str | None = None  #: blobs
    ours: str | None = None
    theirs: str | None = None
    modes: tuple[str | None, str | None, str | None] = (None, None, None)
    words: str = ""

    @property
    def blobs(self) -> Blobs:
        return self.base, self.ours, self.theirs


class Choice(Struct, frozen=True):
    """What becomes of a path in conflict: the version of one side, or a content of its own."""

    side: Side | None = None
    blob: str | None = None
    of: Blobs | None = None  #: what it was chosen for; it counts for nothing else


class FilePick(Struct, frozen=True):
    """A file of an attempt that is to be part of one new result, or some hunks of it."""

    path: str
    who: str  #: attempt: its id, number, agent or agent:model
    hunks: tuple[int, ...] = ()  #: numbers from 1; none: the whole file

    @property
    def words(self) -> str:
        """Name it as a user types it."""
        return f"{self.path_with_hunks}={self.who}"

    @property
    def path_with_hunks(self) -> str:
        return self.path + (f"#{','.join(map(str, self.hunks))}" if self.hunks else "")


class Hunk(Struct, frozen=True, kw_only=True):
    """A numbered piece of a change."""

    number: int  #: from 1, in its file
    head: str  #: `@@ -3,4 +3,5 @@ def f():`
    text: str  #: its lines, each with its sign


class HunkedFile(Struct, frozen=True, kw_only=True):
    path: str
    hunks: tuple[Hunk, ...] = ()
    whole: str = ""  #: why it can only be taken whole


class Hunks(Struct, frozen=True, kw_only=True):
    """What an attempt changed, counted from the base of its run."""

    attempt: str
    agent: str
    base: str
    commit: str
    files: tuple[HunkedFile, ...] = ()


class MergeRequest(Struct, frozen=True, kw_only=True):
    """What a front end asks for."""

    run: str
    strategy: Strategy = "auto"
    into: str | None = None  #: the branch the run started from
    pick: str | None = None
    take: tuple[FilePick, ...] = ()
    heads: tuple[str, ...] = ()  #: these commits instead, of a run that continues
    proofs: tuple[str, ...] = ()  #: the checks that hold for them
    resolve: tuple[tuple[str, str], ...] = ()  #: file and ours, theirs, base or a path
    texts: tuple[tuple[str, str], ...] = ()  #: file in conflict and what it shall contain
    seen: str | None = None  #: the commit of the branch that a user looked at when choosing
    resolve_with: str | None = None  #: an agent
    tries: int = 3
    autostash: bool = False
    checks: bool = True


class MergeRecord(Struct, frozen=True, kw_only=True):
    """A merge as stored."""

    id: int = 0
    run: str
    git_dir: str
    state: MergeStateName
    ref: str  #: in full
    before: str | None  #: None: there was no such ref
    after: str | None  #: None: of a conflict
    strategy: Strategy
    at: float
    attempt: str | None = None
    attempts: tuple[str, ...] = ()  #: all whose work it is
    undone: float | None = None
    by_hand: bool = False  #: a user took it back with git itself
    checkouts: tuple[str, ...] = ()  #: folders whose files follow
    stashes: tuple[tuple[str, str], ...] = ()  #: folder and commit of what was put aside there
    conflicts: tuple[Conflict, ...] = ()
    between: tuple[str, str] | None = None  #: the nodes of the run in conflict; None: it conflicts with the branch
    choices: tuple[tuple[str, Choice], ...] = ()
    heads: tuple[str, ...] = ()  #: what was to be merged, of a run that continued
    proofs: tuple[str, ...] = ()
    pick: str | None = None  #: as it was asked for
    take: tuple[FilePick, ...] = ()
    checks: tuple[CheckResult, ...] = ()
    url: str = ""  #: of a pull request

    @property
    def into(self) -> str:
        return self.ref.removeprefix("refs/heads/")


class Version(Struct, frozen=True, kw_only=True):
    """A file in conflict as one side has it."""

    blob: str
    mode: str
    size: int = 0  #: bytes
    text: str | None = None  #: None: not text, or too long to be shown
    binary: bool = False
    large: bool = False


class ConflictedFile(Struct, frozen=True, kw_only=True):
    """A path in conflict with its contents; a side that is None does not have it."""

    path: str
    kind: str
    words: str = ""
    base: Version | None = None
    ours: Version | None = None
    theirs: Version | None = None
    merged: Version | None = None  #: as far as git got, with marks
    choice: Literal["ours", "theirs", "base", "text"] | None = None  #: made already, and kept


class Conflicts(Struct, frozen=True, kw_only=True):
    """What prevents merging a run, file by file."""

    run: str
    into: str
    strategy: Strategy
    before: str | None  #: where the branch is; give it back as `seen`
    commit: str | None  #: what would be merged; None: parts of the run itself do not go together
    waits: bool  #: a merge was asked for, and waits for this
    agent: bool  #: whether an agent can be asked to settle it
    between: tuple[str, str] | None = None  #: as in `MergeRecord`
    conflicts: tuple[ConflictedFile, ...] = ()


class BranchCheckout(Struct, frozen=True, kw_only=True):
    """A checkout of the branch, and why its files could not follow."""

    folder: str
    trouble: str = ""


class Preview(Struct, frozen=True, kw_only=True):
    """What a merge would do; nothing was changed."""

    run: str
    strategy: Strategy
    into: str
    before: str | None
    commit: str  #: what would be merged
    attempts: tuple[str, ...] = ()
    tree: str = ""  #: that would come of it; with marks where there are conflicts
    fast_forward: bool = False
    behind: int = 0  #: commits that the branch has and the work does not know
    files: tuple[str, ...] = ()
    insertions: int = 0
    deletions: int = 0
    conflicts: tuple[Conflict, ...] = ()
    between: tuple[str, str] | None = None  #: as in `MergeRecord`
    checks: tuple[str, ...] = ()
    checkouts: tuple[BranchCheckout, ...] = ()

    @property
    def is_clean(self) -> bool:
        return not self.conflicts


class QueueRecord(Struct, frozen=True, kw_only=True):
    """Runs to merge in order, and how far that is."""

    id: int = 0
    git_dir: str
    into: str
    strategy: Strategy = "auto"
    runs: tuple[str, ...]  #: that wait
    merged: tuple[str, ...] = ()
    lost: tuple[tuple[str, str], ...] = ()  #: run and why
    proven: tuple[tuple[str, bool, str], ...] = ()  #: tree, whether its checks passed, and what they said
    over: bool = False


class UnmergedWork(Struct, frozen=True, kw_only=True):
    """A piece of work that is not merged yet, as it is against its branch."""

    name: str  #: attempt
    run: str
    agent: str
    commit: str
    live: bool  #: an agent is at work on it; this is its last snapshot
    into: str | None = None
    behind: int = 0  #: commits that the branch has and the work does not know
    conflicts: tuple[str, ...] = ()  #: with the branch


class Clash(Struct, frozen=True, kw_only=True):
    """Two pieces of work that will not go together, and where."""

    one: str
    other: str
    files: tuple[str, ...]


class Overlap(Struct, frozen=True, kw_only=True):
    """All unmerged work of a repository, and which will clash with which."""

    work: tuple[UnmergedWork, ...]
    clashes: tuple[Clash, ...] = ()
