"""Checks that prove little: those that run only tests of the work itself, or rest on the product's own exit code."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from posixpath import normpath

from msgspec import Struct

from corral.rules.checks.steering import roles
from corral.rules.checks.steering.command_text import RECIPES, defines
from corral.rules.checks.steering.programs import TEST_PROGRAMS, CheckPrograms, Target
from corral.rules.checks.steering.work import CheckedWork, Contents, PathChange

#: Which files a test program runs, by their endings.
LANGUAGES = {
    "pytest": (".py",), "py.test": (".py",), "unittest": (".py",), "nose2": (".py",), "tox": (".py",), "nox": (".py",),
    "jest": (".js", ".ts", ".mjs", ".cjs", ".jsx", ".tsx"), "vitest": (".js", ".ts", ".mjs", ".jsx", ".tsx"),
    "mocha": (".js", ".ts", ".mjs", ".cjs"), "node --test": (".js", ".ts", ".mjs", ".cjs"), "go": (".go",),
}  # fmt: skip
STARTERS = re.compile(r"\$(python|node|npm|npx|make|just)")


class OwnTests(Struct, frozen=True):
    """The checks that run nothing but new tests, and the new tests that must stay in H for them."""

    checks: tuple[str, ...] = ()
    kept: frozenset[str] = frozenset()


def own_tests(work: CheckedWork) -> OwnTests:
    new = {each.path for each in work.changes if each.kind == "added" and roles.role_of(each.path) == "test"}
    checks: list[str] = []
    kept: set[str] = set()
    for check in work.checks:
        programs = {
            each.path for each in work.programs.files if each.check == check and not each.depth and not each.judged
        }
        asked = work.programs.named[check] | {
            path for path in programs if path in work.added and roles.judges_by_name(path)
        }
        if asked and not _others(work, check, programs, asked) and all(_is_new(work, path) for path in asked):
            checks.append(check)
            kept |= {path for path in work.added if any(path == each or path.startswith(f"{each}/") for each in asked)}
            kept |= new if asked & new else set()
        elif not asked and not programs and new and (_asks_new_target(work, check) or not _has_tests(work, check)):
            checks.append(check)
            kept |= new
    return OwnTests(tuple(checks), frozenset(kept))


def _others(work: CheckedWork, check: str, programs: Collection[str], asked: Collection[str]) -> set[str]:
    """Return what else decides about a check, besides the tests it is asked to run."""
    deciding = {each for each in work.programs.deciding[check] if each not in programs}
    tools = {each for each in deciding if each[1:] in TEST_PROGRAMS or STARTERS.match(each)}
    return (deciding - tools) | {path for path in programs if path not in asked}


def order_files(target: Target) -> set[str]:
    """Return the files that may define a target."""
    return {normpath(f"{target.folder}/{name}") for name in RECIPES.get(target.tool, ())}


def scripts(
    changes: Sequence[PathChange], checks: Sequence[str], base_paths: Sequence[str], contents: Contents
) -> dict[str, list[str]]:
    """Return by check the texts of the scripts and command files of the base that it runs."""
    work = CheckedWork(changes, checks, base_paths, contents)
    found: dict[str, list[str]] = {}
    for check in checks:
        paths = {each.path for each in work.programs.files if each.check == check}
        paths |= {path for each in work.programs.targets if each.check == check for path in order_files(each)}
        found[check] = [text for path in sorted(paths & work.base) if (text := work.text("base", path))]
    return found


def programs_of(
    changes: Sequence[PathChange], checks: Sequence[str], base_paths: Sequence[str], contents: Contents
) -> CheckPrograms:
    """Return the programs and files that the checks run."""
    return CheckedWork(changes, checks, base_paths, contents).programs


def is_new_target(work: CheckedWork, target: Target) -> bool:
    """Tell whether a check asks for a target or script that the base does not define."""
    files = order_files(target) | {each.path for each in work.programs.files if each.sourced}  # what those include
    return not any(defines(name, work.text("base", name) or "", target.name) for name in sorted(files & work.base))


def _asks_new_target(work: CheckedWork, check: str) -> bool:
    targets = [each for each in work.programs.targets if each.check == check]
    return bool(targets) and all(is_new_target(work, each) for each in targets)


def _is_new(work: CheckedWork, path: str) -> bool:
    folder = f"{path}/"
    return path not in work.base and not any(each.startswith(folder) for each in work.base)


def _has_tests(work: CheckedWork, check: str) -> bool:
    """Tell whether the base has a test that a check may run; where its test program is not known, it has."""
    tools = {each.removeprefix("$") for each in work.programs.deciding[check]} | work.programs.tools
    endings = tuple(ending for tool in tools for ending in LANGUAGES.get(tool, ()))
    return not endings or any(path.endswith(endings) and roles.is_test(path) for path in work.base)


def product_decided_checks(work: CheckedWork, steered: Collection[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the checks that rest on nothing but product files' exit codes, and all such files."""
    changed = {each.path for each in work.changes if each.kind != "deleted" and each.path not in steered}
    programs = [each for each in work.programs.files if not each.depth and not each.judged and not each.judges]
    own = {each.path for each in programs if each.path in changed}
    deciding = work.programs.deciding
    return tuple(check for check in work.checks if deciding[check] and deciding[check] <= own), tuple(sorted(own))
