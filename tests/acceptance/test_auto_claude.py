"""Auto-Claude, by a stand-in written from its documented contract: one command, phases, a plan that tells the truth."""

from pathlib import Path

import pytest

from tests.rig.auto_claude import install
from tests.rig.command import Corral, Outcome
from tests.rig.repository import Repo

pytestmark = pytest.mark.slow  # left out of `make quick`


@pytest.fixture
def repo(corral: Corral) -> Repo:
    return corral.repo(files={".gitignore": "go\n.auto-claude/\n", "a.txt": "a\n"})


def ready(corral: Corral, **mood: str) -> Path:
    """Give a person an installed Auto-Claude and its token."""
    place = install(corral.root / "Auto-Claude", **mood)
    corral.env["AUTO_CLAUDE_HOME"] = str(place)
    corral.env["CLAUDE_CODE_OAUTH_TOKEN"] = "token-of-the-person"
    return place


def build(corral: Corral, repo: Repo, *arguments: str) -> Outcome:
    return corral.run(repo, "build the shop", "--agent", "auto-claude", *arguments)


def test_one_command_plans_and_builds_in_our_workspace(corral: Corral, repo: Repo) -> None:
    ready(corral)
    before = repo.fingerprint()
    outcome = build(corral, repo, "--check", "grep -q shop s1.txt s2.txt")
    assert outcome.code == 0, outcome
    attempt = outcome.attempt
    assert attempt["files_changed"] == ["s1.txt", "s2.txt"]  # nothing of its own folder
    assert attempt["cost"]["source"] == "estimated"  # it tells neither money nor tokens: what it usually costs
    assert attempt["cost"]["usd"] > 0
    assert attempt["session"].startswith("001-corral-")
    assert attempt["output"] == "Build finished and approved"
    said = [event["text"] for event in corral.events() if event["type"] == "said"]
    assert "planning: Creating implementation plan, 10 %" in said
    assert "coding (s1): Working, 50 %" in said
    assert "║" not in "".join(said)
    assert repo.fingerprint() == before
    assert corral.leavings() == []


def test_settings_name_the_backend_and_a_model(corral: Corral, repo: Repo) -> None:
    place = ready(corral)
    del corral.env["AUTO_CLAUDE_HOME"]
    corral.config(f'[agents.auto-claude]\nprogram = "{place}/apps/backend"\nmodel = "opus"\n')
    outcome = build(corral, repo)
    assert outcome.code == 0, outcome
    assert any(event.get("text") == "Model: opus" for event in corral.events())


def test_exit_code_0_with_a_rejected_build_is_no_success(corral: Corral, repo: Repo) -> None:
    ready(corral, MOOD="rejected")
    outcome = build(corral, repo, "--retries", "0")
    assert outcome.code == 1
    error = outcome.attempt["error"]
    assert error["class"] == "bad_output"
    assert "2 of 2 subtasks completed; QA: rejected" in error["message"]
    assert repo.read(outcome.attempt["branch"], "s2.txt") == "build the shop"  # its work is kept all the same


def test_a_crash_is_told_in_its_own_words(corral: Corral, repo: Repo) -> None:
    ready(corral, MOOD="crashes")
    outcome = build(corral, repo, "--retries", "0")
    assert outcome.attempt["error"]["class"] == "crash"
    assert "the build fell over" in outcome.attempt["error"]["message"]


def test_after_a_limit_the_same_plan_goes_on(corral: Corral, repo: Repo) -> None:
    ready(corral, MOOD="limited")
    outcome = build(corral, repo)
    assert outcome.code == 0, outcome
    first, second = outcome.json["nodes"][0]["attempts"]
    assert first["status"] == "limited"
    assert second["session"] == first["session"]
    assert set(second["files_changed"]) == {"s1.txt", "s2.txt", "heeded.txt"}
    assert "You were interrupted" in repo.read(second["branch"], "heeded.txt")
    assert repo.read(second["branch"], "s2.txt") == "build the shop"
    said = [event["text"] for event in corral.events() if event["type"] == "said"]
    assert sum("Creating implementation plan" in text for text in said) == 1


def test_what_a_person_adds_is_left_where_it_looks(corral: Corral, repo: Repo) -> None:
    ready(corral, MOOD="waits")
    with corral.going("run", "build it", "--repo", repo.folder, "--agent", "auto-claude", "--json") as run:
        corral.until_said("coding (s1)")
        answer = corral("steer", "@last", "also sell pears")
        assert answer.out.startswith("sent to auto-claude ("), answer
        (tree,) = (corral.home / "workspaces").glob("*/work")
        (tree / "go").touch()
        outcome = run.end()
    assert outcome.code == 0, outcome
    assert repo.read(outcome.attempt["branch"], "heeded.txt") == "also sell pears"
    assert any(event["type"] == "steer_taken" and event["text"] == "also sell pears" for event in corral.events())


def test_a_work_tree_of_its_own_is_not_lost(corral: Corral, repo: Repo) -> None:
    ready(corral, MOOD="nests")
    outcome = build(corral, repo, "--retries", "0")
    assert outcome.attempt["error"]["class"] == "no_change"
    (saved,) = [line for line in repo.git("for-each-ref", "--format=%(refname)").splitlines() if "/saved/" in line]
    assert saved in outcome.attempt["error"]["message"]
    assert repo.read(saved, "s2.txt") == "build the shop"
    assert repo.read(saved, "not-committed.txt") == "still there"


def test_it_cannot_only_look(corral: Corral, repo: Repo) -> None:
    ready(corral)
    outcome = build(corral, repo, "--read-only")
    assert outcome.code == 2
    assert "it cannot only look" in outcome.err


def test_without_a_token_it_says_how_to_get_one(corral: Corral, repo: Repo) -> None:
    ready(corral)
    del corral.env["CLAUDE_CODE_OAUTH_TOKEN"]
    corral.env["ANTHROPIC_API_KEY"] = "not-taken"
    outcome = build(corral, repo)
    assert outcome.attempt["error"]["class"] == "auth"
    assert "CLAUDE_CODE_OAUTH_TOKEN" in outcome.attempt["error"]["hint"]


@pytest.mark.parametrize("named", ["", "/nowhere/Auto-Claude"])
def test_what_is_missing_is_said_with_the_way_to_get_it(corral: Corral, repo: Repo, named: str) -> None:
    if named:
        corral.env["AUTO_CLAUDE_HOME"] = named
    outcome = build(corral, repo)
    assert outcome.code == 2
    assert "AUTO_CLAUDE_HOME=/path/to/Auto-Claude" in outcome.err
    (report,) = [each for each in corral("doctor", "--json").json["agents"] if each["name"] == "auto-claude"]
    assert report["program"] is None
    assert "uv pip install -r requirements.txt" in report["remedy"]


def test_doctor_finds_it_and_its_token(corral: Corral) -> None:
    place = ready(corral)
    (report,) = [each for each in corral("doctor", "--json").json["agents"] if each["name"] == "auto-claude"]
    assert report["program"] == f"{place}/apps/backend/.venv/bin/python"
    assert report["login"] == "CLAUDE_CODE_OAUTH_TOKEN"
