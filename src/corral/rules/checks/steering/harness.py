"""How the harness tree is made: which changed files steer tests, and what becomes of each of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from corral.model.evidence import SteeringFile
from corral.model.flow import Task
from corral.rules.checks.steering import following, mixed_files, roles, shadowing, table, warning_filters
from corral.rules.checks.steering.command_text import is_shell
from corral.rules.checks.steering.doubts import more_for_doubts
from corral.rules.checks.steering.following import removed_modules, renames
from corral.rules.checks.steering.own_tests import is_new_target, order_files, own_tests, product_decided_checks
from corral.rules.checks.steering.programs import CheckProgram
from corral.rules.checks.steering.static_checks import more_for_static
from corral.rules.checks.steering.unasked_changes import more_for_changes
from corral.rules.checks.steering.work import MOST_FILES, MOST_TESTS, CheckedWork, Contents, Harness, Key, PathChange
from corral.rules.checks.steering.written_answers import more_for_answers

#: What only helpers of tests import, by the endings of their files.
NODE_SUPPORT = r"(?:require\(|from\s+)['\"](?:node:test|vitest|@jest/globals|chai|mocha)['\"]"
SUPPORT = {
    ".go": r'(?m)^\s*(?:import\s+)?"testing"\s*$|\*testing\.(T|B|TB)\b',
    ".py": r"(?m)^(?:import|from)\s+(?:pytest|unittest|nose|hypothesis)\b(?![\s\S]*def pytest_)",
    **dict.fromkeys((".js", ".ts", ".mjs", ".cjs", ".tsx", ".jsx"), NODE_SUPPORT),
}
HELPER_NAME = re.compile(
    r"(?i)(helper|util|support|common|base|assert|case|factor|fixture|matcher|mock|fake|stub)\w*\.py$"
)
REMOVES = re.compile(
    r"(?i)\b(remov|delet|drop|retir|rid of|strip|eliminat|deprecat|clean|replac|no longer|merg|inlin|fold|renam|mov)"
)
#: Reasons that a task about tests does not excuse.
UNSAFE = (table.STARTED_UNASKED, "shadows", "lies where", "hides")
#: What makes a Python module a helper of tests.
JUDGES = re.compile(
    r"(?m)^class \w+\([\w., ]*TestCase\b|^\s*@(?:pytest\.)?fixture\b|^\s+assert\s|^\s+raise AssertionError|"
    r"^(?:import|from)\s+(?:pytest|unittest)\b"
)
HELPER_WORDS = frozenset({
    "test", "testing", "tests", "tester", "testkit", "testutils", "testcase", "assert", "asserts", "assertions",
    "helper", "helpers", "support", "fixture", "fixtures", "matcher", "matchers", "plugin", "expect", "expectations",
    "check", "checks", "checking", "verify", "mock", "mocks", "fake", "fakes", "stub", "stubs", "harness", "compare",
    "comparison", "equal", "equality", "same",
})  # fmt: skip
COMPARE_WORDS = frozenset({
    "assert", "asserts", "assertions", "check", "checks", "compare", "comparison", "equal", "equality", "expect",
    "matcher", "matchers", "same", "testing", "verify",
})  # fmt: skip
#: Folders with code of others: what tests import from there themselves is not what they try.
FOREIGN = frozenset({"vendor", "vendored", "_vendor", "third_party", "third-party", "thirdparty", "extern", "external"})
PLUGINS = re.compile(r"pytest_plugins\s*=\s*([^\n]*(?:\n[^\n]*[\"'][^\n]*){0,20})")
DEEP = re.compile(r"rglob|walk|\*\*|recursive")
SCRIPTS = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx")


def missing_contents(
    changes: Sequence[PathChange], checks: Sequence[str], base_paths: Sequence[str], contents: Contents
) -> list[Key]:
    """Return the contents that must be read next to decide; none: it is enough."""
    work = CheckedWork(changes, checks, base_paths, contents)
    _Decisions(work, Task(prompt="")).harness()
    missing = [*work.missing] or [key for key in work.product_sources() if key not in contents]
    missing = missing or more_for_doubts(work) or more_for_static(work) or more_for_changes(work)
    missing = missing or more_for_answers(work)
    return missing[: max(0, MOST_FILES - len(contents))]


def harness(
    changes: Sequence[PathChange],
    checks: Sequence[str],
    task: Task,
    base_paths: Sequence[str],
    contents: Contents,
    shadows: Sequence[str] = (),
) -> Harness:
    """Decide about every changed file; what `wanted` asked for and is not in `contents` counts as unreadable."""
    return _Decisions(CheckedWork(changes, checks, base_paths, contents), task, shadows).harness()


class _Decisions:
    def __init__(self, work: CheckedWork, task: Task, outside: Collection[str] = ()) -> None:
        self._work, self._task, self._outside = work, task, frozenset(outside)
        self._merged: dict[str, bytes] = {}
        self._own = own_tests(work)
        self._own_only = bool(work.checks) and {*self._own.checks} == {*work.checks}

    def harness(self) -> Harness:
        work = self._work
        same = renames(work, self._task)
        steered = [found for each in work.changes if each.path not in same.same and (found := self._decide(each))]
        steered += shadowing.files_in_the_way(work, steered)
        steered = [self._unless_allowed(each) for each in steered]
        paths = {each.path for each in steered}
        merged = {each.path for each in steered if each.how == "merged" or each.why in table.SHARED_IN_PART}
        by_product, decides = product_decided_checks(work, paths)
        return Harness(
            steered=tuple(sorted(steered, key=lambda each: each.path)),
            merged={path: content for path, content in self._merged.items() if path in merged},
            product=tuple(each.path for each in work.changes if each.path not in paths),
            decides=decides,
            own_tests_only=self._own_only,
            decided_by_product=by_product,
            decided_by_own_tests=self._own.checks,
            moved_tests=same.moved,
            renamed=same.renamed,
        )

    def _decide(self, change: PathChange) -> SteeringFile | None:
        path, added = change.path, change.kind == "added"
        out = "removed" if added else "put back"
        if added and (name := shadowing.shadowed_name(self._work, path, self._outside)):
            return SteeringFile(path=path, how=out, why=f"shadows `{name}`")
        if why := self._read_by_check(path):
            return SteeringFile(path=path, how="allowed" if why in table.SHARED else out, why=why)
        row = roles.effective_row(path, self._work.programs.tools)
        if row.role == "mixed":
            asked = warning_filters.may_change(self._task)
            return self._keep_merged(mixed_files.decide_mixed(self._work, change, row.why, own_filters=asked))
        if row.role == "watched":
            return mixed_files.decide_watched(self._work, change, row.why)
        if added and path.startswith("vendor/") and shadowing.has_vendored_module(self._work):
            return SteeringFile(path=path, how=out, why="shadows modules that the base requires")
        if added and "node_modules/" in path.lower():
            package = shadowing.shadowed_package(self._work, path)
            return SteeringFile(path=path, how=out, why=f"shadows `{package}`") if package else None
        if row.role in ("start-up", "runner", "command", "linter", "compiled"):
            return SteeringFile(path=path, how=out, why=row.why)
        return self._program_or_test(change, row.role)

    def _program_or_test(self, change: PathChange, role: str) -> SteeringFile | None:
        path, added = change.path, change.kind == "added"
        if program := next((each for each in self._work.programs.files if each.path == path and each.judges), None):
            return _of_program(change, program)
        if role == "test" and added:
            used = is_loaded_by_product(self._work, path)
            return None if used else SteeringFile(path=path, how="new test", why="a new test")
        if role == "test":
            return _put_back(path, roles.TEST.why)
        if not added and self._holds_cases(path):
            return _put_back(path, roles.DATA.why)
        if not added and self._is_support(path):
            return _put_back(path, "a helper of tests")
        if role == "data" and not added and not self._is_document(path):
            return _put_back(path, roles.DATA.why)
        if not added and (why := use_in_tests(self._work, path)):
            return SteeringFile(path=path, how="allowed", why=why)
        return self._keep_merged(mixed_files.with_inline_tests(self._work, change))

    def _holds_cases(self, path: str) -> bool:
        """Tell a list of cases outside of the tests' folders: by its name, and because a test of the base names it."""
        words = {each.lower() for each in roles.WORD.findall(PurePosixPath(path).stem)}
        if roles.is_code(path) or not words & table.CASE_WORDS:
            return False
        tests = sorted(each for each in self._work.base if roles.role_of(each) == "test" and roles.is_code(each))
        name = PurePosixPath(path).name
        return any(name in (self._work.text("base", each) or "") for each in tests[:MOST_TESTS])

    def _is_support(self, path: str) -> bool:
        """Tell a helper of tests by what it imports at the base."""
        pattern = SUPPORT.get(PurePosixPath(path).suffix)
        if path.endswith(".py") and not HELPER_NAME.search(path):  # a module may hold its own tests
            return False
        return pattern is not None and bool(re.search(pattern, self._work.text("base", path) or ""))

    def _keep_merged(self, decision: mixed_files.Decision) -> SteeringFile | None:
        steered, content = decision
        if steered is not None and content is not None:
            self._merged[steered.path] = content
        return steered

    def _read_by_check(self, path: str) -> str | None:
        """Say why a file counts that a command file loads, or a script takes its cases from, or that hides a target."""
        programs, added = self._work.programs, path in self._work.added
        loaded = ".env" in path.lower() and any(each.path == path and each.sourced for each in programs.files)
        if loaded or any(fnmatchcase(path, pattern) for pattern in programs.patterns):
            return table.COMMANDS
        if not added and not roles.is_code(path) and any(fnmatchcase(path, pattern) for pattern in programs.data):
            return roles.DATA.why
        if not added and (path in programs.environment or self._is_shared(path)):
            return table.TEST_READS
        target = shadowing.hidden_target(self._work, path)
        return f"hides the target `{target}`" if target else None

    def _is_shared(self, path: str) -> bool:
        """Tell a product file that a script of a check reads, or whose examples a check runs as doctests."""
        if self._work.is_code(path) or roles.role_of(path) != "product" or self._holds_cases(path):
            return False
        programs = self._work.programs
        if any(fnmatchcase(path, pattern) for pattern in (*programs.reads, *programs.compared)):
            return True
        return path.endswith((".md", ".rst", ".txt")) and mixed_files.has_doctests(self._work, path)

    def _is_document(self, path: str) -> bool:
        """Tell whether a `spec` folder holds documents: no code at the base."""
        parts = [part.lower() for part in PurePosixPath(path).parts[:-1]]
        if {*parts} & (table.TEST_FOLDERS | table.DATA_FOLDERS) - {"spec", "specs"} or roles.is_test_name(path):
            return False
        at = next((index for index, part in enumerate(parts) if part in ("spec", "specs")), None)
        if at is None:
            return False
        folder = "/".join(PurePosixPath(path).parts[: at + 1]) + "/"
        return not any(each.startswith(folder) and roles.is_code(each) for each in self._work.base)

    # --- what is allowed

    def _unless_allowed(self, each: SteeringFile) -> SteeringFile:
        if each.how == "allowed":
            return each
        why = self._allowed_because(each)
        return SteeringFile(path=each.path, how="allowed", why=why) if why else each

    def _allowed_because(self, each: SteeringFile) -> str | None:
        if each.how == "new test":
            return self._new_test_because(each.path)
        if roles.is_named(self._task, each.path):
            return f"{each.why}, named by the task"
        if each.why.startswith(UNSAFE):
            return None
        if self._own_only and each.path in self._work.added:
            return f"{each.why} of the work's own tests, which alone run"
        if self._task.type == "test":
            return f"{each.why}, in a task about tests"
        if module := self._tests_removed_module(each.path):
            return f"{each.why} of `{module}`, which the task removes"
        if each.how == "put back" and following.asks_for_tests(self._work, self._task, each.path):
            return f"{each.why}, {following.ASKED}"
        if each.how == "put back" and following.may_follow(self._work, self._task, each.path):
            return f"{each.why}, {following.FOLLOWS}"
        targets = [one for one in self._work.programs.targets if each.path in order_files(one)]
        target = next((one.name for one in targets if is_new_target(self._work, one)), None)
        return f"{each.why}, and the base has no `{target}`" if target else None

    def _new_test_because(self, path: str) -> str | None:
        """Return why a new test may decide: nobody else can have written what the task or a check asks for."""
        if path in self._own.kept:
            return "the only tests that the checks run"
        if self._task.type == "test":
            return "a new test, in a task about tests"
        stem = re.escape(PurePosixPath(path).stem)
        if any(re.search(rf"\bimport {stem}\b|\bfrom {stem} import\b", check) for check in self._work.checks):
            return "a new test that a check imports"
        return None

    def _tests_removed_module(self, path: str) -> str | None:
        """Return the module that a deleted test imports, if the task names it and the work removed it."""
        if path in self._work.delivered or roles.role_of(path) != "test":
            return None
        gone = removed_modules(self._work) if REMOVES.search(self._task.prompt) else set[str]()
        named = {module for module in gone if re.search(rf"\b{re.escape(module)}\b", self._task.prompt)}
        return next(
            (each for each in sorted(following.imported_names(self._work.text("base", path) or "")) if each in named),
            None,
        )


