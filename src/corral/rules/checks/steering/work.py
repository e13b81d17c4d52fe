"""A work and its checks as this package sees them: what it changed, contents that were read, programs of the checks."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal, TypeVar, cast

from msgspec import Struct, field

from corral.model.evidence import SteeringFile
from corral.rules.checks.steering import roles
from corral.rules.checks.steering.programs import CheckPrograms, CheckReader
from corral.rules.checks.steering.roles import judges_by_name
from corral.rules.text.python_code import parse_module

MOST_TESTS = 40  #: read to find out what they use
Made = TypeVar("Made")
RUNNERS = re.compile(
    r"\b(pytest|py\.test|unittest|doctest|nose2?|tox|npm (run )?(test|t)\b|npx|jest|vitest|mocha|go test|"
    r"cargo test|make \w*(test|check)|rspec|phpunit|ctest|bats|node --test|node:test|node:assert|assert|mvn|gradle)"
)
VERDICT = re.compile(
    r"\b(diff|cmp|exit [1-9]|grep -[a-zA-Z]*q)\b|\|\|\s*(exit|fail)|\[ [^]]*(=|-eq|-ne)[^]]* \]|process\.exit\(1\)"
)
#: Functions that compare and complain: a library of checks.
SHELL_ASSERTIONS = re.compile(
    r"(?m)^\s*(function\s+)?(expect|assert|check|fail|finish|pass|ok|die|verify|run_test|must)\w*\s*\(\)"
)
PROGRAM = re.compile(r"\b(python\d?|node|sh|bash|ruby|perl|go run|\./[\w./-]+)\s")
Side = Literal["base", "delivered"]
ChangeKind = Literal["added", "changed", "deleted"]
Key = tuple[Side, str]
Contents = Mapping[Key, bytes | None]
MOST_FILES = 300  #: read to decide about one work


class CheckedWork:
    """The changed paths of a work, and what was read of them; `missing` is what should be read as well."""

    def __init__(
        self, changes: Sequence[PathChange], checks: Sequence[str], base_paths: Sequence[str], contents: Contents
    ) -> None:
        self.changes, self.checks, self._contents = changes, checks, contents
        self.base = frozenset(base_paths)
        self.added = {each.path for each in changes if each.kind == "added"}
        self.delivered = (self.base - {each.path for each in changes if each.kind == "deleted"}) | self.added
        self.packages = {path.rpartition("/")[0] for path in self.delivered if path.endswith("/__init__.py")}
        self.missing: dict[Key, None] = {}
        self._remembered: dict[str, object] = {}
        self.programs = self._read_checks()

    def content(self, side: Side, path: str) -> bytes | None:
        """Return a file's content; None where it was not read, or could not be."""
        key: Key = (side, path)
        if key not in self._contents:
            self.missing[key] = None
        return self._contents.get(key)

    def text(self, side: Side, path: str) -> str | None:
        content = self.content(side, path)
        return None if content is None else content.decode(errors="replace")

    def _read_checks(self) -> CheckPrograms:
        modules = {path.split("/")[0].removesuffix(".py") for path in self.base if path.endswith(".py")}

        def text(path: str) -> str | None:
            return self.text("base" if path in self.base else "delivered", path)

        reader = CheckReader(self.base | self.added, text, lambda path, words: judges(path, words, modules))
        for check in self.checks:
            reader.check(check)
        return reader.found

    @functools.cached_property
    def product_texts(self) -> list[str]:
        """The changed code of the product, as far as it was read."""
        texts = [self.text("delivered", path) for side, path in self.product_sources() if side == "delivered"]
        return [each for each in texts if each]

    @functools.cached_property
    def test_texts(self) -> list[str]:
        """The base's tests and their configuration, as far as they were read."""
        tests = [
            path
            for path in sorted(self.base)
            if roles.is_code(path) and roles.role_of(path) in ("test", "runner") and "node_modules/" not in path
        ]
        return [text for path in tests[:MOST_TESTS] if (text := self.text("base", path))]

    def is_code(self, path: str) -> bool:
        """Tell code by its name, or by its first line where it has no suffix."""
        if roles.is_code(path) or "." in path.rpartition("/")[2]:
            return roles.is_code(path)
        return (self.text("base" if path in self.base else "delivered", path) or "").startswith("#!")

    def remember(self, name: str, make: Callable[[CheckedWork], Made]) -> Made:
        """Return what was made of this work before, or make it."""
        if name not in self._remembered:
            self._remembered[name] = make(self)
        return cast("Made", self._remembered[name])

    def product_sources(self) -> list[Key]:
        """Return the keys of all product code, about which doubts may be raised."""
        found: list[Key] = []
        for each in self.changes:
            if each.kind != "deleted" and is_source(each.path):
                found.append(("delivered", each.path))
                if each.kind == "changed":
                    found.append(("base", each.path))
        return found


def is_source(path: str) -> bool:
    """Tell code of the product, and what says how it is built; a file without a suffix may be a script."""
    code = roles.is_code(path) or path.endswith(".cmake") or "." not in path.rpartition("/")[2]
    return path.endswith("CMakeLists.txt") or (code and roles.role_of(path) == "product")


def judges(path: str, text: str, modules: Collection[str]) -> bool:
    """Tell by name and base content; `modules`: top-level Python modules that the repository has."""
    if judges_by_name(path):
        return True
    if not text:
        return False
    if path.endswith(".py") or re.match(r"#!.*python", text):
        return _python(text, modules)
    if path.endswith((".js", ".mjs", ".cjs", ".ts")):
        return bool(
            re.search(r"require\(['\"]\.|from ['\"]\.", text) and re.search(r"\bassert\b|node:test|expect\(", text)
        )
    if SHELL_ASSERTIONS.search(text):
        return True
    return bool(RUNNERS.search(text) or (VERDICT.search(text) and PROGRAM.search(text)))


def _python(text: str, modules: Collection[str]) -> bool:
    try:
        tree = parse_module(text)
    except (SyntaxError, ValueError, RecursionError):
        return False
    names: set[str] = set()
    asserts = False
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").split(".")[0])
        elif isinstance(node, ast.Assert) or (isinstance(node, ast.FunctionDef) and node.name.startswith("test")):
            asserts = True
        elif isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value == 1:
            continue
    return bool(names & {"pytest", "unittest", "doctest"}) or (asserts and bool(names & {*modules}))


class PathChange(Struct, frozen=True):
    """One changed path; a rename is a deletion and an addition."""

    path: str
    kind: ChangeKind


class Harness(Struct, frozen=True, kw_only=True):
    """How the harness tree H is made of the delivered tree D."""

    steered: tuple[SteeringFile, ...] = ()
    merged: Mapping[str, bytes] = field(default_factory=dict[str, bytes])  #: content in H of what is "merged"
    product: tuple[str, ...] = ()
    decides: tuple[str, ...] = ()  #: product files whose own exit code decides a check
    own_tests_only: bool = False  #: every check runs only tests of the work itself
    decided_by_product: tuple[str, ...] = ()  #: the checks that rest on nothing but files in `decides`
    decided_by_own_tests: tuple[str, ...] = ()  #: the checks that run nothing but tests of the work itself
    moved_tests: Mapping[str, str] = field(default_factory=dict[str, str])  #: old path -> new path, both the same test
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])  #: names in moved or adapted tests, old -> new

    @property
    def differs(self) -> bool:
        """Whether H is another tree than D."""
        return any(each.how != "allowed" for each in self.steered)

    def paths(self, *hows: str) -> list[str]:
        """Return the paths that are treated in one of these ways."""
        return [each.path for each in self.steered if each.how in hows]
