"""Rivals that pass the same checks are told apart by what they answer to varied inputs."""

from typing import Any

import pytest

from tests.rig.command import Corral, Outcome
from tests.rig.repository import Repo

TEST = "from sums import add\n\nassert add(1, 2) == 3\nassert add(2, 2) == 4\n"
KNOWN = "printf 'def add(a, b): return (a + b) * (a < 3)\\n' > sums.py"  # right for what the tests know
RIGHT = "printf 'def add(a, b):\\n    total = a\\n    total += b\\n    return total\\n' > sums.py"
LONG = "printf 'def add(a, b):\\n    # sum\\n    total = a + b\\n\\n    # done\\n    return total\\n' > sums.py"


@pytest.fixture
def repo(corral: Corral) -> Repo:
    return corral.repo(files={"sums.py": "def add(a, b):\n    return a - b\n", "check.py": TEST})


def race(corral: Corral, repo: Repo, *more: str, **agents: str) -> Outcome:
    for name, script in agents.items():
        corral.agent(name, script)
    return corral.run(repo, "fix add()", "--agent", ",".join(agents), "--check", "python3 check.py", *more)


def reasons(corral: Corral) -> dict[str, Any]:
    (node,) = corral("compare", "@last", "--json").json["nodes"]
    return {each["agent"]: each["reason"] for each in node["attempts"]}


def test_known_answers_lose_against_two_that_agree(corral: Corral, repo: Repo) -> None:
    outcome = race(corral, repo, known=KNOWN, right=RIGHT, long=LONG)
    assert outcome.code == 0, outcome
    node = outcome.json["nodes"][0]
    found = {each["agent"]: each for each in node["attempts"]}
    assert {each["evidence"]["grade"] for each in found.values()} == {"proven"}
    assert node["winner"] == found["right"]["id"], "the smallest change is the one with known answers"
    assert "agrees with 2 of 3 rivals on varied inputs" in node["why"]
    assert reasons(corral)["known"].startswith("differs from 2 of 3 rivals: add(")
    shown = corral("evidence", "@last", found["known"]["id"], "--json").json["notes"][-1]
    assert shown.startswith("varied inputs: differs from 2 of 3 rivals: add(")
    assert "agrees with 2 of 3 rivals" in corral("show", "@last").out
    assert not list((corral.home / "workspaces").glob("*")), "no checkout is left"


def test_two_that_differ_wait_for_the_user(corral: Corral, repo: Repo) -> None:
    outcome = race(corral, repo, known=KNOWN, right=RIGHT)
    assert (outcome.code, outcome.json["status"]) == (3, "waiting"), outcome
    found = {each["agent"]: each["id"] for each in outcome.json["nodes"][0]["attempts"]}
    (asked,) = corral("inbox", "--json").json
    assert "they differ: add(" in asked["text"]
    assert f"0 in {found['known']}" in asked["text"]
    assert "they differ: add(" in reasons(corral)["known"]
    assert corral("answer", asked["id"], "right").code == 0
    assert corral("show", "@last", "--json").json["nodes"][0]["winner"] == found["right"]


def test_the_cheapest_is_taken_as_asked(corral: Corral, repo: Repo) -> None:
    outcome = race(corral, repo, "--select", "cheapest", known=KNOWN, right=RIGHT)
    assert (outcome.code, outcome.json["status"]) == (0, "done"), outcome
    assert "variation" not in outcome.json["nodes"][0]["attempts"][0]
