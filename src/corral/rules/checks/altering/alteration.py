"""Which tests and scripts of a base are altered, and by which ids their outcomes are known."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import PurePosixPath

from msgspec import Struct, field

from corral.rules.checks.altering import node_tests, other_tests, python_tests
from corral.rules.checks.altering.marks import Marks, Name, RewrittenFile, Wanted, marks_of, unchanged_file
from corral.rules.checks.base_comparison import stem
from corral.rules.checks.steering.command_text import is_shell
from corral.rules.checks.steering.programs import COMPARES, CheckPrograms
from corral.rules.checks.steering.roles import is_code

MOST_FILES = 100  #: that are altered for one work
LONGEST = 300_000  #: characters of one file
NODE = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx")
#: More than one command after another, each of which must succeed.
SEVERAL = re.compile(r"[;|!`\n<>]|\$\(|(?<!&)&(?!&)")
Source = Mapping[str, str]  #: path -> text
#: What keeps a difference from deciding about the check: another command behind it, or words that turn its end round.
OTHERWISE = re.compile(r"\|\||;|!|\n|`|\$\(|<\(|(?<![&|])&(?!&)|\b(if|while|until|true)\b")
#: Options of `diff` that leave something out, after which a change may not be seen.
LENIENT = re.compile(r"^(-[a-zA-Z0-9]*[iEZbwBIDFxXnl]|--(ignore|strip|bytes|skip|exclude|print)\S*)")


class AlteredTest(Struct, frozen=True):
    """One test that was altered."""

    id: str  #: of a script its path
    exact: bool  #: all that judges in it was altered, and is certain to run
    inner: bool = False  #: what judges is in a callback or a loop, and was made to fail


class AlteredFiles(Struct, frozen=True, kw_only=True):
    """Files of a base with other expected values."""

    files: Mapping[str, str] = field(default_factory=dict[str, str])
    tests: tuple[AlteredTest, ...] = ()
    scripts: Mapping[str, tuple[AlteredTest, ...]] = field(
        default_factory=dict[str, tuple[AlteredTest, ...]]
    )  #: by check


class _Language(Struct, frozen=True):
    names: Callable[[str], list[Name]]
    altered: Callable[[str, Wanted, Marks], RewrittenFile]
    id: Callable[[str, Name], tuple[str, ...]]  #: path and name -> the ids that it may have


def _python_ids(path: str, name: Name) -> tuple[str, ...]:
    module = path.removesuffix(".py").replace("/", ".")
    parts = module.split(".")
    dotted = [".".join([*parts[place:], *name]) for place in range(len(parts))]
    below = [f"{'/'.join(parts[:place])}/{each}" for place, each in enumerate(dotted) if place]
    return ("::".join((path, *name)), *dotted, *below, ".".join(("__main__", *name)))


def _node_ids(path: str, name: Name) -> tuple[str, ...]:
    return (" > ".join((path, *name)), " > ".join(name))


def _go_ids(path: str, name: Name) -> tuple[str, ...]:
    folder = str(PurePosixPath(path).parent)
    return (name[0] if folder == "." else f"{folder}.{name[0]}",)


def _rust_ids(_: str, name: Name) -> tuple[str, ...]:
    return ("::".join(name),)


PYTHON = _Language(python_tests.test_names, python_tests.alter_tests, _python_ids)


NODES = _Language(node_tests.test_names, node_tests.alter_tests, _node_ids)


LANGUAGES = {
    ".py": PYTHON,
    **dict.fromkeys(NODE, NODES),
    ".go": _Language(other_tests.go_names, other_tests.alter_go, _go_ids),
    ".rs": _Language(other_tests.rust_names, other_tests.alter_rust, _rust_ids),
}


def may_hold(path: str, ids: Collection[str]) -> bool:
    """Tell whether a file may hold one of these tests, by its name alone."""
    file = PurePosixPath(path)
    if file.suffix == ".py":
        names = {each.partition("::")[0] for each in ids}
        dotted = path.removesuffix(".py").replace("/", ".")
        return (
            path in names
            or any(f".{file.stem}." in f".{each}" or each.startswith("__main__.") for each in ids)
            or (dotted in names)
        )
    if file.suffix in NODE:
        files = {each.partition(" > ")[0] for each in ids}
        return path in files or not all(each.endswith(NODE) for each in files)
    return file.suffix in LANGUAGES


def deciding_scripts(programs: CheckPrograms, base: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return by check the scripts that judge for it, where none of them can fail without the check."""
    found: dict[str, tuple[str, ...]] = {}
    for check in programs.deciding:
        own = [each for each in programs.files if each.check == check and not each.depth]
        paths = [each.path for each in own if each.judges and not each.judged and not each.sourced]
        kept = tuple(dict.fromkeys(path for path in paths if path in base and path in check))
        if kept and not SEVERAL.search(check):
            found[check] = kept
    return join_paths(found, compared_files([*programs.deciding], base))


