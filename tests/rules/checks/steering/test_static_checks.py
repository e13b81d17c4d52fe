"""Work that keeps static checks quiet, tests that follow a change, and what checks compare with."""

import pytest

from corral.model.flow import Task
from corral.rules.checks.steering import Contents, PathChange, harness, static_doubts
from corral.rules.checks.steering.following import TESTS_FOLLOW

BASE = {"a.py": b"import os\n\n\ndef f():\n    return 1\n"}


def words(delivered: bytes, check: str, prompt: str = "repair it") -> list[str]:
    contents: Contents = {("base", "a.py"): BASE["a.py"], ("delivered", "a.py"): delivered}
    found = static_doubts([PathChange("a.py", "changed")], [check], Task(prompt=prompt), [*BASE], contents)
    return [each.words for each in found]


@pytest.mark.parametrize("check", ["ruff check .", "mypy a.py", "python3 -m flake8"])
def test_a_quiet_linter_is_doubted_where_a_check_runs_one(check: str) -> None:
    quiet = BASE["a.py"].replace(b"import os", b"import os  # noqa: F401")
    assert words(quiet, check)
    assert not words(quiet, "pytest -q")
    assert not words(quiet, check, "mark the import with noqa")
    assert not words(BASE["a.py"].replace(b"import os\n\n\n", b""), check)


def test_lost_code_is_doubted_unless_the_task_removes_it() -> None:
    gone = b"import os\n\nprint(os)\n"
    assert words(gone, "python3 -m compileall -q .")
    assert not words(gone, "python3 -m compileall -q .", "remove f(), which is unused")
    assert not words(gone, "ruff check . && pytest -q")


@pytest.mark.parametrize(
    ("prompt", "follow"),
    [
        ("Use underscores from now on. Update the code and its tests.", True),
        ("Remove the function words() and its test.", True),
        ("Adapt the fixtures accordingly.", True),
        ("Remove textkit.old and everything that belongs to it, including its tests.", True),
        ("Fix the failing tests", False),
        ("Update add() so that the tests pass", False),
        ("change add() and make sure the tests pass", False),
        ("Change the code, the tests must pass", False),
        ("update add and run the tests", False),
    ],
)
def test_a_task_says_whether_tests_follow(prompt: str, follow: bool) -> None:
    assert bool(TESTS_FOLLOW.search(prompt)) is follow


@pytest.mark.parametrize("check", ["python3 t.py in.txt | diff - out.txt", "sh check.sh"])
@pytest.mark.parametrize("path", ["in.txt", "out.txt"])
def test_what_a_check_compares_with_is_put_back(check: str, path: str) -> None:
    files = {"t.py": b"print(1)\n", "check.sh": b"cat < in.txt\ncmp got out.txt\n", "in.txt": b"1\n", "out.txt": b"2\n"}
    base: Contents = {("base", name): text for name, text in files.items()}
    contents: Contents = {**base, ("delivered", path): b"3\n"}
    found = harness([PathChange(path, "changed")], [check], Task(prompt="fix it"), [*files], contents)
    assert [(each.path, each.how) for each in found.steered] == [(path, "allowed")]
    other = harness([PathChange(path, "changed")], ["pytest -q"], Task(prompt="fix it"), [*files], contents)
    assert not other.steered