def _put_back(path: str, why: str) -> SteeringFile:
    return SteeringFile(path=path, how="put back", why=why)


def _of_program(change: PathChange, program: CheckProgram) -> SteeringFile:
    """Decide about a file that judges: one that is new can only be a test of the work itself."""
    why = "a program of the check" if program.depth else "the check's own program"
    why = table.COMMANDS if program.sourced else why
    if change.kind != "added":
        return _put_back(change.path, why)
    if program.sourced:
        return SteeringFile(path=change.path, how="removed", why=why)
    return SteeringFile(path=change.path, how="new test", why="a new test")


def use_in_tests(work: CheckedWork, path: str) -> str:
    """Say what a changed file of the product is to the tests of the base; nothing where it is no more than product."""
    if not work.is_code(path):
        return table.TEST_READS if _is_read(work, path) else ""
    return table.TEST_HELPER if _is_helper(work, path) else ""


def _is_read(work: CheckedWork, path: str) -> bool:
    """Tell data whose name, or whose folder, is in a test or in a program that judges."""
    file = PurePosixPath(path)
    folders = {each for each in file.parts[:-1] if not each.startswith(".")}
    return any(
        file.name in words or file.parent.name in folders & quoted or (deep and bool(folders & quoted))
        for words, quoted, deep in work.remember("words", _words)
    )


