"""Find which words of a line changed, so that the eye need not."""

from __future__ import annotations

import re
from difflib import SequenceMatcher

WORD = re.compile(r"\w+|\s+|.", re.DOTALL)
MOST_WORDS = 160  #: comparing takes the square of it
LEAST_ALIKE = 0.35  #: below that nothing is marked: it is another line
Spans = tuple[tuple[int, int], ...]


def changed_words(old: str, new: str) -> tuple[Spans, Spans]:
    """Return where the old line differs from the new one, and the reverse; nothing for lines that are not alike."""
    if old == new:
        return (), ()
    one, other = WORD.findall(old), WORD.findall(new)
    if len(one) > MOST_WORDS or len(other) > MOST_WORDS:
        return _ends(old, new)
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    if _alike(matcher, one, other) < LEAST_ALIKE:
        return (), ()
    steps = [step for step in matcher.get_opcodes() if step[0] != "equal"]
    old_spans = [(start, end) for _, start, end, _, _ in steps if start < end]
    new_spans = [(start, end) for _, _, _, start, end in steps if start < end]
    return _letter_spans(one, old_spans), _letter_spans(other, new_spans)


def _alike(matcher: SequenceMatcher[str], one: list[str], other: list[str]) -> float:
    """Return how much of the longer line stays, counted in letters; white space says nothing."""
    kept = sum(
        len(word)
        for block in matcher.get_matching_blocks()
        for word in one[block.a : block.a + block.size]
        if not word.isspace()
    )
    longest = max(sum(len(word) for word in words if not word.isspace()) for words in (one, other))
    return kept / longest if longest else 1.0


def _letter_spans(words: list[str], spans: list[tuple[int, int]]) -> Spans:
    """Turn places of words into places of letters."""
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word))
    return tuple((starts[start], starts[end]) for start, end in spans)


def _ends(old: str, new: str) -> tuple[Spans, Spans]:
    """Of very long lines only what lies between the same beginning and the same end."""
    most = min(len(old), len(new))
    head = next((place for place in range(most) if old[place] != new[place]), most)
    tail = next((place for place in range(most - head) if old[-1 - place] != new[-1 - place]), most - head)
    if head + tail < LEAST_ALIKE * max(len(old), len(new)):
        return (), ()
    spans = ((head, len(old) - tail),), ((head, len(new) - tail),)
    return spans[0] if spans[0][0][0] < spans[0][0][1] else (), spans[1] if spans[1][0][0] < spans[1][0][1] else ()
