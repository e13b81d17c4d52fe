"""Several agents do the same task: the best proven result wins, for a reason, and nobody's work is lost."""

from pathlib import Path
from typing import Any

import pytest

from tests.rig.command import Corral, Outcome
from tests.rig.processes import gone
from tests.rig.repository import Repo
from tests.rig.waiting import until

FILES = {
    "sums.py": "def add(a, b):\n    return a - b\n",
    "tests/test_sums.py": "import sys, unittest\nsys.path.insert(0, '.')\nfrom sums import add\n"
    "class Sums(unittest.TestCase):\n    def test_add(self): self.assertEqual(add(1, 2), 3)\n"
    "    def test_zero(self): self.assertEqual(add(0, 0), 0)\n",
}
CHECK = "python3 -m unittest discover -s tests"
MEND = "printf 'def add(a, b):\\n    return a + b\\n' > sums.py\n"
WORDY = "printf 'def add(a, b):\\n    # the sum\\n    # of both\\n    return a + b\\n' > sums.py\n"
WRONG = "printf 'def add(a, b):\\n    return 3\\n' > sums.py\n"
CHEAT = "printf 'print(1)\\n' > tests/test_sums.py\n"


def agents(corral: Corral, **scripts: str) -> None:
    for name, script in scripts.items():
        settings = {"cheap": "cost_usd = 0.1", "dear": "cost_usd = 0.9", "odd": "cost_usd = 0.2"}.get(name, "")
        corral.agent(name, script, settings)


def over(corral: Corral) -> set[str]:
    """Return whose attempts of the newest run have ended."""
    found = corral("show", "@last", "--json")
    attempts = found.json["nodes"][0]["attempts"] if found.code == 0 else []
    return {each["agent"] for each in attempts if each["status"] in ("done", "failed")}


def raced(corral: Corral, *arguments: str, **scripts: str) -> tuple[Repo, Outcome]:
    agents(corral, **scripts)
    repo = corral.repo(files=FILES)
    named = ",".join(scripts)
    return repo, corral.run(
        repo, "mend add()", "--agent", named, "--check", CHECK, "--retries", "0", *arguments, timeout=120
    )


def node(outcome: Outcome) -> dict[str, Any]:
    return outcome.json["nodes"][0]


def by_agent(outcome: Outcome) -> dict[str, dict[str, Any]]:
    return {attempt["agent"]: attempt for attempt in node(outcome)["attempts"]}


@pytest.mark.slow
def test_the_best_of_three_wins_by_evidence(corral: Corral) -> None:
    heard = """printf '%s\\n' "$1" | grep 'in a run with others'\n"""
    repo, outcome = raced(corral, wordy=WORDY, wrong=WRONG, good=heard + MEND)
    attempts = by_agent(outcome)
    others = [attempts["wordy"]["id"], attempts["wrong"]["id"]]
    assert f"with others: {', '.join(others)}." in attempts["good"]["output"], "itself is none of them"
    assert outcome.code == 0, outcome
    assert outcome.json["strategy"] == "race"
    assert node(outcome)["winner"] == attempts["good"]["id"]
    assert node(outcome)["why"] == "its check passes; smallest change"
    assert attempts["wrong"]["checks"][0]["new_failures"] == ["test_sums.Sums.test_zero"]
    assert attempts["wrong"]["checks"][0]["before"]["exit_code"] == 1
    assert {f"refs/heads/{each['branch']}" for each in attempts.values()} <= set(repo.refs("refs/heads/corral"))
    compared = corral("compare", "@last", "--json").json["nodes"][0]
    assert [row["agent"] for row in compared["attempts"]] == ["good", "wordy", "wrong"]
    assert [row["place"] for row in compared["attempts"]] == [1, 2, 3]
    assert compared["attempts"][1]["reason"] == "larger change: 4 lines against 2"
    assert compared["attempts"][2]["new_failures"] == 1
    assert compared["attempts"][0]["checks"][0]["before"] is False
    assert compared["attempts"][0]["checks"][0]["tests_after"]["passed"] == 2
    table = corral("compare", "@last").out
    assert "FAIL 1/2 -> pass 2/2" in table
    assert "winner: its check passes; smallest change" in table
    assert "a + b" in corral("diff", "@last", attempts["wordy"]["id"]).out


@pytest.mark.slow
def test_none_is_good_enough(corral: Corral) -> None:
    _, outcome = raced(corral, wrong=WRONG, cheat=CHEAT, idle="true")
    assert (outcome.code, outcome.json["status"], node(outcome)["winner"]) == (1, "failed", None)
    assert outcome.json["reason"].startswith("none is good enough: ")
    assert "passes only with changed files that steer it" in outcome.json["reason"]
    assert outcome.json["merge"]["status"] == "none"
    assert corral("compare", "@last").out.splitlines()[-1].startswith("none: none is good enough")


@pytest.mark.slow
def test_the_cheapest_if_that_was_asked_for(corral: Corral) -> None:
    assert corral("budget", "set", "--per-day", "5").code == 0
    agents(corral, dear=MEND, cheap=f"until test -e go; do sleep 0.05; done; rm go; {WORDY}", odd=WRONG)
    words = ("--agent", "dear,cheap,odd", "--check", CHECK, "--retries", "0", "--select", "cheapest", "--json")
    with corral.going("run", "mend add()", "--repo", corral.repo(files=FILES).folder, *words) as going:
        until(lambda: over(corral) == {"dear", "odd"}, "the others are over")  # else they are stopped: they cannot win
        for work in corral.home.glob("workspaces/*/work"):
            (work / "go").touch()
        outcome = going.end()
    assert node(outcome)["winner"] == by_agent(outcome)["cheap"]["id"]
    assert node(outcome)["why"] == "its check passes; lowest cost"
    lines = corral("show", "@last").out.splitlines()
    shown = {line[:8].strip(): line for line in lines}
    assert "cheap, 1 try, " in shown["agent"]  # what the others cost is not the winner's
    assert "$0.10 fixed" in shown["agent"]
    assert "3 tries" in shown["all"]
    assert "$1.20" in shown["all"]
    beside = [line.split()[1:3] for line in lines if line.startswith("beside")]
    assert sorted(beside) in ([["dear:", "done,"], ["odd:", word]] for word in ("failed,", "stopped,"))
    for command in ("show @last", "ls", "cost --by agent", "budget show"):  # 0.9 + 0.1 + 0.2 is not 1.2 to a machine
        out = corral(*command.split(), "--json").out
        assert "1.2" in out, command
        assert "1.2000" not in out, command


