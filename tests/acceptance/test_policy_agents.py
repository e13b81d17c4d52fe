"""Rules for single tools hold for the tools of the real agent programs, by their own hooks."""

from collections.abc import Generator, Sequence
from typing import NamedTuple

import pytest

from corral.testing import ScriptedModel, Turn
from corral.testing.stage import KEY
from tests.acceptance.test_policy import notes
from tests.rig.agents import programs
from tests.rig.command import Corral
from tests.rig.suites import claude_program as program
from tests.rig.waiting import until

pytestmark = pytest.mark.slow


class Real(NamedTuple):
    """How a program is pointed to the scripted model."""

    name: str
    model: str
    key: str
    base: str = "OPENAI_BASE_URL"
    path: str = "/v1"


GEMINI = ("gemini-2.5-flash", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", "")
CLAUDE = ("claude-sonnet-4-5", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "")
HOOKED = (
    Real("claude", *CLAUDE),
    Real("codex", "gpt-5", "OPENAI_API_KEY"),
    Real("gemini", *GEMINI),
    Real("opencode", "fake-model", "OPENAI_API_KEY"),
    Real("openai", "gpt-5", "OPENAI_API_KEY"),
)
ALSO = (Real("acp:claude", *CLAUDE), Real("acp:opencode", "fake-model", "OPENAI_API_KEY"))
ASKING = Real("acp:gemini", *GEMINI)
SAME_HOOK = pytest.mark.night("its start is expensive, and the hook is that of the same program without ACP")
TURNS = [
    Turn(text="I try it.", sh="echo pushed > pushed.txt; git push origin main"),
    Turn(text="Then so.", sh="echo fine > fine.txt"),
    Turn(text="Done."),
]


@pytest.fixture
def model(real: Real, corral: Corral) -> Generator[ScriptedModel]:
    with ScriptedModel(TURNS) as served:
        corral.env["PATH"] = f"{programs()}:{corral.env['PATH']}"
        corral.env[real.key] = KEY
        named = f'program = "{program()}"\n' if real.name == "claude" else ""
        settings = f'{real.base} = "{served.url}{real.path}", AGENT_RETRIES = "0"'
        corral.config(f'[agents."{real.name}"]\n{named}settings = {{ {settings} }}')
        yield served


def cases(hooked: Sequence[Real], also: Sequence[Real]) -> list[object]:
    by_night = [pytest.param(each, marks=[SAME_HOOK], id=each.name) for each in also]
    return [*(pytest.param(each, id=each.name) for each in hooked), *by_night]


@pytest.mark.parametrize("real", cases(HOOKED, ALSO))
def test_the_hook_of_the_real_agent_refuses_what_a_rule_denies(
    corral: Corral, real: Real, model: ScriptedModel
) -> None:
    corral.config('[policy]\ndeny = ["git push*"]\n')
    outcome = corral.run(corral.repo(), "push it", "--agent", f"{real.name}:{real.model}")
    assert outcome.attempt["files_changed"] == ["fine.txt"], outcome
    (decided,) = notes(corral)
    assert decided.startswith("[policy] deny: `"), decided
    assert "git push origin main` by the rule `git push*`" in decided
    assert "[policy] denies" in str(model.work_requests[1].body), "the model was not told why"


@pytest.mark.parametrize("real", [ASKING], ids=[ASKING.name])
def test_what_an_acp_agent_asks_leave_for_is_judged(corral: Corral, real: Real, model: ScriptedModel) -> None:
    corral.config('[policy]\ndeny = ["git push*"]\n')
    outcome = corral.run(corral.repo(), "push it", "--agent", f"{real.name}:{real.model}")
    assert outcome.attempt["files_changed"] == ["fine.txt"], outcome
    said, decided = notes(corral)
    assert "for nothing else that it does" in said
    assert decided.startswith("[policy] deny: `"), decided
    assert len(model.work_requests) == len(TURNS)


@pytest.mark.parametrize("real", HOOKED[:1], ids=["claude"])
@pytest.mark.parametrize("answer", ["yes", "no"])
def test_the_user_is_asked_about_a_tool_of_the_agents_own(
    corral: Corral, real: Real, model: ScriptedModel, answer: str
) -> None:
    corral.config('[policy]\nask = ["git push*"]\n')
    repo = corral.repo()
    with corral.going("run", "push it", "--agent", f"{real.name}:{real.model}", "--json", cwd=repo.folder) as process:
        entry = until(lambda: corral("inbox", "--json").json, "the user is asked")[0]
        assert entry["text"] == "May claude call `Bash echo pushed > pushed.txt; git push origin main`?"
        assert corral("answer", entry["id"], answer).code == 0
        run = process.end().json
    (attempt,) = run["nodes"][0]["attempts"]
    assert attempt["files_changed"] == (["fine.txt", "pushed.txt"] if answer == "yes" else ["fine.txt"])
    assert ("the user refused" in str(model.work_requests[1].body)) == (answer == "no")


def test_an_agent_without_a_hook_is_reported(corral: Corral) -> None:
    agent = corral.agent("mine", "echo new > c.txt")
    corral.config('[policy]\ndeny = ["git push*"]\n')
    assert corral.run(corral.repo(), "x", "--agent", agent).code == 0
    assert notes(corral) == ["[policy] does not apply to the tools of mine: its program has no hook for that"]
