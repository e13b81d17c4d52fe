"""The spelling of expressions: names with dashes, names that are Python's words, and signs of other languages."""

from __future__ import annotations

import keyword
import re

#: Two letters that Python takes in a name and nobody writes: one stands for a dash, one ends a word of Python's own.
DASH, OWN = "\u01c0", "\u01c1"
OURS = frozenset({"and", "or", "not", "in", "is", "True", "False", "None"})  #: words that mean something here
TOKEN = re.compile(
    r"""
    (?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    | (?P<number>\d[\d_]*(?:\.\d*)?(?:[eE][-+]?\d+)?)
    | (?P<name>[^\W\d][\w-]*)
    | (?P<sign>===|!==|&&|\|\||[=!<>]=|=|!|\?)
    """,
    re.VERBOSE,
)
#: Signs of other languages, and what to write instead.
FOREIGN = {"=": "==", "===": "==", "!==": "!=", "&&": "and", "||": "or", "!": "not"}


def for_python(text: str) -> str:
    """Return an expression whose names Python can read; `plain` turns such a name back.

    There is no subtraction, so a dash inside a word always belongs to the name: `fetch-issue` is one name.
    """
    if DASH in text or OWN in text:
        return text
    return TOKEN.sub(_token, text)


def _token(found: re.Match[str]) -> str:
    word = found.group("name")
    if word is None:
        return found.group()
    if keyword.iskeyword(word):
        field = found.string[: found.start()].rstrip().endswith(".")
        begins = found.string[found.end() :].startswith(".") or found.string.strip() == word
        return word + OWN if field or (begins and word not in OURS) else word
    return word.replace("-", DASH)


def plain(name: str) -> str:
    """Return a name as it was written."""
    return name.replace(DASH, "-").replace(OWN, "")


def foreign_sign(text: str) -> str:
    """Say what to write instead of the first sign that has no meaning here; nothing, if there is none."""
    for found in TOKEN.finditer(text):
        sign = found.group("sign")
        if sign in FOREIGN:
            return f"`{sign}` has no meaning here, write `{FOREIGN[sign]}`"
    return ""
