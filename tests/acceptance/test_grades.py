"""Grades of results, from outside: the run document, exit codes, receipts, settings, and how often checks run."""

import signal
from pathlib import Path

import pytest

from tests.rig.command import Corral, Outcome
from tests.rig.repository import Repo, git
from tests.rig.waiting import until

TESTS = """import sys, unittest
sys.path.insert(0, ".")
from sums import add, double
class Sums(unittest.TestCase):
    def test_add(self): self.assertEqual(add(1, 2), 3)
    def test_double(self): self.assertEqual(double(2), 4)
"""
GOOD = "def add(a, b):\n    return a + b\ndef double(a):\n    return 2 * a\n"
BROKEN = GOOD.replace("2 * a", "a")
FILES = {"sums.py": BROKEN, "tests/test_sums.py": TESTS}
UNITTEST = "python3 -m unittest discover -s tests"
FIX = f"cat > sums.py <<'END'\n{GOOD}END\n"
MORE = "printf 'import unittest\\n' > tests/test_more.py\n"
SKIP = FIX.replace("return 2 * a", "import unittest; raise unittest.SkipTest('later')")


@pytest.fixture
def counted(corral: Corral) -> tuple[list[str], Path]:
    """Options for a check that runs the tests and counts how often it was run."""
    folder = corral.root / "counted"
    folder.mkdir()
    folder.chmod(0o777)
    count = folder / "count"
    check = f"echo x >> {count}; chmod 666 {count}; {UNITTEST}"
    return ["--check", check, "--write", "**", "--write", f"{folder}/**"], count


def judged(corral: Corral, script: str, *arguments: str, files: dict[str, str] | None = None) -> Outcome:
    corral.agent("mine", script)
    repo = corral.repo(files=files or FILES)
    return corral.run(repo, "fix double", "--agent", "mine", "--retries", "0", *(arguments or ("--check", UNITTEST)))


def test_a_source_only_change_is_checked_at_the_base_twice_with_altered_tests_and_in_another_order(
    corral: Corral, counted: tuple[list[str], Path]
) -> None:
    options, count = counted
    outcome = judged(corral, FIX, *options)
    assert outcome.code == 0, outcome
    assert outcome.attempt["evidence"] == {
        "grade": "proven",
        "reasons": ["fails at the base, passes here: 1 test fixed"],
    }
    assert outcome.json["nodes"][0]["evidence"]["grade"] == "proven"
    assert count.read_text().count("x") == 5
    assert any(
        "its checks also ran at the base; with one altered test, which must fail; with tests in the opposite order; "
        "with the fixed tests once more at the base" in str(event)
        for event in corral.events("@last")
    )


@pytest.mark.slow
def test_a_race_checks_the_base_once(corral: Corral, counted: tuple[list[str], Path]) -> None:
    options, count = counted
    for place in range(4):
        corral.agent(f"a{place}", f"{FIX}echo {place} > note.txt")
    agents = ",".join(f"a{place}" for place in range(4))
    outcome = corral.run(corral.repo(files=FILES), "fix double", "--agent", agents, "--retries", "0", *options)
    assert outcome.code == 0, outcome
    # each rival three times: as it is, with altered tests, and in another order; the base twice
    assert count.read_text().count("x") == 14


def test_new_tests_and_their_helpers_cost_one_run_more_and_stay(
    corral: Corral, counted: tuple[list[str], Path]
) -> None:
    options, count = counted
    new = "cat > tests/test_more.py <<'END'\nimport unittest\nclass More(unittest.TestCase):\n    def test_more(self): pass\nEND\n"
    outcome = judged(corral, FIX + new, *options)
    assert outcome.attempt["evidence"]["grade"] == "proven", outcome
    assert count.read_text().count("x") == 6
    assert "tests/test_more.py" in Repo(Path(outcome.json["repo"])).files(outcome.attempt["commit"])


def test_no_ref_is_left_of_trees_that_were_made_for_checks(corral: Corral) -> None:
    outcome = judged(corral, FIX + MORE)
    assert outcome.attempt["evidence"]["grade"] == "proven", outcome
    assert not [ref for ref in Repo(Path(outcome.json["repo"])).refs() if "harness" in ref]


