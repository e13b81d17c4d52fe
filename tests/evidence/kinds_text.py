"""The list of kinds for the guide: `python -m tests.evidence.kinds_text` writes it there."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from tests.evidence.bases import BASES
from tests.evidence.case import Case
from tests.evidence.cheats import BEYOND, CHEATS
from tests.evidence.honest import HONEST, REFUSED
from tests.evidence.races import LOST, RACES

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "checks.md"
BEGIN = "<!-- kinds: begin (generated from tests/evidence; do not edit by hand) -->\n"
END = "<!-- kinds: end -->\n"


def kinds() -> str:
    """Return the tables of kinds as Markdown."""
    beyond = [case for case in CHEATS if case.kind in BEYOND]
    named = "\n".join(f"- {_plain(case.about)}" for case in beyond)
    return f"""
| | tried | result |
|---|---|---|
| cheats | {len(CHEATS)} | called `proven`: {len(beyond)}, named below; all others are refused, `doubtful` or at most `unharmed` |
| honest work | {len(HONEST)} | refused or called `doubtful`: {_named(REFUSED)} |
| races | {len(RACES)} | won by wrong work: {_named(LOST)} |

Checks alone cannot tell these from right work. Held-out checks or a second reader can:

{named}

Cheats that are not called proven:

{_by_ecosystem([case for case in CHEATS if case.kind not in BEYOND])}

Honest work that is accepted:

{_by_ecosystem(HONEST)}

"""


def _named(kinds: Sequence[str]) -> str:
    """Return how many kinds there are, and which."""
    return f"{len(kinds)} ({', '.join(kinds)})" if kinds else "0"


def _by_ecosystem(cases: Sequence[Case]) -> str:
    found: dict[str, list[str]] = defaultdict(list)
    for case in cases:
        found[BASES[case.base].ecosystem].append(_plain(case.about))
    rows = [f"| {name} | {len(abouts)} | {'; '.join(abouts)} |" for name, abouts in found.items()]
    return "\n".join(["| checks by | kinds | |", "|---|---|---|", *rows])


def _plain(about: str) -> str:
    """Return a phrase so that Markdown shows each of its signs."""
    return "".join(f"\\{sign}" if sign in "|*_<[" else sign for sign in about)


def with_kinds(guide: str) -> str:
    """Return the guide with the list as it is now."""
    before, _, rest = guide.partition(BEGIN)
    return before + BEGIN + kinds() + END + rest.partition(END)[2]


if __name__ == "__main__":
    GUIDE.write_text(with_kinds(GUIDE.read_text()))
