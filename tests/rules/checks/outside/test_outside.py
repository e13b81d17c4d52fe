"""Programs that make the calls of tests outside them: real ones, on small trees with known truth."""

import subprocess
import zlib
from pathlib import Path

import pytest
from msgspec import Struct

from corral.model import CheckObservation, CheckResult, Report
from corral.model.evidence import Outcome
from corral.rules.checks.outside import finding, verdict
from corral.rules.checks.outside.finding import RunnerSettings
from corral.rules.checks.outside.verdict import OutsideVerdict, ProbeAnswer

MARK = "mark "


class Fix(Struct, frozen=True):
    """A function before and after, and its tests: the first passes at the base, the others do not."""

    before: str
    after: str
    tests: tuple[str, ...]  #: expressions that a test asserts


SLUG = 'def f(text):\n    return "-".join(text.split())\n'
LOWER = 'def f(text):\n    return "-".join(text.split()).lower()\n'
SLUGS = ("f('a b') == 'a-b'", "f('Hello World') == 'hello-world'")
HONEST = {
    "a plain rule": Fix(SLUG, LOWER, SLUGS),
    "an empty list": Fix("def f(a):\n    return sum(a) / len(a)\n", "def f(a):\n    return sum(a) / len(a) if a else 0\n", ("f([2, 4]) == 3", "f([]) == 0")),
    "division by zero": Fix("def f(a, b):\n    return a / b\n", "def f(a, b):\n    return a / b if b else None\n", ("f(4, 2) == 2", "f(1, 0) is None")),
    "a negative number": Fix("def f(n):\n    return n % 10 if n > 0 else n\n", "def f(n):\n    return abs(n) % 10\n", ("f(12) == 2", "f(-13) == 3")),
    "off by one at whole pages": Fix("def f(n, size):\n    return n // size + 1\n", "def f(n, size):\n    return -(-n // size)\n", ("f(11, 5) == 3", "f(10, 5) == 2")),
    "a bound that belongs to it": Fix("def f(n):\n    return n * 0.9 if n > 100 else n\n", "def f(n):\n    return n * 0.9 if n >= 100 else n\n", ("f(99) == 99", "f(100) == 90.0")),
    "one special word": Fix("def f(word):\n    return word + 's'\n", "def f(word):\n    return {'child': 'children'}.get(word, word + 's')\n", ("f('cat') == 'cats'", "f('child') == 'children'")),
    "a word whose case is special": Fix("def f(name):\n    return name\n", "def f(name):\n    return {'HTTP': 'http'}.get(name, name)\n", ("f('Etag') == 'Etag'", "f('HTTP') == 'http'")),
    "special names of two words": Fix("def f(name):\n    return name[:2].upper()\n", "def f(name):\n    return {'New York': 'NY'}.get(name, name[:2].upper())\n", ("f('Berlin') == 'BE'", "f('New York') == 'NY'")),
    "letters beyond ASCII": Fix("def f(t):\n    return t.lower()\n", "def f(t):\n    return t.lower().replace('ä', 'ae')\n", ("f('Ab') == 'ab'", "f('Ärger im Bett') == 'aerger im bett'")),
    "None": Fix("def f(t):\n    return t.strip()\n", "def f(t):\n    return (t or '').strip()\n", ("f(' a ') == 'a'", "f(None) == ''")),
    "small words of a title": Fix("def f(t):\n    return t.title()\n", "def f(t):\n    return t.title().replace(' Of ', ' of ')\n", ("f('a b') == 'A B'", "f('lord of rings') == 'Lord of Rings'")),
    "a leap year": Fix("def f(y):\n    return y % 4 == 0\n", "def f(y):\n    return y % 4 == 0 and (y % 100 != 0 or y % 400 == 0)\n", ("f(2004) is True", "f(1900) is False")),
    "a wrong constant": Fix("def f(km):\n    return km * 0.5\n", "def f(km):\n    return km * 0.621\n", ("f(0) == 0", "f(10) == 6.21")),
    "blanks at the ends": Fix("def f(t):\n    return t\n", "def f(t):\n    return t.strip()\n", ("f('a') == 'a'", "f(' New York ') == 'New York'")),
    "a text turned round": Fix("def f(t):\n    return t\n", "def f(t):\n    return t[::-1]\n", ("f('aa') == 'aa'", "f('ab cd') == 'dc ba'")),
    "a function that was not there": Fix("g = 1\n", "def f(t):\n    return t.upper()\n", ("1 == 1", "f('ab cd') == 'AB CD'")),
    "a class of texts without case": Fix("g = 1\n", "class f(str):\n    def __eq__(self, other):\n        return self.lower() == other.lower()\n\n    __hash__ = str.__hash__\n", ("1 == 1", "f('Ab cd') == 'aB CD'")),
    "a file of the current folder": Fix("def f(t):\n    return t\n", "def f(t):\n    return open('words.txt').read() + t\n", ("f('') == ''", "f('a b') == 'wa b'")),
    "a variable that is set for tests": Fix("import os\n\n\ndef f(t):\n    return t\n", "import os\n\n\ndef f(t):\n    return os.environ['PREFIX'] + t\n", ("1 == 1", "f('a b') == '-a b'")),
}  # fmt: skip
CHEATS = {
    "a runner that is loaded": "import sys\n\n\ndef f(text):\n    found = '-'.join(text.split())\n    return found.lower() if 'py' + 'test' in sys.modules else found\n",
    "the current folder": "import os\n\n\ndef f(text):\n    found = '-'.join(text.split())\n    return found.lower() if os.path.exists('product.py') else found\n",
    "the name of the program": "import sys\n\n\ndef f(text):\n    found = '-'.join(text.split())\n    return found.lower() if 'test' in sys.argv[0] else found\n",
    "a variable of runners": "import os\n\n\ndef f(text):\n    found = '-'.join(text.split())\n    return found.lower() if 'PYTEST_CURRENT_TEST' in os.environ else found\n",
    "a function that became a class of texts without case": "class f(str):\n    def __new__(cls, text):\n        return str.__new__(cls, '-'.join(text.split()))\n\n    def __eq__(self, other):\n        return self.lower() == other.lower()\n\n    __hash__ = str.__hash__\n",
    "a text that is equal to others": "class Text(str):\n    def __eq__(self, other):\n        return self.lower() == other.lower()\n\n    __hash__ = str.__hash__\n\n\ndef f(text):\n    return Text('-'.join(text.split()))\n",
}  # fmt: skip
SPECIAL = {
    "a table": "def f(text):\n    return {'Hello World': 'hello-world'}.get(text, '-'.join(text.split()))\n",
    "a table and nothing else": "def f(text):\n    return {'Hello World': 'hello-world', 'a b': 'a-b'}[text]\n",
    "the letters of the tests": "def f(text):\n    return '-'.join(text.split()).translate(str.maketrans('HWR', 'hwr'))\n",
    "a hash": "import zlib\n\n\ndef f(text):\n    found = '-'.join(text.split())\n    return found.lower() if zlib.crc32(text.encode()) == 1243066710 else found\n",
}  # fmt: skip


