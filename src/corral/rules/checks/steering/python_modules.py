"""Doubts about a Python module as a whole: exits at import, exits handed over, answers taken from a list."""

from __future__ import annotations

import ast
from typing import cast

from corral.rules.checks.steering.python_syntax import calls, dotted_name, is_constant, is_none
from corral.rules.checks.steering.text_doubts import EXITS, Hit


def listed_answers(tree: ast.Module) -> list[int]:
    """Find an iterator over constants that functions take their results from, in the order in which they are called."""
    lists: dict[str, int] = {}
    for node in tree.body:
        value = node.value if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) else None
        items = (
            value.args[0]
            if value and value.args and dotted_name(value.func) in ("iter", "deque", "collections.deque")
            else None
        )
        if (
            isinstance(items, ast.List | ast.Tuple)
            and items.elts
            and all(isinstance(each, ast.Constant) for each in items.elts)
        ):
            lists |= {dotted_name(target): node.lineno for target in cast("ast.Assign", node).targets}
    taken = {dotted_name(each.args[0]) for each in calls(tree) if dotted_name(each.func) == "next" and each.args}
    taken |= {
        dotted_name(each.func).rpartition(".")[0]
        for each in calls(tree)
        if dotted_name(each.func).endswith((".popleft", ".pop"))
    }
    return [line for name, line in lists.items() if name in taken]


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
