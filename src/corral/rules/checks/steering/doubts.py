"""Doubts about added lines of product code: patterns honest work hardly ever has, and looks at its surroundings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from corral.model.evidence import Doubt
from corral.model.flow import Task
from corral.rules.checks.steering import python_doubts, python_objects, roles, text_doubts, text_patterns
from corral.rules.checks.steering.command_text import is_shell
from corral.rules.checks.steering.text_doubts import COMMENT
from corral.rules.checks.steering.text_patterns import LOOKS, Look
from corral.rules.checks.steering.work import CheckedWork, Contents, Key, PathChange
from corral.rules.scope import globs
from corral.rules.text.python_code import parse_module

IGNORES = ".gitignore"
MOST_DOUBTS = 50
SETS = re.compile(text_patterns.SETS_VARIABLE)
WRAPPER = re.compile(r"(?m)^\s*(?:(?:async\s+)?with\s+|@)([^\n#]{1,300})")
MOST_BYTES, LARGEST = 2_000_000, 300_000  #: of product code that is looked at: in all, and of one file
MOST_LINES, LONGEST = 5000, 400
BY_SURROUNDINGS = "decides by its surroundings"
CONDITION = re.compile(
    r"\b(?:if|elif|elsif|unless|when|case|while|until|switch|match|and|or|not)\b|\?|&&|\|\||#\[cfg|\bfilter\(|\[\[? "
)
COMPLAINS = re.compile(
    r"(?:raise|throw|panic|assert|die|abort|warn\w*|log\w*|console|fmt\.(?:Print|Fprint)\w*)\b|print(?:ln)?!?\("
)
#: Where a function begins, in most languages.
FUNCTION = re.compile(
    r"^\s*(?:export\s+)?(?:default\s+)?(?:pub(?:\(\w+\))?\s+)?(?:static\s+)?(?:async\s+)?(?:def|fn|func|function|sub|fun)\b[^\w(]*"
    r"(?:\([^)]*\)\s*)?(\w+)|^\s*(?:const|let|var|exports\.|module\.exports\.)?\s*(\w+)\s*=\s*(?:async\s*)?(?:function\b|\([^)]*\)\s*=>|\w+\s*=>)"
    r"|^(\w[\w:-]*)\s*\(\)\s*\{?"
)  # fmt: skip
NAMED = re.compile(
    r"^\s*(?:const|let|var|readonly|local|export|static|final)?\s*(?:mut\s+)?([A-Za-z_]\w*)[\w,: ]*?\s*:?=(?!=)"
)
ENTRIES = re.compile(
    r"(?i)^(?:_*main_*|cli|run|start|launch|usage|parse_?args?|__init__|setup|configure|log|print\w*|write\w*|show\w*)$"
)


def more_for_doubts(work: CheckedWork) -> list[Key]:
    """Return what else must be read to find doubts, once the product's own code is known."""
    if work.added and IGNORES in work.base:
        work.text("base", IGNORES)
    if any(SETS.search(text) for text in work.product_texts):
        _ = work.test_texts
    return [*work.missing]


def doubts(changes: Sequence[PathChange], contents: Contents) -> list[Doubt]:
    """Return what added lines of product files look like that speaks against the work; strong ones first."""
    found: list[Doubt] = []
    scripts = _check_scripts(changes, contents)
    texts = [
        content.decode(errors="replace")
        for (side, path), content in contents.items()
        if side == "delivered" and content and path.endswith(".sh")
    ]
    used = _wrappers(contents)
    found += _ignored_files(changes, contents)
    left = MOST_BYTES
    for each in sorted(changes, key=lambda one: len(contents.get(("delivered", one.path)) or b"")):
        delivered = contents.get(("delivered", each.path))
        if each.kind == "deleted" or delivered is None or not is_product(each.path):
            continue
        left -= len(delivered)
        if left < 0 or len(delivered) > LARGEST:
            found.append(Doubt(path=each.path, line=1, words="is too large to be looked at", strong=False))
            continue
        base = contents.get(("base", each.path)) if each.kind == "changed" else None
        before, now = (base or b"").decode(errors="replace"), delivered.decode(errors="replace")
        found += of_file(each.path, before, now)
        found += _swallowed_failures(each.path, before, now, used)
        found += _variables(each.path, before, now, contents)
        if any(text_doubts.sources(text, each.path) for text in (*scripts, *texts)) and scripts:
            new = added_lines(before, now)
            hits = text_doubts.sourced_hits(before, now.splitlines(), new, scripts)
            found += [Doubt(path=each.path, line=hit.line, words=hit.words, strong=hit.strong) for hit in hits]
    return sorted(found, key=lambda each: not each.strong)[:MOST_DOUBTS]


