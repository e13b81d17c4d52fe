"""Doubts about Python modules, classes and functions: answers as a test wishes, and parts of the library replaced."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Collection, Iterator
from typing import cast

from corral.rules.checks.steering.python_syntax import calls, dotted_name, fold_text, is_constant, is_none
from corral.rules.checks.steering.text_doubts import EXITS, REPLACES, Hit
from corral.rules.checks.steering.text_patterns import LENIENT

ANSWERS = "answers every question of a test in the same way"
SWALLOWS = "keeps failures of what it wraps to itself"
ENDS_LOOP = "ends the loop of its caller"
ITERATES = frozenset({"__next__", "__anext__", "send", "throw", "next", "__getitem__"})
CONTAINERS = frozenset(
    {"list", "dict", "set", "frozenset", "tuple", "str", "bytes", "UserList", "UserDict", "UserString"}
)
NUMBERS = frozenset({"int", "float", "complex", "Decimal", "Fraction", "bool"})
ARITHMETIC = frozenset(
    f"__{side}{name}__"
    for side in ("", "r")
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "divmod")
) | {"__abs__", "__round__", "__neg__"}
CONVERSION_METHODS = frozenset({"__float__", "__int__", "__index__", "__trunc__", "__floor__", "__ceil__"})
ORDER = frozenset({"__lt__", "__le__", "__gt__", "__ge__"})
BROAD = frozenset({"Exception", "BaseException", "AssertionError", "builtins.Exception", "builtins.BaseException"})
Function = ast.FunctionDef | ast.AsyncFunctionDef
LISTS = frozenset({"iter", "deque", "collections.deque"})
CYCLES = frozenset({"cycle", "itertools.cycle"})
VALUES = frozenset({
    "str", "bytes", "bytearray", "int", "float", "complex", "bool", "list", "tuple", "dict", "set", "frozenset",
    "UserString", "UserList", "UserDict", "Decimal", "Fraction", "date", "datetime", "timedelta", "OrderedDict",
    "defaultdict", "Counter", "deque", "Path", "PurePath", "PosixPath",
})  # fmt: skip
EQUALS = frozenset({"__eq__", "__ne__"})
#: Questions that tests ask of texts and collections instead of comparing them.
QUESTIONS = frozenset({
    "startswith", "endswith", "find", "rfind", "index", "rindex", "count", "isalnum", "isalpha", "isascii", "isdecimal",
    "isdigit", "isidentifier", "islower", "isnumeric", "isprintable", "isspace", "istitle", "isupper", "issubset",
    "issuperset", "isdisjoint", "is_integer",
})  # fmt: skip
ORDERS = frozenset({"__lt__", "__le__", "__gt__", "__ge__"})
#: What only plain values have: who calls these on the other side compares with such a value.
OF_TEXT = frozenset({
    "lower", "upper", "casefold", "strip", "lstrip", "rstrip", "replace", "split", "startswith", "endswith", "find",
    "title", "capitalize", "swapcase", "translate", "encode", "decode", "normalize", "removeprefix", "removesuffix",
})  # fmt: skip
CONVERSIONS = VALUES | {"repr", "abs", "round", "sorted", "len", "iter", "zip", "any", "all", "sum", "math.isclose"}
#: Modules that tests read, compare, measure and start programs with.
MODULES = frozenset({
    "asyncio", "bisect", "builtins", "calendar", "collections", "contextlib", "copy", "csv", "dataclasses", "datetime",
    "decimal", "difflib", "enum", "filecmp", "fractions", "functools", "glob", "hashlib", "heapq", "inspect", "io",
    "itertools", "json", "json.decoder", "json.encoder", "math", "numbers", "operator", "os", "os.path", "pathlib",
    "pickle", "posixpath", "pprint", "random", "re", "shutil", "statistics", "string", "struct", "subprocess",
    "tempfile", "textwrap", "threading", "time", "types", "uuid", "zoneinfo",
})  # fmt: skip
#: What programs replace for reasons of their own.
USUAL = frozenset({"json.JSONEncoder.default", "builtins.print", "builtins.input", "threading.excepthook"})
UNDOES = re.compile(r"(?i)restore|unpatch|uninstall|undo|revert|reset|disable|unset|stop|deactivate|teardown|__exit__")


def answers(tree: ast.Module) -> Iterator[Hit]:
    """Find classes whose operators do not look at their operands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            bases = {dotted_name(each).rpartition(".")[2] for each in node.bases}
            methods = [each for each in node.body if isinstance(each, Function)]
            for each in methods:
                if (strong := _wishful(each, bases, methods, node.name)) is not None:
                    for line in {each.lineno, each.body[-1].lineno}:  # one of them is new
                        yield Hit(line, ANSWERS, strong=strong, caps=True)


