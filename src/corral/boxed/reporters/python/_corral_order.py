# pyright: basic
"""Some tests of a session, or all in another order, where a check is run for that alone."""

import json
import os
import time


def wanted_order():
    """Return what the run asks for; None: all tests, as they come."""
    path = os.environ.get("CORRAL_REPORT_ORDER")
    if not path:
        return None
    with open(path, encoding="utf-8") as file:
        return TestSelection(**json.load(file))


class TestSelection:
    """Which tests run, by their ids, and in which order."""

    def __init__(self, only, most, first, turned, seconds, times=1):
        self.only = set(only)
        self.most = most  # of one test function, with different parameters
        self.first = set(map(_group, first))
        self.turned = turned
        self.seconds = seconds
        self.times = times
        self.part = seconds  # of the time, for one test that runs again and again
        self.began = None

    def places(self, names):
        """Return the places of the tests to run, in their order."""
        found = self._some(names) if self.only else self._reversed_places(names)
        self.part = self.seconds / max(1, len(found))
        return found

    def rounds(self):
        """Yield each time that one test is to run: once, and again while its part of the time lasts."""
        began = time.monotonic()
        for number in range(self.times):
            if number and time.monotonic() - began > self.part:
                return
            yield number

    def _some(self, names):
        by_stem = {}
        for place, name in enumerate(names):
            by_stem.setdefault(_stem(name), []).append(place)
        found = []
        for each in set(map(_stem, self.only)):
            own = by_stem.get(each, [])
            own = [place for place in own if names[place] in self.only] or own
            found += own[:: -(-len(own) // self.most)] if self.most and own else own
        return sorted(found)

    def _reversed_places(self, names):
        groups = {}
        for place, name in enumerate(names):
            groups.setdefault(_group(name), []).append(place)
        order = list(groups)[::-1]
        order = [each for each in order if each in self.first] + [each for each in order if each not in self.first]
        return [place for each in order for place in groups[each][::-1]]

    def is_over(self):
        """Tell whether no further test is to begin; the time runs from the first one."""
        if not self.seconds:
            return False
        self.began = self.began or time.monotonic()
        return time.monotonic() - self.began > self.seconds


def _stem(name):
    return name.partition("[")[0] if name.endswith("]") else name


def _group(name):
    """Return the file of a test, or its class."""
    return name.partition("::")[0] if "::" in name else name.rpartition(".")[0]
