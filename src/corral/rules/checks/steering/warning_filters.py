"""Filters of warnings in settings of pytest: which of them let more pass than the base's, and who may set them."""

from __future__ import annotations

import re
import tomllib
from typing import Any, cast

from corral.model.flow import Task
from corral.rules.checks.steering import config_text

OF_BASE = "filters of the base"  #: among the tools of a merge: the work's filters are not believed
KEY = "filterwarnings"
ASKED = re.compile(r"(?i)silenc|quiet|suppress|ignor|filter")
SECTIONS = ("pytest", "tool:pytest")
TABLES = (("tool", "pytest", "ini_options"), ("tool", "pytest"), ("pytest",))


def may_change(task: Task) -> bool:
    """Tell whether a task asks for a filter."""
    return ASKED.search(task.prompt) is not None


def lets_more_pass(path: str, base: bytes, delivered: bytes) -> bool:
    """Tell whether filters changed in any other way than by new errors."""
    try:
        before, now = (_filters(path, each.decode()) for each in (base, delivered))
    except (ValueError, RecursionError):
        return False
    return [each for each in now if each in before or not each.startswith("error")] != before


def _filters(path: str, text: str) -> list[str]:
    """Return the filters in the order in which they count."""
    if path.endswith((".ini", ".cfg")):
        sections = config_text.parse_sections(text)
        values = [sections.get(name, {}).get(KEY, "") for name in SECTIONS]
        return [line.strip() for value in values for line in str(value).splitlines() if line.strip()]
    if not path.endswith(".toml"):
        return []
    document: Any = tomllib.loads(text)
    found: list[str] = []
    for names in TABLES:
        at = document
        for part in names:
            at = cast("dict[str, Any]", at).get(part) if isinstance(at, dict) else None
        value: object = cast("dict[str, Any]", at).get(KEY) if isinstance(at, dict) else None
        parts = cast("list[object]", value) if isinstance(value, list) else str(value or "").splitlines()
        found += [str(each).strip() for each in parts if str(each).strip()]
    return found
