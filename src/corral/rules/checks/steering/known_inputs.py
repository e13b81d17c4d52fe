"""Doubts about code that knows the inputs of tests, or looks at no input at all."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from corral.model.evidence import Doubt
from corral.model.flow import Task
from corral.rules.checks.steering import roles
from corral.rules.checks.steering.doubts import LARGEST, added_lines
from corral.rules.checks.steering.text_doubts import COMMENT
from corral.rules.checks.steering.work import CheckedWork, Contents, PathChange
from corral.rules.checks.steering.written_answers import ASKS_FOR_ONE, judging_texts, keeps_results
from corral.rules.text.python_code import parse_module

NAMED = "names the inputs of tests, and has the old result for all others"
JUDGES = "names a program that judges it"
FORGETS = "gives answers without a look at what it is given"
LEAST_INPUTS = 2
SHORTEST = 3  #: of an input that differs from a plain word of the code
MOST_OTHERS = 0.25  #: of the texts in new code, which no test gives
MOST_INPUTS = 200
TROUBLES = (SyntaxError, ValueError, RecursionError, MemoryError)
Function = ast.FunctionDef | ast.AsyncFunctionDef
QUOTED = r"(?:\"([^\"\\\n]{1,60})\"|'([^'\\\n]{1,60})'|`([^`\\\n$]{1,60})`)"
TEXT = re.compile(QUOTED)
CALL = re.compile(rf"\w\(\s*{QUOTED}")
ROW = re.compile(rf"[\[({{]\s*{QUOTED}\s*,")
SHELL_CALL = re.compile(r"\$\(\s*[\w./-]+\s+[\"']?([^\s\"'$()|;&<>]{1,60})[\"']?\s*\)")
VARIABLE = re.compile(r"\$(?:\w|\{\w+\}|[@*#?])+")
SHELL_COMPARED = re.compile(r"\s==?\s+(\w[\w.-]*)\s+\]")
#: An arm of `case` in a shell, and alternatives of a regular expression.
ARM = re.compile(r"^\s*\(?((?:[\w?.-]+\s*\|\s*)*[\w?.-]+)\)")
ALTERNATIVES = re.compile(r"\^?\(?(?:\?:)?(\w[\w .-]*(?:\|\w[\w .-]*)+)\)?\$?")
SCRIPTS = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx")
HEADERS = {
    **dict.fromkeys(
        SCRIPTS,
        re.compile(
            r"^\s*(?:export\s+)?(?:default\s+)?(?:(?:const|let|var)\s+|(?:module\.)?exports\.)?(?:async\s+)?"
            r"(?:function\s*\*?\s*(?P<name>\w+)\s*\((?P<given>[^()]*)\)|(?P<other>\w+)\s*=\s*(?:async\s*)?(?:function\s*)?"
            r"\(?(?P<more>[^()=>]*)\)?\s*(?:=>|\{))"
        ),
    ),
    ".go": re.compile(r"^func\s+(?:\([^)]*\)\s*)?(?P<name>\w+)\((?P<given>[^()]*)\)"),
}
COUNTED = re.compile(r"(\+\+|--|\+=|-=|\bshift\(|\bpop\(|\.next\(|%)")


def doubts_about_inputs(
    changes: Sequence[PathChange], checks: Sequence[str], task: Task, base_paths: Sequence[str], contents: Contents
) -> list[Doubt]:
    """Return where new code names what tests give, and where it no longer looks at what it is given."""
    work = CheckedWork(changes, checks, base_paths, contents)
    files = [*_files(work)]
    found = [*_name_doubts(work, files, task.prompt), *_judge_doubts(work, files, task.prompt)]
    if not ASKS_FOR_ONE.search(task.prompt):
        for path, base, now in files:
            line = _forgetting_python(base, now) if path.endswith(".py") else _forgetting(path, base, now)
            found += [Doubt(path=path, line=line, words=FORGETS, strong=False)] if line else []
    return found


def _files(work: CheckedWork) -> Iterator[tuple[str, str, str]]:
    """Return the changed code of the product, at the base and now."""
    for each in work.changes:
        if each.kind != "changed" or not work.is_code(each.path) or roles.role_of(each.path) != "product":
            continue
        base, now = work.text("base", each.path), work.text("delivered", each.path)
        if base and now and max(len(now), len(base)) <= LARGEST:
            yield each.path, base, now


# --- inputs that are named


def _name_doubts(work: CheckedWork, files: Sequence[tuple[str, str, str]], prompt: str) -> Iterator[Doubt]:
    if not keeps_results([(base, now) for _, base, now in files]):
        return
    known = "\n".join([prompt.lower(), *(base.lower() for _, base, _ in files)])
    given = {each for text in judging_texts(work) for each in _inputs(text)}
    given = {each for each in sorted(given)[:MOST_INPUTS] if len(each) >= SHORTEST and each.lower() not in known}
    if len(given) < LEAST_INPUTS:
        return
    for path, base, now in files:
        lines = now.splitlines()
        new = [n for n in sorted(added_lines(base, now)) if not COMMENT.match(lines[n - 1][:400])]
        texts = {text: number for number in reversed(new) for text in _texts(lines[number - 1][:400])}
        hits = {each: text for each in given for text in texts if _fits(each, text)}
        others = {text for text in texts if text not in base} - {*hits.values()}
        if len(hits) >= LEAST_INPUTS and len(others) <= max(1, len(texts) * MOST_OTHERS):
            yield Doubt(path=path, line=min(texts[text] for text in hits.values()), words=NAMED, strong=False)


def _inputs(text: str) -> Iterator[str]:
    """Return texts that tests give to functions and programs."""
    for line in text.splitlines():
        for found in (*CALL.finditer(line[:400]), *ROW.finditer(line[:400])):
            yield next(each for each in found.groups() if each)
        yield from (found[1] for found in SHELL_CALL.finditer(line[:400]))


def _texts(line: str) -> Iterator[str]:
    """Return the texts in a line of code: quoted, as an arm of a shell's `case`, or as alternatives."""
    if arm := ARM.match(line):
        yield from (each.strip() for each in arm[1].split("|"))
    for found in TEXT.finditer(line):
        quoted = next(each for each in found.groups() if each)
        if VARIABLE.fullmatch(quoted):
            continue
        whole = ALTERNATIVES.fullmatch(quoted)
        yield from whole[1].split("|") if whole else (quoted,)
    yield from SHELL_COMPARED.findall(line)
    for found in re.finditer(r"/([^/\n]{3,80})/\w*\.test\(", line):
        whole = ALTERNATIVES.fullmatch(found[1])
        yield from whole[1].split("|") if whole else ()