def _wishful(method: Function, bases: set[str], methods: list[Function], own: str) -> bool | None:
    """Return whether a method is enough for a doubt; None: it is as others are."""
    value = _only_value(method)
    if value is None:
        return None
    if method.name == "__contains__" and is_constant(value, value=True):
        return bool(bases & CONTAINERS)
    if method.name in QUESTIONS and isinstance(value, ast.Constant):
        return bool(bases & VALUES) or None
    if (
        method.name in ARITHMETIC | CONVERSION_METHODS
        and isinstance(value, ast.Constant)
        and isinstance(value.value, int | float)
    ):
        return bool(bases & NUMBERS) if bases & NUMBERS or method.name not in CONVERSION_METHODS else None
    if method.name in ORDER and is_constant(value, value=True):
        return bool(bases & (NUMBERS | CONTAINERS)) or None
    alone = all(each.name.startswith("__") and _only_value(each) is not None for each in methods)
    if method.name == "__bool__" and is_constant(value, value=True) and alone:
        return False
    if method.name == "__getattr__" and not any(_says_no(each) for each in methods):
        asked = method.args.args[-1].arg if method.args.args else ""
        made = isinstance(value, ast.Call) and ast.unparse(value.func) in (own, "type(self)", "self.__class__")
        made = made and not any(isinstance(each, ast.Name) and each.id == asked for each in ast.walk(value))
        return False if made or (isinstance(value, ast.Name) and value.id == "self") else None
    return None


def _says_no(method: Function) -> bool:
    """Tell the mark of an object that stands for nothing."""
    value = _only_value(method)
    return method.name == "__bool__" and value is not None and is_constant(value, value=False)


def _only_value(method: Function) -> ast.expr | None:
    """Return what a method returns where it does nothing else."""
    body = [each for each in method.body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]
    return body[0].value if len(body) == 1 and isinstance(body[0], ast.Return) else None


