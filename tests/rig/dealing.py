"""Deals modules out to the processes of a test run: whole ones, the dear first, as much to each as to the others."""

from collections import defaultdict
from pathlib import Path

import pytest

#: About how many seconds a test takes: any, one that is marked slow, one that asks for more time than others.
CHEAP, SLOW, LONG = 0.05, 2.0, 60.0


def deal(items: list[pytest.Item], processes: int) -> list[pytest.Item]:
    """Order tests for `--dist worksteal`, which gives each process one stretch of them, as long as the others'.

    Modules stay together, so that what they share is made once. Whoever is done steals from the end of the others'
    stretches: the quick tests stand there, and nobody waits long for the last.
    """
    modules: dict[Path, list[pytest.Item]] = defaultdict(list)
    for item in items:
        modules[item.path].append(item)
    hands: list[list[pytest.Item]] = [[] for _ in range(processes)]
    weights = [0.0] * processes
    for module in sorted(modules.values(), key=_weight, reverse=True):
        lightest = weights.index(min(weights))
        weights[lightest] += _weight(module)
        hands[lightest] += module
    return _evened(hands, len(items))


def _weight(module: list[pytest.Item]) -> float:
    marks = [{mark.name for mark in item.iter_markers()} for item in module]
    return sum(LONG if "timeout" in each else SLOW if "slow" in each else CHEAP for each in marks)


def _evened(hands: list[list[pytest.Item]], whole: int) -> list[pytest.Item]:
    """Lay hands end to end; those with more than their share give their last, the quick ones, to those with less."""
    share, spare = whole // len(hands), list[pytest.Item]()
    for hand in hands:
        spare += hand[share:]
        del hand[share:]
    for hand in hands:
        missing = share - len(hand)
        hand.extend(spare[:missing])
        del spare[:missing]
    return [item for hand in hands for item in hand] + spare