def _words(work: CheckedWork) -> list[tuple[set[str], set[str], bool]]:
    """Return, of each text that judges, its words, what is in it as a part of a path, and whether it looks deep."""
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


def is_loaded_by_product(work: CheckedWork, path: str) -> bool:
    """Tell whether a changed file of the product imports an added one."""
    pattern = import_of(path)
    if pattern is None:
        return False
    name = PurePosixPath(path).stem if PurePosixPath(path).stem not in ("__init__", "index") else ""
    return any(name in text and pattern.search(text) for text in work.product_texts)


def import_of(path: str) -> re.Pattern[str] | None:
    """Return a pattern of the lines that import a file; None where its language is not known."""
    file = PurePosixPath(path)
    if file.suffix == ".py":
        return _python(file)
    if file.suffix == ".go":
        return (
            re.compile(rf'(?m)^\s*(?:import\s+)?(?:[\w.]+\s+)?"[^"\n]*/{re.escape(file.parent.name)}"')
            if file.parent.name
            else None
        )
    if file.suffix in SCRIPTS:
        stem = re.escape(file.parent.name if file.stem == "index" else file.stem)
        return re.compile(rf"(?:require\(|from|import\(?)\s*['\"]\.{{1,2}}/(?:[^'\"]*/)?{stem}(?:\.\w+)?['\"]")
    return None


def _python(file: PurePosixPath) -> re.Pattern[str]:
    parts = [part for part in file.with_suffix("").parts if part != "__init__"]
    parts = parts[1:] if parts[:1] in (["src"], ["lib"]) and len(parts) > 1 else parts
    whole, name = re.escape(".".join(parts)), re.escape(parts[-1] if parts else "")
    above = re.escape(".".join(parts[:-1]))
    return re.compile(
        rf"(?m)^\s*(?:from\s+(?:\.+|){whole}(?:\.[\w.]+)?\s+import\b|import\s+(?:[\w., ]+,\s*)?{whole}\b"
        rf"|from\s+\.+(?:[\w.]+\.)?{name}\s+import\b|from\s+(?:\.+|{above or '[.]+'})\s+import\s[^#\n]*\b{name}\b)"
    )
