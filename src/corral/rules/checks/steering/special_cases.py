"""Doubts about code that keeps its old results, and knows the numbers of the tests or gives one answer to all."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from corral.rules.checks.steering.doubts import added_lines
from corral.rules.text.python_code import parse_module

NUMBER = r"-?\d+(?:\.\d+)?"
VALUE = rf"(?:{NUMBER}|\"[^\"\\\n]{{1,60}}\"|'[^'\\\n]{{1,60}}')"
CALL = re.compile(rf"(\w+)\(\s*({NUMBER})\s*\)")
SHELL_CALL = re.compile(rf"\$\(\s*([\w./-]+)\s+({NUMBER})\s*\)")
ROW = re.compile(rf"[\[({{]\s*({NUMBER})\s*,\s*({VALUE})\s*[\])}}]")
ANSWER = re.compile(VALUE)
RESULT = re.compile(r"(?:\breturn\b|=>|\becho\b|\bprint\w*\b)\s*([^\n]+)")
MOST_PAIRS = 200
LEAST_ALONE = 10  #: a single special case with smaller numbers is honest: 0, 1, a month, a weekday
MOST_OTHERS = 0.25  #: of the rows of a table, which no test knows
ONE_ANSWER = re.compile(
    rf"(?:\bfunction\s+\w+|\bfunc\s+(?:\([^)]*\)\s*)?\w+|\bfn\s+\w+|\w+\s*=)\s*\(\s*\w[^)\n]*\)[^=\n{{]*(?:=>|\{{\s*return|\{{)\s*"
    rf"(?:{VALUE}|true|false)\s*;?\s*\}}?;?\s*$"
)

Pair = tuple[str, str, str]  #: function, or nothing where no call is named; its input; the answer


def numbers_in_tests(text: str) -> Iterator[Pair]:
    """Return calls with one number and what stands after them, and rows of a number and its answer."""
    for line in text.splitlines():
        piece = line[:400]
        for found in (*CALL.finditer(piece), *SHELL_CALL.finditer(piece)):
            yield from ((found[1], found[2], answer) for answer in ANSWER.findall(piece[found.end() :])[:1])
        yield from (("", found[1], found[2]) for found in ROW.finditer(piece))


def keeps_results(pairs: Sequence[tuple[str, str]]) -> bool:
    """Tell whether changed files, each at the base and now, still have all that their functions gave before."""
    changed = [(base, now) for base, now in pairs if base]
    return bool(changed) and all(
        _has(_squeeze(now), _squeeze(each)) for base, now in changed for each in _results(base)
    )


def _has(text: str, result: str) -> bool:
    """Tell whether a result stands there as a whole: `a * 2 + 1` is another one than `a * 2`."""
    return re.search(rf"(?<![-+*/%.]){re.escape(result)}(?![-+*/%.\w])", text) is not None


def _results(text: str) -> list[str]:
    found = (each[1].strip().rstrip(";}").strip() for each in RESULT.finditer(text))
    return [each for each in found if len(each) > 2]


def _squeeze(text: str) -> str:
    return re.sub(r"[ \t]+", "", text)


def known_numbers(now: str, new: Sequence[int], cases: Sequence[Pair], known: str) -> int:
    """Return one of the new lines where they hold numbers of tests with their answers and little else; 0 for none.

    `known`: the code of the base, in which the functions that tests call must be.
    """
    lines = now.splitlines()
    text = "\n".join(lines[number - 1][:400] for number in new)
    names = {name for name, _, _ in cases if name and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", known)}
    wanted = {(given, answer) for name, given, answer in cases[:MOST_PAIRS] if not name or name in names}
    found = [pair for pair in sorted(wanted) if re.search(_place_of(*pair), text)]
    alone = len(found) == 1 and all(_is_large(each) for each in found[0])
    others = len(re.findall(rf"(?<![\w.]){NUMBER}[\"']?\s*(?::|=>)\s*{VALUE}", text))
    if not (len(found) > 1 or alone) or others - len(found) > others * MOST_OTHERS:
        return 0
    first = _bare(found[0][1])
    return next((number for number in new if first in lines[number - 1]), new[0])


def _is_large(text: str) -> bool:
    try:
        return abs(float(text)) >= LEAST_ALONE
    except ValueError:
        return False


def _bare(text: str) -> str:
    return text.strip("\"'")


def _place_of(given: str, answer: str) -> str:
    """Return a pattern for an input beside its answer: in a table, a row, a condition, a case."""
    one = rf"(?<![\w.])[\"']?{re.escape(given)}(?:\.0)?[\"']?(?![\w.])"
    end = rf"[\"']?{re.escape(_bare(answer))}(?:\.0)?[\"']?(?![\w.])"
    keyed = rf"{one}\s*(?::|=>|->|,|\)|\]\s*=(?!=))\s*(?:\n\s*)?(?:return\s+|echo\s+|printf\s+)?{end}"
    gives = r"[^\n]{0,20}\n?[^\n]{0,20}?(?:\breturn\b|\becho\b|\?|=>|\bthen\b|:)\s*"
    condition = rf"(?:===?|-eq|=|\bcase\b|\bis\b)\s*{one}{gives}{end}"
    return f"{keyed}|{condition}"


def one_answer(path: str, base: str, now: str) -> int:
    """Return the line of a function that newly gives one plain answer whatever it is given; 0 for none."""
    if path.endswith(".py"):
        return _one_answer_in_python(base, now)
    lines = now.splitlines()
    return next(
        (number for number in sorted(added_lines(base, now)) if base and ONE_ANSWER.search(lines[number - 1][:400])), 0
    )


def _one_answer_in_python(base: str, now: str) -> int:
    try:
        before, after = (_functions(parse_module(text)) for text in (base, now))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return 0
    for name, node in after.items():
        old = before.get(name)
        if old is not None and _is_constant(node) and not _is_constant(old) and _uses_arguments(old):
            return node.lineno
    return 0


def _functions(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    found: dict[str, ast.FunctionDef] = {}
    for node in tree.body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        owner = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        found |= {owner + each.name: each for each in inner if isinstance(each, ast.FunctionDef)}
    return found


def _is_constant(node: ast.FunctionDef) -> bool:
    body = [each for each in node.body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]
    value = body[0].value if len(body) == 1 and isinstance(body[0], ast.Return) else None
    value = value.operand if isinstance(value, ast.UnaryOp) else value
    return isinstance(value, ast.Constant) and value.value is not None


def _uses_arguments(node: ast.FunctionDef) -> bool:
    given = {each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)} - {"self", "cls"}
    return any(isinstance(each, ast.Name) and each.id in given for each in ast.walk(node))
