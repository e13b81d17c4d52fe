"""Product files that the base's tests use as their own: data they read, and modules of helpers they judge with."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from corral.rules.checks.steering import roles, table
from corral.rules.checks.steering.product_use import import_of
from corral.rules.checks.steering.recipes import is_shell
from corral.rules.checks.steering.work import CheckedWork

#: What makes a Python module a helper of tests.
JUDGES = re.compile(
    r"(?m)^class \w+\([\w., ]*TestCase\b|^\s*@(?:pytest\.)?fixture\b|^\s+assert\s|^\s+raise AssertionError|"
    r"^(?:import|from)\s+(?:pytest|unittest)\b"
)
HELPER_WORDS = frozenset({
    "test", "testing", "tests", "tester", "testkit", "testutils", "testcase", "assert", "asserts", "assertions", "helper",
    "helpers", "support", "fixture", "fixtures", "matcher", "matchers", "plugin", "expect", "expectations", "check",
    "checks", "checking", "verify", "mock", "mocks", "fake", "fakes", "stub", "stubs", "harness", "compare", "comparison",
    "equal", "equality", "same",
})  # fmt: skip
COMPARE_WORDS = frozenset({
    "assert", "asserts", "assertions", "check", "checks", "compare", "comparison", "equal", "equality", "expect", "matcher",
    "matchers", "same", "testing", "verify",
})  # fmt: skip
#: Folders with code of others: what tests import from there themselves is not what they try.
FOREIGN = frozenset({"vendor", "vendored", "_vendor", "third_party", "third-party", "thirdparty", "extern", "external"})
PLUGINS = re.compile(r"pytest_plugins\s*=\s*([^\n]*(?:\n[^\n]*[\"'][^\n]*){0,20})")
DEEP = re.compile(r"rglob|walk|\*\*|recursive")


def use_in_tests(work: CheckedWork, path: str) -> str:
    """Say what a changed file of the product is to the tests of the base; nothing where it is no more than product."""
    if not roles.is_code(path):
        return table.TEST_READS if _is_read(work, path) else ""
    return table.TEST_HELPER if _is_helper(work, path) else ""


def _is_read(work: CheckedWork, path: str) -> bool:
    """Tell data whose name, or whose folder, stands in a test or in a program that judges."""
    file = PurePosixPath(path)
    folders = {each for each in file.parts[:-1] if not each.startswith(".")}
    return any(
        file.name in words or file.parent.name in folders & quoted or (deep and bool(folders & quoted))
        for words, quoted, deep in work.remember("words", _words)
    )


def _words(work: CheckedWork) -> list[tuple[set[str], set[str], bool]]:
    """Return, of each text that judges, its words, what stands in it as a part of a path, and whether it looks deep."""
    changed = {each.path for each in work.changes}
    deciding = [each for each in work.programs.files if not each.judged and (each.judges or not each.depth)]
    programs = ({each.path for each in deciding} & work.base) - changed
    judging = {path: work.text("base", path) or "" for path in sorted(programs)}
    texts = [*work.test_texts, *(text for path, text in judging.items() if not is_shell(path, text))]
    return [
        (
            {*re.findall(r"[\w.@-]+", text)},
            {*re.findall(r"['\"`/ =]([\w.-]+)(?=['\"`/])", text)},
            bool(DEEP.search(text)),
        )
        for text in texts
    ]


def _is_helper(work: CheckedWork, path: str) -> bool:
    """Tell a module that tests import in order to judge, by its name and by what it holds at the base."""
    file = PurePosixPath(path)
    texts = work.test_texts
    if file.suffix == ".py" and any(_is_plugin(file, text) for text in texts):
        return True
    if _is_foreign(file, texts):
        return True
    names = [file.stem] if file.stem not in ("__init__", "index", "lib", "mod") else []
    words = {word.lower() for name in (*names, file.parent.name) for word in roles.WORD.findall(name)}
    pattern = import_of(path) if words & HELPER_WORDS else None
    if pattern is None:
        return False
    users = [text for text in texts if pattern.search(text)]
    if users and file.suffix == ".py" and JUDGES.search(work.text("base", path) or ""):
        return True
    return bool(users and words & COMPARE_WORDS) and all(_imports_another(work, path, text) for text in users)


def _is_foreign(file: PurePosixPath, texts: list[str]) -> bool:
    """Tell code of others that tests import by themselves, by the name it has inside of its folder."""
    at = next((place for place, part in enumerate(file.parts[:-1]) if part.lower() in FOREIGN), None)
    inside = None if at is None else import_of("/".join(file.parts[at + 1 :]))
    whole = None if at is None else import_of(str(file))
    return any(pattern is not None and pattern.search(text) for pattern in (inside, whole) for text in texts)


def _is_plugin(file: PurePosixPath, text: str) -> bool:
    dotted = ".".join(file.with_suffix("").parts).removesuffix(".__init__").removeprefix("src.")
    return any(f'"{dotted}"' in found or f"'{dotted}'" in found for found in PLUGINS.findall(text))


def _imports_another(work: CheckedWork, path: str, text: str) -> bool:
    """Tell whether a test tries something else than this file: then it judges with it."""
    if path.endswith(".go"):  # its own package needs no import
        return True
    others = work.remember("imports", _imports)
    return any(pattern.search(text) for other, pattern in others.items() if other != path)


def _imports(work: CheckedWork) -> dict[str, re.Pattern[str]]:
    files = [path for path in sorted(work.base) if roles.is_code(path) and roles.role_of(path) == "product"]
    found = {path: import_of(path) for path in files[:200]}
    return {path: pattern for path, pattern in found.items() if pattern is not None}
