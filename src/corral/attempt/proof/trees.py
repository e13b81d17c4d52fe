"""The trees that work is checked on besides its own: with the base's own tests, and with none of the product."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from posixpath import normpath

from msgspec import Struct, field, structs

from corral.machines.host import Host
from corral.model import Doubt, SteeringFile
from corral.model.flow import Task
from corral.rules.checks import steering
from corral.rules.checks.steering import Harness, PathChange, Side, roles
from corral.rules.checks.steering.programs import CheckPrograms
from corral.rules.checks.steering.work import ChangeKind
from corral.world.git import blobs, collect, hidden_refs
from corral.world.git.collect import CommitEntry
from corral.world.git.merge_commits import CombinedCommit
from corral.world.git.repository import GITLINK, ChangedBlob, Repository

#: What reading an agent's files can come to.
TROUBLES = (ValueError, LookupError, TypeError, RecursionError, MemoryError, re.error)
PADDED = re.compile(rb"\s{2000,}")
LONG = re.compile(rb"\s{2000,}|[^\n]{20000,}")
SETTINGS = (".toml", ".cfg", ".ini", ".json", ".yaml", ".yml", ".env")
MOST_LINKS = 100  #: of a change that are followed
MOST_ROUNDS = 20  #: of asking what must be read to know what steers
PLAIN, EXECUTABLE, LINK = "100644", "100755", "120000"  #: modes in git
NOT_EXECUTABLE = "is executable at the base"
TAKEN_OUT = ("put back", "removed", "merged", "new test")

Contents = dict[tuple[Side, str], bytes | None]


class ReadChange(Struct, kw_only=True):
    """A change and all that was read of it."""

    base: str | None  #: None: an empty tree
    commit: str
    task: Task
    changed: Mapping[str, ChangedBlob]
    listed: Mapping[str, str]  #: path -> blob, of the base
    padded: list[str] = field(default_factory=list[str])  #: files with thousands of blanks in a row, or endless lines
    contents: Contents = field(default_factory=dict[tuple[Side, str], "bytes | None"])

    @property
    def changes(self) -> list[PathChange]:
        files = ((path, each) for path, each in self.changed.items() if GITLINK not in (each.mode, each.old_mode))
        return [PathChange(path, _kind(each)) for path, each in files]

    def harness_and_doubts(self, checks: Sequence[str], shadows: Sequence[str]) -> tuple[Harness, list[Doubt]]:
        """Return what steers the checks, and what speaks against the product itself."""
        if own := [path for path in self.padded if self.changed.get(path)]:
            raise ValueError(f"{own[0]} holds thousands of blanks in a row, or an endless line")
        harness = steering.harness(self.changes, checks, self.task, list(self.listed), self.contents, shadows)
        if more := (*self._test_modules(), *self._not_executable(harness)):
            kept = {each.path for each in more}
            product = tuple(each for each in harness.product if each not in kept)
            harness = structs.replace(harness, steered=(*harness.steered, *more), product=product)
        static = steering.static_doubts(self.changes, checks, self.task, list(self.listed), self.contents)
        around = steering.doubts_about_surroundings(self.changes, self.contents, self.task)
        answers = steering.doubts_about_answers(self.changes, checks, self.task, list(self.listed), self.contents)
        unasked = steering.doubts_about_lines(self.changes, self.contents, self.task)
        unasked += steering.doubts_about_changes(
            self.changes, checks, self.task, list(self.listed), self.contents, harness.steered
        )
        read = (self.changes, checks, self.task, list(self.listed), self.contents)
        if any(_may_be_code(path) for path in self.changed):
            unasked += [*steering.doubts_about_repairs(*read), *steering.doubts_about_inputs(*read)]
        unasked += self._test_data()
        return harness, [*steering.doubts(self.changes, self.contents), *static, *around, *answers, *unasked]

    def check_texts(self) -> tuple[str, ...]:
        """Return each check's command with the scripts and command files of the base that it runs."""
        programs = steering.scripts(self.changes, self.task.checks, list(self.listed), self.contents)
        return tuple("\n".join([check, *programs[check]]) for check in self.task.checks)

    def programs(self) -> CheckPrograms:
        """Return the programs and files that its checks run."""
        return steering.programs_of(self.changes, self.task.checks, list(self.listed), self.contents)

    def _test_modules(self) -> Iterator[SteeringFile]:
        """Return submodules of tests that lead to another commit."""
        for path, each in self.changed.items():
            if GITLINK in (each.mode, each.old_mode) and roles.is_test(f"{path}/x"):
                free = self.task.type == "test" or roles.is_named(self.task, path)
                how = "allowed" if free else "put back" if each.before else "removed"
                yield SteeringFile(path=path, how=how, why="a submodule of tests")

    def _test_data(self) -> Iterator[Doubt]:
        """Find product files that lead to files of the tests, or are copies of them."""
        tests = {blob: path for path, blob in self.listed.items() if roles.role_of(path) in ("test", "data")}
        for path, each in self.changed.items():
            if not each.after or roles.role_of(path) != "product":
                continue
            if each.mode == LINK:
                to = normpath(
                    PurePosixPath(path).parent
                    / (self.contents.get(("delivered", path)) or b"").decode(errors="replace")
                )
                below = any(name.startswith(f"{to}/") for name in tests.values())
                if to in tests.values() or below:
                    yield Doubt(path=path, line=1, words=f"leads to a file of the tests: {to}", strong=True)
            elif each.after in tests and not roles.is_code(path) and tests[each.after] in self.kept:
                yield Doubt(
                    path=path, line=1, words=f"is a copy of a file of the tests: {tests[each.after]}", strong=False
                )

    @property
    def kept(self) -> set[str]:
        """The files of the base that the work still has."""
        return {path for path in self.listed if path not in self.changed or self.changed[path].after}

    def _not_executable(self, harness: Harness) -> Iterator[SteeringFile]:
        """Return files that lost their executable bit: a script may run only those that have it."""
        steered = {each.path for each in harness.steered}
        for path, each in self.changed.items():
            lost = each.old_mode == EXECUTABLE and each.mode == PLAIN
            if lost and path not in steered:
                how = "allowed" if roles.is_named(self.task, path) else "put back"
                yield SteeringFile(path=path, how=how, why=NOT_EXECUTABLE)


