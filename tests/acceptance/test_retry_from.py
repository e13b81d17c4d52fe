"""A further try starts from a clean state, or from where the last one stopped if that is asked for."""

import pytest

from tests.rig.command import Corral

STEPS = """
[[step]]
try = 1
run = "echo one > one.txt; echo weaker > test_it.py"
[[step]]
try = 2
run = "ls > seen.out; cp seen.out seen.txt; echo two > two.txt"
[[step]]
end = "done"
"""


@pytest.mark.parametrize("asked", [True, False])
def test_where_a_further_try_starts(corral: Corral, asked: bool) -> None:
    repo = corral.repo(files={"a.txt": "a\n"})
    outcome = corral.run(
        repo, "t", "--agent", corral.script(STEPS), "--retries", "1", "--check", "ls | grep two",
        *(["--from-last"] if asked else []),
    )  # fmt: skip
    assert outcome.code == 0, outcome
    seen = repo.read(outcome.attempt["commit"], "seen.txt").split()
    assert ("one.txt" in seen) is asked
    assert ("one.txt" in outcome.attempt["files_changed"]) is asked


def test_tests_that_an_earlier_try_weakened_prove_nothing(corral: Corral) -> None:
    repo = corral.repo(files={"a.txt": "a\n", "test_it.py": "raise SystemExit(1)\n"})
    corral.config('[retry]\nfrom = "last"')
    steps = STEPS.replace("echo weaker", "echo 'pass #'").replace("one.txt;", "one.txt; exit 0;", 0)
    outcome = corral.run(
        repo, "t", "--agent", corral.script(steps), "--retries", "1", "--check", "python3 test_it.py && ls | grep two"
    )
    assert outcome.code == 1, outcome
    assert "test_it.py" in outcome.attempt["error"]["message"]
