"""Parallel budgets under kills: whatever dies whenever, no limit is passed by more than one attempt's last step."""

import random
from pathlib import Path

from corral.model import Attempt, Cost
from corral.model.money import Bound, Expected, LedgerLine, Limit, Refusal
from corral.store.parts.ledger import Ledger
from corral.store.parts.runs import Runs
from tests.rig.stores import opened
from tests.rig.tries import tries

CASES = tries(200)
PARALLEL = 8


class Race:
    """Many attempts of several runs and processes under a limit, decided by dice; nothing is left to a clock."""

    def __init__(self, store: Runs, dice: random.Random, case: int) -> None:
        self.dice, self.case, self.dead = dice, case, set[str]()
        self.ledger = Ledger(store, lambda owner: owner not in self.dead)
        self.price = dice.choice([0.05, 0.08, 0.25, 0.5])
        self.usd = dice.choice([0.5, 1.0, 2.0])
        self.window = dice.choice(["run", "node", "day"])
        self.expected: Expected = dice.choice(["usual", "assumed", "fixed"])
        self.really = 0.0  #: what was spent, whoever knows of it
        self.at_work: dict[str, tuple[str, float]] = {}  #: attempt -> its process, what it spent so far
        self.waiting = self.count = 0

    @property
    def bound(self) -> Bound:
        run = f"run{self.case}"
        limit = Limit(window=self.window, usd=self.usd, repo=run if self.window == "day" else "")  # type: ignore[arg-type]
        return Bound(limit=limit, run=run, node="main")

    def start(self) -> None:
        run, owner = f"run{self.case}", f"{self.case}-p{self.dice.randrange(3)}-{len(self.dead)}"
        self.count += 1
        name = f"{run}-{self.count}"
        line = LedgerLine(attempt=name, run=run, node="main", agent="a", repo=run, owner=owner, reserved=self.price,
                    least=self.price if self.expected == "usual" else 0.0, at=1.0)  # fmt: skip
        refusal = self.ledger.reserve(line, [self.bound], self.expected)
        if refusal is None:
            self.ledger.risk(name, None)  # no meter counts it
            self.at_work[name] = (owner, 0.0)
        else:
            self.waiting += refusal.waits
            assert not refusal.waits or self.at_work  # nobody waits for nothing

    def step(self, name: str) -> None:
        """Let an attempt spend a part of its price, and report it or not."""
        owner, spent = self.at_work[name]
        more = min(self.price - spent, self.price * self.dice.choice([0.25, 0.5, 1.0]))
        self.really += more
        self.at_work[name] = (owner, spent + more)
        if self.dice.random() < 0.7:
            self.ledger.spend(name, spent + more, "reported")

    def end(self, name: str) -> None:
        _, spent = self.at_work.pop(name)
        known = self.dice.random() < 0.8
        held = self.ledger.line(name)
        assert held is not None
        cost = Cost(spent, "reported") if known else Cost()
        attempt = Attempt(id=name, agent="a", status="done", cost=cost)
        self.ledger.settle(attempt, spent if known else 0.0, 2.0, 0.0 if known else max(held.reserved, spent))

    def kill(self) -> None:
        owners = sorted({owner for owner, _ in self.at_work.values()})
        victim = self.dice.choice(owners)
        self.dead.add(victim)
        self.at_work = {name: each for name, each in self.at_work.items() if each[0] != victim}


def play(race: Race) -> None:
    for _ in range(60):
        chance, names = race.dice.random(), sorted(race.at_work)
        if chance < 0.5 and len(names) < PARALLEL:
            race.start()
        elif names and chance < 0.8:
            race.step(race.dice.choice(names))
        elif names and chance < 0.93:
            race.end(race.dice.choice(names))
        elif names:
            race.kill()
        spent, reserved = race.ledger.spent_and_reserved(race.bound)
        assert spent + reserved <= race.usd + race.price + 1e-6


