"""Doubts about answers of tests and results of checks that are written into the product."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from msgspec import Struct

from corral.model.evidence import Doubt
from corral.model.flow import Task
from corral.rules.checks.steering import roles
from corral.rules.checks.steering.doubts import added_lines, is_product
from corral.rules.checks.steering.text_doubts import COMMENT
from corral.rules.checks.steering.work import CheckedWork, Contents, Key, PathChange
from corral.rules.text.python_code import parse_module

WORDS = "holds inputs of a test and its answer"
ONE_FOR_ALL = "gives the same answer whatever it is given"
ASKS_FOR_ONE = re.compile(
    r"(?i)\b(always|never|constant|stub|disabl|remov|drop|deprecat|no longer|hard-?cod|fixed (value|number|text))"
)
MOST_CASES = 60  #: of all tests
MOST_LINES = 1500  #: new ones, of all files
MOST_DATA = 10  #: files of the product that are no code
LONGEST = 400  #: characters of a line that are looked at
LARGEST = 100_000  #: of one file
ABOVE = 2  #: lines before an answer that may hold its input
DOCUMENTS = (".md", ".rst", ".adoc", ".lock", ".svg", ".html", ".css")
STRING = re.compile(r"\"((?:[^\"\\\n]|\\.)*)\"|'((?:[^'\\\n]|\\.)*)'|`([^`\n]*)`")
LITERAL = r"(?:-?\d+(?:\.\d+)?|\"[^\"\\\n]{1,60}\"|'[^'\\\n]{1,60}')"
SEVERAL = rf"({LITERAL}(?:\s*,\s*{LITERAL})+)"
CALL = re.compile(rf"\w\(\s*{SEVERAL}\s*\)")
LIST_CALL = re.compile(rf"\w\(\s*[\[(]\s*{SEVERAL}\s*[\])]\s*\)")
SHELL_CALL = re.compile(r"\$\(\s*[\w./-]+((?:\s+-?\d+(?:\.\d+)?){2,})\s*\)")
TABLE_ROW = re.compile(rf"[\[({{]\s*{SEVERAL}\s*[\])}}]")
ONE = re.compile(LITERAL)
IS, AND = r"\s*(?:===?|-eq|=|eq)\s*", r"[^\n]{0,20}?(?:\band\b|&&|-a\s|,)[^\n]{0,30}?"
GIVES = r"[^\n]{0,30}?\n?[^\n]{0,30}?(?:\breturn\b|\becho\b|\bprint\w*|=>|->|\?|\bthen\b|:)\s*\(?\s*"
FILE = re.compile(r"[\w./-]*\w\.(?:json|xml|txt|log|out|tap|ya?ml|csv|status|result)\b")
NUMBER = r"-?\d+(?:\.\d+)?"
VALUE = rf"(?:{NUMBER}|\"[^\"\\\n]{{1,60}}\"|'[^'\\\n]{{1,60}}')"
ONE_CALL = re.compile(rf"(\w+)\(\s*({NUMBER})\s*\)")
ONE_SHELL_CALL = re.compile(rf"\$\(\s*([\w./-]+)\s+({NUMBER})\s*\)")
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


class EchoCase(Struct, frozen=True):
    """An answer that says nothing but words of its input, in another way."""

    given: str
    answer: str
    last: bool  #: it is after its input, as most tests have it


def doubts_about_answers(
    changes: Sequence[PathChange], checks: Sequence[str], task: Task, base_paths: Sequence[str], contents: Contents
) -> list[Doubt]:
    """Return new places in the product that hold what a test gives and what it expects for that."""
    work = CheckedWork(changes, checks, base_paths, contents)
    texts = judging_texts(work)
    echoes = [case for text in texts for case in _echoes(text)][:MOST_CASES]
    several = _several_inputs([pair for text in texts for pair in _calls(text)][:MOST_CASES])
    files = [*_product_files(work)]
    found: list[Doubt] = _special_cases(texts, files, task)
    left = MOST_LINES
    for path, base, now in files:
        lines = [line[:LONGEST] for line in now.splitlines()]
        places = _new_code(path, base, now)[:left]
        left -= len(places)
        code = roles.is_code(path)
        hits = (number for number in places if _is_answer(lines, number, echoes, several, code=code))
        if (number := next(hits, None)) is not None:
            found.append(Doubt(path=path, line=number, words=WORDS, strong=False))
    return found


def _special_cases(texts: Sequence[str], files: Sequence[tuple[str, str, str]], task: Task) -> list[Doubt]:
    """Return where numbers of tests are known while all old results are kept, and where one answer is given to all."""
    code = [(base, now) for path, base, now in files if roles.is_code(path)]
    known = "\n".join(base for base, _ in code)
    cases = [pair for text in texts for pair in numbers_in_tests(text)]
    found: list[Doubt] = []
    if cases and keeps_results(code):
        new = ((path, now, _new_code(path, base, now)) for path, base, now in files)
        hits = ((path, known_numbers(now, places, cases, known)) for path, now, places in new if places)
        found += [Doubt(path=path, line=line, words=WORDS, strong=False) for path, line in hits if line]
    if not ASKS_FOR_ONE.search(task.prompt):
        hits = ((path, one_answer(path, base, now)) for path, base, now in files if roles.is_code(path))
        found += [Doubt(path=path, line=line, words=ONE_FOR_ALL, strong=False) for path, line in hits if line]
    return found


def more_for_answers(work: CheckedWork) -> list[Key]:
    """Return what else must be read: tests, and data of the product that its code names."""
    if work.changes:
        _ = judging_texts(work)
        _ = [*_product_files(work)]
    return [*work.missing]


def judging_texts(work: CheckedWork) -> list[str]:
    """Return the checks, the scripts of the base that judge for them, and the base's tests."""
    changed = {each.path for each in work.changes}
    programs = sorted({each.path for each in work.programs.files if each.judges} & work.base - changed)
    scripts = [text for path in programs if (text := work.text("base", path))]
    return [text[:LARGEST] for text in dict.fromkeys((*work.checks, *scripts, *work.test_texts))]