ORDERED = """import unittest
import sums
KEPT = []
class Ordered(unittest.TestCase):
    def test_a(self):
        KEPT.append(sums.double(2))
        self.assertEqual(KEPT, [4])
    def test_b(self):
        self.assertEqual(KEPT[0], 4)
"""


def test_tests_that_pass_only_in_their_order_prove_nothing(corral: Corral) -> None:
    outcome = judged(corral, FIX, files={**FILES, "tests/test_ordered.py": ORDERED})
    assert (outcome.code, outcome.attempt["evidence"]["grade"]) == (0, "unharmed"), outcome
    (why,) = outcome.attempt["evidence"]["reasons"]
    assert why == (
        f"`{UNITTEST}` has tests that pass only by chance, or only in their usual order: test_ordered.Ordered.test_b"
    )


@pytest.mark.parametrize(
    ("more", "grade"), [("made.py", "unharmed"), ("made.txt", "proven"), ("build/made.py", "proven")]
)
def test_a_check_that_adds_code_to_its_tree_proves_nothing(corral: Corral, more: str, grade: str) -> None:
    check = f"{UNITTEST} && mkdir -p build && date > {more}"
    outcome = judged(corral, FIX, "--check", check)
    assert (outcome.code, outcome.attempt["evidence"]["grade"]) == (0, grade), outcome
    words = f"`{check}` adds files to the repository which its next run would read: made.py"
    assert (words in outcome.attempt["evidence"]["reasons"]) == (grade == "unharmed")


GENERATED = "# This file is generated: do not edit\nx = 0\n"
APPENDS = TESTS.replace("import sys", "open('other.py', 'a').write('x = 1\\n')\nimport sys", 1)


@pytest.mark.parametrize(
    ("files", "check", "named"),
    [
        ({}, f"{UNITTEST} && echo '# more' >> sums.py", "sums.py"),
        ({"tests/test_sums.py": APPENDS}, UNITTEST, "other.py"),
        ({"make.sh": "echo 'x = 0' > other.py\n"}, f"sh make.sh && {UNITTEST}", ""),
        ({"make.sh": "date >> other.py\n", "other.py": GENERATED}, f"sh make.sh && {UNITTEST}", ""),
    ],
    ids=["the-work", "tests", "the-same", "generated"],
)
def test_a_check_that_changes_source_proves_nothing(
    corral: Corral, files: dict[str, str], check: str, named: str
) -> None:
    outcome = judged(corral, FIX, "--check", check, files={**FILES, "other.py": "x = 0\n", **files})
    assert (outcome.code, outcome.attempt["evidence"]["grade"]) == (0, "unharmed" if named else "proven"), outcome
    words = f"`{check}` changed files of the repository while it ran: {named}"
    assert (words in outcome.attempt["evidence"]["reasons"]) == bool(named)


def test_work_that_shows_no_progress_is_unharmed_and_no_check_is_unchecked(corral: Corral) -> None:
    outcome = judged(corral, "echo x > x", files={**FILES, "sums.py": GOOD})
    assert (outcome.code, outcome.attempt["evidence"]["grade"]) == (0, "unharmed")
    corral.agent("other", "echo y > y")
    outcome = corral.run(corral.repo("two", FILES), "t", "--agent", "other")
    assert (outcome.code, outcome.attempt["evidence"]["grade"]) == (0, "unchecked")
    corral.agent("third", "echo fine")
    outcome = corral.run(corral.repo("three", FILES), "t", "--agent", "third", "--read-only")
    assert (outcome.code, outcome.attempt["evidence"]["grade"]) == (0, "unchecked")


def test_doubtful_work_fails_is_told_why_and_can_be_taken_all_the_same(corral: Corral) -> None:
    corral.agent("mine", SKIP)
    repo = corral.repo(files=FILES)
    outcome = corral.run(repo, "fix double", "--agent", "mine", "--check", UNITTEST, "--retries", "1")
    first, second = outcome.json["nodes"][0]["attempts"]
    assert (outcome.code, first["status"], first["error"]["class"]) == (1, "failed", "doubtful")
    assert first["evidence"]["grade"] == "doubtful"
    assert outcome.json["nodes"][0]["evidence"] is None
    prompt = (corral.home / "logs" / second["id"] / "prompt.txt").read_text()
    assert "was not accepted" in prompt
    assert "test_double" in prompt
    merged = corral("merge", outcome.json["run"], "--pick", first["id"])
    assert merged.code == 0, merged
    assert "SkipTest" in (repo.folder / "sums.py").read_text()
    assert "it was refused: " in merged.err
    assert "test_double" in merged.err


