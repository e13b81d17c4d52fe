"""Which module of the package imports which: all imports are counted, also those in functions and for types alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"


def import_graph(source: Path = SOURCE) -> dict[str, frozenset[str]]:
    """Return for each module of the package those that it imports."""
    files = {_name(path.relative_to(source)): path for path in sorted(source.glob("corral/**/*.py"))}
    return {
        name: frozenset(each for each in _imported(path.read_text(), files) if each != name)
        for name, path in files.items()
    }


def _name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(text: str, known: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module in known:
            for each in node.names:
                whole = f"{node.module}.{each.name}"
                yield whole if whole in known else node.module


def cycles(graph: Mapping[str, frozenset[str]]) -> list[list[str]]:
    """Return the groups of modules that import each other, in a circle of any length (Tarjan)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        number[name] = lowest[name] = len(number)
        path.append(name)
        for other in graph[name]:
            if other not in number:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in path:
                lowest[name] = min(lowest[name], number[other])
        if lowest[name] == number[name]:
            circle = path[path.index(name) :]
            del path[-len(circle) :]
            if len(circle) > 1:
                found.append(sorted(circle))

    for name in graph:
        if name not in number:
            visit(name)
    return found


def single_importers(graph: Mapping[str, frozenset[str]]) -> dict[str, str]:
    """Return the modules that exactly one other imports, and which that is."""
    importers: dict[str, list[str]] = {name: [] for name in graph}
    for name, imported in graph.items():
        for each in imported:
            importers[each].append(name)
    return {name: only[0] for name, only in importers.items() if len(only) == 1}