def test_no_schedule_of_starts_reports_and_kills_passes_a_limit(tmp_path: Path) -> None:
    store, dice, waited = opened(tmp_path), random.Random(20261117), 0
    for case in range(CASES):
        race = Race(store, dice, case)
        with store.transaction():  # one for all: the disk is not what is tried here
            play(race)
        waited += race.waiting
        assert race.really <= race.usd + race.price + 1e-6, case  # however many were killed
    assert waited > CASES / 4
    store.close()


def test_a_wait_is_over_when_nobody_is_left_to_wait_for(tmp_path: Path) -> None:
    store = opened(tmp_path)
    ledger, bound = Ledger(store, lambda _: True), Bound(limit=Limit(window="run", usd=1.0), run="r")

    def line(name: str) -> LedgerLine:
        return LedgerLine(attempt=name, run="r", node=name, agent="a", repo="/r", owner="me", reserved=0.5, at=1.0)

    assert ledger.reserve(line("a"), [bound], "usual") is None
    assert ledger.reserve(line("b"), [bound], "usual") is None
    found = ledger.reserve(line("c"), [bound], "usual")
    assert isinstance(found, Refusal)
    assert found.waits
    for name in ("a", "b"):
        ledger.settle(Attempt(id=name, agent="a", status="done", cost=Cost(0.5, "reported")), 0.5, 2.0)
    found = ledger.reserve(line("c"), [bound], "usual")
    assert isinstance(found, Refusal)
    assert not found.waits


def test_a_child_does_not_wait_for_the_attempt_that_waits_for_it(tmp_path: Path) -> None:
    store = opened(tmp_path)
    ledger, bound = Ledger(store, lambda _: True), Bound(limit=Limit(window="run", usd=1.0), run="root")
    ledger.adopt("child", "root")
    parent = LedgerLine(attempt="p", run="root", node="main", agent="a", repo="/r", owner="me", reserved=1.0, at=1.0)
    child = LedgerLine(attempt="c", run="child", node="main", agent="a", repo="/r", owner="me", reserved=0.5, at=1.0)
    assert ledger.reserve(parent, [bound], "usual") is None
    found = ledger.reserve(child, [bound], "usual")
    assert isinstance(found, Refusal)
    assert not found.waits


def test_no_schedule_of_kills_lets_two_of_an_assumed_price_pass_a_shared_limit(tmp_path: Path) -> None:
    """Each costs five times what is assumed, in runs and processes of their own; some die, with or without a report."""
    store, dice, waited = opened(tmp_path), random.Random(20261118), 0
    for case in range(CASES):
        dead, at_work, really, known = set[str](), dict[str, str](), 0.0, 0
        ledger = Ledger(store, lambda owner, dead=dead: owner not in dead)
        repo, price, usd = f"repo{case}", dice.choice([0.5, 1.0]), dice.choice([1.0, 2.0])
        bound = Bound(limit=Limit(window=dice.choice(["day", "month", "ceiling"]), usd=usd, repo=repo))  # type: ignore[arg-type]
        with store.transaction():
            for number in range(20):
                name, owner = f"{repo}-{number}", f"{repo}-{dice.randrange(3)}-{len(dead)}"
                line = LedgerLine(attempt=name, run=name, node="main", agent=repo, repo=repo, owner=owner,
                            reserved=price / 5, guessed=True, at=1.0)  # fmt: skip
                refusal = ledger.reserve(line, [bound], "assumed")
                if refusal is None:
                    at_work[name] = owner
                    really += price  # whoever knows of it
                elif refusal.waits:
                    waited += 1
                    assert set(refusal.behind) <= set(at_work)
                assert len(at_work) <= 1 or known >= 3
                if at_work and dice.random() < 0.6:
                    name = dice.choice(sorted(at_work))
                    if dice.random() < 0.3:
                        ledger.spend(name, price, "reported")
                        dead.add(at_work[name])
                        at_work = {each: owner for each, owner in at_work.items() if owner not in dead}
                    else:
                        ledger.settle(
                            Attempt(id=name, agent=repo, status="done", cost=Cost(price, "reported")), price, 2.0
                        )
                        del at_work[name]
                    known += 1
        assert really <= usd + price + 1e-6, case
    assert waited > CASES
    store.close()
