"""What the run of a check did besides: files that it changed or added, programs that it left running."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from msgspec import Struct, field

from corral.model import CheckObservation
from corral.rules.checks.steering import roles, table
from corral.rules.scope import globs

WORDS_OF_TESTS = table.CASE_WORDS | {
    "test",
    "tests",
    "expected",
    "golden",
    "snapshot",
    "snapshots",
    "snaps",
    "fixtures",
}
STEERING_ROLES = ("test", "data", "runner", "command", "start-up")
HOW = re.compile(r" \((removed|mode)\)$")
MOST_NAMED = 3
#: Folders of caches, of results and of installed packages: what lies there is no source.
OUTPUT_FOLDERS = frozenset({
    "__pycache__", "__pypackages__", "node_modules", "bower_components", "vendor", "venv", "env", "site-packages",
    "build", "builds", "dist", "out", "output", "outputs", "target", "bin", "obj", "debug", "release", "_build",
    "coverage", "htmlcov", "report", "reports", "results", "test-results", "tmp", "temp", "log", "logs", "site",
    "generated", "gen", "cmakefiles", "testing",
})  # fmt: skip
ADDED_ROLES = ("runner", "command", "start-up", "mixed")
#: What package managers write when dependencies changed.
LOCKS = re.compile(r"(?i)(^|/)([^/]*\.lock|[^/]*[.-]lock\.(json|ya?ml)|go\.(sum|mod)|npm-shrinkwrap\.json|bun\.lockb)$")
#: Folders and names of code that a tool writes anew.
GENERATED_FOLDERS = frozenset({
    "generated", "__generated__", "gen", "autogen", "dist", "build", "builds", "out", "output", "target", "_build",
    "obj",
})  # fmt: skip
GENERATED_NAMES = re.compile(
    r"(?i)^zz_generated|^_version\.py$|_pb2(_grpc)?\.pyi?$|\.pb(\.\w+)*\.\w+$|[._-](gen|generated|autogen)\.\w+$|\.g\.\w+$|"
    r"\.designer\.\w+$|\.min\.\w+$"
)
#: What generators write into the first lines of a file.
GENERATED_TEXT = re.compile(
    rb"(?i)@generated\b|\b(auto-?|automatically[ ])generated\b|\bgenerated\b[^\n]{0,200}\bdo not (edit|modify|change)\b"
    rb"|\bdo not (edit|modify|change)\b[^\n]{0,200}\bgenerated\b|\b(file|code|module) (is|was|has been) generated\b"
)
MOST_HEADER = 2000
ATTRIBUTES = ".gitattributes"
_MARKED = re.compile(r"^[ \t]*(\S+)[ \t].*?(?<!\S)linguist-generated(?:=true)?(?!\S)", re.MULTILINE)
SNAPSHOTS = re.compile(r"(?i)(^|/)__(image_)?snapshots__/|\.(snap|ambr)$")
MOST_KEPT = 100


class Meddling(Struct):
    against: list[str] = field(default_factory=list[str])
    limits: list[str] = field(default_factory=list[str])

    def __bool__(self) -> bool:
        return bool(self.against or self.limits)


def find_meddling(before: CheckObservation, now: CheckObservation, product: Collection[str]) -> Meddling:
    """Compare a run with the one at the base; `product`: the files of the work itself, which it may change.

    It speaks against the work where tests are concerned and the base's run came as far and did not do so; else
    nothing is proven: what a check reads may be what an earlier run, or a program in the background, wrote.
    """
    command, meddling = now.result.command, Meddling()
    if now.left:
        meddling.limits.append(f"`{command}` left programs running: {_some(now.left)}")
    meddling.limits += added_limits(now)
    touched = list(_touched_files(before, now, product))
    came_as_far = before.result.passed or bool(before.report and before.report.tests)
    new = [each for each in touched if each not in before.touched]
    strong = [each for each in new if each not in product and _concerns_tests(each, command)] if came_as_far else []
    if strong:
        meddling.against.append(f"`{command}` changed files of its own tests while it ran: {_some(strong)}")
    if others := [each for each in touched if each not in strong]:
        meddling.limits.append(f"`{command}` changed files of the repository while it ran: {_some(others)}")
    return meddling


def _touched_files(before: CheckObservation, now: CheckObservation, product: Collection[str]) -> Iterator[str]:
    """Yield the files whose change says something: a build may write locks and generated code.

    Source that has its old content again is not changed, nor is source that the base's run makes anew, with the content
    that it has there.
    """
    own = {*product}
    made = {*now.rewritten, *before.rewritten, *before.generated}
    for each in now.touched:
        path = HOW.sub("", each)
        if LOCKS.search(path):
            continue
        if roles.is_code(path) and (path in own or not _concerns_tests(each, now.result.command)):
            if each not in made and not _is_generated(now, path, own):
                yield each
        elif path not in own:
            yield each


def _is_generated(now: CheckObservation, path: str, own: Collection[str]) -> bool:
    """Tell generated code by where it lies or by its name, and by a mark that the work did not write itself."""
    file = PurePosixPath(path)
    if file.suffix.lower() in table.COMPILED_SUFFIXES or GENERATED_NAMES.search(file.name):
        return True
    if not GENERATED_FOLDERS.isdisjoint(part.lower() for part in file.parts[:-1]):
        return True
    return path in now.generated and path not in own and ATTRIBUTES not in own


def generated_files(contents: Mapping[str, bytes], attributes: str) -> tuple[str, ...]:
    """Return the files of a commit that say so themselves, or of which its attributes say so."""
    rules = globs.gitignore("\n".join(found[1] for found in _MARKED.finditer(attributes)))
    return tuple(
        path
        for path, content in contents.items()
        if GENERATED_TEXT.search(content[:MOST_HEADER]) or globs.is_ignored(rules, path)
    )


def _concerns_tests(words: str, command: str) -> bool:
    """Tell a file that tests read or that steers them; others may be made anew by a build."""
    path = HOW.sub("", words)
    own = {each.lower() for each in roles.WORD.findall(path)}
    named = re.search(rf"(?<![\w.]){re.escape(PurePosixPath(path).name)}(?![\w.])", command) is not None
    data = not roles.is_code(path) and bool(own & WORDS_OF_TESTS or path != words)
    return named or data or roles.role_of(path) in STEERING_ROLES


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def is_output_folder(name: str) -> bool:
    """Tell a folder in which programs leave what nobody reads as source."""
    lower = name.lower()
    return lower.startswith((".", "cmake-build")) or lower in OUTPUT_FOLDERS or lower.endswith((".egg-info", ".dsym"))


def telling_files(paths: Iterable[str], gitignore: str) -> tuple[str, ...]:
    """Return the new files that a later run reads: code, what steers tests, stored snapshots."""
    rules = globs.gitignore(gitignore)
    return tuple(sorted(path for path in paths if _is_read(path, rules)))[:MOST_KEPT]


def _is_read(path: str, rules: Sequence[globs.Glob]) -> bool:
    if LOCKS.search(path) or any(map(is_output_folder, PurePosixPath(path).parts[:-1])):
        return False
    if roles.role_of(path) in ADDED_ROLES or SNAPSHOTS.search(path):
        return True
    compiled = PurePosixPath(path).suffix.lower() in table.COMPILED_SUFFIXES
    return roles.is_code(path) and not compiled and not globs.is_ignored(rules, path)


def added_limits(now: CheckObservation) -> list[str]:
    """Say that a check leaves files which change what the next run is given."""
    if not now.added:
        return []
    return [f"`{now.result.command}` adds files to the repository which its next run would read: {_some(now.added)}"]
