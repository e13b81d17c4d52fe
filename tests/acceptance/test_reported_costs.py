"""What a program tells of its cost while it works is held against its limits while it works."""

import pytest

from tests.rig.command import Corral, Outcome
from tests.rig.processes import gone
from tests.rig.repository import Repo

pytestmark = pytest.mark.slow  # each works in a box until it is ended

SLEEPS = "600.83"
INIT = '{"type":"system","subtype":"init","session_id":"s","model":"claude-sonnet-4-5"}'
USED = '{"type":"assistant","message":{"id":"m1","content":[],"usage":{"input_tokens":9000,"output_tokens":90000}}}'
#: how it is read, and what it prints: over 0.50 dollars, or over 1000 tokens
TELLERS = {
    "jsonl": (
        'output = "jsonl"\ncost = "usd"\ntokens = "used"',
        """echo '{"usd": 0.1}'; echo '{"usd": 0.9, "used": 5000}'""",
    ),
    "json": ('output = "json"\ncost = "usd"\ntokens = "used"', """printf '{\\n "usd": 0.9,\\n "used": 5000\\n}\\n'"""),
    "regex": (
        'output = "regex"\ncost = "cost: ([0-9.]+)"\ntokens = "tokens: ([0-9]+)"',
        "echo cost: 0.1; echo tokens: 5000; echo cost: 0.9",
    ),
    "claude": ('output = "claude"', f"echo '{INIT}'; echo '{USED}'"),
}


def told(corral: Corral, reader: str, *limit: str) -> tuple[Repo, Outcome]:
    """Run an agent that leaves its work, tells what it spent, and then goes on for ten minutes; no other limit is near."""
    repo = corral.repo()
    settings, prints = TELLERS[reader]
    corral.agent("teller", f"echo half > half.txt\n{prints}\nsleep {SLEEPS}", settings)
    return repo, corral.run(repo, "t", "--agent", "teller", *limit)


def held(repo: Repo, outcome: Outcome) -> None:
    assert outcome.code == 4, outcome
    assert (outcome.json["status"], outcome.attempt["status"]) == ("over_budget", "over_budget")
    assert outcome.attempt["error"]["class"] == "budget"
    assert repo.read(outcome.attempt["branch"], "half.txt") == "half"
    gone(SLEEPS)


@pytest.mark.parametrize("reader", TELLERS)
def test_a_cost_that_is_told_ends_it_at_its_budget(corral: Corral, reader: str) -> None:
    repo, outcome = told(corral, reader, "--budget", "0.50")
    held(repo, outcome)
    assert outcome.attempt["cost"]["usd"] >= 0.9


@pytest.mark.parametrize("reader", ["jsonl", "claude"])
def test_tokens_that_are_told_end_it_at_their_limit(corral: Corral, reader: str) -> None:
    repo, outcome = told(corral, reader, "--max-tokens", "1000")
    held(repo, outcome)
    assert "the limit of 1000 tokens" in outcome.attempt["error"]["message"]


ABSURD = (
    '{"usd": 1e308}',
    '{"used": 1e30}',
    '{"usd": -5, "used": -10000000}',
    '{"used": 99999999999999999999, "usd": 0.1}',
)


def test_absurd_numbers_stay_in_their_attempt(corral: Corral) -> None:
    """A flow of agents that print them, under a limit: each attempt ends, and money can be shown and spent after."""
    repo, flow = corral.repo(), corral.root / "flow.yaml"
    settings = 'output = "jsonl"\nresult = "answer"\ncost = "usd"\ntokens = "used"'
    for place, printed in enumerate(ABSURD):
        answer = """echo '{"answer": "x"}'"""
        corral.agent(f"odd{place}", f"echo x > x{place}.txt; echo '{printed}'; {answer}", settings)
    nodes = "".join(f"  n{place}: {{agent: odd{place}, task: do}}\n" for place in range(len(ABSURD)))
    flow.write_text(f"name: odd\nnodes:\n{nodes}")
    corral("budget", "set", "--per-day", "20")
    outcome = corral("flow", "run", flow, "--repo", repo.folder, "--json")
    assert outcome.code == 0, outcome
    counts = [
        each["attempts"][0]["tokens"]["input"] + each["attempts"][0]["tokens"]["output"]
        for each in outcome.json["nodes"]
    ]
    assert all(0 <= count <= 2**53 for count in counts), counts
    total = corral("cost", "--json").json["total"]
    assert total == {"usd": 0.1, "source": "reported", "reserved_usd": 3.0}
    assert "reserved for unknown cost" in corral("cost").out
    assert corral.run(repo, "t", "--agent", "odd3").code == 0
