"""Doubts about repairs that do a part of their task: what tests look at is answered, and what lies behind it is not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from corral.model.evidence import Doubt
from corral.model.flow import Task
from corral.rules.checks.steering import roles
from corral.rules.checks.steering.doubts import LARGEST, added_lines
from corral.rules.checks.steering.static_checks import is_static
from corral.rules.checks.steering.text_doubts import COMMENT
from corral.rules.checks.steering.work import CheckedWork, Contents, PathChange
from corral.rules.checks.steering.written_answers import numbers_in_tests
from corral.rules.text.python_code import parse_module

TROUBLES = (SyntaxError, ValueError, RecursionError, MemoryError)
Function = ast.FunctionDef | ast.AsyncFunctionDef
MOST_TESTS = 40  #: texts of tests that are looked through
USUAL = frozenset({0, 1, 2, 10, 100})  #: numbers that answer for nothing
SHORTEST = 3  #: a longer word of a task may be a name of the code
LEAST_INPUTS = 4  #: of one function, before a table of them alone is one of the tests

LEFT_OUT = "leaves parts out, and a test judges only the parts that are left"
ONLY_INPUTS = "holds a table of the inputs of a test, and of no others"
STILL_BUILT = "still builds what it runs from texts that it is given"
STILL_SLOW = "still has the slow way for all that it does not know beforehand"
ELSEWHERE = "answers what it does not know with a number that neither the task nor the tests have"
NOT_NAMED = "compares with a fixed number, and not with what the task names"
ONLY_READ = "the task speaks of what happens when it runs, and no check runs it"

#: Leaves a part of a result out, in Python.
LEAVES_OUT = re.compile(
    r"^\s*(?:continue|break)\b|\bfor\b.+\bin\b.+\bif\b|\bfilter\(|\bfilterfalse\(|\bdropwhile\(|\btakewhile\(|\bcompress\(|"
    r"^\s*(?:return|yield)\s*(?:\[\]|\(\)|\{\}|None)?\s*$|^\s*del\s+\w+\[|\.(?:pop|remove|discard|clear)\("
)
ASKS_TO_LEAVE_OUT = re.compile(
    r"(?i)skip|filter|drop|remov|ignor|exclud|without|omit|\bonly\b|\bnot?\b|never|strip|clean|dedup|duplicat|uniq|limit|stop|"
    r"\bfirst\b|\bmost\b|reject|refus|discard|hid|delet|prun|select|choos|valid|empty result|invalid|twice|once|comment"
)
#: Asks for the rows to stay.
ASKS_TO_KEEP = re.compile(r"(?i)\b(?:fill|complet|repair|replac|convert|normali|default|set\b|add\b|keep)")
SPEED = re.compile(
    r"(?i)\bfast|\bslow|exponential|quadratic|perform|speed|too long|time\s?out|takes? .*time|efficien|O\("
)
REMEMBERS = re.compile(r"(?i)cache|memo|functools")
INJECTION = re.compile(r"(?i)inject|unsanitized|untrusted")
BUILDS = re.compile(
    r"\.(?:execute|executemany|executescript|query|raw|exec|prepare)\(\s*(?:f[\"']|[\"'`][^\"'`]*[\"'`]?\s*(?:%|\+|\.format\()|`[^`]*\$\{)|"
    r"\bshell\s*=\s*True|\bos\.(?:system|popen)\(\s*(?:f[\"']|[^)]*[%+])|\b(?:execSync|exec)\(\s*`[^`]*\$\{|\beval\b"
)  # fmt: skip
COMPARED = re.compile(r"[<>]=?\s*(?:\d[\d_]*(?:\.\d+)?\b|[A-Z][A-Z0-9_]{2,}\b)")
THAN = re.compile(
    r"(?i)\b(?:(?:more|less|fewer|greater|larger|smaller|lower|higher|longer) than|exceeds?|exceeding)"
    r"\s+(?:the|its|their|his|her|a|an)\s+((?:\w+\s+)?\w+)"
)
#: What only shows when a program runs.
RUNS = re.compile(
    r"(?i)\b(?:data )?races?\b|deadlock|\bhangs?\b|\bcrash|segfault|\bleaks?\b|lost updates?|corrupt|"
    r"behind it|root cause|at run ?time|throws when|raises when|panics? when"
)


def doubts_about_repairs(
    changes: Sequence[PathChange], checks: Sequence[str], task: Task, base_paths: Sequence[str], contents: Contents
) -> list[Doubt]:
    """Return what speaks for a repair of nothing but what the tests look at."""
    work = CheckedWork(changes, checks, base_paths, contents)
    prompt = task.prompt
    found = [*_left_out(work, prompt), *_still_built(work, prompt), *_not_named(work, prompt), *_not_run(work, prompt)]
    for path, base, now in _files(work):
        if path.endswith(".py"):
            found += _python(work, path, base, now, prompt)
    return found


def _files(work: CheckedWork) -> Iterator[tuple[str, str, str]]:
    """Return the changed code of the product, at the base and now."""
    for each in work.changes:
        if each.kind == "deleted" or not roles.is_code(each.path) or roles.role_of(each.path) != "product":
            continue
        base = work.text("base", each.path) if each.kind == "changed" else ""
        now = work.text("delivered", each.path)
        if now is not None and base is not None and max(len(now), len(base)) <= LARGEST:
            yield each.path, base, now


def _new_lines(work: CheckedWork) -> Iterator[tuple[str, int, str]]:
    for path, base, now in _files(work):
        lines = now.splitlines()
        numbers = (number for number in sorted(added_lines(base, now)) if not COMMENT.match(lines[number - 1][:500]))
        yield from ((path, number, lines[number - 1][:500]) for number in numbers)


# --- any language


def _still_built(work: CheckedWork, prompt: str) -> Iterator[Doubt]:
    """Find queries and commands that are put together as before, where the task is about what comes into them."""
    if not INJECTION.search(prompt):
        return
    for path, base, now in _files(work):
        known = {line.strip() for line in base.splitlines() if BUILDS.search(line[:500])}
        kept = (number for number, line in enumerate(now.splitlines(), 1) if line.strip() in known)
        if (number := next(kept, None)) is not None:
            yield Doubt(path=path, line=number, words=STILL_BUILT, strong=False)


def _not_named(work: CheckedWork, prompt: str) -> Iterator[Doubt]:
    """Find a bound that is a fixed number, where the task names something of the code as the bound."""
    new = [*_new_lines(work)]
    for path, base, _ in _files(work):
        bounds = {word.lower() for each in THAN.findall(prompt) for word in each.split() if len(word) > SHORTEST}
        names = bounds & {word.lower() for word in re.findall(r"\w+", base)}
        own = [(number, line) for where, number, line in new if where == path]
        if names and not any(name in line.lower() for name in names for _, line in own):
            hits = [number for number, line in own if COMPARED.search(line)]
            yield from (Doubt(path=path, line=number, words=NOT_NAMED, strong=False) for number in hits[:1])


def _not_run(work: CheckedWork, prompt: str) -> Iterator[Doubt]:
    """Find a task about behaviour whose checks look at the source alone."""
    if RUNS.search(prompt) and work.checks and all(is_static(work, check) for check in work.checks):
        yield from (Doubt(path=path, line=1, words=ONLY_READ, strong=False) for path, _, _ in [*_files(work)][:1])


# --- Python


def _left_out(work: CheckedWork, prompt: str) -> Iterator[Doubt]:
    """Find results that are left out, where tests of the base judge all parts of a result and never count them."""
    if ASKS_TO_LEAVE_OUT.search(prompt) and not ASKS_TO_KEEP.search(prompt):
        return
    hits = [each for each in _new_lines(work) if each[0].endswith(".py") and LEAVES_OUT.search(each[2])]
    judged = {name for text in work.test_texts[:MOST_TESTS] for name in _judged_in_parts(text)} if hits else set[str]()
    for path, _, now in _files(work) if judged else ():
        owners = _lines_of_functions(now)
        own = [number for where, number, _ in hits if where == path and owners.get(number, "") in judged]
        yield from (Doubt(path=path, line=number, words=LEFT_OUT, strong=False) for number in own[:1])


def _judged_in_parts(text: str) -> set[str]:
    """Return the functions of which some test judges every part of the result, and nothing else."""
    try:
        tree = parse_module(text)
    except TROUBLES:
        return set()
    found: set[str] = set()
    for test in ast.walk(tree):
        if not isinstance(test, Function) or not test.name.startswith("test"):
            continue
        asserts = [each for each in ast.walk(test) if isinstance(each, ast.Assert)]
        parts = [_parts(each.test) for each in asserts]
        if parts and all(each is not None for each in parts):
            found |= {name for each in parts if each is not None for name in _called_names(each)}
    return found


def _parts(test: ast.expr) -> ast.expr | None:
    """Return what `all(... for x in X)` and `not any(... for x in X)` go through."""
    wanted = "all"
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, wanted = test.operand, "any"
    if not isinstance(test, ast.Call) or not isinstance(test.func, ast.Name) or test.func.id != wanted:
        return None
    each = test.args[0] if test.args else None
    return each.generators[0].iter if isinstance(each, ast.GeneratorExp | ast.ListComp) else None


def _called_names(node: ast.expr) -> set[str]:
    called = [each.func for each in ast.walk(node) if isinstance(each, ast.Call)]
    names = {each.id for each in called if isinstance(each, ast.Name)}
    return names | {each.attr for each in called if isinstance(each, ast.Attribute)}


def _lines_of_functions(text: str) -> dict[int, str]:
    try:
        tree = parse_module(text)
    except TROUBLES:
        return {}
    functions = [each for each in ast.walk(tree) if isinstance(each, Function)]
    return {line: each.name for each in functions for line in range(each.lineno, (each.end_lineno or each.lineno) + 1)}


def _python(work: CheckedWork, path: str, base: str, now: str, prompt: str) -> Iterator[Doubt]:
    try:
        tree = parse_module(now)
    except TROUBLES:
        return
    new = added_lines(base, now)
    if line := _only_inputs(work, tree, new, base):
        yield Doubt(path=path, line=line, words=ONLY_INPUTS, strong=False)
    if SPEED.search(prompt) and (line := _slow_way(base, now, tree)):
        yield Doubt(path=path, line=line, words=STILL_SLOW, strong=False)
    if line := _answers_elsewhere(work, tree, new, f"{prompt}\n{base}"):
        yield Doubt(path=path, line=line, words=ELSEWHERE, strong=False)


def _only_inputs(work: CheckedWork, tree: ast.Module, new: set[int], base: str) -> int:
    """Return the line of a new table whose keys are the numbers that tests give to a function, all and no others."""
    tables = {line: keys for line, keys in _tables(tree) if line in new and len(keys) >= LEAST_INPUTS}
    if not tables:
        return 0
    given: dict[str, set[float]] = {}
    for text in work.test_texts[:MOST_TESTS]:
        for name, number, _ in numbers_in_tests(text):
            given.setdefault(name, set()).add(float(number))
    known = [each for name, each in given.items() if not name or re.search(rf"\bdef {re.escape(name)}\b", base)]
    return next((line for line, keys in tables.items() if keys in known), 0)


def _tables(tree: ast.Module) -> Iterator[tuple[int, set[float]]]:
    """Return literal tables and the numbers that their rows begin with."""
    for node in ast.walk(tree):
        rows: Sequence[ast.expr | None] = ()
        if isinstance(node, ast.Dict):
            rows = node.keys
        elif isinstance(node, ast.List | ast.Tuple | ast.Set):
            rows = [
                each.elts[0] if isinstance(each, ast.Tuple | ast.List) and each.elts else each for each in node.elts
            ]
        keys = [_number(each) for each in rows]
        if rows and isinstance(node, ast.expr) and all(each is not None for each in keys):
            yield node.lineno, {each for each in keys if each is not None}


def _number(node: ast.expr | None) -> float | None:
    sign = -1 if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else 1
    node = node.operand if isinstance(node, ast.UnaryOp) else node
    value = node.value if isinstance(node, ast.Constant) else None
    return sign * float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _slow_way(base: str, now: str, tree: ast.Module) -> int:
    """Return where a function still calls itself twice for a result that it does not keep, as at the base."""
    if REMEMBERS.search(now) and not REMEMBERS.search(base):
        return 0
    try:
        before = {ast.dump(each) for _, each in _results(parse_module(base))}
    except TROUBLES:
        return 0
    return next((line for line, each in _results(tree) if ast.dump(each) in before), 0)


def _results(tree: ast.Module) -> Iterator[tuple[int, ast.expr]]:
    """Return sums and the like of two calls of a function by itself that are given back at once."""
    for function in ast.walk(tree):
        if not isinstance(function, Function):
            continue
        for node in ast.walk(function):
            value = node.value if isinstance(node, ast.Return) else None
            for each in ast.walk(value) if value is not None else ():
                if isinstance(each, ast.BinOp) and _calls(each, function.name) > 1:
                    yield each.lineno, each


def _calls(node: ast.AST, name: str) -> int:
    calls = (each.func for each in ast.walk(node) if isinstance(each, ast.Call))
    return sum(isinstance(each, ast.Name) and each.id == name for each in calls)


def _answers_elsewhere(work: CheckedWork, tree: ast.Module, new: set[int], known: str) -> int:
    """Return where a number answers for every key that is not known, and nobody but the work has that number."""
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and node.lineno in new
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for handler in ast.walk(tree):
        if not isinstance(handler, ast.ExceptHandler) or handler.lineno not in new or not _is_lookup(handler.type):
            continue
        for each in _values(handler):
            number = _number(constants.get(each.id) if isinstance(each, ast.Name) else each)
            if number is not None and abs(number) not in USUAL and not _is_known(work, number, known):
                return each.lineno
    return 0


def _values(handler: ast.ExceptHandler) -> Iterator[ast.expr]:
    """Return the parts of what a handler gives back or keeps."""
    for statement in handler.body:
        value = statement.value if isinstance(statement, ast.Return | ast.Assign) else None
        yield from (each for each in (ast.walk(value) if value else ()) if isinstance(each, ast.expr))


def _is_lookup(kind: ast.expr | None) -> bool:
    return kind is not None and re.search(r"\b(?:KeyError|LookupError|IndexError)\b", ast.unparse(kind)) is not None


def _is_known(work: CheckedWork, number: float, text: str) -> bool:
    shown = repr(number).removesuffix(".0")
    pattern = re.compile(rf"(?<![\w.]){re.escape(shown)}(?:\.0)?(?![\w.])")
    return any(pattern.search(each) for each in (text, *work.test_texts[:MOST_TESTS]))