def test_settings_may_ask_for_more(corral: Corral) -> None:
    corral.config('[evidence]\nrequire = "proven"\n')
    outcome = judged(corral, "echo x > x", files={**FILES, "sums.py": GOOD})
    assert (outcome.code, outcome.attempt["error"]["class"]) == (1, "doubtful")
    assert "require is proven" in outcome.attempt["error"]["message"]
    assert "--pick" in outcome.attempt["error"]["hint"]
    assert outcome.attempt["evidence"]["grade"] == "unharmed"
    corral.agent("other", "echo fine")
    assert corral.run(corral.repo("two", FILES), "t", "--agent", "other", "--read-only").code == 0
    corral.agent("third", """echo '{"verdict": "accept"}'""")
    shape = ["--output", '{"verdict": ["accept", "reject"]}']
    assert corral.run(corral.repo("three", FILES), "t", "--agent", "third", *shape).code == 0


@pytest.mark.parametrize(
    ("mine", "theirs", "code"),
    [("proven", "unchecked", 1), ("unchecked", "proven", 1), ("unharmed", "unchecked", 0), ("doubtful", "", 2),
     ("best", "", 2)],
)  # fmt: skip
def test_a_repository_may_only_raise_what_is_asked_for(corral: Corral, mine: str, theirs: str, code: int) -> None:
    corral.config(f'[evidence]\nrequire = "{mine}"\n')
    files = {**FILES, "sums.py": GOOD} | ({"corral.toml": f'[evidence]\nrequire = "{theirs}"\n'} if theirs else {})
    corral.agent("mine", "echo x > x")
    done = corral("run", "t", "--repo", corral.repo(files=files).folder, "--agent", "mine", "--check", UNITTEST)
    assert done.code == code, done
    if code == 2:
        assert "require" in done.err
        assert "hint: held-out, proven, unharmed or unchecked" in done.err


def test_a_receipt_holds_the_grade_and_verify_finds_it_again(corral: Corral) -> None:
    outcome = judged(corral, FIX + MORE)
    repo = Repo(Path(outcome.json["repo"]))
    assert repo.receipt(outcome.attempt["commit"])["evidence"]["grade"] == "proven"
    again = corral("verify", "@last", "--rerun", "--json")
    assert again.code == 0, again
    points = again.json["receipts"][0]["points"]
    assert {"what": "evidence", "holds": True, "words": "it is proven"} in points


@pytest.mark.parametrize(("setup", "grade"), [("test ! -e tests/test_more.py", "check_failed"), ("true", "proven")])
def test_a_setup_that_fails_with_the_work_fails_it(corral: Corral, setup: str, grade: str) -> None:
    corral.config(f'[workspace]\nsetup = "{setup}"\n')
    outcome = judged(corral, FIX + MORE)
    assert grade == (outcome.attempt["error"]["class"] if outcome.code else outcome.attempt["evidence"]["grade"])


def test_a_new_module_that_a_check_imports_is_product(corral: Corral) -> None:
    check = """python3 -c "from calculator import add; assert add(1, 2) == 3" """
    outcome = judged(corral, "printf 'def add(a, b):\\n    return a + b\\n' > calculator.py", "--check", check.strip())
    assert (outcome.code, outcome.attempt["evidence"]["grade"]) == (0, "proven"), outcome


def test_repeat_until_checks_goes_by_the_same_evidence(corral: Corral) -> None:
    corral.agent("mine", f'case "$1" in *"not accepted"*) {FIX};; *) {SKIP};; esac'.replace("END\n;;", "END\n;;"))
    flow = corral.root / "flow.yaml"
    flow.write_text(
        f'name: f\nnodes:\n  fix:\n    agent: mine\n    task: fix double\n    checks: ["{UNITTEST}"]\n'
        "    repeat: {until: checks, most: 3}\n"
    )
    outcome = corral("flow", "run", flow, "--repo", corral.repo(files=FILES).folder, "--json")
    assert outcome.code == 0, outcome
    grades = [each["evidence"]["grade"] for each in outcome.json["nodes"][0]["attempts"]]
    assert grades == ["doubtful", "proven"]


