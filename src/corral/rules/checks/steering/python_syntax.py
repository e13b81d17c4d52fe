"""Small questions about Python's syntax trees: names, calls, texts put together from parts."""

from __future__ import annotations

import ast


def dotted_name(node: ast.AST) -> str:
    """Return a dotted name, of a call that of its function; "" for what is none.

    `getattr(os, "_exit")`, `__import__("os")._exit` and `os.__dict__["_exit"]` are `os._exit`, too.
    """
    if isinstance(node, ast.Call):
        text = fold_text(node.args[-1]) if node.args else None
        name = dotted_name(node.func)
        if name in ("__import__", "importlib.import_module") and text:
            return text
        if name == "getattr" and len(node.args) >= 2 and (attribute := fold_text(node.args[1])):
            return f"{dotted_name(node.args[0])}.{attribute}"
        return name
    if isinstance(node, ast.Attribute):
        inner = dotted_name(node.value)
        return f"{inner}.{node.attr}" if inner else node.attr
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "__dict__":
        return f"{dotted_name(node.value.value)}.{fold_text(node.slice) or ''}"
    return node.id if isinstance(node, ast.Name) else ""


def resolve_imports(tree: ast.Module) -> None:
    """Give names that an import brought in their full name: after `from os import _exit as e`, `e` is `os._exit`."""
    known: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            known |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            known |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in known and isinstance(node.ctx, ast.Load):
            node.id = known[node.id]


def calls(node: ast.AST) -> list[ast.Call]:
    return [each for each in ast.walk(node) if isinstance(each, ast.Call)]


def strings_in(node: ast.AST) -> list[str]:
    """Return the texts in an expression, also those put together from parts."""
    plain = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    joined = [
        fold_text(each)
        for each in ast.walk(node)
        if isinstance(each, ast.BinOp | ast.JoinedStr | ast.Call | ast.Subscript)
    ]
    return [*plain, *(text for text in joined if text)]


def fold_text(node: ast.AST) -> str | None:
    """Return a text put together from constants: `"py" + "test"`, `"".join(["py", "test"])`, `"tsetyp"[::-1]`."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = fold_text(node.left), fold_text(node.right)
        return None if left is None or right is None else left + right
    if isinstance(node, ast.JoinedStr):
        parts = [fold_text(each.value if isinstance(each, ast.FormattedValue) else each) for each in node.values]
        return None if None in parts else "".join(part or "" for part in parts)
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "join"
        and len(node.args) == 1
    ):
        items = node.args[0].elts if isinstance(node.args[0], ast.List | ast.Tuple) else []
        parts = [fold_text(each) for each in items]
        glue = fold_text(node.func.value)
        return None if glue is None or None in parts or not parts else glue.join(part or "" for part in parts)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and ast.unparse(node.slice) == "::-1":
        text = fold_text(node.value)
        return None if text is None else text[::-1]
    return None


def is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def is_constant(node: ast.AST, *, value: bool | int) -> bool:
    return (
        isinstance(node, ast.Constant)
        and node.value is not None
        and node.value == value
        and not isinstance(node.value, str)
    )
