"""Python code as syntax trees."""

from __future__ import annotations

import ast
import threading

#: CPython counts the depth of the trees that it makes for all threads together, and fails where two make them at once.
ONE_AT_A_TIME = threading.Lock()


def parse_module(text: str) -> ast.Module:
    with ONE_AT_A_TIME:
        return ast.parse(text)


def parse_expression(text: str) -> ast.expr:
    with ONE_AT_A_TIME:
        return ast.parse(text, mode="eval").body
