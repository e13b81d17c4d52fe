"""Slots: never more than the limits, none left unused, the urgent first, and nobody starves."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from corral.model import HeldSlot, SlotDemand, SlotLimits
from corral.rules.schedule.slots import assign_slots

NAMES = st.sampled_from(["a", "b", "c", "d"])
FEW = st.none() | st.integers(1, 5)
HELD = st.lists(st.builds(HeldSlot, NAMES, NAMES, NAMES), max_size=8)
LIMITS = st.builds(SlotLimits, parallel=FEW, per_agent=st.dictionaries(NAMES, st.integers(1, 4)), per_repository=FEW)
WANT = st.builds(
    SlotDemand,
    run=NAMES, agent=NAMES, repo=NAMES, count=st.integers(0, 6),
    priority=st.integers(-2, 2), since=st.floats(0, 100), limits=LIMITS,
)  # fmt: skip
WANTS = st.lists(WANT, max_size=8, unique_by=lambda want: (want.run, want.agent))


def want(run: str, since: float, count: int = 1, priority: int = 0, parallel: int = 1) -> SlotDemand:
    limits = SlotLimits(parallel=parallel)
    return SlotDemand(run=run, agent="x", repo="r", count=count, priority=priority, since=since, limits=limits)


def room(each: SlotDemand, held: list[HeldSlot]) -> bool:
    limits, agent = each.limits, each.limits.per_agent.get(each.agent)
    return (
        (limits.parallel is None or len(held) < limits.parallel)
        and (agent is None or sum(one.agent == each.agent for one in held) < agent)
        and (limits.per_repository is None or sum(one.repo == each.repo for one in held) < limits.per_repository)
    )


@settings(deadline=None)
@given(HELD, WANTS)
def test_all_that_fits_is_given_and_nothing_else(held: list[HeldSlot], wants: list[SlotDemand]) -> None:
    given_ = assign_slots(held, wants)
    after = list(held)
    for each in wants:
        after += [HeldSlot(each.run, each.agent, each.repo)] * given_[each.run, each.agent]
        assert given_[each.run, each.agent] <= each.count
    for each in wants:
        got = given_[each.run, each.agent]
        assert got == each.count or not room(each, after)  # who wants more finds no room
        mine = [*after]
        if got:
            mine.remove(HeldSlot(each.run, each.agent, each.repo))
            others = [one for one in wants if one is not each]
            if all(one.limits == each.limits for one in others):
                assert room(each, mine)  # and what it got was within its limits


@given(HELD, WANTS, st.randoms())
def test_the_order_in_which_they_are_named_does_not_matter(
    held: list[HeldSlot], wants: list[SlotDemand], chance
) -> None:
    shuffled = [*wants]
    chance.shuffle(shuffled)
    assert +assign_slots(held, wants) == +assign_slots(held, shuffled)


def test_the_urgent_then_who_has_fewest_then_who_waits_longest() -> None:
    assert assign_slots([], [want("a", 1), want("b", 2, priority=1)]) == {("b", "x"): 1}
    held = [HeldSlot("a", "x", "r")]
    assert assign_slots(held, [want("a", 1, parallel=2), want("b", 2, parallel=2)]) == {("b", "x"): 1}
    assert assign_slots([], [want("a", 1), want("b", 2)]) == {("a", "x"): 1}
    assert assign_slots([], [want("a", 1, 9, parallel=4), want("b", 2, 9, parallel=4)]) == {
        ("a", "x"): 2,
        ("b", "x"): 2,
    }


@given(st.integers(1, 3), st.lists(st.integers(1, 30), min_size=2, max_size=6))
def test_a_big_run_does_not_starve_a_small_one(parallel: int, sizes: list[int]) -> None:
    left = {f"run{place}": size for place, size in enumerate(sizes)}
    since = dict.fromkeys(left, 0.0)
    served: list[str] = []
    at_work: list[HeldSlot] = []
    for moment in range(1, 500):
        wants = [want(run, since[run], count, parallel=parallel) for run, count in left.items() if count]
        for (run, _), count in assign_slots(at_work, wants).items():
            served += [run] * count
            at_work += [HeldSlot(run, "x", "r")] * count
            left[run] -= count
            since[run] = float(moment)
        assert len(at_work) <= parallel
        if not at_work:
            break
        at_work.pop(0)
    assert Counter(served) == Counter({f"run{place}": size for place, size in enumerate(sizes)})
    for run in since:  # while all of them want one, each is served before any other is served twice more
        first = served[: len(sizes) * min(sizes)]
        assert abs(first.count(run) - min(sizes)) <= parallel
