"""Python tests and judging scripts with other expected values, by their syntax trees.

An altered test fails, unless one of its altered comparisons holds, or its failure is kept from the test program.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Sequence
from typing import cast

from msgspec import Struct

from corral.rules.checks.altering.marks import Marks, Name, RewrittenFile, Wanted, unchanged_file
from corral.rules.text.python_code import parse_expression, parse_module

Function = ast.FunctionDef | ast.AsyncFunctionDef
Scope = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
EQUALITIES = frozenset({
    "assertEqual", "assertEquals", "assertListEqual", "assertDictEqual", "assertTupleEqual", "assertSetEqual",
    "assertSequenceEqual", "assertMultiLineEqual", "assertCountEqual", "assert_equal", "assert_equals",
})  # fmt: skip
JUDGES = re.compile(r"(?i)assert|check|expect|verif|ensure|compare|same|equal|raises|fail|warns|should|must|close")
#: What is before a body in which a failure may rightly end.
KEEPS_FAILURES = re.compile(
    r"(?i)raises|assert|suppress|warns|subtest|expect|fail|catch|ignore|swallow|except|should|_test"
)
ENDS = frozenset({"sys.exit", "exit", "quit", "pytest.fail", "self.fail", "os._exit"})
TROUBLES = (SyntaxError, ValueError, RecursionError, MemoryError, TypeError)
LARGEST = 1e6  #: of a float that another number can be added to without being lost
SMALL = 1000.0  #: of what a tolerance may be relative to
#: Names of objects that are there to be equal to many values.
MATCHERS = re.compile(r"^(ANY|any|Any|Is|Has|Contains|Matches)(?![a-z])|[Aa]nything|[Mm]atcher|[Ww]ildcard|[Ss]entinel")
TOLERANCES = {"rel": 0.1, "abs": 100.0}
Loop = ast.For | ast.AsyncFor | ast.While
BLOCKS = ("body", "orelse", "finalbody")


class _Count(Struct):
    """What was found in one test."""

    judges: int = 0  #: statements that may fail it
    altered: int = 0
    exact: int = 0  #: those that are certain to run, and fail for another value alone


def test_names(text: str) -> list[Name]:
    """Return the tests of a file, as pytest and unittest find them by default."""
    try:
        tree = parse_module(text)
    except TROUBLES:
        return []
    return [name for name, _ in _functions(tree)]


def _functions(tree: ast.Module) -> list[tuple[Name, Function]]:
    found: list[tuple[Name, Function]] = []
    for node in tree.body:
        if isinstance(node, Function) and node.name.startswith("test"):
            found.append(((node.name,), node))
        elif isinstance(node, ast.ClassDef):
            inner = [each for each in node.body if isinstance(each, Function) and each.name.startswith("test")]
            found += [((node.name, each.name), each) for each in inner]
    names = [name for name, _ in found]
    return [(name, node) for name, node in found if names.count(name) == 1 and not _yields(node)]


def _yields(node: Function) -> bool:
    return any(isinstance(each, ast.Yield | ast.YieldFrom) for each in ast.walk(node))


def alter_tests(text: str, wanted: Wanted, marks: Marks) -> RewrittenFile:
    """Alter the tests of these names."""
    try:
        tree = parse_module(text)
        tests: dict[Name, bool] = {}
        inner: list[Name] = []
        for name, node in _functions(tree):
            if name in wanted and make_fail(node, marks, EQUALITIES):
                inner.append(name)
                tests[name] = False
            elif name in wanted:
                count = _Count()
                loops = note_loops(node, f"{marks.variable}_runs", EQUALITIES)
                inner += [name] if loops else []
                start = 1 if ast.get_docstring(node, clean=False) is not None else 0
                body = _alter_body(node.body[start:], marks, count, certain=True)
                node.body = [*node.body[:start], *_wrap_body(body, marks, loops=loops)]
                tests[name] = count.judges == count.exact > 0
        return RewrittenFile(text=_source_of(tree), tests=tests, inner=inner) if tests else unchanged_file(text)
    except TROUBLES:
        return unchanged_file(text)


def alter_script(text: str, marks: Marks) -> RewrittenFile:
    """Alter a program that judges by its exit code; what a test runner runs is altered test by test."""
    if re.search(r"\b(unittest|pytest|doctest)\b|_exit\b|\bexec[lv]", text):
        return unchanged_file(text)
    try:
        tree = parse_module(text)
        start = _head(tree.body)
        count = _Count()
        for node in ast.walk(tree):
            if isinstance(node, Function) and not _yields(node):
                node.body = _alter_body(node.body, marks, count, certain=False)
        body = _alter_body(tree.body[start:], marks, count, certain=True)
        tree.body = [*tree.body[:start], *_wrap_body(body, marks)]
        return RewrittenFile(text=_source_of(tree), tests={(): count.judges == count.exact > 0})
    except TROUBLES:
        return unchanged_file(text)


def _source_of(tree: ast.Module) -> str:
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _head(body: Sequence[ast.stmt]) -> int:
    """Return how many statements must stay first."""
    for place, node in enumerate(body):
        text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not text and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            return place
    return len(body)


def _wrap_body(body: list[ast.stmt], marks: Marks, *, loops: bool = False) -> list[ast.stmt]:
    """Have a body fail in every case but that an altered comparison held in it, or its loops never came to one."""
    runs = f"{marks.variable}_runs"
    judged = f"{runs} and not {marks.variable}" if loops else f"not {marks.variable}"
    shell = parse_module(
        f"{runs} = []\n{marks.variable} = []\ntry:\n    pass\nfinally:\n    if {judged}:\n"
        f"        raise AssertionError({marks.word!r})\n"
    ).body
    tried = shell[2]
    assert isinstance(tried, ast.Try)  # noqa: S101 -- it is written above
    tried.body = body or tried.body
    return shell


def _guard(statement: ast.stmt, marks: Marks) -> ast.stmt:
    """Note whether an altered comparison holds, and let the test run on."""
    made = parse_module(
        f"try:\n    pass\nexcept BaseException:\n    pass\nelse:\n    {marks.variable}.append(1)\n"
    ).body[0]
    assert isinstance(made, ast.Try)  # noqa: S101 -- it is written above
    made.body = [statement]
    return made


def _alter_body(body: Sequence[ast.stmt], marks: Marks, count: _Count, *, certain: bool) -> list[ast.stmt]:
    """Alter each comparison below these statements; `certain`: they all run, in this order."""
    found: list[ast.stmt] = []
    for node in body:
        if isinstance(node, Scope):
            found.append(node)
            continue
        made = _comparison(node, marks, count, certain=certain)
        if made is None:
            before = count.judges
            made = _inside(node, marks, count)
            count.judges += 0 if count.judges > before else _may_judge(node)
        found.append(made)
        certain = certain and not any(isinstance(each, ast.Return) for each in ast.walk(node))
    return found


def _may_judge(node: ast.stmt) -> int:
    """Count a statement that may fail a test in another way than by a comparison we know."""
    names = {_last(each.func) for each in ast.walk(node) if isinstance(each, ast.Call)}
    kinds = ast.Assert | ast.Raise
    return int(any(isinstance(each, kinds) for each in ast.walk(node)) or any(JUDGES.search(name) for name in names))


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _inside(node: ast.stmt, marks: Marks, count: _Count) -> ast.stmt:
    """Alter what is in the blocks of a statement; what wraps comparisons must let a failure out."""
    known = count.altered
    for name in ("body", "orelse", "finalbody"):
        block: list[ast.stmt] = getattr(node, name, [])
        if block:
            setattr(node, name, _alter_body(block, marks, count, certain=False))
    for handler in getattr(node, "handlers", ()):
        handler.body = _alter_body(handler.body, marks, count, certain=False)
    if not isinstance(node, ast.With | ast.AsyncWith) or count.altered == known:
        return node
    if any(KEEPS_FAILURES.search(ast.unparse(each.context_expr)) for each in node.items):
        return node
    node.body.append(parse_module(f"raise AssertionError({marks.word!r})").body[0])
    return _guard(node, marks)


def _comparison(node: ast.stmt, marks: Marks, count: _Count, *, certain: bool) -> ast.stmt | None:
    """Return a statement that judges by a comparison with another expected value; None: it is no such statement."""
    if isinstance(node, ast.Assert):
        pair = _alter_compare(node.test, ast.Eq, marks)
        made = ast.Assert(pair[0], node.msg) if pair else None
    elif isinstance(node, ast.If) and not node.orelse and _ends(node.body[-1]):
        pair = _alter_compare(node.test, ast.NotEq, marks)
        made = ast.If(pair[0], node.body, []) if pair else None
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _last(node.value.func) in EQUALITIES:
        pair = _alter_assert(node.value, marks)
        made = ast.Expr(pair[0]) if pair else None
    else:
        return None
    if pair is None or made is None:
        return None
    count.judges += 1
    count.altered += 1
    count.exact += certain and is_plain(pair[1]) and is_telling(pair[2])
    return _guard(made, marks)


Pair = tuple[ast.expr, ast.expr, ast.expr]  #: what is altered, the value that is judged, the one that was expected


def _alter_compare(node: ast.expr, sign: type[ast.cmpop], marks: Marks) -> Pair | None:
    if not isinstance(node, ast.Compare) or len(node.ops) != 1 or not isinstance(node.ops[0], sign):
        return None
    left, right = node.left, node.comparators[0]
    if is_matcher(left) or is_matcher(right):
        return None
    if _is_literal(left) and not _is_literal(right):
        return ast.Compare(another(left, marks), node.ops, [right]), right, left
    return ast.Compare(left, node.ops, [another(right, marks)]), left, right


def _alter_assert(node: ast.Call, marks: Marks) -> Pair | None:
    if len(node.args) < 2 or any(isinstance(each, ast.Starred) for each in node.args[:2]):
        return None
    first, second = node.args[:2]
    if is_matcher(first) or is_matcher(second):
        return None
    if _is_literal(first) and not _is_literal(second):
        return ast.Call(node.func, [another(first, marks), *node.args[1:]], node.keywords), second, first
    return ast.Call(node.func, [first, another(second, marks), *node.args[2:]], node.keywords), first, second


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def _ends(node: ast.stmt) -> bool:
    """Tell a statement that fails a test, or ends a program without success."""
    if isinstance(node, ast.Raise):
        return node.exc is not None and ast.unparse(node.exc) not in ("SystemExit", "SystemExit()", "SystemExit(0)")
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    name, given = ast.unparse(node.value.func), [ast.unparse(each) for each in node.value.args]
    return name in ENDS and (name.endswith("fail") or given not in ([], ["0"], ["None"]))


def another(node: ast.expr, marks: Marks) -> ast.expr:
    """Return an expression that honest code is never equal to where it is equal to this one."""
    if isinstance(node, ast.Call) and (found := _approximate(node, marks)) is not None:
        return found
    try:
        value: object = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return _at_run_time(node, marks)
    if type(value) is int:
        return ast.Constant(value + marks.number)
    if type(value) is float and abs(value) < LARGEST:
        return ast.Constant(value + marks.number)
    if isinstance(value, str):
        return ast.Constant(value + marks.ending)
    if isinstance(value, bytes):
        return ast.Constant(value + marks.ending.encode())
    if isinstance(node, ast.List | ast.Tuple):
        return type(node)([*node.elts, ast.Constant(marks.number)], ast.Load())
    if isinstance(node, ast.Set):
        return ast.Set([*node.elts, ast.Constant(marks.number)])
    if isinstance(node, ast.Dict):
        return ast.Dict([*node.keys, ast.Constant(marks.word)], [*node.values, ast.Constant(marks.number)])
    return ast.Tuple([node, ast.Constant(marks.number)], ast.Load())


def _at_run_time(node: ast.expr, marks: Marks) -> ast.expr:
    """Return an expression that makes another value of the same type where that is possible."""
    text = (
        f"(lambda e: e + {marks.number} if type(e) is int or (type(e) is float and -{LARGEST} < e < {LARGEST})"
        f" else e + {marks.ending!r} if type(e) is str else (e, {marks.number}))(0)"
    )
    made = parse_expression(text)
    assert isinstance(made, ast.Call)  # noqa: S101 -- it is written above
    made.args = [node]
    return made


def _approximate(node: ast.Call, marks: Marks) -> ast.expr | None:
    """Change what `pytest.approx` is given; None where its tolerance may be as large as the change."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name != "approx" or len(node.args) != 1:
        return None
    for each in node.keywords:
        most = TOLERANCES.get(each.arg or "", 0.0)
        if not isinstance(each.value, ast.Constant) or not isinstance(each.value.value, int | float):
            return None
        if each.value.value > most:
            return None
    value = node.args[0]
    if not isinstance(value, ast.Constant) or type(value.value) not in (int, float) or abs(value.value) >= SMALL:  # pyright: ignore[reportArgumentType]
        return None
    return ast.Call(node.func, [another(value, marks)], node.keywords)


