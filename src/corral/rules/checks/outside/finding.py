"""Which tests can be probed outside: calls with plain answers, and tests that judge one changed part by another."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

import msgspec
from msgspec import Struct

from corral.model import CheckObservation
from corral.rules.checks.altering.alteration import places_of_ids
from corral.rules.checks.base_comparison import stem
from corral.rules.checks.outside import node_calls, programs, python_calls, shapes
from corral.rules.checks.outside.checked import MOST_CALLS, CheckedCall, Language, Name, State, States
from corral.rules.checks.outside.python_calls import EQUALITIES
from corral.rules.checks.steering import roles
from corral.rules.checks.steering.mixed_files import PYTHONPATH
from corral.rules.race.varied_calls import TROUBLES, CallReader, modules
from corral.rules.text.python_code import parse_module

MOST_VARIANTS = 60
ROOTS = (".", "src", "lib", "python")  #: from which a test may import what was not changed itself
PYTHON_SETTINGS = ("pyproject.toml", "pytest.ini", ".pytest.ini", "setup.cfg", "tox.ini")
#: Settings that give tests an environment of their own.
PREPARED = re.compile(r"(?m)^\s*(env|env_files|DJANGO_SETTINGS_MODULE|DJANGO_CONFIGURATION)\s*=")
NODE_SETTINGS = re.compile(
    r"(^|/)(package\.json|(jest|vitest|vite|babel)\.config\.\w+|\.mocharc\.\w+|\.mocharc|\.babelrc)$"
)
GIVEN = re.compile(r"\s*(?:env\s+)?((?:[A-Za-z_]\w*=[\w./:@,+-]*\s+)+)")
Source = Mapping[str, str]  #: path -> text
MOST_COMPARISONS = 400
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
Part = tuple[str, str]  #: module and name
Parts = frozenset[Part]


class Probe(Struct, frozen=True, kw_only=True):
    """A program of one language."""

    language: Language
    calls: tuple[CheckedCall, ...]  #: those of tests, then others
    roots: tuple[str, ...] = (".",)
    env: Mapping[str, str] = {}

    @property
    def has_variants(self) -> bool:
        return any(not each.expected for each in self.calls)

    def command(self, interpreter: str, mark: str) -> str:
        """Return the command line that makes the calls, from the top of a checkout."""
        if self.language == "node":
            return programs.command(programs.node(self.calls, mark), "node", "main.js", self.env)
        return programs.command(programs.python(self.calls, self.roots, mark), interpreter, "main.py", self.env)


class RunnerSettings(Struct, frozen=True, kw_only=True):
    """What the tests of a base are run with."""

    files: Source  #: settings of runners, and files of fixtures
    checks: tuple[str, ...] = ()


class _Package(Struct, frozen=True):
    name: str = ""


def is_runner_setting(path: str) -> bool:
    """Tell a file that says with what tests are run."""
    name = PurePosixPath(path).name
    return path in PYTHON_SETTINGS or name == "conftest.py" or bool(NODE_SETTINGS.search(path))


def states_of(sources: Source, runs: Sequence[tuple[CheckObservation, CheckObservation]]) -> States:
    """Return which tests were fixed and which passed all along: by their ids at the base, and now."""
    owners = places_of_ids(sources)
    found: dict[tuple[str, Name], State] = {}
    lost: set[tuple[str, Name]] = set()
    for before, now in runs:
        then = before.report.tests if before.report else {}
        for each, end in now.report.tests.items() if now.report else ():
            own = owners.get(stem(each), [])
            if len(own) != 1:
                continue
            if end != "passed":
                lost.add(own[0])
            elif then.get(each) != "passed":
                found[own[0]] = "fixed"
            else:
                found.setdefault(own[0], "kept")
    return {test: state for test, state in found.items() if test not in lost}


def probes(
    sources: Source, states: States, changed: Collection[str], tree: Collection[str], settings: RunnerSettings
) -> list[Probe]:
    """Return the programs to run: `changed` are files of the work, `tree` those of the base."""
    found: list[Probe] = []
    env = _environment(settings.checks)
    known = _product_modules(changed, tree, settings)
    calls = [] if _is_prepared(settings) else [
        each for path, text in sources.items() if path.endswith(".py") and not _has_fixtures(path, settings)
        for each in python_calls.found_in(path, text, known, states)
    ]  # fmt: skip
    if calls := _with_variants(calls):
        roots = dict.fromkeys([known[each.module] for each in calls] + ["."])
        found.append(Probe(language="python", calls=calls, roots=tuple(roots), env=env))
    package = settings.files.get("package.json", "{}")
    others = [text for path, text in settings.files.items() if NODE_SETTINGS.search(path)]
    if any(path.endswith(node_calls.FILES) for path in changed) and not any(map(node_calls.SETTINGS.search, others)):
        own = _name(package)
        calls = [each for path, text in sources.items() for each in node_calls.found_in(path, text, own, states)]
        if calls := _with_variants(calls):
            found.append(Probe(language="node", calls=calls, env=env))
    return found


def _product_modules(changed: Collection[str], tree: Collection[str], settings: RunnerSettings) -> dict[str, str]:
    """Return the modules of the product by name, with the folder to import each from."""
    known = modules(path for path in changed if not roles.is_test(path))
    if not known:
        return {}
    for root in (*ROOTS, *_search_path(settings)):
        start = "" if root == "." else f"{root}/"
        below = [path.removeprefix(start) for path in tree if path.startswith(start) and not roles.is_test(path)]
        for name, folder in modules(below).items():
            if folder == ".":
                known.setdefault(name, root)
    return known


def _search_path(settings: RunnerSettings) -> list[str]:
    texts = [settings.files[each] for each in PYTHON_SETTINGS if each in settings.files]
    given = [value for check in settings.checks for value in re.findall(r"\bPYTHONPATH=([\w./:-]+)", check)]
    words = [word for text in texts for each in PYTHONPATH.findall(text) for word in re.findall(r"[\w./-]+", each)]
    words += [word for value in given for word in value.split(":")]
    return [str(PurePosixPath(word)) for word in words if word and not word.startswith(("/", ".."))]


def _environment(checks: Sequence[str]) -> dict[str, str]:
    """Return the variables that the user sets for checks: they are no matter of tests."""
    found: dict[str, str] = {}
    for check in checks:
        if given := GIVEN.match(check):
            found |= dict(word.split("=", 1) for word in given[1].split())
    hidden = re.compile(f"PYTHONPATH|(?:{programs.RUNNERS})")
    return {name: value for name, value in found.items() if not hidden.match(name)}


def _is_prepared(settings: RunnerSettings) -> bool:
    return any(PREPARED.search(settings.files[each]) for each in PYTHON_SETTINGS if each in settings.files)


def _has_fixtures(path: str, settings: RunnerSettings) -> bool:
    above = [str(PurePosixPath(folder) / "conftest.py") for folder in python_calls.folders_above(path)]
    return any(python_calls.sets_up(settings.files[each]) for each in above if each in settings.files)


def _name(package: str) -> str:
    try:
        return msgspec.json.decode(package, type=_Package).name
    except msgspec.MsgspecError:
        return ""


def _with_variants(calls: Sequence[CheckedCall]) -> tuple[CheckedCall, ...]:
    """Return calls of tests, each once, and others of the same shape for those that were fixed."""
    by_call: dict[tuple[str, ...], dict[str, CheckedCall]] = {}
    for each in calls:
        by_call.setdefault((*each.function, each.arguments), {}).setdefault(each.expected, each)
    own = [next(iter(found.values())) for found in by_call.values() if len(found) == 1][:MOST_CALLS]
    known = {(each.function, each.arguments) for each in calls}
    others = (other for each in own if each.state == "fixed" for other in shapes.variants(each))
    new = [other for other in others if (other.function, other.arguments) not in known]
    return (*own, *itertools.islice(dict.fromkeys(new), MOST_VARIANTS)) if own else ()


class ChangedParts(Struct, frozen=True, kw_only=True):
    """Functions and constants that base and work have, with other contents."""

    functions: Parts = frozenset()
    constants: Parts = frozenset()


class _Comparison(Struct, frozen=True, kw_only=True):
    test: str
    fixed: bool
    sides: tuple[Parts, Parts]
    nested: Parts = frozenset()  #: parts whose result is given to another one

    @property
    def parts(self) -> Parts:
        return self.sides[0] | self.sides[1]


def changed_parts(pairs: Mapping[str, tuple[str, str]]) -> ChangedParts:
    """Compare Python files, by path: their texts at the base and now."""
    found: tuple[set[Part], set[Part]] = (set(), set())
    for path, texts in pairs.items():
        try:
            before, now = (_definitions(parse_module(text)) for text in texts)
        except TROUBLES:
            continue
        for name in before.keys() & now.keys():
            if ast.dump(before[name]) != ast.dump(now[name]):
                kind = 0 if isinstance(now[name], FUNCTIONS) else 1
                found[kind].update((module, name) for module in modules([path]))
    return ChangedParts(functions=frozenset(found[0]), constants=frozenset(found[1]))


def _definitions(tree: ast.Module) -> dict[str, ast.AST]:
    found: dict[str, ast.AST] = {}
    for node in tree.body:
        if isinstance(node, FUNCTIONS):
            found[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {each.id: node.value for each in targets if isinstance(each, ast.Name)}
    return found


def find_self_judging(
    sources: Mapping[str, str], states: States, changed: ChangedParts, product: Sequence[str]
) -> tuple[str, ...]:
    """Say which tests that were fixed judge a changed part of the product by another one, and nothing else does."""
    if not changed.functions | changed.constants:
        return ()
    known = modules(product)
    rows = [
        row for path, text in sources.items() if path.endswith(".py") for row in _comparisons(path, text, known, states)
    ]
    rows = rows[:MOST_COMPARISONS]
    pinned = {next(iter(row.parts)) for row in rows if len(row.parts) == 1}
    found: dict[str, Parts] = {}
    for row in rows:
        if row.fixed and (own := _self_judged(row, changed)) and not own & pinned:
            found[row.test] = own
    others = {row.test for row in rows if row.fixed and row.parts} - {*found}
    if not found or others:
        return ()
    test, parts = next(iter(found.items()))
    names = ", ".join(sorted(f"`{name}`" for _, name in parts))
    return (f"{test} judges the product by another part of it, which was changed as well: {names}",)


def _self_judged(row: _Comparison, changed: ChangedParts) -> Parts:
    """Return the changed parts that are on the other side of a comparison, or give their results to others."""
    constants = row.parts & changed.constants
    if constants and row.parts - constants:
        return constants
    left, right = (side & changed.functions for side in row.sides)
    if left and right and left != right:
        return left | right
    inner = row.nested & changed.functions
    outer = (row.parts - row.nested) & changed.functions
    return inner | outer if inner and outer else frozenset()


def _comparisons(path: str, text: str, known: Mapping[str, str], states: States) -> Iterator[_Comparison]:
    try:
        tree = parse_module(text)
        reader = CallReader(tree, known)
        for name, node in _tests(tree):
            state = states.get((path, name))
            if state is not None:
                yield from _of_test(f"{path}::{'::'.join(name)}", node, reader, fixed=state == "fixed")
    except TROUBLES:
        return


def _tests(tree: ast.Module) -> Iterator[tuple[tuple[str, ...], ast.AST]]:
    for node in tree.body:
        if isinstance(node, FUNCTIONS):
            yield (node.name,), node
        elif isinstance(node, ast.ClassDef):
            yield from (((node.name, each.name), each) for each in node.body if isinstance(each, FUNCTIONS))


def _of_test(test: str, node: ast.AST, reader: CallReader, *, fixed: bool) -> Iterator[_Comparison]:
    values = {
        each.targets[0].id: each.value
        for each in ast.walk(node)
        if isinstance(each, ast.Assign) and len(each.targets) == 1 and isinstance(each.targets[0], ast.Name)
    }
    for each in ast.walk(node):
        if (pair := _sides(each)) is not None:
            sides = tuple(_parts(side, reader, values) for side in pair)
            nested = frozenset(part for side in pair for part in _nested_parts(side, reader, values))
            yield _Comparison(test=test, fixed=fixed, sides=(sides[0], sides[1]), nested=nested)


def _sides(node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
        return node.left, node.comparators[0]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and len(node.args) >= 2:
        return (node.args[0], node.args[1]) if node.func.attr in EQUALITIES else None
    return None


def _parts(node: ast.expr, reader: CallReader, values: Mapping[str, ast.expr], depth: int = 0) -> Parts:
    """Return the parts of the product that a value is made with; a local name stands for what it was given last."""
    found: set[Part] = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Name | ast.Attribute) and (part := reader.function(each)):
            found.add(part)
        if isinstance(each, ast.Name) and each.id in values and depth < 3:
            found |= _parts(values[each.id], reader, values, depth + 1)
    return frozenset(found)


def _nested_parts(node: ast.expr, reader: CallReader, values: Mapping[str, ast.expr]) -> Iterator[Part]:
    """Return the parts of the product whose results another part of it is given."""
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and (outer := reader.function(each.func)):
            for argument in (*each.args, *(one.value for one in each.keywords)):
                yield from (part for part in _parts(argument, reader, values) if part != outer)
