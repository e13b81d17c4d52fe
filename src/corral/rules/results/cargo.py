"""What `cargo test` prints."""

from __future__ import annotations

import re

from corral.model import Tally

_RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;", re.MULTILINE)
_LIST = re.compile(r"^failures:\n((?:    \S.*\n)+)", re.MULTILINE)


def read(output: str) -> Tally | None:
    """Add up the results of all its test programs."""
    results = _RESULT.findall(output)
    if not results:
        return None
    passed, failed, skipped = (sum(int(row[place]) for row in results) for place in range(3))
    failing = [line.strip() for names in _LIST.findall(output) for line in names.splitlines()]
    return Tally("cargo", passed, failed, skipped, tuple(dict.fromkeys(failing)))