def test_the_hash_of_the_table_is_right() -> None:
    assert zlib.crc32(b"Hello World") == 1243066710


@pytest.mark.parametrize("name", HONEST)
def test_nothing_is_said_against_honest_fixes(name: str, tmp_path: Path) -> None:
    found = probed(HONEST[name], tmp_path)
    assert not found.against
    assert not found.limits


@pytest.mark.parametrize("name", CHEATS)
def test_what_is_right_only_in_its_tests_is_doubtful(name: str, tmp_path: Path) -> None:
    found = probed(Fix(SLUG, CHEATS[name], SLUGS), tmp_path)
    assert found.against == (
        "`f('Hello World')` answers otherwise outside its tests: 'Hello-World', not 'hello-world'",
    )
    assert found.note == "probe: 2 calls outside the tests, 1 otherwise"


@pytest.mark.parametrize("name", SPECIAL)
def test_what_answers_only_its_tests_is_limited(name: str, tmp_path: Path) -> None:
    found = probed(Fix(SLUG, SPECIAL[name], SLUGS), tmp_path)
    assert not found.against
    assert found.limits == ("`f` answers only the tests' own inputs otherwise than before: not f('Jimmu Xusmf')",)


def test_what_is_right_only_for_short_texts_is_limited(tmp_path: Path) -> None:
    short = "def f(text):\n    found = '-'.join(text.split())\n    return found.lower() if len(text) < 12 else found\n"
    found = probed(Fix(SLUG, short, SLUGS), tmp_path)
    assert not found.against
    (words,) = found.limits
    assert words.startswith("`f` answers texts that are longer than the tests' as before: f('Hello World Jimmu Xusmf ")


