"""Tests that are inside product files: `#[cfg(test)]` modules of Rust and doctests of Python, put back into them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from corral.rules.text.python_code import parse_module

RUST_TESTS = re.compile(
    r"(?m)^[ \t]*#\[cfg\((?:all\()?test\b[^\]]{0,200}\]\s*(?:#\[[^\]]{0,200}\]\s*){0,10}(?:pub\s+)?mod\s+(\w+)\s*\{"
)
STRING_OR_BRACE = re.compile(
    r"//[^\n]*|/\*.*?(?:\*/|\Z)|\br(#*)\".*?(?:\"\1|\Z)|\"(?:[^\"\\]|\\.)*(?:\"|\Z)|'(?:\\.[^']*|[^'\\])'|[{}]",
    re.DOTALL,
)


def with_tests_of(path: str, base: bytes | None, delivered: bytes | None, *, doctests: bool) -> bytes | None:
    """Return a product file with the base's inline tests; None where they are the same, or there are none."""
    if base is None or delivered is None or base == delivered:
        return None
    try:
        before, now = base.decode(), delivered.decode()
        if path.endswith(".rs"):
            result = _rust(before, now)
        elif path.endswith(".py") and doctests and ">>>" in before:
            result = _python(before, now)
        else:
            return None
    except (ValueError, SyntaxError, RecursionError):
        return None
    return None if result == now else result.encode()


# --- Rust


def _modules(text: str) -> Iterator[tuple[str, int, int]]:
    """Return the test modules of a file: name, start, end."""
    end = 0
    for found in RUST_TESTS.finditer(text):
        if found.start() < end:
            continue
        depth, end = 1, len(text)
        for piece in STRING_OR_BRACE.finditer(text, found.end()):
            depth += {"{": 1, "}": -1}.get(piece[0], 0)
            if depth == 0:
                end = piece.end()
                yield found[1], found.start(), end
                break


def _rust(before: str, now: str) -> str:
    known = {name: before[start:end] for name, start, end in _modules(before)}
    result, place = "", 0
    missing = dict(known)
    for name, start, end in _modules(now):
        if start < place or name not in known:
            continue
        result += now[place:start] + known[name]
        place = end
        missing.pop(name, None)
    result += now[place:]
    return result + "".join(f"\n{text}\n" for text in missing.values())


# --- Python

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _docstrings(tree: ast.Module) -> Iterator[tuple[str, ast.Constant]]:
    def walk(node: Documented, name: str) -> Iterator[tuple[str, ast.Constant]]:
        first = node.body[0] if node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            yield name, first.value
        for each in node.body:
            if isinstance(each, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield from walk(each, f"{name}.{each.name}")

    yield from walk(tree, "")


def _python(before: str, now: str) -> str:
    """Put the docstrings that hold examples back, each where the function of that name is now."""
    old = {name: node for name, node in _docstrings(parse_module(before)) if ">>>" in str(node.value)}
    lines = now.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode()))
    data = now.encode()
    spots = [
        (
            starts[node.lineno - 1] + node.col_offset,
            starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0),
            name,
        )
        for name, node in _docstrings(parse_module(now))
        if name in old and str(old[name].value) != str(node.value)
    ]
    for start, end, name in sorted(spots, reverse=True):
        text = ast.get_source_segment(before, old[name]) or ""
        data = data[:start] + text.encode() + data[end:]
    return data.decode()
