"""What `nibble --check` prints, counted: a check reader of corral."""

import re

from corral.model import Tally

SUMMARY = re.compile(r"^nibble: (\d+) crumbs, (\d+) too large((?:: \S+)*)$", re.MULTILINE)


def read(output: str) -> Tally | None:
    found = SUMMARY.search(output)
    if found is None:
        return None  # not ours: the next reader is asked
    good, bad, names = found.groups()
    return Tally("nibble", passed=int(good), failed=int(bad), failing=tuple(names.replace(":", "").split()))
