"""Names in one place: ids, branches, refs, and what a user may type for them."""

from __future__ import annotations

import re

MOMENT = re.compile(r"after-(?:\d+h)?(?:\d+m)?(?:\d+s)?")
EPOCH_MILLISECONDS = 1_735_689_600_000  # 2025-01-01
LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"  # no i, l, o, u: nothing to misread
CHANCE = 32**3
NOTES = "refs/notes/corral"
REPLACED = "\N{REPLACEMENT CHARACTER}"


def run_id(milliseconds: int, chance: int) -> str:
    """Return a short id that sorts by time: nine letters of time, three of chance."""
    return _letters(milliseconds - EPOCH_MILLISECONDS, 9) + _letters(chance % CHANCE, 3)


def attempt_id(run: str, place: int) -> str:
    return f"{run}-{place}"


def branch(run: str, node: str, attempt: str) -> str:
    return f"corral/{run}/{node}/{attempt}"


def merged_branch(run: str) -> str:
    """Return the branch for a merge that leaves the user's branches alone."""
    return f"corral/merged/{run}"


def hidden_ref(attempt: str) -> str:
    """Return the ref under which an attempt's work is kept whatever becomes of its branch."""
    return f"refs/corral/attempts/{attempt}"


def _letters(number: int, count: int) -> str:
    text = ""
    for _ in range(count):
        number, digit = divmod(number, 32)
        text = LETTERS[digit] + text
    return text


def as_plain_text(text: str) -> str:
    """Return a text without NUL bytes and halves of surrogate pairs: no system starts a program with these."""
    return text.encode(errors="replace").decode().replace("\0", REPLACED)


def moment_name(seconds: float) -> str:
    """Return the name of a state that Corral kept so long after an agent began: `after-45s`, `after-1h2m3s`."""
    whole = max(0, round(seconds))
    parts = [(whole // 3600, "h"), (whole // 60 % 60, "m"), (whole % 60, "s")]
    return "after-" + ("".join(f"{count}{unit}" for count, unit in parts if count) or "0s")


def is_moment_name(name: str) -> bool:
    """Tell whether a name is one of those."""
    return MOMENT.fullmatch(name) is not None
