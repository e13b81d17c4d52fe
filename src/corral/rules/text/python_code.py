"""Python code as syntax trees."""

from __future__ import annotations

import ast
import contextlib
import threading
from typing import Any, cast

#: CPython counts the depth of the trees that it makes for all threads together, and fails where two make them at once.
ONE_AT_A_TIME = threading.Lock()
TRIES = 20  #: libraries make trees without this lock


def parse_module(text: str) -> ast.Module:
    return cast("ast.Module", _tree(text, "exec"))


def parse_expression(text: str) -> ast.expr:
    return cast("ast.Expression", _tree(text, "eval")).body


def literal_value(text: str) -> Any:  # noqa: ANN401 -- any plain value
    return ast.literal_eval(parse_expression(text.lstrip(" \t")))


def _tree(text: str, mode: str) -> ast.AST:
    with ONE_AT_A_TIME:
        for _ in range(TRIES):
            with contextlib.suppress(SystemError):
                return ast.parse(text, mode=mode)
        return ast.parse(text, mode=mode)