def alter(sources: Source, ids: Collection[str], scripts: Mapping[str, Sequence[str]]) -> AlteredFiles:
    """Alter these tests, by id, and these scripts, by check; what cannot be altered is left alone."""
    files: dict[str, str] = {}
    tests: list[AlteredTest] = []
    owners = _owners(sources, ids)
    for path, names in owners.items():
        text = sources[path]
        made = LANGUAGES[PurePosixPath(path).suffix].altered(text, [*names], marks_of(path, text))
        if made.tests and made.text != text and len(files) < MOST_FILES:
            files[path] = made.text
            tests += [
                AlteredTest(each, exact, name in made.inner)
                for name, exact in made.tests.items()
                for each in names[name]
            ]
    made_scripts = {path: made for path in _all(scripts) if path not in files and (made := _script(path, sources))}
    files |= {path: made.text for path, made in made_scripts.items()}
    kept = {
        check: tuple(
            AlteredTest(path, made.tests[()], bool(made.inner))
            for path in paths
            if (made := made_scripts.get(path)) is not None
        )
        for check, paths in scripts.items()
    }
    return AlteredFiles(files=files, tests=tuple(tests), scripts={check: own for check, own in kept.items() if own})


def _all(scripts: Mapping[str, Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(path for paths in scripts.values() for path in paths))


def _script(path: str, sources: Source) -> RewrittenFile | None:
    """Alter a script whose exit code decides; None where that is not possible."""
    text = sources.get(path)
    if text is None or len(text) > LONGEST:
        return None
    marks = marks_of(path, text)
    if path.endswith(".py") or re.match(r"#!.*python", text):
        made = python_tests.alter_script(text, marks)
    elif path.endswith((".js", ".mjs", ".cjs")):
        made = node_tests.alter_script(text, marks)
    elif is_shell(path, text):
        made = other_tests.alter_script(text, marks)
    elif not is_code(path) and not text.startswith("#!"):
        made = alter_file(text, marks)
    else:
        return None
    return made if made.tests and made.text != text else None


def places_of_ids(sources: Source) -> dict[str, list[tuple[str, Name]]]:
    """Return by id the paths and names of tests that may have it."""
    places: dict[str, list[tuple[str, Name]]] = {}
    for path, text in sources.items():
        language = LANGUAGES.get(PurePosixPath(path).suffix)
        if language is None or len(text) > LONGEST:
            continue
        for name in language.names(text):
            for each in language.id(path, name):
                places.setdefault(each, []).append((path, name))
    return places


def _owners(sources: Source, ids: Collection[str]) -> dict[str, dict[Name, list[str]]]:
    """Return by path and name the ids of tests; an id that may be another's as well is nobody's."""
    places = places_of_ids(sources)
    found: dict[str, dict[Name, list[str]]] = {}
    for each in ids:
        own = places.get(stem(each), [])
        if len(own) == 1:
            path, name = own[0]
            found.setdefault(path, {}).setdefault(name, []).append(each)
    return found


def compared_files(checks: Sequence[str], base: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return by check the file that the last command of each of its pipelines compares with, where that decides."""
    found = {check: tuple(_of_check(check, base)) for check in checks if not OTHERWISE.search(check)}
    return {check: paths for check, paths in found.items() if paths}


def _of_check(check: str, base: Collection[str]) -> list[str]:
    paths: list[str] = []
    for pipeline in check.split("&&"):
        stages = pipeline.split("|")
        try:
            words = shlex.split(stages[-1])
        except ValueError:
            return []
        if "cd" in words[:1]:
            return []
        if not words or words[0] not in COMPARES - {"comm", "vimdiff"} or any(LENIENT.match(word) for word in words):
            continue
        plain = [word.removeprefix("./") for word in words[1:] if not word.startswith("-") or word == "-"]
        known = [word for word in plain if word in base]
        if len(plain) == 2 and "-" in plain and len(stages) > 1 and len(known) == 1:
            paths += known
    return paths


def alter_file(text: str, marks: Marks) -> RewrittenFile:
    """Put a word behind the last line that holds something."""
    if not text.strip():
        return unchanged_file(text)
    end = len(text.rstrip())
    return RewrittenFile(text=text[:end] + marks.word + text[end:], tests={(): True})


def join_paths(
    scripts: Mapping[str, tuple[str, ...]], files: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Return by check everything that can be altered for it."""
    checks = dict.fromkeys((*scripts, *files))
    return {check: (*scripts.get(check, ()), *files.get(check, ())) for check in checks}
