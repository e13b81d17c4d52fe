"""Limits hold for attempts side by side: what each is expected to cost is reserved, so fewer start at once."""

from typing import Any

import pytest

from tests.rig.command import Corral, Outcome
from tests.rig.repository import Repo

pytestmark = pytest.mark.slow  # each starts several boxes

REPORTS = 'output = "jsonl"\ncost = "usd"'


def pays(corral: Corral, usd: float, steps: int = 1, name: str = "pay") -> str:
    """Make an agent that reports its cost, in so many steps."""
    printed = "".join(f"echo '{{\"usd\": {usd * (step + 1) / steps:.4f}}}'\n" for step in range(steps))
    return corral.agent(name, f"echo $$ > work-$$.txt\n{printed}", REPORTS)


def flow(corral: Corral, agent: str, nodes: int, usd: float | None = None, parallel: int = 8) -> list[str]:
    file = corral.root / "flow.yaml"
    limit = f"budget: {{usd: {usd}}}\n" if usd else ""
    tasks = "".join(f"  n{number}: {{agent: {agent}, task: do {number}}}\n" for number in range(nodes))
    file.write_text(f"name: wide\nparallel: {parallel}\n{limit}nodes:\n{tasks}")
    return ["flow", "run", str(file), "--json"]


def attempts(run: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for node in run["nodes"] for each in node["attempts"]]


def held(outcome: Outcome, limit: float, price: float) -> None:
    """Look at the money from outside: what was reported in all, and how many attempts it came from."""
    found = attempts(outcome.json)
    spent = sum(each["cost"]["usd"] or 0.0 for each in found)
    assert spent == pytest.approx(outcome.json["cost"]["usd"])
    assert spent <= limit + 1e-6, found
    paid = [each for each in found if each["cost"]["usd"]]
    assert len(paid) == int(limit / price + 1e-6)
    assert outcome.json["cost"]["reserved_usd"] == 0.0


@pytest.fixture
def repo(corral: Corral) -> Repo:
    corral.config("[budget]\nunknown_cost_usd = 0.5")
    return corral.repo()


def test_a_flow_of_eight_whose_price_is_assumed(corral: Corral, repo: Repo) -> None:
    outcome = corral(*flow(corral, pays(corral, 0.5), 8, 1.0), "--repo", repo.folder)
    assert outcome.code == 4, outcome
    held(outcome, 1.0, 0.5)
    assert [node["status"] for node in outcome.json["nodes"]].count("done") == 2
    (entry,) = corral("inbox", "--json").json
    assert corral("answer", entry["id"], *entry["choices"][0].split()).code == 0
    resumed = corral("resume", "@last", "--json")
    assert resumed.code == 0, resumed  # what is offered is enough for all that is left
    assert resumed.json["cost"]["usd"] == pytest.approx(4.0)
