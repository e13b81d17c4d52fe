"""The real agents in the default box work, test and commit; their attempt to leave is refused and told on the result."""

import pytest

from corral.testing import ScriptedModel, Turn
from tests.rig.agents import give
from tests.rig.command import Corral
from tests.rig.suites import claude_program

pytestmark = pytest.mark.slow  # left out of `make quick`


@pytest.mark.parametrize("agent", ["claude", "codex:gpt-5"])
def test_an_attempt_to_leave_is_refused_and_told(corral: Corral, agent: str) -> None:
    repo = corral.repo(files={"a.txt": "a\n"})
    (corral.user_home / ".ssh").mkdir()
    (corral.user_home / ".ssh" / "id_rsa").write_text("PRIVATE")
    leaving = f"cat {corral.user_home}/.ssh/id_rsa > got.txt; echo evil > {repo.folder}/EVIL; true"
    working = "echo b > b.txt && test -s b.txt && git add b.txt && git commit -qm 'Add b'"
    with ScriptedModel([Turn(text="I leave", sh=leaving), Turn(sh=working), Turn(text="Done")]) as model:
        if agent == "claude":
            settings = f'settings = {{ ANTHROPIC_BASE_URL = "{model.url}" }}'
            corral.config(f'[agents.claude]\nprogram = "{claude_program()}"\n{settings}\n')
            corral.env["ANTHROPIC_API_KEY"] = "sk-scripted"
        else:
            give(corral, "codex", "OPENAI_API_KEY", {"OPENAI_BASE_URL": model.url + "/v1"})
        outcome = corral.run(repo, "add b", "--agent", agent, "--check", "test -s b.txt")
    assert outcome.code == 0, outcome
    assert not (repo.folder / "EVIL").exists()
    attempt = outcome.attempt
    assert repo.read(attempt["branch"], "b.txt") == "b"
    assert repo.read(attempt["branch"], "got.txt") == ""
    tried = {each["path"] for each in attempt["sandbox"]["violations"] if each["kind"] == "tried"}
    assert {f"{corral.user_home}/.ssh/id_rsa", f"{repo.folder}/EVIL"} <= tried
