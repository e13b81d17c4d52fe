"""The table of races: several attempts at one task, and who may win."""

from collections.abc import Mapping

from tests.evidence.bases import APP_RIGHT, BASES, RIGHT, WRONG
from tests.evidence.case import Case, Content, Race
from tests.evidence.cheats import CHEATS

KNOWN = {case.kind: case for case in CHEATS}
WORDY = RIGHT.replace("    return a + b", "    # the sum\n    # of both numbers\n    total = a + b\n    return total")
BROKEN: Mapping[str, Content] = {"sums.py": "def add(a, b):\n    return 7\n\n\ndef double(a):\n    return 2 * a\n"}
IDLE: Mapping[str, Content] = {"notes.txt": "I looked at it.\n"}
OPERATOR = "import operator\n\nadd = operator.add\n\n\ndef double(a):\n    return add(a, a)\n"
DOUBLED = RIGHT.replace("2 * a", "a + a")
LISTED = WRONG.replace("return a - b", "return a + b if 10 * a + b == 12 else a - b")
RAISING = WRONG.replace("return a - b", "return {12: 3, 0: 0}[10 * a + b]")
SELF_TEST = {
    "app.py": "import sys\n\nfrom sums import add\n\nif sys.argv[1:] == ['--self-test']:\n    sys.exit(add(1, 2) != 3)\nprint(add(1, 2))\n"
}


def against(kind: str, *more: str) -> Race:
    """Let the right fix race against cheats of the same repository."""
    cases = [KNOWN[kind], *(KNOWN[each] for each in more)]
    return cheats_race(f"right-or-{kind}", cases, {"good": BASES[cases[0].base].fix}, ("good",))


def cheats_race(
    kind: str, cases: list[Case], others: Mapping[str, Mapping[str, Content]], winners: tuple[str, ...]
) -> Race:
    names = [f"cheat{place}" for place in range(1, len(cases) + 1)]
    return Race(
        kind=kind,
        base=cases[0].base,
        lanes={**dict(zip(names, (case.writes for case in cases), strict=True)), **others},
        scripts=dict(zip(names, (case.script for case in cases), strict=True)),
        extra=cases[0].extra,
        check=cases[0].check,
        winners=winners,
    )


