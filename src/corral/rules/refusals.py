"""Failures that our own proxies caused: whatever the agent called them, they are `denied`, with what to allow."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from corral.model import ErrorClass, Failure
from corral.rules.judge import Verdict

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
    r"|(?i:proxy\b.{0,60}\b403\b|\b403\b.{0,60}\bproxy\b)"
)


class Refusal(Struct, frozen=True):
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
    verdict: Verdict | None, refusals: Sequence[Refusal], complaint: str, *, reached: bool
) -> Verdict | None:
    """Name the refusal that an attempt failed for.

    `complaint` is what the agent wrote to stderr last; `reached` says that some host or its provider answered it.
    """
    if verdict is None or verdict.status != "failed" or verdict.error is None or verdict.error.kind not in SEEN_AS:
        return verdict
    words = f"{verdict.error.message}\n{complaint}"
    needed = [each for each in refusals if not each.needless]
    named = [each for each in refusals if _names(words, each.host)]
    causes: Sequence[Refusal] = ()
    if OURS.search(words):
        causes = named or needed or refusals
    elif verdict.error.kind in UNREACHED:
        causes = named or (() if reached else needed)
    if not causes:
        return verdict
    why = causes[-1].reason.partition(ALLOW)[0]
    return Verdict("failed", Failure("denied", f"refused by corral: {why}", causes[-1].hint))


def _names(words: str, host: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(host)}(?![\w-]|\.\w)", words) is not None
