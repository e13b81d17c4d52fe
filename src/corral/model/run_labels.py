"""The name and the labels of a run: how they are written, and which are refused."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from corral.model.errors import BadRequest

MOST_NAME = 100
MOST_LABELS = 50
KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}")


def check_name(name: str) -> str:
    """Return the name of a run, trimmed; refuse one that would not fit a line of a list."""
    name = name.strip()
    if not name or len(name) > MOST_NAME or not name.isprintable():
        hint = f"one line of at most {MOST_NAME} characters"
        raise BadRequest(f"`{name[:MOST_NAME]}` cannot name a run", hint=hint)
    return name


def check_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return labels, with values trimmed; refuse keys and values that could not be searched for."""
    for key, value in labels.items():
        if not KEY.fullmatch(key):
            hint = "letters, digits and . _ / - : --label team=web"
            raise BadRequest(f"`{key[:MOST_NAME]}` cannot be the key of a label", hint=hint)
        if len(value) > MOST_NAME or not value.isprintable():
            raise BadRequest(f"the label `{key}` is too long", hint=f"one line of at most {MOST_NAME} characters")
    if len(labels) > MOST_LABELS:
        raise BadRequest(f"a run has at most {MOST_LABELS} labels", hint="leave some out")
    return {key: value.strip() for key, value in labels.items()}


def read_labels(texts: Sequence[str], *, any_value: bool = False) -> dict[str, str]:
    """Read `KEY=VALUE`; to search, `KEY` alone means any value."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals and not any_value:
            raise BadRequest(f"--label {text}: what is its value?", hint="--label KEY=VALUE")
        found[key.strip()] = value.strip()
    return check_labels(found)