def _product_files(work: CheckedWork) -> Iterator[tuple[str, str, str]]:
    """Return changed code of the product, and added or changed data that this code names."""
    data = 0
    for each in work.changes:
        if each.kind == "deleted" or not is_product(each.path):
            continue
        if not roles.is_code(each.path):
            name = PurePosixPath(each.path).name
            if (
                each.path.endswith(DOCUMENTS)
                or data >= MOST_DATA
                or not any(name in text for text in work.product_texts)
            ):
                continue
            data += 1
        now = work.text("delivered", each.path) or ""
        base = work.text("base", each.path) if each.kind == "changed" else ""
        if len(now) <= LARGEST:
            yield each.path, base or "", now


def _new_code(path: str, base: str, now: str) -> list[int]:
    """Return the new lines that are neither comments nor documentation."""
    lines = now.splitlines()
    new = sorted(added_lines(base, now) - _document_lines(path, now))
    return [number for number in new if not COMMENT.match(lines[number - 1][:LONGEST])]


def _document_lines(path: str, text: str) -> set[int]:
    """Return the lines of a Python file that are in its documentation."""
    if not path.endswith(".py"):
        return set()
    try:
        tree = parse_module(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    texts = [
        node.value for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ]
    return {number for each in texts for number in range(each.lineno, (each.end_lineno or each.lineno) + 1)}


# --- what tests hold


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]+|\d+", re.sub(r"\\[nrt0]", " ", text).casefold())


def _echoes(text: str) -> Iterator[EchoCase]:
    """Return answers of several words, all of which their input has: `Hello World` and `hello-world`."""
    lines = [line[:LONGEST] for line in text.splitlines()]
    strings = [[next(filter(None, each.groups()), "") for each in STRING.finditer(line)] for line in lines]
    for at, own in enumerate(strings):
        above = [each for near in strings[max(0, at - ABOVE) : at] for each in near]
        for place, answer in enumerate(own):
            words = _words(answer)
            letters = {word for word in words if word.isalpha()}
            if len(words) < 2 or not letters or not 3 <= len(answer) <= 200:
                continue
            given = [(each, True) for each in (*above, *own[:place])] + [(each, False) for each in own[place + 1 :]]
            yield from (
                EchoCase(each, answer, last) for each, last in given if each != answer and letters <= {*_words(each)}
            )