def swallowers(tree: ast.Module) -> Iterator[tuple[str, Hit]]:
    """Find context managers and decorators that drop every failure inside them, with the name each is used by."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for each in node.body:
                if isinstance(each, Function) and each.name in ("__exit__", "__aexit__") and _returns_true(each):
                    yield node.name, Hit(each.body[-1].lineno, SWALLOWS, strong=False, caps=True)
        elif isinstance(node, Function):
            inner = {each.name for each in ast.walk(node) if isinstance(each, Function)} - {node.name}
            wanted = ast.Yield if any("contextmanager" in ast.unparse(each) for each in node.decorator_list) else None
            given = {each.arg for each in (*node.args.posonlyargs, *node.args.args)}
            for each in ast.walk(node):
                if isinstance(each, ast.Try) and (line := _drops(each)):
                    called = {dotted_name(one.func) for one in ast.walk(each) if isinstance(one, ast.Call)}
                    yields = wanted is not None and any(isinstance(one, wanted) for one in ast.walk(each))
                    if yields or (inner and called & given):
                        yield node.name, Hit(line, SWALLOWS, strong=False, caps=True)


def _returns_true(method: Function) -> bool:
    """Tell an `__exit__` that ends with `return True` in every case."""
    last = method.body[-1]
    return isinstance(last, ast.Return) and last.value is not None and is_constant(last.value, value=True)


def _drops(node: ast.Try) -> int:
    """Return the line of a handler that takes every failure and raises none; 0: there is none."""
    for each in node.handlers:
        kinds = each.type.elts if isinstance(each.type, ast.Tuple) else [each.type]
        broad = any(kind is None or dotted_name(kind) in BROAD for kind in kinds)
        if broad and not any(isinstance(one, ast.Raise) for one in ast.walk(each)):
            return each.body[0].lineno
    return 0


def listed_answers(tree: ast.Module, kinds: Collection[str] = LISTS) -> list[int]:
    """Find an iterator over constants that functions take their results from, in the order in which they are called."""
    lists: dict[str, int] = {}
    for node in tree.body:
        value = node.value if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) else None
        items = value.args[0] if value and value.args and dotted_name(value.func) in kinds else None
        if isinstance(items, ast.List | ast.Tuple) and items.elts and all(_is_written(each) for each in items.elts):
            lists |= {dotted_name(target): node.lineno for target in cast("ast.Assign", node).targets}
    taken = {dotted_name(each.args[0]) for each in calls(tree) if dotted_name(each.func) == "next" and each.args}
    taken |= {
        dotted_name(each.func).rpartition(".")[0]
        for each in calls(tree)
        if dotted_name(each.func).endswith((".popleft", ".pop"))
    }
    return [line for name, line in lists.items() if name in taken]


def _is_written(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) or (isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant))


def exits_handed_over(tree: ast.Module) -> list[int]:
    """Find `os._exit` handed over to be called later, by a finalizer or a default argument."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute | ast.Name) and id(node) not in called]
    return [
        node.lineno
        for node in names
        if dotted_name(node) in ("os._exit", "posix._exit") and isinstance(node.ctx, ast.Load)
    ]


def at_module_level(tree: ast.Module) -> list[Hit]:
    """Find an exit with success that every import of the file meets; strong where more of the module would follow."""
    found: list[Hit] = []
    parts = ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef
    last = max((at for at, node in enumerate(tree.body) if isinstance(node, parts)), default=-1)
    for at, node in enumerate(tree.body):
        if _exits_well(node):
            found.append(Hit(node.lineno, EXITS, strong=at < last, caps=last >= 0))  # what has no parts is a program
        elif isinstance(node, ast.If) and "fork" in ast.unparse(node.test):
            found += [
                Hit(each.lineno, EXITS, strong=True)
                for each in calls(node)
                if dotted_name(each.func) in ("os._exit", "sys.exit")
            ]
    return found


def _exits_well(node: ast.stmt) -> bool:
    call = node.value if isinstance(node, ast.Expr) else node.exc if isinstance(node, ast.Raise) else None
    if isinstance(node, ast.Raise) and isinstance(call, ast.Name):
        return call.id == "SystemExit"
    if not isinstance(call, ast.Call) or dotted_name(call.func) not in ("sys.exit", "exit", "quit", "SystemExit"):
        return False
    return not call.args or is_constant(call.args[0], value=0) or is_none(call.args[0])


def is_frame_attribute(target: ast.expr) -> bool:
    """Tell the variables of another function or module, reached through its frame."""
    return isinstance(target, ast.Attribute) and target.attr in ("f_globals", "f_locals", "f_builtins")


def fake_modules(tree: ast.Module) -> list[int]:
    """Return the lines that put a module, made in this file, under another name into `sys.modules`."""
    if not any(dotted_name(each.func).endswith("ModuleType") for each in calls(tree)):
        return []
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Subscript)
        and dotted_name(target.value) == "sys.modules"
        and isinstance(target.slice, ast.Constant)
    ]


