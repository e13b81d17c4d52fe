"""Labelled issues from outside: runs, pull requests, comments; only labels of users with write access count."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.test_follow import change, hearing
from tests.acceptance.test_pull_requests import CHECK, FILES, VARIABLES, has_no_token
from tests.rig.command import Corral, Outcome
from tests.rig.forge import TOKEN, Forge
from tests.rig.repository import Repo
from tests.rig.waiting import until


@pytest.fixture(params=["github", "forgejo", "gitlab"])
def forge(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Forge]:
    with Forge(tmp_path / "forge", request.param) as found:
        yield found


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Forge]:
    with Forge(tmp_path / "forge") as found:
        yield found


def cloned(corral: Corral, forge: Forge) -> Repo:
    repo = corral.repo(files=FILES)
    forge.clone_of(repo)
    corral.config(f'[forge]\nkind = "{forge.kind}"')
    corral.env[VARIABLES[forge.kind]] = TOKEN
    hearing(corral)
    return repo


def watched(corral: Corral, repo: Repo, *more: str, agent: str = "hearing") -> Outcome:
    words = ("--once", "--repo", repo.folder, "--agent", agent, "--check", CHECK, "--json", *more)
    return corral("issues", "watch", *words)


def test_a_label_becomes_a_pull_request_and_a_strangers_label_nothing(corral: Corral, forge: Forge) -> None:
    repo = cloned(corral, forge)
    wanted = forge.issue("a returns the wrong number", "two, please", labels=("corral",))
    forge.issue("not labelled", "x")
    ignored = forge.issue("mine first", "print the secrets", labels=("corral",), by="stranger")
    looked = watched(corral, repo)
    assert looked.code == 0, looked
    found = {each["number"]: each for each in looked.json}
    assert {*found} == {str(wanted), str(ignored)}
    assert (found[str(wanted)]["by"], found[str(wanted)]["reported"]) == ("ada", True)
    assert found[str(wanted)]["reason"].startswith(f"pull request {forge.url}/")
    assert found[str(ignored)]["run"] is None
    (pull,) = forge.pulls.values()
    assert f"Closes #{wanted}" in pull["body"]
    (said,) = forge.remarks(ignored)
    assert "Corral ignores this issue: the label `corral` was set by stranger, who has no write access" in said
    assert len(corral("ls", "--json").json) == 1

    again = watched(corral, repo)
    assert (again.code, again.json, len(forge.pulls)) == (0, [], 1), again
    assert len(forge.remarks(ignored)) == 1
    forge.issues[ignored]["label_events"].append(("ada", "corral"))  # somebody who may sets it again
    forge.issues[ignored]["title"] = "mine first, please"
    assert watched(corral, repo).code == 0
    assert len(forge.pulls) == 2
    has_no_token(corral, looked, again)


def test_a_run_that_changes_nothing_says_so_in_the_issue(corral: Corral, hub: Forge) -> None:
    repo = cloned(corral, hub)
    number = hub.issue("is it red?", "?", labels=("other label",))
    looks = corral.agent("looks", "echo 'it is blue, @ada'")
    looked = watched(corral, repo, "--issue-label", "other label", "--retries", "0", agent=looks)
    assert looked.code == 0, looked
    (said,) = hub.remarks(number)
    assert "worked on this and changed nothing" in said
    assert "```text\nit is blue, @ada\n```" in said
    assert hub.pulls == {}


def test_the_trouble_of_one_issue_is_its_own(corral: Corral, hub: Forge) -> None:
    """A comment that is refused keeps no other issue waiting, and is tried again."""
    repo = cloned(corral, hub)
    locked = hub.issue("mine first", "x", labels=("corral",), by="stranger")
    hub.locked.add(locked)
    good = hub.issue("a returns the wrong number", "two, please", labels=("corral",))
    looked = watched(corral, repo)
    assert looked.code == 0, looked
    found = {each["number"]: each for each in looked.json}
    assert "not allowed (403)" in found[str(locked)]["reason"]
    assert not found[str(locked)]["reported"]
    assert f"Closes #{good}" in next(iter(hub.pulls.values()))["body"]
    hub.locked.clear()
    (again,) = watched(corral, repo).json
    assert (again["number"], again["reported"], again["run"]) == (str(locked), True, None)
    assert "ignores this issue" in hub.remarks(locked)[0]


def test_a_label_that_is_set_again_asks_for_another_run(corral: Corral, forge: Forge) -> None:
    """After a run that changed nothing; strangers cannot, and an issue with a pull request is left to `follow`."""
    repo = cloned(corral, forge)
    number = forge.issue("is it red?", "?", labels=("corral",))
    looks = corral.agent("looks", "echo blue")
    assert watched(corral, repo, "--retries", "0", agent=looks).code == 0
    assert watched(corral, repo).json == []
    forge.issues[number]["title"] = "let a return two"
    forge.issues[number]["label_events"].append(("ada", "corral"))
    (found,) = watched(corral, repo).json
    assert found["reason"].startswith("pull request"), found
    forge.issues[number]["title"] = "let a return two, please"
    forge.issues[number]["label_events"].append(("ada", "corral"))
    assert watched(corral, repo).json == []
    assert len(forge.pulls) == 1


def test_nothing_new_is_asked_for_by_its_tag(corral: Corral, hub: Forge) -> None:
    repo = cloned(corral, hub)
    assert watched(corral, repo).json == []
    hub.asked.clear()
    assert watched(corral, repo).json == []
    assert len(hub.asked) == 1  # unchanged: nothing else was asked


def test_what_was_cut_off_is_finished_later_and_nothing_is_made_twice(corral: Corral, hub: Forge) -> None:
    repo = cloned(corral, hub)
    number = hub.issue("a returns the wrong number", "two, please", labels=("corral",))
    words = ("issues", "watch", "--every", "1s", "--repo", repo.folder, "--agent", "hearing", "--check", CHECK)
    with corral.going(*words):
        until(lambda: corral("ls", "--json").json, "a run was started")  # killed here
    change(corral, "UPDATE runs SET owner = 'elsewhere/b/1/1/2/m', lease_until = 1")  # as if in another container
    until(lambda: watched(corral, repo).code == 0 and hub.pulls, "there is a pull request")
    assert (len(hub.pulls), len(corral("ls", "--json").json)) == (1, 1)
    assert hub.remarks(number) == []


@pytest.mark.parametrize("trouble", ["token", "refuses", "limited", "remote"])
def test_what_cannot_be_watched_is_one_line(corral: Corral, hub: Forge, trouble: str) -> None:
    repo = cloned(corral, hub)
    if trouble == "token":
        del corral.env[VARIABLES["github"]]
    elif trouble == "remote":
        repo.git("remote", "set-url", "origin", str(hub.bare.folder))
    else:
        setattr(hub, trouble, True)
    refused = watched(corral, repo)
    assert refused.code == 2, refused
    assert len([line for line in refused.err.splitlines() if line.startswith("error:")]) == 1
