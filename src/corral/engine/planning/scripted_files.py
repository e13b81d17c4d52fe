"""A file for the scripted agent, read before anything is started: one that is wrong fails in every try."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import cast

from corral.boxed.player import CLASSES, KINDS
from corral.model.errors import BadRequest

HINT = "see docs: scripted agent"
STEP = re.compile(r"^[ \t]*\[\[[ \t]*step[ \t]*\]\]", re.MULTILINE)


def check(path: Path) -> None:
    """Refuse a script that cannot be played; one that is not there, or not to be read, is refused elsewhere."""
    try:
        text = path.read_text()
    except (OSError, UnicodeError):
        return
    try:
        steps: object = tomllib.loads(text).get("step", [])
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadRequest(f"{path}: {error}", hint=f"it is to be TOML; {HINT}") from error
    if not isinstance(steps, list):
        raise BadRequest(f"{path}: `step` is not a list of steps", hint=f"write [[step]]; {HINT}")
    found = cast("list[object]", steps)
    lines = [text.count("\n", 0, each.start()) + 1 for each in STEP.finditer(text)]
    for number, step in enumerate(found, 1):
        _step(f"{path}:{lines[number - 1]}" if len(lines) == len(found) else f"{path}: step {number}", step)


def _step(place: str, step: object) -> None:
    keys = cast("dict[str, object]", step) if isinstance(step, dict) else {}
    kind = next((kind for kind in KINDS if kind in keys), None)
    if kind is None:
        raise BadRequest(f"{place}: a step has none of: {', '.join(KINDS)}", hint=HINT)
    if kind == "fail" and keys["fail"] not in CLASSES:
        raise BadRequest(f"{place}: fail = {keys['fail']!r} is none of: {', '.join(CLASSES)}", hint=HINT)
