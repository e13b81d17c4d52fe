"""Checked calls of JavaScript tests that depend on nothing but their own values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from corral.rules.checks.altering import code_text
from corral.rules.checks.altering.code_text import arguments, calls, closing
from corral.rules.checks.altering.node_tests import ASSERTS, EXPECTS, tests_of
from corral.rules.checks.outside.checked import CheckedCall, State, States, literal
from corral.rules.checks.outside.node_literals import NotPlain, values

FILES = (".js", ".mjs", ".cjs")
#: What prepares the surroundings of tests, or stands for parts of the product.
SETUP = re.compile(
    r"\b(before|after)(Each|All)?\s*\(|\b(jest|vi|sinon|td|mock|nock|rewire|proxyquire)\b|process\s*[.\[]"
)
#: Settings of runners with which a program outside would be another one.
SETTINGS = re.compile(
    r"setupFiles|globalSetup|moduleNameMapper|transform|alias|environment|globals|--require|--import|-r\s|\"?require\"?\s*:"
)
NAME = r"[A-Za-z_$][\w$]*"
REQUIRED = re.compile(
    rf"\b(?:const|let|var)\s+({NAME}|\{{[^{{}}]*\}})\s*=\s*require\s*\(\s*(['\"])([^'\"\n]+)\2\s*\)\s*(?=[;\n])"
)
IMPORTED = re.compile(rf"\bimport\s+({NAME}|\*\s*as\s+{NAME}|\{{[^{{}}]*\}})\s*from\s*(['\"])([^'\"\n]+)\2")
CALLED = re.compile(rf"\s*({NAME}(?:\.{NAME})*)\s*\(")


def found_in(path: str, text: str, own_name: str, states: States) -> list[CheckedCall]:
    """Return the checked calls of the tests of one file; `own_name`: of the package."""
    code = code_text.JAVASCRIPT.sub(_blank_match, text)
    if not path.endswith(FILES) or SETUP.search(code):
        return []
    names = _names(text, own_name)
    return [
        each
        for test in tests_of(text, code)
        if (state := states.get((path, test.name))) and _only_compares(code[test.start : test.end])
        for each in _calls(path, text, code, (test.start, test.end), names, state)
    ]


def _blank_match(found: re.Match[str]) -> str:
    """Return as many signs in place of a string; a comment becomes blanks."""
    return re.sub(r"[^\n]", " " if found[0].startswith(("//", "/*")) else "_", found[0])


def _names(text: str, own_name: str) -> Mapping[str, tuple[str, str, bool]]:
    """Return the local names of what is loaded from the product."""
    found: dict[str, tuple[str, str, bool]] = {}
    for pattern, imported in ((REQUIRED, False), (IMPORTED, True)):
        for each in pattern.finditer(text):
            bound, module = each[1].strip(), each[3]
            if not module.startswith(("./", "../")) and (imported or module != own_name):
                continue
            if bound.startswith("{"):
                for part in bound[1:-1].split(","):
                    words = re.fullmatch(rf"\s*({NAME})(?:\s*(?::|\bas\b)\s*({NAME}))?\s*", part)
                    if words:
                        found[words[2] or words[1]] = (module, words[1], imported)
            elif bound.startswith("*"):
                found[bound.split()[-1]] = (module, "", imported)
            else:
                found[bound] = (module, "default" if imported else "", imported)
    return found


def _comparisons(code: str, start: int, end: int) -> Iterator[tuple[int, int, tuple[int, int], tuple[int, int]]]:
    """Return comparisons by equality: where each begins and ends, the value that is judged, the expected one."""
    for first, opened, close in calls(code[:end], ASSERTS):
        given = arguments(code, opened, close)
        if first >= start and len(given) >= 2:
            yield first, close + 1, given[0], given[1]
    for first, opened, close in calls(code[:end], "expect"):
        matcher = EXPECTS.match(code, close)
        last = closing(code, matcher.end() - 1) if matcher else None
        if first >= start and matcher and last is not None:
            yield first, last + 1, (opened + 1, close), (matcher.end(), last)


def _only_compares(code: str) -> bool:
    """Tell whether a test does nothing but compare."""
    left = code
    for first, last, *_ in sorted(_comparisons(code, 0, len(code)), reverse=True):
        left = left[:first] + left[last:]
    return not left.strip(" \t\r\n;")


def _calls(
    path: str, text: str, code: str, place: tuple[int, int], names: Mapping[str, tuple[str, str, bool]], state: State
) -> Iterator[CheckedCall]:
    for _, _, judged, expected in sorted(_comparisons(code, *place)):
        called = CALLED.match(code, *judged)
        close = closing(code, called.end() - 1) if called else None
        if called is None or close is None or code[close + 1 : judged[1]].strip():
            continue
        first, _, rest = called[1].partition(".")
        if first not in names:
            continue
        module, name, imported = names[first]
        try:
            given, wanted = values(text[called.end() : close]), values(text[slice(*expected)])
        except NotPlain:
            continue
        if given and len(wanted) == 1:
            yield CheckedCall(
                language="node",
                module=module,
                name=".".join(filter(None, (name, rest))),
                arguments=literal(given),
                expected=literal(wanted[0]),
                state=state,
                where=path,
                imported=imported,
            )
