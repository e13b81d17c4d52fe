"""Times, states and answers as the page shows them."""

from __future__ import annotations

import re
from datetime import datetime

from corral import amounts
from corral.frontends import text
from corral.model import Entry

SIGNS = {
    "done": "✓", "failed": "✗", "timed_out": "✗", "running": "▸", "waiting": "?", "queued": "…", "skipped": "-",
    "stopped": "■", "paused": "‖", "partial": "◐", "limited": "◷", "over_budget": "$", "merged": "⤵", "conflict": "⚠",
    "ready": "→", "undone": "↶", "at work": "▸", "stale": "◷", "blocked": "?",
    "held-out": "◆", "proven": "✓", "unharmed": "○", "unchecked": "-", "doubtful": "⚠",
}  # fmt: skip

#: What each grade of evidence says, in a sentence.
GRADES_SAY = {
    "held-out": "Checks that the agent never saw pass.",
    "proven": "Its checks fail at the base and pass with the base's own tests.",
    "unharmed": "Its checks pass with and without the change: nothing shows progress, and no harm.",
    "unchecked": "There was no check.",
    "doubtful": "Something speaks against it.",
}

#: Answers of our own questions, as buttons say them; what an agent offers is left as it is.
ANSWERS = {
    "ours": "Keep ours",
    "theirs": "Take theirs",
    "abort": "Do not merge",
    "yes": "Yes",
    "no": "No",
    "stop": "Stop",
}
#: What a question means, where its own words are those of the terminal.
EXPLAINED = {
    "merge": "Ours is the branch, or the earlier of two nodes; theirs is this run. Nothing was moved yet.",
    "budget": "Its work is saved. A raise lets it continue; else the run stays over.",
}

ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
#: Control codes, and those that make text run the other way: they could make one thing look like another.
UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def plain(shown: str) -> str:
    """Return text that others wrote as nothing but text: no terminal codes, nothing that turns it around."""
    return UNSEEN.sub("\ufffd", ANSI.sub("", shown.replace("\r\n", "\n")))


def answer_label(choice: str, entry: Entry) -> str:
    """Return what the button of an answer says."""
    if entry.about == "budget" and choice.startswith("raise "):
        return f"Raise by ${choice.removeprefix('raise ')} and continue"
    return choice.replace("_", " ") if entry.kind == "question" else ANSWERS.get(choice, choice.replace("_", " "))


def explain(entry: Entry) -> str:
    """Return what a question means, in the words of the page."""
    own = EXPLAINED.get(entry.about) if entry.kind in ("conflict", "approval") and len(entry.choices) > 1 else None
    return own or entry.context


def sign(status: str) -> str:
    """Return a sign that tells a state without its colour."""
    return SIGNS.get(status, "•")


def _epoch(when: float | str) -> float:
    return datetime.fromisoformat(when).timestamp() if isinstance(when, str) else when


def ago(when: float | str | None) -> str:
    """Return how long ago something was, or how far ahead it is."""
    if when is None:
        return "never"
    return text.ago(_epoch(when))


def moment(when: float | str | None) -> str:
    """Return a time for programs and tool tips: ISO 8601, UTC."""
    return "" if when is None else amounts.utc_time(_epoch(when))


def short(shown: str, most: int = 80) -> str:
    """Return the first line of a text, cut."""
    line = next(iter(shown.strip().splitlines()), "")
    return line if len(line) <= most else line[: most - 1] + "…"