@pytest.mark.slow
def test_the_first_that_is_proven_ends_the_race_and_the_work_of_others_is_kept(corral: Corral) -> None:
    repo, outcome = raced(corral, "--select", "first", good=MEND, slow="echo begun > begun.txt\nsleep 86397\n")
    attempts = by_agent(outcome)
    assert outcome.code == 0, outcome
    assert node(outcome)["winner"] == attempts["good"]["id"]
    assert attempts["slow"]["status"] == "stopped"
    assert repo.read(attempts["slow"]["commit"], "begun.txt") == "begun"
    gone("86397")
    assert any("is proven, and the first" in str(event) for event in corral.events("@last"))


@pytest.mark.slow
def test_one_agent_several_times(corral: Corral) -> None:
    corral.agent("mine", MEND)
    outcome = corral.run(corral.repo(files=FILES), "mend", "--agent", "mine*3", "--check", CHECK, timeout=120)
    attempts = node(outcome)["attempts"]
    assert [attempt["status"] for attempt in attempts] == ["done"] * 3
    assert sum(attempt["checks"][0]["cached"] for attempt in attempts) == 2  # the very same tree


@pytest.mark.slow
def test_a_score_decides_between_proven_results(corral: Corral) -> None:
    count = "grep -c '#' sums.py || true"
    _, outcome = raced(corral, "--scorer", count, wordy=WORDY, good=MEND)
    attempts = by_agent(outcome)
    assert attempts["wordy"]["scores"] == {count: 2.0}
    assert node(outcome)["winner"] == attempts["wordy"]["id"]
    assert node(outcome)["why"] == "its check passes; highest score"


@pytest.mark.slow
def test_a_scorer_that_prints_no_number_gives_no_score_and_it_is_told(corral: Corral) -> None:
    _, outcome = raced(corral, "--scorer", "echo much", wordy=WORDY, good=MEND)
    assert by_agent(outcome)["good"]["scores"] == {}
    assert any("printed no number" in str(event) for event in corral.events("@last"))


@pytest.mark.slow
def test_a_plug_in_scores(corral: Corral, tmp_path: Path) -> None:
    info = tmp_path / "packages" / "long_words-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: long-words\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[corral.scorers]\nlong = long_words:score\n")
    (info.parent / "long_words.py").write_text("def score(given):\n    return len(given.patch)\n")
    corral.env["PYTHONPATH"] = str(info.parent)
    _, outcome = raced(corral, "--scorer", "long", wordy=WORDY, good=MEND)
    attempts = by_agent(outcome)
    assert attempts["wordy"]["scores"]["long"] > attempts["good"]["scores"]["long"] > 0
    assert node(outcome)["winner"] == attempts["wordy"]["id"]


JUDGE = """
first=$(printf '%s' "$1" | grep -n 'the sum' | head -1 | cut -d: -f1)
second=$(printf '%s' "$1" | grep -n '## Change B' | head -1 | cut -d: -f1)
case "$1" in *wordy*|*good.sh*) echo 'I know them'; exit 1;; esac
if [ "$first" -lt "$second" ]; then echo '{"order": ["A", "B"]}'; else echo '{"order": ["B", "A"]}'; fi
"""


@pytest.mark.slow
def test_a_blind_judge_is_asked_twice_in_opposite_orders(corral: Corral) -> None:
    corral.agent("referee", JUDGE, "cost_usd = 0.25")
    _, outcome = raced(corral, "--judge", "referee", wordy=WORDY, good=MEND, wrong=WRONG)
    attempts = by_agent(outcome)
    judges = [each for each in node(outcome)["attempts"] if each["role"] == "judge"]
    assert [each["status"] for each in judges] == ["done", "done"]
    assert len({each["output"] for each in judges}) == 2  # it saw them in another order
    assert (attempts["wordy"]["votes"], attempts["good"]["votes"], attempts["wrong"]["votes"]) == (2.0, 0.0, None)
    assert node(outcome)["winner"] == attempts["wordy"]["id"]
    assert node(outcome)["why"] == "its check passes; preferred by the judge"
    assert outcome.json["cost"]["usd"] == pytest.approx(0.5)


@pytest.mark.slow
def test_a_judge_that_goes_by_the_place_decides_nothing(corral: Corral) -> None:
    corral.agent("referee", """echo '{"order": ["A", "B"]}'""")
    _, outcome = raced(corral, "--judge", "referee", wordy=WORDY, good=MEND)
    assert node(outcome)["winner"] == by_agent(outcome)["good"]["id"]
    assert node(outcome)["why"] == "its check passes; smallest change"


def test_a_judge_without_a_race_is_refused(corral: Corral) -> None:
    corral.agent("mine", MEND)
    outcome = corral.run(corral.repo(), "t", "--agent", "mine", "--judge", "mine")
    assert outcome.code == 2
    assert "nothing to compare" in outcome.err
