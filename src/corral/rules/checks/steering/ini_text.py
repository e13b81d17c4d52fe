"""Text in sections and `key = value` lines (setup.cfg, tox.ini, pytest.ini, .npmrc, .env), merged by key."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

HEADER = re.compile(r"\s*\[\s*([^\]]*?)\s*\]")
NO_VALUE = "\0"  #: of a key without `=`
Sections = dict[str, dict[str, str]]
Own = Callable[[str], Collection[str] | None]


def parse(text: str) -> Sections:
    """Read sections, keys and values, values with their further lines; ValueError for what belongs to no section."""
    sections: Sections = {}
    section: str | None = None
    key: str | None = None
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith(("#", ";")):
            continue
        if line[0].isspace() and key is not None and section is not None:
            sections[section][key] += "\n" + line
        elif found := HEADER.match(line):
            section, key = str(found[1]), None
            sections.setdefault(section, {})
        elif section is None:
            raise ValueError(f"a line outside of any section: {line[:40]!r}")
        else:
            at = next((place for place, sign in enumerate(line) if sign in "=:"), len(line))
            key = line[:at].strip()
            sections[section][key] = line[at + 1 :].strip() if at < len(line) else NO_VALUE
    return sections


def format_sections(sections: Sections) -> str:
    parts: list[str] = []
    for section, keys in sections.items():
        parts.append(f"[{section}]\n")
        parts += [f"{key}\n" if value == NO_VALUE else f"{key} = {value}\n" for key, value in keys.items()]
        parts.append("\n")
    return "".join(parts)


def merge_sections(base_text: str, text: str, own: Own) -> str:
    """Return the work's text with the base's sections where `own` says so, but for the keys that are the work's."""
    base, ours = parse(base_text), parse(text)
    result: Sections = {}
    for section in dict.fromkeys([*ours, *base]):
        allowed = own(section)
        before, now = base.get(section, {}), ours.get(section, {})
        if allowed is None:
            if section in ours:
                result[section] = now
            continue
        kept = {key: value for key, value in before.items() if key.lower() not in allowed}
        kept |= {key: value for key, value in now.items() if key.lower() in allowed}
        if kept or section in base:
            result[section] = kept
    return format_sections(result)


def merge_lines(base_text: str, text: str, steering: str) -> str:
    """Return the work's lines, but those whose key matches `steering` as they are at the base."""
    pattern = re.compile(rf"\s*(export\s+)?[\"']?{steering}[\"']?\s*([=: ].*)?$", re.IGNORECASE)
    kept = [line for line in text.splitlines() if not pattern.match(line)]
    put_back = [line for line in base_text.splitlines() if pattern.match(line)]
    return "".join(f"{line}\n" for line in (*put_back, *kept))
