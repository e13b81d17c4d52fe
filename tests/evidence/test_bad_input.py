"""Checks that misbehave, repositories without tests, odd held-out folders: plain words, never `proven`."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from corral.model.errors import BadRequest
from tests.evidence.bases import BASES
from tests.evidence.case import Case
from tests.evidence.trial import Trial, verdict
from tests.rig.command import Corral

CHECK = BASES["unittest"].check
ORDERED = """import unittest

import sums

KEPT = []


class Ordered(unittest.TestCase):
    def test_a(self):
        KEPT.append(sums.add(1, 2))
        self.assertEqual(KEPT, [3])

    def test_b(self):
        self.assertEqual(KEPT, [3])
"""
WRITES = f"from pathlib import Path\n\nPath('other.py').write_text('x = 1\\n')\n{ORDERED.partition('KEPT')[0]}"
NETWORK = "python3 -c \"import socket; socket.create_connection(('192.0.2.1', 80), 5)\""  # an address for examples


@dataclass(frozen=True, kw_only=True)
class Bad:
    """A right fix, and what is wrong with its check."""

    kind: str
    check: str
    found: str  #: the grade, or the class of the error
    words: str  #: in its reasons or its message
    extra: dict[str, str] = field(default_factory=dict[str, str])
    base: str = "unittest"
    timeout: str = "120s"


BAD = (
    Bad(kind="never-ends", check="sleep 987", found="check_failed", words="was not done in time", timeout="20s"),
    Bad(kind="lines", check=f"yes | head -c 20000000; {CHECK}", found="proven", words="fails at the base"),
    Bad(kind="needs-the-network", check=f"{NETWORK} && {CHECK}", found="check_failed", words="ended with 1"),
    Bad(
        kind="order",
        check=CHECK,
        found="unharmed",
        words="only in their usual order",
        extra={"tests/test_ordered.py": ORDERED},
    ),
    Bad(
        kind="tests-write-source",
        check=CHECK,
        found="unharmed",
        words="changed files of the repository while it ran: other.py",
        extra={"other.py": "x = 0\n", "tests/test_writes.py": WRITES},
    ),
    Bad(
        kind="writes-the-work",
        check=f"{CHECK} && echo '# more' >> sums.py",
        found="unharmed",
        words="changed files of the repository while it ran: sums.py",
    ),
    Bad(
        kind="daemon",
        check=f"{CHECK} && (setsid sleep 987 >/dev/null 2>&1 &)",
        found="unharmed",
        words="left programs running: sleep",
    ),
    Bad(kind="no-check", check="", found="unchecked", words="no check"),
    Bad(kind="no-tests", check="python3 -c 'import sums'", found="unharmed", words="passes at the base as well"),
    Bad(kind="no-reporter", base="shell", check="sh check.sh", found="proven", words="no reporter for this runner"),
)
OFTEN = ("lines", "no-reporter")  #: of these the check is odd, and its exit code is evidence all the same


@pytest.mark.slow
@pytest.mark.parametrize("bad", [pytest.param(each, id=each.kind) for each in BAD])
def test_a_check_that_misbehaves_proves_nothing_and_says_why(bad: Bad, trial: Trial) -> None:
    case = Case(
        kind=bad.kind,
        about="",
        base=bad.base,
        writes=BASES[bad.base].fix,
        check=bad.check,
        extra=bad.extra,
        timeout=bad.timeout,
    )
    attempt = trial.attempt(case)
    reasons = attempt.evidence.reasons if attempt.evidence else ()
    words = "; ".join([*reasons, *([attempt.error.message] if attempt.error else [])])
    assert verdict(attempt) == bad.found, words
    assert bad.words in words
    assert (bad.found == "proven") == (bad.kind in OFTEN)
    assert "Traceback" not in words


@pytest.mark.parametrize("kind", ["inside", "link"])
def test_held_out_folders_that_overlap_the_repository_or_hold_links_are_refused(
    kind: str, trial: Trial, tmp_path: Path
) -> None:
    case = Case(kind=kind, about="", base="unittest", writes=BASES["unittest"].fix)
    repo, _ = trial.base("unittest", {})
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(BadRequest) as refused:
        trial.attempt(case, held_out=repo.folder / "tests" if kind == "inside" else tmp_path)
    assert refused.value.hint


def test_a_check_that_fails_by_chance_proves_nothing(corral: Corral) -> None:
    folder = corral.root / "counted"
    folder.mkdir()
    folder.chmod(0o777)
    count = folder / "count"
    check = f"echo x >> {count}; chmod 666 {count}; [ $(grep -c x {count}) -ne 1 ]"  # the first run of all fails
    corral.agent("mine", "echo more > note.txt")
    options = ["--agent", "mine", "--retries", "0", "--check", check, "--write", "**", "--write", f"{folder}/**"]
    outcome = corral.run(corral.repo(files={"a.txt": "a\n"}), "add a note", *options)
    evidence = outcome.attempt["evidence"]
    assert evidence is None or evidence["grade"] not in ("proven", "held-out"), outcome
    assert "Traceback" not in outcome.err