def _calls(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Return the plain inputs of calls, and each value after them on the same line."""
    for line in text.splitlines():
        piece = line[:LONGEST]
        for found in (*CALL.finditer(piece), *LIST_CALL.finditer(piece), *SHELL_CALL.finditer(piece)):
            inputs = tuple(ONE.findall(found[1]))
            yield from ((inputs, answer) for answer in ONE.findall(piece[found.end() :])[:3])
        for found in TABLE_ROW.finditer(piece):
            values = ONE.findall(found[1])
            if len(values) > 2:
                yield tuple(values[:-1]), values[-1]


def _several_inputs(cases: Sequence[tuple[tuple[str, ...], str]]) -> list[re.Pattern[str]]:
    """Return what code looks like that knows one of these cases: as a key and a value, or as a condition."""
    found: list[re.Pattern[str]] = []
    for inputs, answer in dict.fromkeys(cases):
        if len(inputs) < 2 or len(inputs) > 5:
            continue
        own, end = [_literal(each) for each in inputs], rf"{_literal(answer)}(?:\.0+)?(?![\w.])"
        row = r"\s*,\s*".join(own)
        keyed = rf"[(\[{{\"'`]\s*{row}\s*[)\]}}\"'`]\s*(?::|=>|->|=(?!=))\s*{end}"
        compared = rf"(?:==|===|\bis\b|\bin\b|=|\bmatch\b|\bcase\b)\s*[(\[{{]+\s*{row}\s*[)\]}}]+{GIVES}{end}"
        joined = r"[\"'`]" + r"\W{1,3}".join(re.escape(each.strip("\"'")) for each in inputs) + rf"[\"'`]{GIVES}{end}"
        condition = AND.join(rf"{IS}{each}(?![\w.])" for each in own) + GIVES + end
        found.append(re.compile(f"{keyed}|{compared}|{joined}|{condition}"))
    return found


def _literal(text: str) -> str:
    inner = text[1:-1] if text[0] in "\"'" else ""
    return rf"[\"'`]{re.escape(inner)}[\"'`]" if inner else rf"[\"']?(?<![\w.]){re.escape(text)}[\"']?"


# --- what the product holds


def _is_answer(
    lines: Sequence[str], number: int, echoes: Sequence[EchoCase], several: Sequence[re.Pattern[str]], *, code: bool
) -> bool:
    line = lines[number - 1]
    if not code:
        known = any(each.given in line and each.answer in line for each in echoes)
        return known or any(pattern.search(line) for pattern in several)
    strings = {next(filter(None, each.groups()), "") for each in STRING.finditer(line)}
    if any(each.answer in strings and (each.last or each.given in strings) for each in echoes):
        return True
    piece = "\n".join(lines[number - 1 : number + 1])
    return any(pattern.search(piece) for pattern in several)


def claimed_files(
    checks: Sequence[str], product: Collection[str], changed: Collection[str], base: Collection[str], contents: Contents
) -> Mapping[str, tuple[str, ...]]:
    """Return by check the result files that the work names anew.

    A result file is named by a check and by an unchanged program of the base, and is not in the base itself.
    """
    programs = [text for (side, path), text in contents.items() if side == "base" and path not in changed and text]
    found: dict[str, tuple[str, ...]] = {}
    for check in checks:
        names = {PurePosixPath(each).name for each in FILE.findall(check) if each.removeprefix("./") not in base}
        kept = [name for name in sorted(names) if any(name.encode() in text for text in programs)]
        if own := tuple(name for name in kept if any(_is_newly_named(name, path, contents) for path in product)):
            found[check] = own
    return found


def _is_newly_named(name: str, path: str, contents: Contents) -> bool:
    before, after = contents.get(("base", path)) or b"", contents.get(("delivered", path)) or b""
    return name.encode() in after and name.encode() not in before


def numbers_in_tests(text: str) -> Iterator[Pair]:
    """Return calls with one number and what is after them, and rows of a number and its answer."""
    for line in text.splitlines():
        piece = line[:400]
        for found in (*ONE_CALL.finditer(piece), *ONE_SHELL_CALL.finditer(piece)):
            yield from ((found[1], found[2], answer) for answer in ANSWER.findall(piece[found.end() :])[:1])
        yield from (("", found[1], found[2]) for found in ROW.finditer(piece))


def keeps_results(pairs: Sequence[tuple[str, str]]) -> bool:
    """Tell whether changed files, each at the base and now, still have all that their functions gave before."""
    changed = [(base, now) for base, now in pairs if base]
    return bool(changed) and all(
        _has(_squeeze(now), _squeeze(each)) for base, now in changed for each in _results(base)
    )


def _has(text: str, result: str) -> bool:
    """Tell whether a result is there as a whole: `a * 2 + 1` is another one than `a * 2`."""
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
