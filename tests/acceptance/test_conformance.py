"""The real agent programs, in the box, against a scripted model: each works, fails for its own reason, and can be ended."""

from pathlib import Path

import pytest

from tests.rig.suites import SUITES

pytestmark = pytest.mark.slow  # left out of `make quick`

#: What does not depend on the program is tried on one of them; of `calls_mcp_tool` see also test_toolbox_agents.py.
SOME = {
    "says_only": ("claude",),
    "read_only": ("claude",),
    "expired_key": ("gemini",),
    "calls_mcp_tool": ("claude", "codex"),
}
TRIED = [(agent, case) for agent, suite in SUITES.items() for case in suite.cases if agent in SOME.get(case, SUITES)]


@pytest.mark.parametrize(("agent", "case"), TRIED, ids=[f"{agent}-{case}" for agent, case in TRIED])
def test_it_conforms(agent: str, case: str, tmp_path: Path) -> None:
    SUITES[agent].check(case, tmp_path)
