"""Which role a path has, by its name alone: test, data of tests, configuration, start-up file, product ..."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from corral.model.flow import Task
from corral.rules.checks.steering import table
from corral.rules.checks.steering.table import Role, RoleRow

PRODUCT = RoleRow("product", "", ())
TEST = RoleRow("test", "an existing test", ())
DATA = RoleRow("data", "data of existing tests", ())
WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
PYTHON_MODULE = re.compile(r"([A-Za-z_]\w*)(\.py|\.pyc|\.pyx|(\.[\w-]+)*\.(so|pyd))$")


def _wide(pattern: str) -> str:
    return re.sub(r"\\\[.*?\\\]", ".", re.escape(pattern)).replace(r"\*", ".*").replace(r"\?", ".")


#: Fits all that a row may fit, and a little more: thousands of changed files are looked at.
ANY_ROW = re.compile(
    "(?s:.*/)?(?:" + "|".join(_wide(each) for row in table.ROWS for each in row.patterns) + ")", re.DOTALL
)


@functools.lru_cache(65536)
def row_of(path: str) -> RoleRow:
    """Return the row of the table that a path belongs to; a row that needs a tool is returned all the same."""
    lower = path.lower()
    name = lower.rpartition("/")[2]
    for row in table.ROWS if ANY_ROW.fullmatch(lower) else ():
        if any(_fits(pattern, lower, name) for pattern in row.patterns):
            return row
    if is_test(path):
        return TEST if is_code(path) and not in_data_folder(path) else DATA
    return DATA if is_data(path) else PRODUCT


def role_of(path: str, tools: Collection[str] | None = None) -> Role:
    """Return the role of a path where the checks start these tools; None: any tool may be started."""
    return effective_row(path, tools).role


def effective_row(path: str, tools: Collection[str] | None = None) -> RoleRow:
    row = row_of(path)
    if not row.tools or tools is None or not set(row.tools).isdisjoint(tools):
        return row
    return TEST if is_test(path) else PRODUCT


def _fits(pattern: str, lower: str, name: str) -> bool:
    if "/" not in pattern:
        return fnmatchcase(name, pattern)
    if pattern.endswith("/*"):
        folders = pattern[:-2].split("/")
        parts = lower.split("/")[:-1]
        width = len(folders)
        return any(
            all(fnmatchcase(part, folder) for part, folder in zip(parts[at : at + width], folders, strict=True))
            for at in range(len(parts) - width + 1)
        )
    return lower == pattern or fnmatchcase(lower, "*/" + pattern)


def is_code(path: str) -> bool:
    return PurePosixPath(path).suffix.lower() in table.CODE_SUFFIXES


def is_test(path: str) -> bool:
    """Tell a test, or what lies beside tests, by the usual patterns."""
    file = PurePosixPath(path)
    stem = file.stem
    folders = {part.lower() for part in file.parts[:-1]}
    return bool(folders & table.TEST_FOLDERS) or is_test_name(path) or stem.lower() in table.HELPER_STEMS


def is_test_name(path: str) -> bool:
    """Tell a test by its own name, wherever it lies."""
    file = PurePosixPath(path)
    name, stem = file.name, file.stem
    return (
        stem.lower().startswith(("test_", "test-"))
        or (stem.lower() in ("test", "tests") and is_code(path))
        or stem.endswith(("_test", "_tests", "-test", "_spec", "-spec", ".test", ".spec", ".cy", ".e2e"))
        or (
            stem.endswith(("Test", "Tests", "Spec", "TestCase", "IT"))
            and file.suffix not in ("", ".md", ".txt")
            and len(stem) > 4
        )
        or bool(re.match(r"Test[A-Z]", stem) and is_code(path))
        or bool(re.search(r"\.(test|spec)-d\.ts$|\.(bats|t|feature)$", name))
    )


def in_data_folder(path: str) -> bool:
    return any(part.lower() in table.DATA_FOLDERS for part in PurePosixPath(path).parts[:-1])


def is_data(path: str) -> bool:
    """Tell data of tests that lie outside of their folders."""
    file = PurePosixPath(path)
    folders = {part.lower() for part in file.parts[:-1]}
    if folders & (table.DATA_FOLDERS - table.DATA_ONLY_FOLDERS):
        return True
    if is_code(path):
        return False
    words = {each.lower() for each in WORD.findall(file.stem)} | {file.suffix.lower().lstrip(".")}
    return (
        bool(folders & table.DATA_ONLY_FOLDERS)
        or file.name.lower().endswith(table.DATA_SUFFIXES)
        or bool(words & table.DATA_WORDS)
    )


def judges_by_name(path: str) -> bool:
    """Tell a program that is there to judge other files, by its name."""
    file = PurePosixPath(path)
    words = {each.lower() for each in WORD.findall(file.stem)}
    folders = {part.lower() for part in file.parts[:-1]}
    return bool(words & table.JUDGES or folders & table.JUDGE_FOLDERS) or is_test(path)


def helps_tests(path: str) -> bool:
    """Tell a part of the product that is there for the tests of its users, by its name: `shop/testing.py`."""
    file = PurePosixPath(path)
    words = {each.lower() for part in (file.parent.name, file.stem) for each in WORD.findall(part)}
    return bool(words & table.HELPING)


def module_of(path: str) -> str | None:
    """Return the top-level Python module that a file gives, if it is one that can be imported from its folder."""
    found = PYTHON_MODULE.match(PurePosixPath(path).name)
    return found[1] if found else None


def shadows_runner(path: str, packages: Collection[str]) -> str | None:
    """Return the module of a test program that an added file shadows; `packages`: folders with an __init__.py."""
    parts = path.split("/")
    for at, part in enumerate(parts[:-1]):
        above = "/".join(parts[:at])
        if part in table.RUNNER_MODULES and above not in packages and parts[-1].endswith((".py", ".pyc", ".so")):
            return (
                part if f"{above}/{part}".lstrip("/") in packages or part in ("pytest", "_pytest", "unittest") else None
            )
    module = module_of(path)
    folder = "/".join(parts[:-1])
    return module if module in table.RUNNER_MODULES and folder not in packages else None


#: What a task says that asks to change a test itself.
CHANGES = re.compile(
    r"(?i)\b(updat|chang|edit|mov|renam|delet|remov|rewrit|add(?![\w(])|adding|adapt|adjust|convert|replac|extend|regenerat|"
    r"record|port\b|migrat|split|merg|refactor|translat|simplif|clean|drop|skip|mark|unmark|writ|"
    r"creat|give|correct|fix the test)"
    r"[^.;:\n]{0,60}$"
)
IS_STALE = re.compile(
    r"^\S*[^.;\n]{0,20}\b((is|are) (outdated|obsolete|flaky|stale|wrong)|(should|must|needs? to) (be|expect|say))"
)


def asks_to_change(task: Task, path: str) -> bool:
    """Tell whether a task asks for a file to be changed; one that is only named may be where a fault is seen."""
    prompt, name = FORBIDS.sub(" ", task.prompt), PurePosixPath(path).name
    places = [each.span() for each in re.finditer(rf"[\w./-]*{re.escape(name)}", prompt)]
    return (
        task.type == "test"
        or path in task.files
        or not places
        or any(CHANGES.search(prompt[:start]) or IS_STALE.search(prompt[end:]) for start, end in places)
    )


COMMAND_NAMES = frozenset({"makefile", "justfile", "rakefile", "gnumakefile"})
FORBIDS = re.compile(
    r"(?i)\b(do not|don't|dont|never|must not|may not|without|no need to|not to)\s+"
    r"(be\s+)?(chang|edit|touch|modif|delet|remov|writ|alter|weaken|rewrit)\w*\b[^.;\n]*"
)


def is_named(task: Task, path: str) -> bool:
    """Tell whether the task names a file, by its path or its name, as a whole word; "do not change X" names nothing."""
    prompt = FORBIDS.sub(" ", task.prompt) if FORBIDS.search(task.prompt) else task.prompt
    words = {word.removeprefix("./").rstrip("/") for word in (*re.findall(r"[\w./@-]*\w/?", prompt), *task.files)}
    parents = {str(parent) for parent in PurePosixPath(path).parents if "/" in str(parent)}
    name = PurePosixPath(path).name
    quoted = f"./{name}" in prompt or f"`{name}`" in prompt
    if quoted or "." in name or not name.islower() or name in COMMAND_NAMES:  # `run` or `check` may be a common word
        parents.add(name)
    return bool(words & parents) or path in task.files or (path in words and path != name)