def _check_scripts(changes: Sequence[PathChange], contents: Contents) -> list[str]:
    """Return the base's shell scripts that were read because checks run them."""
    changed = {
        each.path for each in changes if roles.role_of(each.path) == "product" and not roles.judges_by_name(each.path)
    }
    return [
        content.decode(errors="replace")
        for (side, path), content in contents.items()
        if side == "base"
        and content is not None
        and path not in changed
        and is_shell(path, content[:200].decode(errors="replace"))
    ]


def _wrappers(contents: Contents) -> set[str]:
    """Return the names that the base's tests are wrapped in: by `with`, or as decorators."""
    tests = [
        content.decode(errors="replace")
        for (side, path), content in contents.items()
        if side == "base" and content and path.endswith(".py") and roles.is_test(path)
    ]
    lines = [found[1] for text in tests for found in WRAPPER.finditer(text)]
    return {word for line in lines for word in re.findall(r"[A-Za-z_]\w*", line)}


def _swallowed_failures(path: str, base: str, delivered: str, used: set[str]) -> list[Doubt]:
    """Return new places in what wraps the base's tests that keep failures from them."""
    if not used or not path.endswith(".py") or not any(name in delivered for name in used):
        return []
    new = added_lines(base, delivered)
    try:
        hits = list(python_objects.swallowers(parse_module(delivered)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [
        Doubt(path=path, line=hit.line, words=hit.words, strong=False, caps=True)
        for name, hit in hits
        if name in used and hit.line in new
    ]


def _ignored_files(changes: Sequence[PathChange], contents: Contents) -> list[Doubt]:
    """Return added files that the base's .gitignore leaves out: a build may take them for its own results."""
    rules = globs.gitignore((contents.get(("base", IGNORES)) or b"").decode(errors="replace"))
    added = [each.path for each in changes if each.kind == "added"] if rules else []
    return [
        Doubt(path=path, line=1, words=f"is added, though {IGNORES} leaves it out", strong=False)
        for path in added
        if globs.is_ignored(rules, path)
    ]


def _variables(path: str, base: str, delivered: str, contents: Contents) -> list[Doubt]:
    """Return new places that set a variable of the environment which the base's tests name."""
    lines = delivered.splitlines()
    sets = [
        (line, found[1] or found[2])
        for line in added_lines(base, delivered)
        for found in SETS.finditer(lines[line - 1])
    ]
    if not sets:
        return []
    tests = "\n".join(
        content.decode(errors="replace")
        for (side, name), content in contents.items()
        if side == "base" and content and roles.role_of(name) != "product"
    )
    return [
        Doubt(path=path, line=line, words=f"sets the variable {name}, which tests read", strong=False)
        for line, name in sets
        if re.search(rf"\b{name}\b", tests)
    ]


def is_product(path: str) -> bool:
    product = roles.role_of(path) == "product" or path.endswith("CMakeLists.txt")
    return product and "/vendor/" not in f"/{path}" and "/node_modules/" not in f"/{path}"


def of_file(path: str, base: str, delivered: str) -> list[Doubt]:
    """Return the doubts about one file."""
    lines = delivered.splitlines()
    new = added_lines(base, delivered)
    if not new:
        return []
    hits = text_doubts.hits(path, base, lines, new)
    if path.endswith(".py") or (lines and lines[0].startswith("#!") and "python" in lines[0]):
        hits += [hit for hit in python_doubts.hits(delivered) if hit.line in new]
    helps = roles.helps_tests(path)
    seen: dict[tuple[int, str], Doubt] = {}
    for hit in _once(hits):
        key = (hit.line, hit.words)
        strong = (hit.strong and not (helps and hit.words == text_patterns.USES)) or (key in seen and seen[key].strong)
        caps = hit.caps or (key in seen and seen[key].caps)
        seen[key] = Doubt(path=path, line=hit.line, words=hit.words, strong=strong, caps=caps)
    return list(seen.values())


def _once(hits: Sequence[text_doubts.Hit]) -> list[text_doubts.Hit]:
    """Leave out all but the first line of a comparison: each of its lines may be the new one."""
    lenient = sorted((hit for hit in hits if hit.words == text_patterns.LENIENT), key=lambda hit: hit.line)
    return [*lenient[:1], *(hit for hit in hits if hit.words != text_patterns.LENIENT)]


def added_lines(base: str, delivered: str) -> set[int]:
    """Return the numbers of the lines that the base does not have anywhere: what was only moved is not new."""
    known = Counter(line.strip() for line in base.splitlines())
    found: set[int] = set()
    for number, line in enumerate(delivered.splitlines(), 1):
        text = line.strip()
        if known[text] > 0:
            known[text] -= 1
        elif text:
            found.add(number)
    return found


def doubts_about_surroundings(changes: Sequence[PathChange], contents: Contents, task: Task) -> list[Doubt]:
    """Return new conditions, in functions that the base has, which look at something else than what they are given."""
    prompt = task.prompt.lower()
    looks = [each for each in LOOKS if not re.search(each.asked, prompt)]
    found: list[Doubt] = []
    for change in changes:
        delivered, base = (contents.get((side, change.path)) for side in ("delivered", "base"))
        if change.kind != "changed" or not delivered or not base or not _is_looked_at(change.path, delivered):
            continue
        before, now = base.decode(errors="replace"), delivered.decode(errors="replace")
        found += [
            Doubt(path=change.path, line=line, words=f"{BY_SURROUNDINGS}: {what}", strong=False)
            for line, what in _looks_of_file(before, now.splitlines()[:MOST_LINES], looks)
        ]
    return found


def _is_looked_at(path: str, text: bytes) -> bool:
    code = roles.is_code(path) or is_shell(path, text[:200].decode(errors="replace"))
    return code and is_product(path) and not path.endswith(".md")


def _looks_of_file(base: str, lines: Sequence[str], looks: Sequence[Look]) -> Iterator[tuple[int, str]]:
    new = {number for number in added_lines(base, "\n".join(lines)) if not COMMENT.match(lines[number - 1])}
    fresh = [each for each in looks if any(re.search(each.regex, lines[number - 1][:LONGEST]) for number in new)]
    if not fresh:
        return
    known = {name for line in base.splitlines() if (name := _function(line))}
    owners = list(_owners(lines))
    for look in fresh:
        looking = {number for number in new if re.search(look.regex, lines[number - 1][:LONGEST])}
        names = {name for number in looking for name in _names(lines[number - 1], owners[number - 1], known)}
        for number in sorted(new):
            owner, line = owners[number - 1], lines[number - 1][:LONGEST]
            if (owner and owner not in known) or ENTRIES.match(owner) or not CONDITION.search(line):
                continue
            if (look.starts and not owner and "cfg" not in line) or _only_complains(lines, number):
                continue
            if number in looking or any(re.search(rf"(?<![\w.]){re.escape(name)}\b", line) for name in names):
                yield number, look.what
                break


def _only_complains(lines: Sequence[str], number: int) -> bool:
    """Tell whether what a condition leads to is no answer: it raises, warns or prints."""
    after = next((line.strip() for line in lines[number : number + 3] if line.strip()), "")
    return bool(COMPLAINS.match(after))


def _function(line: str) -> str:
    found = FUNCTION.match(line)
    return next((each for each in found.groups() if each), "") if found else ""


def _owners(lines: Sequence[str]) -> Iterator[str]:
    """Return for each line the function that it is in, by its indentation; "" for none."""
    open_ones: list[tuple[int, str]] = []
    for line in lines:
        depth = len(line) - len(line.lstrip())
        if line.strip() and not line.strip().startswith((")", "]", "}")):
            while open_ones and open_ones[-1][0] >= depth:
                open_ones.pop()
        if name := _function(line):
            open_ones.append((depth, name))
        yield open_ones[-1][1] if open_ones else ""


def _names(line: str, owner: str, known: set[str]) -> Iterator[str]:
    """Return what holds the look of a line: a variable that gets it, or a new function around it."""
    if found := NAMED.match(line):
        yield found[1]
    if owner and owner not in known:
        yield owner
