"""The real agent programs, in the box, against a scripted model: each works, fails for its own reason, and can be ended."""

from pathlib import Path

import pytest

from tests.rig.command import Corral
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
#: Each start of these programs costs 4 to 14 s of processor. By day they show that they work and report an error of their
#: own; that they are ended in the middle is a matter of their box, and gemini shows it for them.
EXPENSIVE = ("gemini", "opencode", "qwen", "copilot")
BY_DAY = {"works": EXPENSIVE, "wrong_key": EXPENSIVE, "stopped": ("gemini",)}
#: What comes from outside the program: by day claude shows that it is seen; what codex says of it, tests/agents reads.
FROM_OUTSIDE = ("bad_certificate", "endpoint_down", "silent", "overloaded", "cut_stream", "unknown_model")


def _reason(agent: str, case: str) -> str:
    """Return why a case is tried by night alone; nothing of one that is tried by day."""
    if agent in EXPENSIVE and agent not in BY_DAY.get(case, ()):
        return "its start is expensive"
    return "the same is tried with claude" if agent == "codex" and case in FROM_OUTSIDE else ""


def _parameters(agent: str, case: str) -> object:
    reason = _reason(agent, case)
    return pytest.param(agent, case, id=f"{agent}-{case}", marks=[pytest.mark.night(reason)] if reason else [])


@pytest.mark.parametrize(("agent", "case"), [_parameters(agent, case) for agent, case in TRIED])
def test_it_conforms(agent: str, case: str, tmp_path: Path) -> None:
    SUITES[agent].check(case, tmp_path, Corral)
