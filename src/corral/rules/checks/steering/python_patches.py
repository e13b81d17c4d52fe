"""Doubts about Python code that replaces parts of the standard library, which tests judge with."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator

from corral.rules.checks.steering.python_syntax import dotted_name, fold_text
from corral.rules.checks.steering.text_doubts import REPLACES, Hit

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
Function = ast.FunctionDef | ast.AsyncFunctionDef


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
