"""Python tests in another order, or some of them alone, as a run of checks asks for."""

from pathlib import Path

import pytest

from corral.model import TestOrder
from tests.rig.reports import observed

pytestmark = pytest.mark.slow  # left out of `make quick`

PYTEST = "python -m pytest -q -p no:cacheprovider"
UNITTEST = "python -m unittest discover"
ONE = """
import pytest
DONE = []
def test_a(): DONE.append(1)
def test_b(): assert DONE
@pytest.mark.parametrize("number", range(25))
def test_c(number): pass
"""
CASES = """
import unittest
DONE = []
class One(unittest.TestCase):
    @classmethod
    def setUpClass(cls): cls.ready = True
    def test_a(self): DONE.append(1)
    def test_b(self): self.assertTrue(DONE and self.ready)
class Two(unittest.TestCase):
    def test_c(self): pass
"""
SLOW = "import time\n" + "".join(f"def test_{name}(): time.sleep(0.3)\n" for name in "abcdef")
TURNED = TestOrder(turned=True)


@pytest.mark.parametrize("more", ["", " -p xdist -n 2 --dist loadfile"])
def test_pytest_runs_tests_in_the_opposite_order(tmp_path: Path, more: str) -> None:
    files = {"test_one.py": ONE, "test_two.py": "def test_d(): pass\n"}
    ran = observed(tmp_path, files, PYTEST + more, order=TURNED)
    assert len(ran.seen.tests) == 28
    assert {name for name, end in ran.seen.tests.items() if end == "failed"} == {"test_one.py::test_b"}
    if not more:
        assert next(iter(ran.seen.tests)) == "test_two.py::test_d"
        first = observed(tmp_path, files, PYTEST, order=TestOrder(turned=True, first=("test_one.py::test_a",)))
        assert next(iter(first.seen.tests)) == "test_one.py::test_c[24]"
    assert (ran.seen.unfinished, ran.seen.doubts) == ((), ())


def test_pytest_runs_some_tests_alone(tmp_path: Path) -> None:
    files = {"sub/test_one.py": ONE}
    wanted = ("sub/test_one.py::test_b", *(f"sub/test_one.py::test_c[{number}]" for number in range(20)))
    ran = observed(tmp_path, files, f"cd sub && {PYTEST}", order=TestOrder(only=wanted, most=10))
    assert set(ran.seen.tests) == {wanted[0], *wanted[1::2]}
    every = observed(tmp_path, files, f"cd sub && {PYTEST}", order=TestOrder(only=wanted))
    assert set(every.seen.tests) == {*wanted}
    renamed = observed(tmp_path, files, f"cd sub && {PYTEST}", order=TestOrder(only=("sub/test_one.py::test_c[x]",)))
    assert len(renamed.seen.tests) == 25
    assert (ran.seen.unfinished, every.seen.unfinished) == ((), ())


def test_a_session_without_any_of_them_does_not_fail(tmp_path: Path) -> None:
    files = {"test_one.py": ONE, "test_two.py": "def test_d(): assert 0\n"}
    order = TestOrder(only=("test_two.py::test_d",))
    ran = observed(tmp_path, files, f"{PYTEST} test_one.py && {PYTEST} test_two.py", order=order)
    assert (ran.code, ran.seen.tests) == (1, {"test_two.py::test_d": "failed"})


def test_no_further_test_begins_when_the_time_is_over(tmp_path: Path) -> None:
    ran = observed(tmp_path, {"test_slow.py": SLOW}, PYTEST, order=TestOrder(turned=True, seconds=0.4))
    assert ran.code == 0, ran
    assert list(ran.seen.tests)[:2] == ["test_slow.py::test_f", "test_slow.py::test_e"]
    assert len(ran.seen.tests) < 6
    assert ran.seen.unfinished == ()


def test_unittest_follows_the_same_words(tmp_path: Path) -> None:
    files = {"test_one.py": CASES}
    ran = observed(tmp_path, files, UNITTEST, order=TURNED)
    assert ran.seen.tests == {
        "test_one.Two.test_c": "passed",
        "test_one.One.test_b": "failed",
        "test_one.One.test_a": "passed",
    }
    assert next(iter(ran.seen.tests)) == "test_one.Two.test_c"
    alone = observed(tmp_path, files, UNITTEST, order=TestOrder(only=("test_one.One.test_b",), most=10))
    assert alone.seen.tests == {"test_one.One.test_b": "failed"}
    over = observed(tmp_path, files, UNITTEST, order=TestOrder(turned=True, seconds=0.000001))
    assert len(over.seen.tests) < 3
    assert (over.code, over.seen.unfinished) == (0, ())


def test_suites_that_do_more_than_group_stay_as_they_are(tmp_path: Path) -> None:
    own = """
class Own(unittest.TestSuite):
    def run(self, result, debug=False):
        DONE.append(1)
        return super().run(result, debug)
def load_tests(loader, tests, pattern):
    return Own(tests)
"""
    ran = observed(tmp_path, {"test_one.py": CASES + own}, UNITTEST, order=TURNED)
    assert set(ran.seen.tests.values()) == {"passed"}


RANDOM = """
import random, unittest, pytest
random.seed(5)
@pytest.fixture
def fresh(): return []
class Sums(unittest.TestCase):
    ready = 0
    @classmethod
    def setUpClass(cls): cls.ready += 1
    def setUp(self): self.parts = []
    def test_chance(self): self.assertLess(random.random(), 0.6)
    def test_wrong(self):
        for number in range(2):
            with self.subTest(number=number): self.assertEqual(self.parts, [number])
    def test_right(self):
        self.parts.append(1)
        self.assertEqual(self.parts, [self.ready // self.ready])
"""
OWN = "def test_own(fresh):\n    fresh.append(1)\n    assert fresh == [1]\n"


@pytest.mark.parametrize("check", [UNITTEST, PYTEST, f"{PYTEST} -p xdist -n 2"])
def test_chosen_tests_run_again_and_again_from_their_fixtures_on(tmp_path: Path, check: str) -> None:
    names = [f"{'test_one.py::Sums::' if check != UNITTEST else 'test_one.Sums.'}test_{each}" for each in
             ("chance", "wrong", "right")]  # fmt: skip
    more = [] if check == UNITTEST else ["test_one.py::test_own"]
    files = {"test_one.py": RANDOM + ("" if check == UNITTEST else OWN)}
    ran = observed(tmp_path, files, check, order=TestOrder(only=(*names, *more), times=20, seconds=600.0))
    chance, wrong, right = (ran.seen.repeated[name] for name in names)
    assert {*chance} == {"passed", "failed"}
    assert len(chance) >= 20
    assert {*wrong} == {"failed"}
    assert right == ("passed",) * 20
    assert all(ran.seen.repeated[name] == right for name in more)
    assert [ran.seen.tests[name] for name in names] == ["failed", "failed", "passed"]
    assert ran.seen.doubts == ()


def test_what_takes_long_runs_once(tmp_path: Path) -> None:
    order = TestOrder(only=("test_slow.py::test_a",), times=20, seconds=0.2)
    ran = observed(tmp_path, {"test_slow.py": SLOW}, PYTEST, order=order)
    assert (set(ran.seen.tests), ran.seen.repeated) == ({*order.only}, {})
