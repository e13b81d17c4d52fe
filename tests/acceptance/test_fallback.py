"""When an agent cannot: another of its family, or its own session once its quota is back."""

import pytest

from tests.rig.command import Corral

LIMITED = """
[[step]]
resumed = false
write = "half.txt"
text = "half"
[[step]]
resumed = false
limit = {seconds}
[[step]]
say = "I go on"
[[step]]
write = "whole.txt"
text = "whole"
"""


@pytest.fixture
def pair(corral: Corral) -> Corral:
    """Two agents: one that fails, one that works."""
    corral.agent("weak", "echo try >> tried.txt; exit 3", 'family = "mine"')
    corral.agent("strong", "echo work > work.txt", 'family = "mine"')
    return corral


def test_another_of_the_family_steps_in_from_the_same_base(pair: Corral) -> None:
    repo = pair.repo()
    outcome = pair.run(repo, "t", "--agent", "weak", "--fallback", "strong", "--retries", "0")
    assert outcome.code == 0, outcome
    first, second = outcome.json["nodes"][0]["attempts"]
    assert (first["agent"], first["status"]) == ("weak", "failed")
    assert (second["agent"], second["status"], second["try"]) == ("strong", "done", 1)
    assert second["fallback_of"] == first["id"]
    assert second["retry_of"] is None
    assert second["files_changed"] == ["work.txt"]
    assert repo.read(first["branch"], "tried.txt") == "try"


def test_its_own_tries_come_first(pair: Corral) -> None:
    pair.config("[retry]\ndelay_seconds = 0.01\n")
    outcome = pair.run(pair.repo(), "t", "--agent", "weak", "--fallback", "strong", "--retries", "2")
    assert [a["agent"] for a in outcome.json["nodes"][0]["attempts"]] == ["weak", "weak", "weak", "strong"]


def test_settings_may_name_the_fallback(corral: Corral) -> None:
    corral.agent("weak", "exit 3", 'family = "mine"\nfallback = ["strong"]')
    corral.agent("strong", "echo work > work.txt", 'family = "mine"')
    assert corral.run(corral.repo(), "t", "--agent", "weak", "--retries", "0").code == 0


def test_never_across_families_unless_they_are_made_one(corral: Corral) -> None:
    corral.agent("weak", "exit 3")
    corral.agent("strong", "echo work > work.txt")
    outcome = corral.run(corral.repo(), "t", "--agent", "weak", "--fallback", "strong")
    assert outcome.code == 2
    assert "family" in outcome.err
    assert "hint:" in outcome.err


def test_a_quota_that_is_back_soon_is_waited_for_and_the_session_goes_on(corral: Corral) -> None:
    repo = corral.repo()
    outcome = corral.run(repo, "t", "--agent", corral.script(LIMITED.format(seconds=1)))
    assert outcome.code == 0, outcome
    first, second = outcome.json["nodes"][0]["attempts"]
    assert first["status"] == "limited"
    assert second["session"] == first["session"]
    assert set(second["files_changed"]) == {"half.txt", "whole.txt"}
    assert corral.leavings() == []


def test_a_quota_that_takes_long_parks_the_run_until_a_person_resumes_it(corral: Corral) -> None:
    repo = corral.repo()
    parked = corral.run(repo, "t", "--agent", corral.script(LIMITED.format(seconds=7200)))
    assert parked.code == 5, parked
    assert parked.json["status"] == "limited"
    assert "parked until 20" in parked.json["reason"]
    assert repo.read(parked.attempt["branch"], "half.txt") == "half"
    resumed = corral("resume", "@last", "--json")
    assert resumed.code == 0, resumed
    assert set(resumed.attempt["files_changed"]) == {"half.txt", "whole.txt"}
    assert corral.leavings() == []


def test_a_quota_that_takes_long_is_switched_from_where_somebody_can_step_in(corral: Corral) -> None:
    corral.agent("strong", "echo work > work.txt", 'family = "scripted"')
    script = corral.script(LIMITED.format(seconds=7200))
    outcome = corral.run(corral.repo(), "t", "--agent", script, "--fallback", "strong")
    assert outcome.code == 0, outcome
    assert [a["status"] for a in outcome.json["nodes"][0]["attempts"]] == ["limited", "done"]
    assert corral.leavings() == []


def test_a_person_who_wants_to_be_asked_is_and_says_how_it_goes_on(corral: Corral) -> None:
    corral.config('[retry]\non_limit = "ask"')
    asked = corral.run(corral.repo(), "t", "--agent", corral.script(LIMITED.format(seconds=3600)))
    assert asked.code == 3, asked
    assert asked.json["status"] == "waiting"
    assert "corral resume" in asked.json["reason"]
    assert corral("ls", "--json").json[0]["status"] == "waiting"
    assert "waiting" in corral("ls").out
    assert "corral resume" in corral("show", "@last").out
    resumed = corral("resume", "@last", "--json")
    assert resumed.code == 0, resumed
    assert set(resumed.attempt["files_changed"]) == {"half.txt", "whole.txt"}
    assert corral.leavings() == []


def test_what_waits_for_a_person_can_be_stopped(corral: Corral) -> None:
    corral.config('[retry]\non_limit = "ask"')
    repo = corral.repo()
    corral.run(repo, "t", "--agent", corral.script(LIMITED.format(seconds=3600)))
    stopped = corral("stop", "@last", "--json")
    assert stopped.json["status"] == "stopped", stopped
    assert repo.read(stopped.attempt["branch"], "half.txt") == "half"
    assert corral.leavings() == []


def test_the_time_for_all_tries_together_ends(corral: Corral) -> None:
    corral.config("[retry]\ndelay_seconds = 200\ntotal_seconds = 10")  # the wait alone would be longer
    outcome = corral.run(corral.repo(), "t", "--agent", corral.agent("weak", "exit 3"))
    assert outcome.code == 1
    assert len(outcome.json["nodes"][0]["attempts"]) == 1
    assert "total_seconds (10) are over" in outcome.json["reason"]
