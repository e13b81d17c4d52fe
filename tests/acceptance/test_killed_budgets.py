"""Limits hold however often the engine is killed: money is counted outside, by what agents wrote as they spent it."""

import random

import pytest

from tests.rig.command import Corral
from tests.rig.postgres import Server
from tests.rig.repository import Repo
from tests.rig.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.both_stores]

STEP, STEPS, LIMIT = 0.05, 4, 1.5
PRICE = STEP * STEPS
#: It spends in steps and reports the first of them; of the others nobody knows before its end.
AGENT = """
echo $CORRAL_ATTEMPT >> {paid}.begun; echo {step} >> {paid}; echo '{{"usd": {step}}}'
for each in 2 3 4; do sleep 0.1; echo {step} >> {paid}; done
echo x > work.txt; echo '{{"usd": {price}}}'
"""


class Killed:
    """Flows of an agent that writes each spent cent to a file outside; their engines are killed at chance moments."""

    def __init__(self, corral: Corral, dice: random.Random) -> None:
        self.corral, self.dice, self.kills = corral, dice, 0
        self.engines = [corral]  #: killed in turn
        self.repo: Repo = corral.repo()
        self.paid = corral.root / "paid" / "paid.txt"
        self.paid.parent.mkdir()
        self.paid.touch()
        (begun := self.paid.with_name("paid.txt.begun")).touch()
        for path in (self.paid.parent, self.paid, begun):
            path.chmod(0o777)  # in its box, an agent is another user
        corral.config(f'[scope]\nwrite = ["**", "{self.paid.parent}/**"]\n')
        script = AGENT.format(step=STEP, price=PRICE, paid=self.paid)
        self.agent = corral.agent("payer", script, 'output = "jsonl"\ncost = "usd"')

    def spent(self) -> float:
        return STEP * self.steps()

    def steps(self) -> int:
        return self.paid.read_text().count("\n")

    def learn(self) -> None:
        """Let the price become known, so that as many work side by side as there is money for."""
        for _ in range(3):
            assert self.corral.run(self.repo, "t", "--agent", self.agent).code == 0

    def start(self, limit: str) -> list[str]:
        file = self.corral.root / "flow.yaml"
        own = f"budget: {{usd: {LIMIT}}}\n" if limit == "run" else ""
        tasks = "".join(f"  n{number}: {{agent: {self.agent}, task: do {number}}}\n" for number in range(16))
        file.write_text(f"name: paid\nparallel: 4\n{own}nodes:\n{tasks}")
        return ["flow", "run", str(file), "--repo", str(self.repo.folder), "--json"]

    def drive(self, words: list[str]) -> bool:
        """Go on with the flow and kill its engine after some more steps; return False where it came to its end."""
        target = self.steps() + self.dice.randint(1, 12)
        with self.engines[self.kills % len(self.engines)].going(*words) as run:
            until(lambda: self.steps() >= target or run.process.poll() is not None, "some more is spent, or it ends")
            if run.process.poll() is not None:
                return False
            run.process.kill()
            run.process.wait()
        self.kills += 1
        if len(self.engines) > 1:
            self.corral.stored("UPDATE runs SET lease_until = 1 RETURNING id")  # as if its time had passed
        return True


def check_limit(corral: Corral, kills: int, limit: str, *others: Corral) -> Killed:
    killed = Killed(corral, random.Random(20261118))
    killed.engines += others
    killed.learn()
    while killed.kills < kills:
        before, words = killed.spent(), killed.start(limit)
        if limit == "day":
            known = corral("budget", "--json").json["day"]
            assert corral("budget", "set", "--per-day", f"{known['spent'] + known['reserved'] + LIMIT:.2f}").code == 0
        while killed.drive(words):
            words = ["resume", "@last", "--json"]
        over = corral("show", "@last", "--json").json
        assert over["status"] == "over_budget", over
        assert killed.spent() - before <= LIMIT + 1e-6
        known = over["cost"]
        assert known["usd"] <= killed.spent() - before + 1e-6  # what is reserved is never shown as spent
        assert known["usd"] + known["reserved_usd"] >= killed.spent() - before - 1e-6
    return killed


@pytest.mark.parametrize("limit", ["run", "day"])
def test_five_kills_pass_no_limit(corral: Corral, limit: str) -> None:
    check_limit(corral, 5, limit)


@pytest.mark.night("twenty kills of flows of sixteen agents take a minute")
@pytest.mark.parametrize("limit", ["run", "day"])
def test_twenty_kills_pass_no_limit(corral: Corral, limit: str) -> None:
    check_limit(corral, 20, limit)


@pytest.mark.parametrize(
    "kills", [20, pytest.param(100, marks=pytest.mark.night("a hundred kills of flows of sixteen agents take minutes"))]
)
def test_two_engines_killed_in_turn_pass_no_limit_of_a_day_and_begin_nothing_twice(
    corral: Corral, postgres: Server, kills: int
) -> None:
    corral.env["CORRAL_STORE"] = postgres.database()
    killed = check_limit(corral, kills, "day", corral.on_another_machine())
    begun = killed.paid.with_name("paid.txt.begun").read_text().split()
    assert len(begun) == len(set(begun)), "an attempt has begun twice"
    assert corral.stored("SELECT count(*) FROM slots") == [(0,)]
    assert corral.stored("SELECT count(*) FROM runs WHERE owner IS NOT NULL") == [(0,)]