def lenient_comparisons(tree: ast.Module) -> Iterator[Hit]:
    """Find classes with a comparison of their own that stands for the one of a plain value."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield from _of_class(node)
        elif isinstance(node, ast.Call) and dotted_name(node.func) in ("type", "types.new_class"):
            yield from _of_made(node)


def _of_class(node: ast.ClassDef) -> Iterator[Hit]:
    derived = _is_value(node.bases)
    for each in node.body:
        name = ""
        if isinstance(each, Function):
            name = each.name
        elif isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
            name = each.targets[0].id if not isinstance(each.value, ast.Constant) else ""
        if (
            derived and name in EQUALS | ORDERS | QUESTIONS | {"__contains__", "__len__"} and not _looks_up(each, name)
        ) or (name in EQUALS and isinstance(each, Function) and _meets_values(each)):
            lines = {each.lineno, *(one.lineno for one in ast.walk(each) if isinstance(one, ast.stmt))}
            yield from (Hit(line, LENIENT, strong=False) for line in sorted(lines))


def _looks_up(method: ast.AST, name: str) -> bool:
    """Tell a lookup of its own that leaves the answer to the plain type: `return super().__contains__(key.lower())`."""
    asks = name in QUESTIONS | {"__contains__", "__len__"}
    last = method.body[-1] if isinstance(method, Function) and asks else None
    value = last.value if isinstance(last, ast.Return) else None
    return isinstance(value, ast.Call) and ast.unparse(value.func) == f"super().{name}"


def loop_enders(tree: ast.Module) -> Iterator[Hit]:
    """Find `raise StopIteration` outside of iterators: it ends the loop of the caller, as if nothing were left."""
    iterators = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, Function) and node.name in ITERATES
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and node.exc is not None and id(node) not in iterators:
            raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            if dotted_name(raised) in ("StopIteration", "StopAsyncIteration", "builtins.StopIteration"):
                yield Hit(node.lineno, ENDS_LOOP, strong=False)


def _of_made(node: ast.Call) -> Iterator[Hit]:
    """Find a class that is made by a call, from a plain type and methods in a dictionary."""
    bases = [each for part in node.args for each in (part.elts if isinstance(part, ast.Tuple) else ())]
    keys = {
        key.value
        for part in node.args
        if isinstance(part, ast.Dict)
        for key in part.keys
        if isinstance(key, ast.Constant)
    }
    if keys & (EQUALS | ORDERS) or (_is_value(bases) and "__contains__" in keys):
        yield Hit(node.lineno, LENIENT, strong=False)


def _is_value(bases: list[ast.expr]) -> bool:
    names = [each.value if isinstance(each, ast.Subscript) else each for each in bases]
    return any(dotted_name(each).rpartition(".")[2] in VALUES for each in names)


def _meets_values(method: Function) -> bool:
    """Tell a comparison that takes the other side for a plain value: it asks for its type, or converts it unasked."""
    arguments = [each.arg for each in (*method.args.posonlyargs, *method.args.args)]
    if len(arguments) < 2:
        return False
    other = arguments[1]
    called = [each for each in ast.walk(method) if isinstance(each, ast.Call)]
    asked = [each.args[1] for each in called if dotted_name(each.func) == "isinstance" and _is_about(each, other)]
    kinds = [one for each in asked for one in (each.elts if isinstance(each, ast.Tuple) else [each])]
    if kinds:
        return _is_value(kinds)
    return any(_converts(each, other) for each in called)


def _is_about(node: ast.Call, other: str) -> bool:
    return len(node.args) == 2 and isinstance(node.args[0], ast.Name) and node.args[0].id == other


def _converts(node: ast.Call, other: str) -> bool:
    if any(isinstance(each, ast.Name) and each.id == other for each in node.args):
        return dotted_name(node.func) in CONVERSIONS
    of = node.func.value if isinstance(node.func, ast.Attribute) and node.func.attr in OF_TEXT else None
    return isinstance(of, ast.Name) and of.id == other


def replaced_library_parts(tree: ast.Module) -> list[Hit]:
    """Find assignments to functions and classes of the standard library; names must be resolved already."""
    imported = _imported_modules(tree)
    places = list(_places(tree, ()))
    undone = {name for name, _, above in places if any(_undoes(each) for each in above)}
    found: list[Hit] = []
    for name, node, above in places:
        if name.partition(".")[0] not in imported or name in USUAL or not _is_theirs(name):
            continue
        guarded = _is_guarded(name, above) or _for_a_while(name, above)
        known = (_in_function(above) and name in undone) or _is_anothers(node, imported)
        found.append(Hit(node.lineno, REPLACES, strong=not guarded and not known, caps=not guarded))
    return found


def _imported_modules(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
        elif isinstance(node, ast.Call) and dotted_name(node.func) in ("__import__", "importlib.import_module"):
            found.add(dotted_name(node).partition(".")[0])
    return found


Above = tuple[ast.AST, ...]


def _places(node: ast.AST, above: Above) -> Iterator[tuple[str, ast.stmt | ast.expr, Above]]:
    """Return the dotted names that are assigned or deleted, with the statements around each."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Assign | ast.Delete):
            for target in child.targets:
                yield from ((name, child, above) for name in _targets(target))
        elif isinstance(child, ast.AugAssign | ast.AnnAssign):
            yield from ((name, child, above) for name in _targets(child.target))
        elif isinstance(child, ast.Call) and (name := _set_by_call(child)):
            yield name, child, above
        yield from _places(child, (*above, child))


