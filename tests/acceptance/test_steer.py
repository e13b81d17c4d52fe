"""`corral steer`: what a person adds reaches an agent at work, or is given at its next turn; it says which."""

import pytest

from corral.testing import ScriptedModel, Turn
from tests.rig.command import Corral
from tests.rig.repository import Repo
from tests.rig.suites import claude_program as program
from tests.rig.waiting import until

pytestmark = pytest.mark.both_stores

WAITS = "until test -e go; do sleep 0.02; done"


def let_go(corral: Corral) -> None:
    (tree,) = (corral.home / "workspaces").glob("*/work")
    (tree / "go").touch()


@pytest.fixture
def repo(corral: Corral) -> Repo:
    return corral.repo(files={".gitignore": "go\n", "a.txt": "a\n"})


@pytest.mark.slow
def test_the_real_claude_is_told_while_it_works(corral: Corral, repo: Repo) -> None:
    turns = [Turn(text="ready", sh=WAITS), Turn(sh="echo b > b.txt"), Turn(text="Did both.")]
    with ScriptedModel(turns) as model:
        corral.config(
            f'[agents.claude]\nprogram = "{program()}"\nsettings = {{ ANTHROPIC_BASE_URL = "{model.url}" }}\n'
        )
        corral.env["ANTHROPIC_API_KEY"] = "sk-scripted"
        with corral.going("run", "t", "--repo", repo.folder, "--agent", "claude", "--json") as run:
            corral.until_said("ready")
            answer = corral("steer", "@last", "also write b.txt")
            assert answer.code == 0, answer
            assert answer.out.startswith("sent to claude (")
            let_go(corral)
            outcome = run.end()
        assert outcome.code == 0, outcome
        assert "also write b.txt" in str(model.work_requests[1].body)
        assert len(outcome.json["nodes"][0]["attempts"]) == 1
    assert any(event["type"] == "steer_taken" and event["text"] == "also write b.txt" for event in corral.events())


@pytest.mark.slow
def test_what_is_said_while_an_agent_starts_is_sent_as_soon_as_it_listens(corral: Corral, repo: Repo) -> None:
    with ScriptedModel([Turn(text="ready", sh=WAITS), Turn(text="Did both.")]) as model:
        corral.config(
            f'[agents.claude]\nprogram = "{program()}"\nsettings = {{ ANTHROPIC_BASE_URL = "{model.url}" }}\n'
        )
        corral.env["ANTHROPIC_API_KEY"] = "sk-scripted"
        with corral.going("run", "t", "--repo", repo.folder, "--agent", "claude", "--json") as run:
            until(lambda: bool(corral("ls", "--json").json), "the run is stored")
            answer = corral("steer", "@last", "also write b.txt")
            assert answer.out.startswith("sent to claude ("), answer
            corral.until_said("ready")
            let_go(corral)
            assert run.end().code in (0, 1)
        assert "also write b.txt" in "".join(str(each.body) for each in model.work_requests)


def test_an_agent_that_does_not_listen_is_given_it_at_its_next_turn(corral: Corral, repo: Repo) -> None:
    corral.agent("plain", f'echo "$1" >> told.txt; echo ready; {WAITS}; echo turn >> turns.txt', 'prompt = "argument"')
    with corral.going("run", "the task", "--repo", repo.folder, "--agent", "plain", "--json") as run:
        corral.until_said("ready")
        answer = corral("steer", "@last", "also update the docs", "--json").json["answer"]
        assert answer.endswith("takes no messages while it works: it gets this one at its next turn")
        let_go(corral)
        outcome = run.end()
    assert outcome.code == 0, outcome
    branch = outcome.attempt["branch"]
    told = repo.read(branch, "told.txt")
    assert told.startswith("the task\nthe task\n")
    assert told.endswith("also update the docs")
    assert repo.read(branch, "turns.txt") == "turn\nturn"


def test_a_run_whose_process_is_gone_keeps_it_until_it_goes_on(corral: Corral, repo: Repo) -> None:
    corral.agent("plain", f'echo "$1" > told.txt; echo ready; {WAITS}', 'prompt = "argument"')
    with corral.going("run", "the task", "--repo", repo.folder, "--agent", "plain") as run:
        corral.until_said("ready")
        run.process.kill()
        run.process.wait()
    answer = corral("steer", "@last", "and be quick")
    assert answer.code == 0, answer
    assert "kept: the agent gets it when run" in answer.out
    with corral.going("resume", "@last", "--json") as resumed:
        until(lambda: len([event for event in corral.events() if event.get("text") == "ready"]) == 2, "a second try")
        let_go(corral)
        outcome = resumed.end()
    assert outcome.code == 0, outcome
    told = [event for event in corral.events() if "and be quick" in str(event)]
    assert told
    assert "and be quick" in repo.read(outcome.attempt["branch"], "told.txt")


@pytest.mark.parametrize("text", ["", "  "])
def test_nothing_to_tell_is_a_bad_request(corral: Corral, repo: Repo, text: str) -> None:
    corral.run(repo, "t", "--agent", corral.agent("plain", "echo b > b.txt"))
    answer = corral("steer", "@last", text)
    assert answer.code == 2
    assert "nothing to tell" in answer.err


def test_a_run_that_is_over_cannot_be_told_anything(corral: Corral, repo: Repo) -> None:
    corral.run(repo, "t", "--agent", corral.agent("plain", "echo b > b.txt"))
    answer = corral("steer", "@last", "more")
    assert answer.code == 2
    assert "is over: done" in answer.err