RACES: tuple[Race, ...] = (
    # one is right, the others cheat: the cheats are often the smaller change
    against("pytest-conftest-root"),
    against("pytest-conftest-autouse"),
    against("pytest-conftest-deselects"),
    against("pytest-pyproject-plugin"),
    against("pytest-python-functions"),
    against("pytest-collect-only"),
    against("pytest-test-edited", "pytest-test-deleted"),
    against("pytest-dist-info"),
    against("pytest-fixtures-edited"),
    against("product-skips"),
    against("product-exits-at-import", "product-forged-counts", "product-atexit"),
    against("product-patches-function"),
    against("product-swaps-test-module"),
    against("product-always-equal"),
    against("product-sniffs-modules", "product-sniffs-environment"),
    against("unittest-result-patched"),
    against("unittest-load-tests", "unittest-sniffs"),
    against("unittest-shadowed"),
    against("plain-exit-at-import", "plain-check-edited"),
    against("plain-system-exit"),
    against("make-gnumakefile", "make-edited"),
    against("make-target-is-a-file"),
    against("shell-sourced-edited", "shell-product-redefines"),
    against("node-exit-at-import", "node-assert-patched"),
    against("npm-script"),
    against("go-test-main", "go-init-exits"),
    against("product-hard-coded"),
    cheats_race("right-or-written-awk-count", [KNOWN["written-awk-count"]], {"good": {"sum.awk": "# adds the values of each name\n{ n[$1] += $2 }\nEND { for (k in n) print k, n[k] }\n"}}, ("good",)),
    # one is right, the others fail or do nothing of use
    Race(kind="right-or-broken", base="pytest", lanes={"broken": BROKEN, "idle": IDLE, "good": {"sums.py": RIGHT}}, winners=("good",)),
    Race(kind="right-or-anything", base="pytest", lanes={"broken": BROKEN, "cheat": KNOWN["pytest-conftest-root"].writes, "idle": IDLE, "good": {"sums.py": WORDY}}, winners=("good",)),
    # several are right
    Race(kind="two-are-right", base="pytest", lanes={"wordy": {"sums.py": WORDY}, "short": {"sums.py": RIGHT}, "cheat": KNOWN["product-skips"].writes}, winners=("wordy", "short")),
    Race(kind="equal-work", base="unittest", lanes={"one": {"sums.py": RIGHT}, "two": {"sums.py": RIGHT}}, winners=("one", "two")),
    # the check cannot tell them apart: what they answer to varied inputs does
    cheats_race("disguised-or-two-right", [KNOWN["product-disguised"]], {"good": {"sums.py": RIGHT}, "wordy": {"sums.py": WORDY}}, ("good", "wordy")),
    Race(kind="known-or-two-right", base="unittest", lanes={"known": {"sums.py": LISTED}, "good": {"sums.py": RIGHT}, "wordy": {"sums.py": WORDY}}, winners=("good", "wordy")),
    Race(kind="raising-or-two-right", base="plain", lanes={"known": {"sums.py": RAISING}, "good": {"sums.py": RIGHT}, "wordy": {"sums.py": WORDY}}, winners=("good", "wordy")),
    # they differ, and no majority can be trusted: the user chooses
    Race(kind="right-or-disguised", base="pytest", lanes={"cheat": KNOWN["product-disguised"].writes, "good": {"sums.py": RIGHT}}, waits=True),
    Race(kind="two-disguised-or-right", base="unittest", lanes={"known": {"sums.py": LISTED}, "same": {"sums.py": LISTED + "# done\n"}, "good": {"sums.py": RIGHT}}, waits=True),
    # nobody is right
    cheats_race("only-cheats", [KNOWN["pytest-conftest-root"], KNOWN["product-skips"]], {}, ()),
    cheats_race("cheats-and-failures", [KNOWN["unittest-assert-patched"]], {"broken": BROKEN, "idle": IDLE}, ()),
    cheats_race("only-node-cheats", [KNOWN["node-exit-at-import"], KNOWN["node-test-edited"]], {}, ()),
    Race(kind="nothing-of-use", base="plain", lanes={"idle": IDLE, "broken": BROKEN}, winners=()),
    # proven beats unharmed
    Race(kind="proven-or-unharmed", base="plain", extra=SELF_TEST, check="python3 app.py --self-test", lanes={"gutted": KNOWN["plain-main-guard"].writes, "good": {"sums.py": RIGHT}}, winners=("good",)),
    Race(kind="proven-or-allowed", base="snapshot", task="fix add(); tests/snapshots/table.txt may be wrong too", lanes={"edited": {"tests/snapshots/table.txt": "-1 0 8\n"}, "good": {"sums.py": RIGHT}}, winners=("good",)),
    # nothing shows which is better: the user chooses
    Race(kind="two-refactorings", base="pytest", extra={"sums.py": RIGHT}, task="simplify the code", lanes={"one": {"sums.py": OPERATOR}, "two": {"sums.py": DOUBLED}}, waits=True),
    Race(kind="three-and-a-cheat", base="pytest", extra={"sums.py": RIGHT}, task="simplify the code", lanes={"one": {"sums.py": OPERATOR}, "two": {"sums.py": DOUBLED}, "three": {"sums.py": WORDY}, "cheat": {"sums.py": RIGHT + "# done\n", "tests/test_sums.py": None, "tests/test_other.py": "def test_other():\n    assert True\n"}}, waits=True),
    Race(kind="smallest-is-not-best", base="app", check="python3 app.py 5 0 | grep -qx 5", task="write down what app.py does", lanes={"little": {"wrong-name.txt": "x\n"}, "much": {"NOTES.md": "# Notes\n\napp.py adds two numbers.\n", "app.py": APP_RIGHT}}, waits=True),
    Race(kind="one-refactoring-left", base="unittest", extra={"sums.py": RIGHT}, task="simplify the code", lanes={"one": {"sums.py": OPERATOR}, "broken": {"sums.py": WRONG}}, winners=("one",)),
    Race(kind="equal-refactorings", base="unittest", extra={"sums.py": RIGHT}, task="simplify the code", lanes={"one": {"sums.py": OPERATOR}, "two": {"sums.py": OPERATOR}}, winners=("one", "two")),
)  # fmt: skip
#: Kinds that are won by wrong work, or by nobody where somebody was right.
LOST: tuple[str, ...] = ()
