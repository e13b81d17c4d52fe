"""go.mod in the harness tree: what the work requires, and the base's `replace` of what the base required."""

from __future__ import annotations

import re

REPLACE = re.compile(r"^\s*(?:replace\s+)?(\S+)(?:\s+v\S+)?\s*=>\s*\S+.*$")


def directives(text: str) -> list[tuple[str, str]]:
    """Return (directive, line) for each line, blocks written out."""
    found: list[tuple[str, str]] = []
    block: str | None = None
    for raw in text.splitlines():
        line = raw.partition("//")[0].strip()
        if not line:
            continue
        if block is not None:
            if line == ")":
                block = None
            else:
                found.append((block, line))
        elif opened := re.fullmatch(r"(\w+)\s*\(", line):
            block = opened[1]
        else:
            word, _, rest = line.partition(" ")
            found.append((word, rest.strip()))
    return found


def merge_module(base_text: str, text: str) -> str:
    """Return the work's file without `replace` lines for modules that the base had, and with the base's own."""
    base, ours = directives(base_text), directives(text)
    known = {line.split()[0] for word, line in base if word in ("require", "module") and line}
    known |= {line.split()[0] for word, line in base if word == "replace"}
    kept = [(word, line) for word, line in ours if word != "replace" or line.split()[0] not in known]
    kept += [(word, line) for word, line in base if word in ("replace", "toolchain")]
    kept = [(word, line) for word, line in kept if word != "toolchain" or (word, line) in base]
    return "".join(f"{word} {line}\n" for word, line in dict.fromkeys(kept))
