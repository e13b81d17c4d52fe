"""Whether a program that a check runs is there to judge the work, or is the work's own product."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection

from corral.rules.checks.steering.roles import judges_by_name
from corral.rules.text.python_code import parse_module

RUNNERS = re.compile(
    r"\b(pytest|py\.test|unittest|doctest|nose2?|tox|npm (run )?(test|t)\b|npx|jest|vitest|mocha|go test|"
    r"cargo test|make \w*(test|check)|rspec|phpunit|ctest|bats|node --test|node:test|node:assert|assert|mvn|gradle)"
)
VERDICT = re.compile(
    r"\b(diff|cmp|exit [1-9]|grep -[a-zA-Z]*q)\b|\|\|\s*(exit|fail)|\[ [^]]*(=|-eq|-ne)[^]]* \]|process\.exit\(1\)"
)
#: Functions that compare and complain: a library of checks.
SHELL_ASSERTIONS = re.compile(
    r"(?m)^\s*(function\s+)?(expect|assert|check|fail|finish|pass|ok|die|verify|run_test|must)\w*\s*\(\)"
)
PROGRAM = re.compile(r"\b(python\d?|node|sh|bash|ruby|perl|go run|\./[\w./-]+)\s")


def judges(path: str, text: str, modules: Collection[str]) -> bool:
    """Tell by name and base content; `modules`: top-level Python modules that the repository has."""
    if judges_by_name(path):
        return True
    if not text:
        return False
    if path.endswith(".py") or re.match(r"#!.*python", text):
        return _python(text, modules)
    if path.endswith((".js", ".mjs", ".cjs", ".ts")):
        return bool(
            re.search(r"require\(['\"]\.|from ['\"]\.", text) and re.search(r"\bassert\b|node:test|expect\(", text)
        )
    if SHELL_ASSERTIONS.search(text):
        return True
    return bool(RUNNERS.search(text) or (VERDICT.search(text) and PROGRAM.search(text)))


def _python(text: str, modules: Collection[str]) -> bool:
    try:
        tree = parse_module(text)
    except (SyntaxError, ValueError, RecursionError):
        return False
    names: set[str] = set()
    asserts = False
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").split(".")[0])
        elif isinstance(node, ast.Assert) or (isinstance(node, ast.FunctionDef) and node.name.startswith("test")):
            asserts = True
        elif isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value == 1:
            continue
    return bool(names & {"pytest", "unittest", "doctest"}) or (asserts and bool(names & {*modules}))