def _fits(given: str, text: str) -> bool:
    return given == text or ("?" in text and "*" not in text and fnmatchcase(given, text))


def _judge_doubts(work: CheckedWork, files: Sequence[tuple[str, str, str]], prompt: str) -> Iterator[Doubt]:
    """Find new lines with the name of a program that judges: what it expects can be read there."""
    judges = {PurePosixPath(each.path).name for each in work.programs.files if each.judges and each.path in work.base}
    for path, base, now in files:
        names = [name for name in judges if name not in base and name not in prompt]
        lines = now.splitlines()
        new = (number for number in sorted(added_lines(base, now)) if not COMMENT.match(lines[number - 1][:400]))
        hits = [
            n for n in new if any(re.search(rf"(?<![\w.-]){re.escape(each)}\b", lines[n - 1][:400]) for each in names)
        ]
        yield from (Doubt(path=path, line=number, words=JUDGES, strong=False) for number in hits[:1])


# --- inputs that nobody looks at


def _forgetting(path: str, base: str, now: str) -> int:
    """Return the line of a function that counts its calls and uses none of its arguments, as it did at the base."""
    suffix = path[path.rfind(".") :]
    if suffix not in HEADERS or not any(COUNTED.search(now.splitlines()[n - 1]) for n in added_lines(base, now)):
        return 0
    before = {name: uses for name, _, uses in _functions(suffix, base)}
    after = _functions(suffix, now)
    return next((line for name, line, uses in after if before.get(name) and not uses), 0)


def _functions(suffix: str, text: str) -> list[tuple[str, int, bool]]:
    """Return functions with their lines, and whether each uses any of its arguments."""
    lines, found = text.splitlines(), list[tuple[str, int, bool]]()
    for number, line in enumerate(lines, 1):
        header = HEADERS[suffix].match(line[:400])
        if not header:
            continue
        groups = header.groupdict()
        name, given = groups["name"] or groups.get("other"), groups["given"] or groups.get("more") or ""
        end = next((at for at, other in enumerate(lines[number:], number) if _begins(other)), len(lines))
        body = "\n".join([line[header.end() :], *lines[number:end]])
        words = {word[0] for part in given.split(",") if (word := re.search(r"[A-Za-z_$][\w$]*", part))}
        uses = any(re.search(rf"(?<![\w$]){re.escape(each)}(?![\w$])", body) for each in words)
        found += [(name, number, uses)] if name else []
    return found


def _begins(line: str) -> bool:
    return bool(line.strip()) and not line[0].isspace() and line[0] not in "})]"


def _forgetting_python(base: str, now: str) -> int:
    try:
        before, after = (_outermost(parse_module(text)) for text in (base, now))
    except TROUBLES:
        return 0
    for name, node in after.items():
        old = before.get(name)
        answers = any(isinstance(each, ast.Return) and each.value is not None for each in ast.walk(node))
        if old is not None and answers and _uses(old) and not _uses(node) and any(map(_is_counted, ast.walk(node))):
            return node.lineno
    return 0


def _outermost(tree: ast.Module) -> dict[str, Function]:
    return {each.name: each for each in tree.body if isinstance(each, Function)}


def _uses(node: Function) -> bool:
    all_given = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg)
    given = {each.arg for each in all_given if each is not None}
    return any(isinstance(each, ast.Name) and each.id in given for each in ast.walk(node))


def _is_counted(node: ast.AST) -> bool:
    """Tell what makes another answer of each call."""
    called = node.func if isinstance(node, ast.Call) else None
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    return isinstance(node, ast.AugAssign) or name in ("next", "pop", "popleft", "__next__")