@pytest.mark.slow
def test_a_base_whose_check_never_ends_shows_no_progress(corral: Corral) -> None:
    outcome = judged(corral, "echo fixed > a.txt", "--check", "grep -q fixed a.txt || sleep 1000", "--timeout", "4s")
    assert (outcome.code, outcome.attempt["evidence"]["grade"]) == (0, "unharmed"), outcome
    assert "was not done in time" in outcome.attempt["evidence"]["reasons"][0]


def test_a_check_that_no_program_runs_at_the_base_shows_no_progress(corral: Corral) -> None:
    outcome = judged(corral, "printf '#!/bin/sh\\nexit 0\\n' > tool; chmod +x tool", "--check", "./tool")
    assert outcome.attempt["evidence"]["grade"] == "unharmed", outcome


def test_the_first_commit_of_a_repository_is_compared_with_an_empty_tree(corral: Corral) -> None:
    corral.agent("mine", "printf 'def add(a, b):\\n    return a + b\\n' > calculator.py")
    repo = corral.root / "empty"
    repo.mkdir()
    git(repo, "init", "-q")
    check = """python3 -c "from calculator import add; assert add(1, 2) == 3\""""
    outcome = corral.run(repo, "t", "--agent", "mine", "--check", check)
    assert (outcome.code, outcome.attempt["evidence"]["grade"]) == (0, "proven"), outcome


def test_names_that_are_not_text_do_no_harm(corral: Corral) -> None:
    outcome = judged(
        corral, FIX + "printf x > \"$(printf 'tests/test_\\377.py')\"; printf x > \"$(printf 'a\\033b.ini')\""
    )
    assert outcome.attempt["evidence"]["grade"] == "proven", outcome
    assert corral("show", "@last").code == 0


@pytest.mark.slow
def test_killed_while_the_base_s_own_tests_run_it_is_proven_after_all(corral: Corral) -> None:
    corral.agent("mine", FIX + MORE)
    repo, folder = corral.repo(files=FILES), corral.root / "outside"
    folder.mkdir()
    wait = folder / "wait"
    wait.touch()
    held = f"test -e {wait} && ! test -e tests/test_more.py && grep -q '2 [*]' sums.py"
    check = f"while {held}; do sleep 0.05; done; {UNITTEST}"
    options = ["--check", check, "--read", "**", "--read", str(folder), "--retries", "0"]
    with corral.going("run", "fix double", "--repo", repo.folder, "--agent", "mine", *options) as going:
        until(lambda: going.process.poll() is not None or "harness" in " ".join(repo.refs()), "a tree is made")
        going.signal(signal.SIGKILL)
        going.end()
    assert "harness" in " ".join(repo.refs())
    wait.unlink()
    outcome = corral("resume", "@last", "--json")
    assert outcome.attempt["evidence"]["grade"] == "proven", outcome
    assert "harness" not in " ".join(repo.refs())


def test_a_submodule_of_tests_is_put_back(corral: Corral) -> None:
    tests = corral.repo("library", {"test_sums.py": TESTS})
    repo = corral.repo(files={"sums.py": BROKEN})
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(tests.folder), "tests")
    repo.git("commit", "-qm", "tests from elsewhere")
    corral.agent("mine", "sed -i s/4/2/ tests/test_sums.py")
    outcome = corral.run(repo, "fix double", "--agent", "mine", "--check", UNITTEST, "--retries", "0")
    assert outcome.attempt["error"]["class"] == "check_failed", outcome
    assert "passes only with changed files that steer it: tests (a submodule of tests)" in outcome.json["reason"]


def test_a_file_that_is_padded_against_readers_is_doubtful(corral: Corral) -> None:
    outcome = judged(corral, FIX + "head -c 400000 /dev/zero | tr '\\0' '\\n' >> sums.py")
    assert outcome.attempt["evidence"]["grade"] == "doubtful", outcome
    assert "sums.py holds thousands of blanks in a row" in outcome.attempt["error"]["message"]
