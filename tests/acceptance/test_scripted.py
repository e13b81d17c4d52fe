"""The scripted agent, and what it shows: retries that learn, and a budget that holds."""

import pytest

from tests.rig.command import Corral

PLAYED = """
[[step]]
say = "working on: {prompt}"
[[step]]
write = "new/file.txt"
text = "{prompt}"
[[step]]
edit = "a.txt"
find = "one"
replace = "eins"
[[step]]
delete = "src/b.txt"
[[step]]
run = "echo ran > ran.txt"
[[step]]
spend = 0.25
input = 100
output = 20
[[step]]
end = "all played"
"""


def test_a_script_is_played_and_told_as_events(corral: Corral) -> None:
    repo = corral.repo()
    outcome = corral.run(repo, "the task", "--agent", corral.script(PLAYED))

    assert outcome.code == 0, outcome
    attempt = outcome.attempt
    assert attempt["files_changed"] == ["a.txt", "new/file.txt", "ran.txt", "src/b.txt"]
    assert repo.read(attempt["commit"], "a.txt") == "eins"
    assert repo.read(attempt["commit"], "new/file.txt") == "the task"
    assert attempt["cost"] == {"usd": 0.25, "source": "reported", "reserved_usd": 0.0}
    assert (attempt["tokens"]["input"], attempt["tokens"]["output"]) == (100, 20)
    assert attempt["output"] == "all played"
    assert attempt["session"]
    events = corral.events()
    assert [event["path"] for event in events if event["type"] == "changed"] == ["new/file.txt", "a.txt", "src/b.txt"]
    assert {"started", "said", "called_tool", "tool_returned", "spent", "ended", "status_changed"} <= {
        event["type"] for event in events
    }


def test_a_failing_try_is_tried_again_and_told_what_was_wrong(corral: Corral) -> None:
    repo = corral.repo()
    agent = corral.script(
        '[[step]]\ntry = 1\nwrite = "x"\ntext = "bad"\n[[step]]\ntry = 2\nwrite = "x"\ntext = "{prompt}"\n'
    )
    check = "echo what the check said; grep -q 'make x' x"
    outcome = corral.run(repo, "make x", "--agent", agent, "--check", check, "--retries", "2")

    assert outcome.code == 0, outcome
    first, second = outcome.json["nodes"][0]["attempts"]
    assert (first["status"], first["try"], first["retry_of"]) == ("failed", 1, None)
    assert (second["status"], second["try"], second["retry_of"]) == ("done", 2, first["id"])
    assert outcome.json["nodes"][0]["winner"] == second["id"]
    assert "what the check said" in repo.read(second["commit"], "x")
    assert repo.read(first["commit"], "x") == "bad"  # earlier work is kept too
    assert repo.git("rev-parse", f"{second['commit']}^") == repo.head  # but each try starts afresh


def test_retries_are_used_up(corral: Corral) -> None:
    corral.agent("mine", "echo x > x")
    outcome = corral.run(corral.repo(), "make x", "--agent", "mine", "--check", "false", "--retries", "2")
    assert outcome.code == 1
    assert [attempt["try"] for attempt in outcome.json["nodes"][0]["attempts"]] == [1, 2, 3]
    assert outcome.json["reason"].startswith("check_failed")


def test_without_retries_asked_a_failed_check_is_not_tried_again(corral: Corral) -> None:
    corral.agent("mine", "echo x > x")
    outcome = corral.run(corral.repo(), "make x", "--agent", "mine", "--check", "false")
    assert len(outcome.json["nodes"][0]["attempts"]) == 1


def test_passing_trouble_is_tried_again_by_itself(corral: Corral) -> None:
    corral.config("[retry]\ndelay_seconds = 0.1")
    agent = corral.script('[[step]]\ntry = 1\nfail = "overloaded"\n[[step]]\nwrite = "x"\n')
    outcome = corral.run(corral.repo(), "make x", "--agent", agent)
    assert outcome.code == 0, outcome
    first, second = outcome.json["nodes"][0]["attempts"]
    assert first["error"]["class"] == "overloaded"
    assert second["retry_of"] == first["id"]