async def look(repository: Repository, base: str | None, commit: str, task: Task) -> ReadChange:
    """Read a change, and whatever of both sides says what steers its checks."""
    changed = {each.path: each for each in await repository.blobs_changed(base, commit, modules=True)}
    looked = ReadChange(base=base, commit=commit, task=task, changed=changed, listed=await list_files(repository, base))
    changes = looked.changes
    links: list[tuple[Side, str]] = [("delivered", path) for path, each in changed.items() if each.mode == LINK]
    await _read(repository, looked, links[:MOST_LINKS])
    for _ in range(MOST_ROUNDS):
        wanted = await asyncio.to_thread(_wanted_files, changes, looked)
        asked = [each for each in wanted if each not in looked.contents]
        if not asked:
            break
        await _read(repository, looked, asked)
    return looked


def _wanted_files(changes: Sequence[PathChange], looked: ReadChange) -> list[tuple[Side, str]]:
    try:
        return steering.missing_contents(changes, looked.task.checks, list(looked.listed), looked.contents)
    except TROUBLES:  # it is met again, and reported, when all of it is judged
        return []


async def list_files(repository: Repository, base: str | None) -> dict[str, str]:
    """Return the files of a commit and their blobs."""
    if base is None:
        return {}
    out = (await repository.git("ls-tree", "-r", "-z", "--full-tree", base)).out
    rows = (row.partition("\t") for row in out.decode(errors="surrogateescape").split("\0") if row)
    return {path: about.split(" ")[2] for about, _, path in rows if " blob " in about}