def _targets(target: ast.expr) -> Iterator[str]:
    if isinstance(target, ast.Tuple | ast.List):
        for each in target.elts:
            yield from _targets(each)
    elif isinstance(target, ast.Attribute) and _is_plain(target):
        yield dotted_name(target)
    elif isinstance(target, ast.Subscript):
        of, key = target.value, fold_text(target.slice)
        if key and isinstance(of, ast.Attribute) and of.attr == "__dict__":
            yield f"{dotted_name(of.value)}.{key}"
        elif key and isinstance(of, ast.Call) and dotted_name(of.func) == "vars" and of.args:
            yield f"{dotted_name(of.args[0])}.{key}"


def _is_plain(node: ast.AST) -> bool:
    """Tell a dotted name from an attribute of what a call returns."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) or (isinstance(node, ast.Call) and "import" in dotted_name(node.func))


def _set_by_call(node: ast.Call) -> str:
    name = dotted_name(node.func)
    if name in ("setattr", "delattr", "type.__setattr__", "object.__setattr__") and len(node.args) >= 2:
        key = fold_text(node.args[1])
        return f"{dotted_name(node.args[0])}.{key}" if key and _is_plain(node.args[0]) else ""
    return ""


def _is_theirs(name: str) -> bool:
    """Tell a function or class that the standard library has: what is added to it hides nothing."""
    parts = name.split(".")
    module = next((size for size in (2, 1) if ".".join(parts[:size]) in MODULES and len(parts) > size), 0)
    if not module:
        return False
    found: object = importlib.import_module(".".join(parts[:module]))
    for part in parts[module:]:
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return callable(found) or parts[0] == "math"


def _in_function(above: Above) -> bool:
    return any(isinstance(each, Function) for each in above)


def _for_a_while(name: str, above: Above) -> bool:
    """Tell a function that puts the part back itself, whatever happens in between."""
    functions = [each for each in above if isinstance(each, Function)]
    ends = [each for function in functions for each in ast.walk(function) if isinstance(each, ast.Try)]
    return any(
        name == other for each in ends for end in each.finalbody for other, _, _ in _places(ast.Module([end], []), ())
    )


def _is_anothers(node: ast.AST, imported: set[str]) -> bool:
    """Tell a part of another library that is put in: `json.dumps = orjson.dumps`."""
    value = node.value if isinstance(node, ast.Assign) else None
    return isinstance(value, ast.Attribute) and dotted_name(value).partition(".")[0] in imported - {"operator"}


def _undoes(node: ast.AST) -> bool:
    """Tell a place where something is put back as it was."""
    return (isinstance(node, Function) and bool(UNDOES.search(node.name))) or (
        isinstance(node, ast.Try) and bool(node.finalbody)
    )


def _is_guarded(name: str, above: Above) -> bool:
    """Tell a part that is given to old versions of Python only."""
    for each in above:
        if isinstance(each, ast.If):
            test = ast.unparse(each.test)
            last = name.rpartition(".")[2]
            if re.search(rf"not hasattr\([\w.]+, '{last}'\)|sys\.version_info\S* <", test):
                return True
        if isinstance(each, ast.ExceptHandler) and each.type is not None:
            kinds = {*re.findall(r"\w+", ast.unparse(each.type))}
            if kinds & {"ImportError", "AttributeError", "ModuleNotFoundError"}:
                return True
    return False
