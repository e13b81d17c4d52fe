"""Failures that our own proxies caused: whatever the agent called them, they are `denied`, with what to allow."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct, structs

from corral.model import ErrorClass, Failure
from corral.rules.checks.verdict import Verdict

ALLOW = "; to allow it"  #: stands in every reason before what to do about it
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
    if named_needed := [each for each in named if not each.needless]:  # others stand in many a program's last words
        return named_needed
    return needed if kind != "auth" and FORBIDDEN.search(words) else ()


def _names(words: str, host: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(host)}(?![\w-]|\.\w)", words) is not None