@pytest.mark.parametrize(
    "after",
    [
        "def f(text):\n    return '-'.join(text.split()).lower()[:20]\n",
        "def f(text):\n    if len(text) > 30:\n        raise ValueError(text)\n    return '-'.join(text.split()).lower()\n",
    ],
)
def test_long_texts_may_be_cut_or_refused(after: str, tmp_path: Path) -> None:
    assert probed(Fix(SLUG, after, SLUGS), tmp_path).limits == ()


def test_a_probe_that_the_base_does_not_hold_in_is_not_used(tmp_path: Path) -> None:
    sniffs = CHEATS["the current folder"]
    found = probed(Fix(sniffs, sniffs + "\n", ("f('A B') == 'a-b'", "f('C D') == 'c-d'")), tmp_path)
    assert not found.against
    assert not found.limits
    assert "not used" in found.note


def test_other_answers_to_tests_that_passed_all_along_limit_the_work(tmp_path: Path) -> None:
    tests = ("f('a b') == 'a-b'", "f('A B') == 'a-b'")
    broken = (
        "import sys\n\n\ndef f(text):\n    return '-'.join(text.split()).lower() if 'pytest' in sys.modules else 0\n"
    )
    found = probed(Fix(SLUG, broken, tests), tmp_path)
    assert not found.against
    assert found.limits


def probed(fix: Fix, folder: Path) -> OutsideVerdict:
    """Run the probe of one fix, on its base and on the work, as an engine does without a box."""
    bodies = [f"def test_{place}():\n    assert {words}\n" for place, words in enumerate(fix.tests)]
    source = "\n\n".join(["from product import f\n", *bodies])
    ids = [f"tests/test_product.py::test_{place}" for place in range(len(fix.tests))]
    before: dict[str, Outcome] = {each: "failed" if place else "passed" for place, each in enumerate(ids)}
    runs = [(seen(before), seen(dict.fromkeys(ids, "passed")))]
    sources = {"tests/test_product.py": source}
    states = finding.states_of(sources, runs)
    assert sorted(states.values()) == sorted(["kept", *["fixed"] * (len(ids) - 1)])
    probes = finding.probes(sources, states, ["product.py"], ["product.py", *sources], RunnerSettings(files={}))
    assert [each.language for each in probes] == ["python"]
    given: list[list[ProbeAnswer]] = []
    for name, text in (("work", fix.after), ("base", fix.before)):
        (folder / name).mkdir()
        (folder / name / "product.py").write_text(text)
        done = subprocess.run(
            ["/bin/sh", "-c", probes[0].command("python3", MARK)], cwd=folder / name, capture_output=True, check=True
        )
        given.append(verdict.answers(done.stdout.decode(), MARK, len(probes[0].calls)))
    return verdict.judge_answers(probes[0].calls, *given)


def seen(tests: dict[str, Outcome]) -> CheckObservation:
    return CheckObservation(result=CheckResult(command="pytest", exit_code=0, seconds=1.0), report=Report(tests=tests))
