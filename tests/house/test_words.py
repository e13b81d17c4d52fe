"""The vocabulary of docs/concepts/words.md and the plain English of texts, in every file that a reader opens."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from corral.frontends.cli import corral

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "corral"

#: Words that say too little, and their plain ones: report, continue, user, merge, repair, expensive.
ODD = re.compile(
    r"(?<![\w-])(?:told|heeds?|heeded|mends?|mended|mending|dear|dearer|whoever|whomever|foresee|foresees|foreseen|foresaw"
    r"|wants|somebody|persons?|people|purse|turnstile|foreman|lands|landed)(?![\w-])"
    r"|\b(?:go|goes|gone|going|went) on\b"
    r"|\bstands\b(?! for\b| in for\b)",
    re.IGNORECASE,
)
#: Stored data of before 0.2 is still read, and these name it; words.md and AGENTS.md name what not to say.
QUOTED = (
    'tag="heeded"',
    'RESUME_BEFORE = ("go on with corral resume",)',
    '{ heeded: "steer_taken"',
    "`steer_taken` as `heeded`",
    "landed: tuple[str, ...] = ()  #: `merged`",
    ".decode(record).landed",
    "(`told`, `held`, `given`)",
    "| user | the human who uses Corral | person, people |",
    "the record of both | purse |",
    "(`paying`, `people`, `talk`,",
    '"inbox_told"',
    "told: bool = False  #: `reported`",
    "_OLDER_WORK.decode(record).told",
    "- Changed: Events `heeded`, `filled` and `rationed`",
    "`merged` instead of `landed`",
    "`supervisor` instead of `foreman`",
    "`fix` instead of `mend`",
)
READ = ("src", "docs", "editors", "examples", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "AGENTS.md")
#: A migration is what old stores were made by: its words are stored in them.
STORED = "src/corral/store/migrations/"
TEXTS = (".py", ".md", ".html", ".js", ".cjs", ".css", ".sql", ".yaml", ".toml", ".sh", ".c", ".lua", ".json", ".txt")

#: Participles that do not end with `ed`.
IRREGULAR = frozenset(
    [
        "told",
        "shown",
        "held",
        "given",
        "seen",
        "kept",
        "made",
        "laid",
        "gone",
        "done",
        "taken",
        "said",
        "left",
        "lost",
        "begun",
        "known",
        "meant",
        "written",
        "drawn",
        "built",
        "sent",
        "spent",
        "met",
        "paid",
        "bound",
        "chosen",
        "broken",
        "hidden",
        "understood",
        "stood",
        "brought",
        "caught",
        "heard",
        "got",
        "going",
        "standing",
    ]
)
#: No participles: they end with `ed` all the same.
PLAIN = frozenset(("_embed", "feed", "_zed"))
#: What agents' files of other packages implement and call.
PUBLIC = frozenset(("exited", "failed"))


def odd_lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        rest = line
        for quotation in QUOTED:
            rest = rest.replace(quotation, "")
        if found := ODD.search(rest):
            yield number, found[0]


def texts() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", *READ], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = [name for name in listed.splitlines() if name.endswith(TEXTS) and not name.startswith(STORED)]
    return [ROOT / name for name in names if (ROOT / name).exists()]


def commands(group: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    yield " ".join(("corral", *words)), group
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            if (found := group.get_command(context, name)) is not None:
                yield from commands(found, (*words, name))


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(SOURCE)}:{node.lineno}", node


def is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("property" in ast.unparse(each) for each in node.decorator_list)


def is_bare_participle(name: str) -> bool:
    bare = name.strip("_")
    return "_" not in bare and (bare in IRREGULAR or (bare.endswith("ed") and name not in PLAIN))


def test_texts_use_plain_words() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {word}" for path in texts() for line, word in odd_lines(path.read_text())
    ]
    assert found == []


def test_odd_words_would_be_found() -> None:
    text = 'It is told.\nA node stands here; `*` stands for any.\nThe run goes on.\nit is tag="heeded"\nA PERSON\nheld-out\n'
    assert list(odd_lines(text)) == [(1, "told"), (2, "stands"), (3, "goes on"), (5, "PERSON")]


def test_every_quotation_is_still_there() -> None:
    everything = "\n".join(path.read_text() for path in texts())
    assert [quotation for quotation in QUOTED if quotation not in everything] == []


def test_help_uses_plain_words_and_fits_80_columns() -> None:
    found: list[str] = []
    for name, command in commands(corral):
        shown = command.get_help(click.Context(command, info_name=name, terminal_width=80, max_content_width=80))
        found += [f"{name}: {word}" for _, word in odd_lines(shown)]
        found += [f"{name}: {line}" for line in shown.splitlines() if len(line) > 80]
    assert found == []


@pytest.mark.parametrize("word", sorted(IRREGULAR))
def test_no_module_is_called_a_bare_participle(word: str) -> None:
    assert [str(path) for path in SOURCE.rglob(f"{word}.py")] == []


def test_no_function_is_called_a_bare_participle() -> None:
    found = [
        f"{place} {node.name}"
        for place, node in functions()
        if is_bare_participle(node.name) and node.name not in PUBLIC and not is_property(node)
    ]
    assert found == []


def test_a_bare_participle_would_be_found() -> None:
    assert [is_bare_participle(name) for name in ("told", "_held", "merged", "feed", "merged_last", "read", "_zed")] == [
        True, True, True, False, False, False, False,
    ]  # fmt: skip


#: What a user or an agent did wrong; all others are our own failures, or those of the machine.
REQUESTS = frozenset(("BadRequest", "NotFound", "Conflicting", "Untrusted", "SetupFailed", "ChecksFailed", "Blocked"))


def errors_without_hint(text: str) -> list[int]:
    return [
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in REQUESTS
        and len(node.args) < 2 and not any(keyword.arg in ("hint", None) for keyword in node.keywords)
    ]  # fmt: skip


def test_every_error_of_a_request_says_what_to_do() -> None:
    wire = ("machines/far_end/", "machines/frames.py")  # a host and an engine say these to each other
    files = [(str(path.relative_to(SOURCE)), path) for path in sorted(SOURCE.rglob("*.py"))]
    found = [
        f"{name}:{line}"
        for name, path in files
        if not name.startswith(wire)
        for line in errors_without_hint(path.read_text())
    ]
    assert found == []


def test_an_error_without_a_hint_would_be_found() -> None:
    assert errors_without_hint('raise BadRequest("no")\nraise BadRequest("no", hint="do")\nraise NotFound(name)\n') == [
        1,
        3,
    ]
