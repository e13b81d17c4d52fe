"""One of each: a table, a class or a format that exists twice drifts apart."""

import ast
import re
from pathlib import Path

import pytest

import corral
from corral.agents.formats.error_words import error_class
from corral.boxed.loop import session

SOURCE = Path(corral.__file__).parent


def files_with(pattern: str) -> list[str]:
    found = re.compile(pattern, re.MULTILINE)
    return sorted(str(file.relative_to(SOURCE)) for file in SOURCE.rglob("*.py") if found.search(file.read_text()))


def test_one_class_is_called_hunk() -> None:
    assert files_with(r"^class Hunk\b") == ["model/merge.py"]


def test_one_table_says_which_words_mean_which_failure() -> None:
    assert files_with(r"context window") == ["model/error_classes.py"]
    for status in (401, 403, 404, 413, 429, 500, 501, 503, 529):
        assert error_class(status, "") == session._by_status(status, "")
    too_long = "the request exceeds the available context size"
    assert error_class(400, too_long) == session._by_status(400, too_long) == "context_too_long"


@pytest.mark.parametrize("command", ["rm", "pause", "resume"])
def test_schedules_and_triggers_share_their_commands(command: str) -> None:
    for module in ("schedule", "trigger"):
        tree = ast.parse((SOURCE / "frontends/cli" / f"{module}.py").read_text())
        own = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        assert command not in own
