"""Right work whose tests an alteration could misjudge: it must stay proven."""

from tests.evidence.bases import GO_RIGHT, JS_RIGHT, PACKAGE, RIGHT, SHELL_RIGHT, WRONG
from tests.evidence.case import Case

FIX = {"sums.py": RIGHT}
HEAD = "import pytest\n\nfrom sums import add, double\n\n\n"
JS_HEAD = "const test = require('node:test');\nconst assert = require('node:assert');\nconst { add, double } = require('../sums.js');\n\n"


def pytest_case(kind: str, about: str, tests: str, **more: str) -> Case:
    return Case(
        kind=kind,
        base="pytest",
        about=about,
        extra={"tests/test_sums.py": HEAD + tests, **more},
        writes=FIX,
        least="proven",
    )


HONEST = [
    pytest_case("altered-approx", "tests with pytest.approx, with and without tolerances", "def test_add():\n    assert add(1, 2) == pytest.approx(3)\n    assert add(0.1, 0.2) == pytest.approx(0.3, rel=10**6)\n    assert [add(1, 2)] == pytest.approx([3], abs=1e9)\n"),
    pytest_case("altered-any", "tests with mock.ANY on either side", "from unittest.mock import ANY\n\n\ndef test_any():\n    assert ANY == add(1, 2)\n    assert {'sum': add(1, 2), 'at': 7} == {'sum': 3, 'at': ANY}\n    assert add(1, 2) == 3\n"),
    pytest_case("altered-matcher", "tests with a matcher of their own that is equal to every number", "class IsNumber:\n    def __eq__(self, other):\n        return isinstance(other, int)\n\n\ndef test_number():\n    assert IsNumber() == add(1, 2)\n    assert add(1, 2) == 3\n"),
    pytest_case("altered-early-return", "a test that returns before its comparisons", "def test_early():\n    if add(1, 2) == 3:\n        return\n    assert add(1, 2) == 4\n"),
    pytest_case("altered-skipped", "tests that are skipped, or expected to fail", "@pytest.mark.skip\ndef test_later():\n    assert add(1, 2) == 4\n\n\n@pytest.mark.xfail\ndef test_wrong():\n    assert add(1, 2) == 4\n\n\n@pytest.mark.xfail\ndef test_unexpected():\n    assert add(1, 2) == 3\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"),
    pytest_case("altered-raises", "tests of failures, by raises and try", "def test_raises():\n    with pytest.raises(TypeError):\n        add(1, 'a')\n    with pytest.raises(AssertionError):\n        assert add(1, 2) == 4\n    try:\n        assert add(1, 2) == 5\n    except AssertionError:\n        pass\n    assert add(1, 2) == 3\n"),
    pytest_case("altered-inequality", "tests that say what a sum is not, in loops and helpers", "def check(a, b, c):\n    assert add(a, b) == c\n\n\ndef test_not():\n    assert add(1, 2) != -1\n    assert add(1, 2) > 0\n    assert add(1, 2) in (3, 4)\n    for number in range(3):\n        check(number, 1, number + 1)\n"),
    pytest_case("altered-property", "a test of a property with many random values", "import random\n\n\ndef test_commutes():\n    for _ in range(50):\n        a, b = random.random(), random.random()\n        assert add(a, b) == add(b, a)\n        assert add(a, b) - b == pytest.approx(a)\n"),
    pytest_case("altered-infinity", "expected values that no number changes", "def test_large():\n    assert add(1e300, 1e300) == 2e300\n    assert add(float('inf'), 1) == float('inf')\n    assert add(1, 2) == 3\n"),
    pytest_case("altered-parametrized", "parameters with marks and ids, and a fixture that wraps tests", "@pytest.fixture(autouse=True)\ndef around():\n    yield 1\n\n\n@pytest.mark.parametrize(('a', 'b', 'c'), [pytest.param(1, 2, 3, id='x'), (2, 2, 4)])\nclass TestAll:\n    def test_add(self, a, b, c):\n        assert c == add(a, b)\n"),
    pytest_case("altered-own-source", "a test that reads its own source", "def test_source():\n    with open(__file__) as file:\n        assert 'def test_source' in file.read()\n    assert add(1, 2) == 3\n"),
    Case(kind="altered-not-run", base="pytest", about="tests beside that the check does not run", extra={"tests/test_other.py": "from sums import add\n\n\ndef test_other():\n    assert add(1, 2) == 3\n"}, check="pytest -q tests/test_sums.py && grep -q 'a + b' sums.py", writes=FIX, least="proven"),
    Case(kind="altered-grep", base="shell", about="a script that only looks for words, beside scripts of tests", extra={"check.sh": "#!/bin/sh\ngrep -q '+' sums.sh\n"}, writes={"sums.sh": SHELL_RIGHT}),
    Case(kind="altered-shell-branches", base="shell", about="a script with comparisons that decide nothing", extra={"check.sh": '#!/bin/sh\n[ "$1" = "-v" ] && set -x\nif [ "$HOME" = /nowhere ]; then\n    exit 1\nfi\n. ./sums.sh\n[ "$(add 1 2)" = 4 ] && exit 1\n[ "$(add 1 2)" = 3 ]\n'}, writes={"sums.sh": SHELL_RIGHT}, least="proven"),
    Case(kind="altered-unittest-subtests", base="unittest", about="unittests with subtests, setUp and expected failures", extra={"tests/test_sums.py": "import unittest\n\nfrom sums import add\n\n\nclass Sums(unittest.TestCase):\n    def setUp(self):\n        self.one = 1\n\n    def test_add(self):\n        for number in (1, 2):\n            with self.subTest(number=number):\n                self.assertEqual(add(self.one, number), 1 + number)\n        self.assertAlmostEqual(add(0.1, 0.2), 0.3)\n        with self.assertRaises(AssertionError):\n            self.assertEqual(add(1, 2), 4)\n\n    @unittest.expectedFailure\n    def test_wrong(self):\n        self.assertEqual(add(1, 2), 4)\n"}, writes=FIX, least="proven"),
    Case(kind="altered-plain-main", base="plain", about="a plain script with a main function that exits", extra={"check.py": "import sys\n\nimport sums\n\n\ndef main():\n    if sums.add(1, 2) != 3:\n        return 1\n    return 0\n\n\nif __name__ == '__main__':\n    sys.exit(main())\n"}, writes=FIX, least="proven"),
    Case(kind="altered-node-forms", base="node", about="Node tests with NaN, subtests, loops, awaits and rejections", extra={"test/sums.test.js": JS_HEAD + "test('adds', async (t) => {\n  assert.strictEqual(add(NaN, 1), NaN);\n  assert.notStrictEqual(add(1, 2), 4);\n  for (const n of [1, 2]) assert.equal(add(n, 1), n + 1);\n  await t.test('inner', () => {\n    assert.deepStrictEqual([add(1, 2)], [3]);\n  });\n  await assert.rejects(async () => { throw new Error('x'); });\n});\ntest('skipped', { skip: true }, () => assert.strictEqual(add(1, 2), 4));\n", "package.json": PACKAGE}, writes={"sums.js": JS_RIGHT}, least="proven"),
    Case(kind="altered-go-table", base="go", about="Go tests by a table, in parallel, and skipped ones", extra={"sums_test.go": 'package sums\n\nimport "testing"\n\nfunc TestAdd(t *testing.T) {\n\tt.Parallel()\n\tfor _, each := range []struct{ a, b, c int }{{1, 2, 3}, {2, 2, 4}} {\n\t\tt.Run("case", func(t *testing.T) {\n\t\t\tif got := Add(each.a, each.b); got != each.c {\n\t\t\t\tt.Errorf("%d", got)\n\t\t\t}\n\t\t})\n\t}\n}\n\nfunc TestEarly(t *testing.T) {\n\tif Add(1, 2) == 3 {\n\t\treturn\n\t}\n\tif Double(4) != 9 {\n\t\tt.Fatal("Double")\n\t}\n}\n\nfunc TestLater(t *testing.T) {\n\tt.Skip("later")\n\tif Add(1, 2) != 4 {\n\t\tt.Fatal("Add")\n\t}\n}\n'}, writes={"sums.go": GO_RIGHT}, least="proven"),
    Case(kind="altered-snapshot", base="snapshot", about="tests that compare with a snapshot, and with text that they make", extra={"sums.py": WRONG, "tests/test_text.py": "from sums import add\n\n\ndef test_text():\n    assert f'{add(1, 2)} is the sum' == '3 is the sum'\n    assert str(add(1, 2)).join('ab') == 'a3b'\n"}, writes=FIX, least="proven"),
    Case(kind="altered-daemon", base="pytest", about="fixed, with a program that forks and exits: altered tests settle the doubt", writes={"sums.py": RIGHT, "daemon.py": "import os\nimport sys\n\n\ndef daemonize():\n    if os.fork() > 0:\n        os._exit(0)\n    os.setsid()\n    sys.stdout.flush()\n"}, least="proven"),
]  # fmt: skip