def is_matcher(node: ast.expr) -> bool:
    """Tell an object that may rightly be equal to many values."""
    while isinstance(node, ast.Call):
        node = node.func
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return bool(MATCHERS.search(name))


def is_plain(node: ast.expr) -> bool:
    """Tell an expression that holds no judgement of its own: `add(1, 2)`, and not `abs(add(1, 2) - 3)`."""
    inner = ast.Compare | ast.BoolOp | ast.BinOp | ast.UnaryOp | ast.Lambda | ast.IfExp
    return not any(isinstance(each, inner) and not _is_number(each) for each in ast.walk(node))


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)


def is_telling(node: ast.expr) -> bool:
    """Tell an expected value that is more than yes, no or nothing."""
    return not (isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool)))


def make_fail(test: Function, marks: Marks, equalities: Collection[str]) -> bool:
    """Have what judges in functions inside of a test fail; tell whether there is any.

    Such a test must fail then, unless these parts never run, or nobody notices what they raise.
    """
    inside = [each for node in test.body for each in ast.walk(node) if isinstance(each, Function)]
    return _replace_all(inside, marks, equalities)


def note_loops(test: Function, name: str, equalities: Collection[str]) -> bool:
    """Note in a list of this name that judging parts of loops are reached; tell whether nothing else judges."""
    judging = [each for each in ast.walk(test) if isinstance(each, ast.stmt) and _judges(each, equalities)]
    loops = [each for each in test.body if isinstance(each, Loop)]
    looped = {id(one) for each in loops for one in ast.walk(each)}
    inside = {id(each): found for each in test.body if (found := _elements_of(each)) is not None}
    looped |= {*inside}
    if not judging or any(id(each) not in looped for each in judging) or _keeps(test):
        return False
    for found in inside.values():
        found.elt = ast.BoolOp(ast.Or(), [parse_expression(f"{name}.append(1)"), found.elt])
    for each in [one for loop in loops for one in ast.walk(loop)]:
        for field in BLOCKS:
            block = _block(each, field)
            if any(_judges(one, equalities) for one in block):
                note = parse_module(f"{name}.append(1)").body
                setattr(
                    each, field, [new for one in block for new in (*(note if _judges(one, equalities) else ()), one)]
                )
    return True