@pytest.mark.parametrize("kind", ["auth", "refused", "not_found"])
def test_what_will_not_pass_is_not_tried_again(corral: Corral, kind: str) -> None:
    agent = corral.script(f'[[step]]\nfail = "{kind}"\ntext = "no"\n')
    outcome = corral.run(corral.repo(), "make x", "--agent", agent, "--retries", "3")
    assert outcome.code == 1
    assert [attempt["error"]["class"] for attempt in outcome.json["nodes"][0]["attempts"]] == [kind]


def test_crossing_the_budget_stops_the_agent_and_saves_its_work(corral: Corral) -> None:
    repo = corral.repo()
    agent = corral.script('[[step]]\nwrite = "x"\ntext = "half"\n[[step]]\nspend = 0.9\n[[step]]\nhang = 86400\n')
    outcome = corral.run(repo, "make x", "--agent", agent, "--budget", "0.5")

    assert outcome.code == 4
    assert (outcome.json["status"], outcome.attempt["status"]) == ("over_budget", "over_budget")
    assert outcome.attempt["cost"] == {"usd": 0.9, "source": "reported", "reserved_usd": 0.0}
    assert repo.read(outcome.attempt["commit"], "x") == "half"
    assert corral.leavings() == []


def test_the_budget_is_of_all_tries_together(corral: Corral) -> None:
    agent = corral.script('[[step]]\nspend = 0.3\n[[step]]\nwrite = "x"\n')
    outcome = corral.run(
        corral.repo(), "make x", "--agent", agent, "--budget", "0.7", "--check", "false", "--retries", "9"
    )
    assert outcome.code == 4
    assert len(outcome.json["nodes"][0]["attempts"]) == 3


def test_a_fixed_price_counts_against_the_budget(corral: Corral) -> None:
    corral.agent("mine", "echo x > x", "cost_usd = 0.4")
    outcome = corral.run(corral.repo(), "t", "--agent", "mine", "--budget", "1.0", "--check", "false", "--retries", "9")
    assert outcome.json["status"] == "over_budget"
    assert outcome.code == 4
    assert outcome.json["cost"]["usd"] <= 1.2


def test_within_the_budget_nothing_is_stopped(corral: Corral) -> None:
    agent = corral.script('[[step]]\nspend = 0.5\n[[step]]\nwrite = "x"\n')
    assert corral.run(corral.repo(), "make x", "--agent", agent, "--budget", "0.5").code == 0


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ('[[step]]\nsay = "x"\n\n[[step]]\nfly = "away"\n', "script.toml:4", "a step has none of: say, write, edit"),
        ('[[step]]\nfail = "bored"\n', "script.toml:1", "fail = 'bored' is none of: not_found"),
        ("[[step]]\nsay = \n", "script.toml", "at line 2"),
        ("step = 3\n", "script.toml", "not a list of steps"),
    ],
)
def test_a_script_that_is_wrong_is_refused_before_anything_starts(
    corral: Corral, text: str, place: str, words: str
) -> None:
    repo, agent = corral.repo(), corral.script(text)
    good = corral.script('[[step]]\nwrite = "x"\n', "good.toml")
    flow = corral.root / "flow.yaml"
    flow.write_text(f"nodes:\n  a: {{task: make x, agent: '{agent}'}}\n")
    single, race = (("run", "make x", "--agent", names) for names in (agent, f"{good},{agent}"))
    for arguments in (single, race, ("flow", "run", flow)):
        outcome = corral(*arguments, "--repo", repo.folder)
        assert outcome.code == 2, outcome
        assert place in outcome.err
        assert words in outcome.err
        assert "hint:" in outcome.err
    assert corral("ls", "--json").json == []
