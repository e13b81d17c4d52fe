"""The hint for what was not found in a box."""

import pytest

from corral.model import NOT_STARTED_HINT
from corral.model.missing_programs import hint_for_missing


@pytest.mark.parametrize(
    "printed",
    [
        "make: /opt/t/tool: No such file or directory\nmake: *** [Makefile:3: t] Error 127",
        "/bin/sh: 1: /opt/t/tool: not found",
        "bash: line 1: /opt/t/tool: No such file or directory",
        "FileNotFoundError: [Errno 2] No such file or directory: '/opt/t/tool'",
        "Error: spawn /opt/t/tool ENOENT",
        "fork/exec /opt/t/tool: no such file or directory",
    ],
)
def test_the_path_that_was_not_found_is_named(printed: str) -> None:
    assert "--read /opt/t/tool " in hint_for_missing(1, f"before\n{printed}\nafter")


@pytest.mark.parametrize(
    "printed",
    [
        "1 failed",
        "No such file or directory: 'data.txt'",
        "cat: /tmp/x: No such file or directory",
        "cat: /state/workspaces/run-1/work/x: No such file or directory",
    ],
)
def test_what_is_missing_in_the_work_itself_is_no_program_of_the_machine(printed: str) -> None:
    assert hint_for_missing(1, printed, "run-1") == ""
    assert hint_for_missing(127, printed, "run-1") == NOT_STARTED_HINT


def test_make_ends_with_another_code_than_its_recipe() -> None:
    assert hint_for_missing(2, "make: tool: No such file or directory\nmake: *** [t] Error 127") == NOT_STARTED_HINT