def _elements_of(node: ast.stmt) -> ast.GeneratorExp | ast.ListComp | None:
    """Return what `assert all(...)` and `assert not any(...)` go through: where there is nothing, both hold."""
    test = node.test if isinstance(node, ast.Assert) else None
    wanted = "all"
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, wanted = test.operand, "any"
    if not isinstance(test, ast.Call) or _last(test.func) != wanted or len(test.args) != 1:
        return None
    return test.args[0] if isinstance(test.args[0], ast.GeneratorExp | ast.ListComp) else None


def _replace_all(nodes: Sequence[ast.AST], marks: Marks, equalities: Collection[str]) -> bool:
    """Change each of these nodes; tell whether one was changed."""
    changed = [_replace_judges(each, marks, equalities) for each in nodes]
    return any(changed)


def _keeps(test: Function) -> bool:
    """Tell a test in which a failure may rightly end."""
    return any(isinstance(each, ast.Try | ast.With | ast.AsyncWith | ast.Raise) for each in ast.walk(test))


def _replace_judges(node: ast.AST, marks: Marks, equalities: Collection[str]) -> bool:
    changed = False
    for each in list(ast.walk(node)):
        for name in BLOCKS:
            block = _block(each, name)
            if any(_judges(one, equalities) for one in block):
                setattr(each, name, [new for one in block for new in _failing(one, marks, equalities)])
                changed = True
    return changed


def _block(node: ast.AST, name: str) -> list[ast.stmt]:
    found: object = getattr(node, name, None)
    return (
        [each for each in cast("list[object]", found) if isinstance(each, ast.stmt)] if isinstance(found, list) else []
    )


def _failing(node: ast.stmt, marks: Marks, equalities: Collection[str]) -> list[ast.stmt]:
    """Have a statement that judges find out its values, and fail."""
    if not _judges(node, equalities):
        return [node]
    called = _call_of(node)
    values = [node.test] if isinstance(node, ast.Assert) else called.args if called else []
    return [*map(ast.Expr, values), parse_module(f"raise AssertionError({marks.word!r})").body[0]]


def _call_of(node: ast.stmt) -> ast.Call | None:
    return node.value if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None


def _judges(node: ast.stmt, equalities: Collection[str]) -> bool:
    """Tell a statement that compares; one that fails in any case says that it must not be reached."""
    if isinstance(node, ast.Assert):
        return not isinstance(node.test, ast.Constant)
    called = _call_of(node)
    return called is not None and isinstance(called.func, ast.Attribute) and called.func.attr in equalities
