"""What an attempt asked for beyond its scope: hosts that our own proxies refused, and paths that are not its own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from msgspec import Struct, structs

from corral.model import ErrorClass, Failure, Violation
from corral.rules.checks.verdict import Verdict

ALLOW = "; to allow it"  #: is in every reason before what to do about it
#: What agents make of a refusal; the others have causes of their own.
SEEN_AS: frozenset[ErrorClass] = frozenset(
    {"auth", "network", "tls", "overloaded", "not_found", "crash", "bad_output", "refused"}
)
#: Of these, a refusal is the cause where the agent reached nobody at all.
UNREACHED: frozenset[ErrorClass] = frozenset({"auth", "network", "tls", "overloaded"})
#: How our answers read in the words of programs: `HTTP/1.1 403 Refused`, and its one line of text.
OURS = re.compile(
    r"403 Refused|is not in the net list|does not pass with the key"
    r"|(?i:tunnel(?:ing)? (?:connection |socket )?(?:failed|could not be established)\W.{0,40}\b403\b)"
    r"|(?i:tunnell?ing failed\W{1,4}Refused)"
    r"|(?i:proxy\b.{0,60}\b403\b|\b403\b.{0,60}\bproxy\b)"
)
#: A 403 that may be ours, or of a server that was reached.
FORBIDDEN = re.compile(
    r"(?i:\b(?:error|status|code|response|https?(?:/[\d.]+)?)\b\W{0,4}403\b"
    r"|\b403\b\W{0,4}(?:client error|forbidden|refused|error))"
)
PATH = re.compile(r"(?<![\w./~-])(?:~|/)[^\s'\"`;|&<>(){}$*,]+")
MOST_WORDS = 2000


class NetRefusal(Struct, frozen=True):
    """A host, or a request to the agent's provider, that was refused."""

    host: str
    reason: str
    needless: bool = False  #: its agent asks for it by itself and works without it

    @property
    def hint(self) -> str:
        """What to allow."""
        named = re.search(r'add "([^"]+)" to net$', self.reason)
        if named:
            return f'--net {named[1]}, or [scope] net = ["{named[1]}"]'
        return self.reason.partition(ALLOW)[2].lstrip(": ")


def of_refusals(
    verdict: Verdict | None, refusals: Sequence[NetRefusal], complaint: str, *, reached: bool
) -> Verdict | None:
    """Name the refusal that an attempt failed for; where it only may be one, the hint says so.

    `complaint` is what the agent wrote to stderr last; `reached` says that some host or its provider answered it.
    """
    if verdict is None or verdict.status != "failed" or verdict.error is None or verdict.error.kind not in SEEN_AS:
        return verdict
    words = f"{verdict.error.message}\n{complaint}"
    causes = _causes(verdict.error.kind, words, refusals, reached=reached)
    if causes:
        why = causes[-1].reason.partition(ALLOW)[0]
        return Verdict("failed", Failure("denied", f"refused by corral: {why}", causes[-1].hint))
    needed = [each for each in refusals if not each.needless]
    if needed and not reached and not verdict.error.hint:
        why = needed[-1].reason.partition(ALLOW)[0]
        hint = f"corral refused a connection: {why}; to allow it: {needed[-1].hint}"
        return structs.replace(verdict, error=structs.replace(verdict.error, hint=hint))
    return verdict


def _causes(kind: ErrorClass, words: str, refusals: Sequence[NetRefusal], *, reached: bool) -> Sequence[NetRefusal]:
    """Return the refusals that such a failure is due to."""
    needed = [each for each in refusals if not each.needless]
    named = [each for each in refusals if _names(words, each.host)]
    if OURS.search(words):
        return named or needed or refusals
    if kind in UNREACHED and (named or not reached):
        return named or needed
    if named_needed := [each for each in named if not each.needless]:  # others are in many a program's last words
        return named_needed
    return needed if kind != "auth" and FORBIDDEN.search(words) else ()


def _names(words: str, host: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(host)}(?![\w-]|\.\w)", words) is not None


class PathOwners(Struct, frozen=True, kw_only=True):
    """Whose ground is whose, as absolute paths."""

    own: tuple[str, ...]  #: its workspace and home
    others: tuple[str, ...]  #: the user's checkout, corral's own folder
    secrets: Sequence[str]  #: patterns
    homes: tuple[str, ...]  #: what `~` may stand for


def foreign_paths(words: str, grounds: PathOwners) -> list[Violation]:
    """Return the paths in a tool's arguments that lie on others' ground."""
    found: dict[str, None] = {}
    for match in PATH.finditer(words[:MOST_WORDS]):
        for path in _meant_paths(match.group().rstrip(".:"), grounds.homes):
            if not _below(path, grounds.own) and (_below(path, grounds.others) or _is_secret(path, grounds.secrets)):
                found[path] = None
    return [Violation("tried", path) for path in found]


def _meant_paths(path: str, homes: Sequence[str]) -> list[str]:
    return [home + path[1:] for home in homes] if path.startswith("~") else [path]


def _below(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _is_secret(path: str, patterns: Sequence[str]) -> bool:
    parts = path.split("/")
    above = ["/".join(parts[:count]) for count in range(2, len(parts) + 1)]
    return any(fnmatchcase(each, pattern) for pattern in patterns for each in above)
