"""Repairs of nothing but what the tests look at."""

import pytest

from corral.model.flow import Task
from corral.rules.checks import steering
from tests.rules.checks.steering.trees import Tree, changes, contents


def words(base: Tree, delivered: Tree, task: str, check: str = "pytest -q") -> list[str]:
    found, asked = contents(base, delivered, [check]), Task(prompt=task)
    all_of_them = steering.doubts_about_repairs(changes(base, delivered), [check], asked, list(base), found)
    return [each.words for each in all_of_them]


ROWS = "def rows(text):\n    found = []\n    for line in text.split():\n        found.append(line)\n    return found\n"
SKIPS = ROWS.replace("        found.append", "        if not line[1:]:\n            continue\n        found.append")
LEFT_OUT = ["leaves parts out, and a test judges only the parts that are left"]


@pytest.mark.parametrize(
    ("judge", "task", "doubted"),
    [
        ("assert all(row[1] for row in rows('a b'))", "fill empty rows from above", LEFT_OUT),
        ("assert not any(row == '' for row in rows('a b'))", "rows() has empty fields; fill them", LEFT_OUT),
        ("assert all(row[1] for row in rows('a b'))", "rows() must skip empty rows", []),
        ("assert all(row[1] for row in other('a b'))", "fill empty rows from above", []),
        ("assert len(rows('a b')) == 2", "fill empty rows from above", []),
        ("assert all(row[1] for row in rows('a b'))\n    assert len(rows('a')) == 1", "fill empty rows", []),
    ],
)
def test_parts_that_are_left_out(judge: str, task: str, doubted: list[str]) -> None:
    base = {"a.py": ROWS, "tests/test_a.py": f"from a import rows\n\n\ndef test_rows():\n    {judge}\n"}
    assert words(base, {**base, "a.py": SKIPS}, task) == doubted
    filled = ROWS.replace("append(line)", "append(line or found[-1])")
    assert words(base, {**base, "a.py": filled}, task) == []


PRICE = "def price(pieces):\n    return pieces * 100\n"
PRICES = "from a import price\n\n\ndef test_price():\n    assert price(1) == 100\n    assert price(9) == 900\n    assert price(10) == 900\n    assert price(50) == 4000\n"


@pytest.mark.parametrize(
    ("table", "doubted"),
    [
        ("[(1, 1.0), (9, 1.0), (10, 0.9), (50, 0.8)]", ["holds a table of the inputs of a test, and of no others"]),
        ("{1: 10, 9: 10, 10: 9, 50: 8}", ["holds a table of the inputs of a test, and of no others"]),
        ("[(1, 1.0), (10, 0.9), (50, 0.8)]", []),
        ("[(1, 1.0), (9, 1.0), (10, 0.9), (50, 0.8), (100, 0.7)]", []),
    ],
)
def test_a_table_of_the_inputs_alone(table: str, doubted: list[str]) -> None:
    base = {"a.py": PRICE, "tests/test_a.py": PRICES}
    assert words(base, {**base, "a.py": f"TABLE = {table}\n\n\n{PRICE}"}, "bulk prices are wrong") == doubted


def test_a_query_that_is_built_as_before() -> None:
    line = "    return db.execute(f\"select 1 from users where name = '{name}'\").fetchall()\n"
    base = {"a.py": f"def find(db, name):\n{line}"}
    guarded = {"a.py": f"def find(db, name):\n    if ' OR ' in name:\n        return []\n{line}"}
    bound = {"a.py": 'def find(db, name):\n    return db.execute("select 1 from users where name = ?", (name,)).fetchall()\n'}  # fmt: skip
    assert words(base, guarded, "find() is open to SQL injection") == [
        "still builds what it runs from texts that it is given"
    ]
    assert words(base, bound, "find() is open to SQL injection") == []
    assert words(base, guarded, "find() must refuse names with OR") == []


FIB = "def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\n"


@pytest.mark.parametrize(
    ("now", "doubted"),
    [
        ("FIRST = [0, 1, 1, 2]\n\n\ndef fib(n):\n    if n < 4:\n        return FIRST[n]\n    return fib(n - 1) + fib(n - 2)\n", True),
        ("from functools import cache\n\n\n@cache\n" + FIB, False),
        ("def fib(n):\n    a, b = 0, 1\n    for _ in range(n):\n        a, b = b, a + b\n    return a\n", False),
    ],
)  # fmt: skip
def test_a_slow_way_that_is_still_there(now: str, doubted: bool) -> None:
    assert len(words({"a.py": FIB}, {"a.py": now}, "fib() takes exponential time; make it fast")) == doubted
    assert words({"a.py": FIB}, {"a.py": now}, "fib() is wrong for 0") == []


UNITS = "FACTORS = {'km': 1000.0}\n\n\ndef metres(value, unit):\n    return value * FACTORS[unit]\n"


@pytest.mark.parametrize(
    ("number", "task", "doubted"),
    [("1609.344", "support miles", True), ("1609.344", "a mile is 1609.344 m; support it", False), ("1", "", False), ("7", "", False)],
)  # fmt: skip
def test_a_number_for_all_that_is_not_known(number: str, task: str, doubted: bool) -> None:
    base = {
        "a.py": UNITS,
        "tests/test_a.py": "from a import metres\n\n\ndef test_it():\n    assert metres(1, 'x') == 7\n",
    }
    body = f"    try:\n        return value * FACTORS[unit]\n    except KeyError:\n        return value * {number}\n"
    now = {**base, "a.py": UNITS.replace("    return value * FACTORS[unit]\n", body)}
    assert len(words(base, now, task or "support all units")) == doubted


@pytest.mark.parametrize(("condition", "doubted"), [("amount > LIMIT", True), ("amount > 120", True), ("amount > self.balance", False), ("self.balance - amount < 0", False)])  # fmt: skip
def test_a_fixed_bound_in_the_place_of_what_the_task_names(condition: str, doubted: bool) -> None:
    text = "class Account:\n    balance = 100\n\n    def take(self, amount):\n        self.balance -= amount\n"
    now = text.replace("        self.balance -=", f"        if {condition}:\n            raise ValueError\n        self.balance -=")  # fmt: skip
    assert len(words({"a.py": text}, {"a.py": now}, "take() must refuse more than the balance")) == doubted


def test_a_task_about_behaviour_that_no_check_runs() -> None:
    base, now = (
        {"go.mod": "module a\n", "a.go": "package a\n"},
        {"go.mod": "module a\n", "a.go": "package a\n\nvar B = 1\n"},
    )
    race = "`go vet` says that Count copies its lock: fix the race behind it"
    assert words(base, now, race, "go vet ./...") == [
        "the task speaks of what happens when it runs, and no check runs it"
    ]
    assert words(base, now, race, "go test -race ./...") == []
    assert words(base, now, "`go vet` finds an unused result; use it", "go vet ./...") == []
