"""Files that a check holds its output against, with other contents."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence

from corral.rules.checks.altering.marks import Marks, RewrittenFile, unchanged_file
from corral.rules.checks.steering.programs import COMPARES

#: What keeps a difference from deciding about the check: another command behind it, or words that turn its end round.
OTHERWISE = re.compile(r"\|\||;|!|\n|`|\$\(|<\(|(?<![&|])&(?!&)|\b(if|while|until|true)\b")
#: Options of `diff` that leave something out, after which a change may not be seen.
LENIENT = re.compile(r"^(-[a-zA-Z0-9]*[iEZbwBIDFxXnl]|--(ignore|strip|bytes|skip|exclude|print)\S*)")


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