async def _read(repository: Repository, looked: ReadChange, asked: Sequence[tuple[Side, str]]) -> None:
    names = {each: _blob(looked, *each) for each in asked}
    found = await blobs.contents(repository, [name for name in names.values() if name])
    for each, name in names.items():
        content = found.get(name) if name else None
        padding = LONG if each[1].lower().endswith(SETTINGS) else PADDED
        if content is not None and padding.search(content):  # to look through it would take hours
            looked.padded += [each[1]] if each[0] == "delivered" else []
            content = padding.sub(b"\n", content)
        looked.contents[each] = content


def _blob(looked: ReadChange, side: Side, path: str) -> str | None:
    changed = looked.changed.get(path)
    if changed is None:
        return looked.listed.get(path)
    return changed.before if side == "base" else changed.after


def _may_be_code(path: str) -> bool:
    return roles.is_code(path) or "." not in PurePosixPath(path).name


def _kind(changed: ChangedBlob) -> ChangeKind:
    return "added" if changed.before is None else "deleted" if changed.after is None else "changed"


# --- commits


def differs(harness: Harness, *, strict: bool) -> bool:
    """Tell whether the harness is another tree than the delivered one."""
    return any(each.how in TAKEN_OUT or (strict and each.how == "allowed") for each in harness.steered)


async def harness_commit(host: Host, name: str, looked: ReadChange, harness: Harness, *, strict: bool) -> str:
    """Make the delivered work with the base's own tests; `strict`: also where the task lets them change."""
    entries: dict[str, CommitEntry | None] = {}
    contents: dict[str, bytes] = {}
    for each in harness.steered:
        if each.how == "allowed" and not strict:
            continue
        changed = looked.changed.get(each.path)
        if changed is None:
            continue
        entries[each.path] = _entry(changed.old_mode, changed.before)
        if each.why == NOT_EXECUTABLE:  # its mode alone is put back
            entries[each.path] = _entry(changed.old_mode, changed.after)
        if each.path in harness.merged:
            contents[each.path] = harness.merged[each.path]
            entries[each.path] = _entry(changed.mode or changed.old_mode, changed.after or changed.before)
    _clear_the_way(entries, looked)
    return await make_commit(host, name, looked.commit, entries, contents)


async def control_commit(host: Host, looked: ReadChange, steered: Sequence[SteeringFile]) -> str:
    """Make the base with the files that the task lets change, and new tests, but nothing of the product."""
    entries: dict[str, CommitEntry | None] = {}
    for each in steered:
        changed = looked.changed.get(each.path)
        if changed is not None and each.how in ("allowed", "new test"):
            entries[each.path] = _entry(changed.mode, changed.after)
    return await make_commit(host, "control", looked.base or looked.commit, entries, {})


def _entry(mode: str | None, blob: str | None) -> CommitEntry | None:
    return CommitEntry(mode, blob) if mode and blob else None


def _clear_the_way(entries: dict[str, CommitEntry | None], looked: ReadChange) -> None:
    """Take out what the work has below a path that is a file again."""
    files = {path for path, entry in entries.items() if entry}
    for path, changed in looked.changed.items():
        if changed.after and path not in entries and files & {str(each) for each in PurePosixPath(path).parents}:
            entries[path] = None


async def make_commit(
    host: Host, name: str, commit: str, entries: Mapping[str, CommitEntry | None], contents: Mapping[str, bytes]
) -> str:
    """Make a commit; a ref leads to it while it is needed, so that no `git gc` takes it."""

    async def make(repository: Repository) -> CombinedCommit:
        return CombinedCommit(await collect.with_entries(repository, commit, entries, contents, "for its checks alone"))

    async with host.repository_lock():
        found = await hidden_refs.combine_and_pin(host.repository, _pin(host, name), make)
    return found.commit or commit


async def let_go(host: Host, names: Sequence[str]) -> None:
    """Let go of the commits that were made for checks alone."""
    if names:
        async with host.repository_lock():
            refs = [(f"{hidden_refs.FOLDER}/{_pin(host, name)}", None) for name in names]
            await hidden_refs.edit_refs(host.repository, refs)


def _pin(host: Host, name: str) -> str:
    return f"{host.attempt}-{name}"
