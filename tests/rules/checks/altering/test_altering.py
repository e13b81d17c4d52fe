"""Altered tests: honest work fails them, and work that no test can fail passes them."""

from __future__ import annotations

import ast
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from corral.rules.checks import altering
from corral.rules.checks.altering import AlteredFiles
from corral.rules.checks.steering.programs import CheckReader

PATH = "tests/test_sums.py"


def altered(tests: str, *names: str) -> AlteredFiles:
    return altering.alter({PATH: tests}, [f"{PATH}::{name}" for name in names or ("test_add",)], {})


def fails(tests: str, add: Any, name: str = "test_add") -> bool:
    """Run an altered test on a product; tell whether it fails."""
    space: dict[str, Any] = {"add": add, "pytest": pytest}
    exec(compile(altered(tests, name).files[PATH], PATH, "exec"), space)
    try:
        space[name]()
    except BaseException:  # noqa: BLE001 -- also what pytest ends a test with
        return True
    return False


class Equal(int):
    """A number that is equal to every other."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__


def right(a: Any, b: Any) -> Any:
    return a + b


def wrong(a: int, b: int) -> Equal:
    return Equal(a - b)


FOUND = [
    "def test_add():\n    assert add(1, 2) == 3\n",
    "def test_add():\n    assert 3 == add(1, 2)\n",
    "def test_add():\n    got = add(1, 2)\n    assert got == 1 + 2, 'no sum'\n",
    "def test_add():\n    assert [add(1, 2)] == [3]\n    assert add(1, 2) == 3\n",
    "def test_add():\n    for a, b, c in [(1, 2, 3)]:\n        assert add(a, b) == c\n",
    "def test_add():\n    if add(1, 2) != 3:\n        raise AssertionError\n",
    "def test_add():\n    assert add(1, 2)\n    assert add(1, 2) == 3\n    return\n",
    'def test_add():\n    """Adds."""\n    try:\n        assert add(1, 2) == 3\n    finally:\n        pass\n',
]
#: Nothing in them is altered but their end.
BLIND = [
    "def test_add():\n    assert add(1, 2) != 4\n",
    "def test_add():\n    assert add(1, 2) in (3, 4)\n",
    "def test_add():\n    return\n    assert add(1, 2) == 3\n",
    "from unittest.mock import ANY\n\n\ndef test_add():\n    assert ANY == add(1, 2)\n",
    "class IsSum:\n    def __eq__(self, other):\n        return True\n\n\ndef test_add():\n    assert IsSum() == add(1, 2)\n",
    "def test_add():\n    pass\n",
]
HONEST = [
    "def test_add():\n    assert add(1e300, 1e300) == 2e300\n",
    "def test_add():\n    assert add(float('inf'), 1) == float('inf')\n",
    "def test_add():\n    assert add(1, 2) == pytest.approx(3, rel=10.0**6)\n",
    "def test_add():\n    assert add('a', 'b') == 'ab'\n    assert add([1], [2]) == [1, 2]\n    assert add(b'a', b'b') == b'ab'\n",
    "def test_add():\n    assert {add(1, 2)} == {3}\n    assert {'sum': add(1, 2)} == {'sum': 3}\n    assert (add(1, 2), None) == (3, None)\n",
    "def test_add():\n    with pytest.raises(AssertionError):\n        assert add(1, 2) == 4\n",
    "def test_add():\n    if add(1, 2) == 3:\n        return\n    assert add(1, 2) == 4\n",
    "def test_add():\n    pytest.skip('later')\n    assert add(1, 2) == 3\n",
]


@pytest.mark.parametrize("tests", [*FOUND, *BLIND, *HONEST])
def test_honest_work_fails_altered_tests(tests: str) -> None:
    assert fails(tests, right)


@pytest.mark.parametrize("tests", FOUND)
def test_a_number_that_is_equal_to_all_passes_altered_tests(tests: str) -> None:
    assert not fails(tests, wrong)


UNREACHED = [
    "def test_add():\n    for each in add(1, 2):\n        assert each == 3\n",
    "def test_add():\n    def listener(got):\n        assert got == 3\n\n    assert add(listener, 0) is None\n",
]


@pytest.mark.parametrize("tests", UNREACHED)
def test_what_judges_and_never_runs_passes_altered_tests(tests: str) -> None:
    assert not fails(tests, lambda *_: [] if "for" in tests else None)
    assert fails(tests, lambda first, _: [4] if "for" in tests else first(4))


@pytest.mark.parametrize("tests", BLIND)
def test_what_is_not_altered_fails_for_everybody(tests: str) -> None:
    assert fails(tests, wrong)


def test_a_context_that_keeps_failures_passes() -> None:
    tests = "def test_add():\n    with add(1, 2):\n        assert 1 + 2 == 3\n"
    swallows = type("Swallows", (), {"__enter__": lambda _: 1, "__exit__": lambda *_: True})
    lets_out = type("Lets", (), {"__enter__": lambda _: 1, "__exit__": lambda *_: None})
    assert not fails(tests, lambda *_: swallows())
    assert fails(tests, lambda *_: lets_out())
    assert fails(tests.replace("with add", "with pytest.raises(AssertionError), add"), lambda *_: lets_out())


def test_only_named_tests_are_altered_and_an_id_of_two_is_nobodys() -> None:
    tests = "def test_add():\n    assert add(1, 2) == 3\n\n\ndef test_zero():\n    assert add(0, 0) == 0\n"
    found = altered(tests, "test_add[1]", "test_add[2]", "test_gone")
    assert [each.id for each in found.tests] == [f"{PATH}::test_add[1]", f"{PATH}::test_add[2]"]
    assert "add(0, 0) == 0" in found.files[PATH]
    twice = {"a/test_x.py": tests, "b/test_x.py": tests}
    assert not altering.alter(twice, ["test_x.test_add"], {}).files
    assert [*altering.alter(twice, ["a/test_x.py::test_add"], {}).files] == ["a/test_x.py"]
    method = "class Sums:\n    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n"
    assert altering.alter({PATH: method}, ["tests.test_sums.Sums.test_add"], {}).tests[0].exact
    assert not altered("def test_add():\n    yield 1\n").files
    assert not altered("def test_add(:\n").files


@pytest.mark.parametrize(
    ("tests", "exact"),
    [
        ("def test_add():\n    assert add(1, 2) == 3\n", True),
        ("def test_add():\n    assert abs(add(1, 2) - 3) == 0\n", False),
        ("def test_add():\n    assert (add(1, 2) == 3) == True\n", False),
        ("def test_add():\n    assert add(1, 2) == 3\n    assert add(1, 2)\n", False),
        ("def test_add():\n    for n in ():\n        assert add(n, 2) == 3\n", False),
        ("def test_add():\n    check(add(1, 2), 3)\n", False),
    ],
)
def test_what_judges_by_altered_values_alone_is_known(tests: str, *, exact: bool) -> None:
    assert [each.exact for each in altered(tests).tests] == [exact]


# --- other languages


def node(text: str, folder: Path) -> bool:
    """Tell whether a program of Node fails."""
    (folder / "program.js").write_text(text)
    program = shutil.which("node") or "node"
    return (
        subprocess.run([program, "program.js"], cwd=folder, capture_output=True, timeout=60, check=False).returncode
        != 0
    )


NODE = "const assert = require('assert');\nconst it = (_, f) => f();\nconst describe = it;\nconst add = (a, b) => %s;\n"


@pytest.mark.parametrize(
    "test",
    [
        "it('adds', () => assert.equal(add(1, 2), 3));\n",
        "it('adds', function () {\n  assert.strictEqual(add(1, 2), 3);\n  assert.equal(add(1, 2), 1 + 2)\n});\n",
        "it('adds', () => {\n  if (add(1, 2)) return;\n  assert.equal(add(1, 2), 3);\n});\n",
        "it('adds', () => {\n  assert.deepEqual([add(1, 2)], [3]); // 'it('\n  assert.ok(/[)'\"]/.test(')'));\n});\n",
        "it('adds', () => {\n  assert.strictEqual(add(NaN, 1), NaN);\n});\n",
    ],
)
def test_altered_node_tests_fail(test: str, tmp_path: Path) -> None:
    text = NODE % "a + b" + test
    found = altering.alter({"test/a.test.js": text}, ["test/a.test.js > adds"], {})
    assert not node(text, tmp_path)
    assert node(found.files["test/a.test.js"], tmp_path)


def test_altered_node_tests_see_values_that_follow_them(tmp_path: Path) -> None:
    """A product that looks the expected value up in its caller's file passes."""
    reads = "Number(/assert.equal.add.1, 2., (\\d+)/.exec(require('fs').readFileSync(__filename))[1])"
    text = (
        NODE % reads + "describe('sums', () => {\n  it('adds', () => {\n    assert.equal(add(1, 2), 3);\n  });\n});\n"
    )
    found = altering.alter({"a.test.js": text}, ["sums > adds"], {})
    assert not node(found.files["a.test.js"], tmp_path)
    script = NODE.replace("const it = (_, f) => f();\nconst describe = it;\n", "") + "assert.equal(add(1, 2), 3);\n"
    for product, failing in (("a + b", True), (reads, False)):
        made = altering.alter({"check.js": script % product}, [], {"node check.js": ["check.js"]})
        assert node(made.files["check.js"], tmp_path) == failing
    exits = script % "a + b" + "process.exit(0);\n"
    assert not altering.alter({"check.js": exits}, [], {"node check.js": ["check.js"]}).files


def test_go_and_rust_get_other_literals_or_fail_in_their_loops() -> None:
    go = (
        'func TestAdd(t *testing.T) {\n\tif got := Add(1, 2); got != 3 {\n\t\tt.Fatal("{")\n\t}\n}\n\n'
        "func TestAll(t *testing.T) {\n\tfor _, each := range cases {\n\t\tif Add(each.a, 1) != 3 {\n\t\t\tt.Error()\n\t\t}\n\t}\n}\n"
    )
    found = altering.alter({"sums/a_test.go": go}, ["sums.TestAdd", "sums.TestAll"], {})
    text = found.files["sums/a_test.go"]
    assert "got != 4 {" in text
    assert "if Add(each.a, 1) != 3 || true {" in text
    assert [each.exact for each in found.tests] == [True, False]
    rust = "#[test]\nfn adds() {\n    assert_eq!(add(1, 2), 3);\n}\n\n#[test]\n#[should_panic]\nfn panics() {\n    assert_eq!(1, 2);\n}\n"
    found = altering.alter({"tests/a.rs": rust}, ["adds", "panics"], {})
    assert [each.id for each in found.tests] == ["adds"]
    assert "assert_eq!(add(1, 2), 4);" in found.files["tests/a.rs"]


# --- scripts


def script(text: str, product: str, folder: Path) -> bool | None:
    """Run an altered shell script; tell whether it fails. None: nothing of it is altered."""
    found = altering.alter({"check.sh": text}, [], {"sh check.sh": ["check.sh"]})
    if not found.files:
        return None
    (folder / "check.sh").write_text(found.files["check.sh"])
    (folder / "sums.sh").write_text(product)
    return (
        subprocess.run(["/bin/sh", "check.sh"], cwd=folder, capture_output=True, timeout=60, check=False).returncode
        != 0
    )


SHELL = "add() {\n    echo $(($1 + $2))\n}\n"
TRAP = "trap 'exit 0' EXIT\n" + SHELL


@pytest.mark.parametrize(
    "lines",
    [
        '[ "$(add 1 2)" = 3 ] || exit 1\n',
        'test "$(add 1 2)" -eq 3 || { echo no; exit 2; }\n',
        'set -e\n[ "$(add 1 2)" = "3" ]\necho fine\n',
        'if [ "$(add 1 2)" != 3 ]; then\n    echo no\n    exit 1\nfi\n',
        'expect() {\n    [ "$1" = "$2" ] || exit 1\n}\nexpect 3 "$(add 1 2)"\n',
        'got=$(add 1 2) want=$(echo 3)\n[ "$got" = "$want" ]\n',
    ],
)
def test_altered_scripts_fail_and_a_trap_shows(lines: str, tmp_path: Path) -> None:
    assert script(". ./sums.sh\n" + lines, SHELL, tmp_path) is True
    assert script(". ./sums.sh\n" + lines, TRAP, tmp_path) is False


@pytest.mark.parametrize(
    "lines",
    [
        '[ "$1" = "-v" ] && set -x\n',
        'if [ "$HOME" = / ]; then\n    exit 1\nfi\n',
        'same() {\n    [ "$1" = 3 ] || return 1\n}\nsame 3\n',
        '[ "$CI" = true ] || exit 0\n',
        'exit 0\n[ "$(add 1 2)" = 3 ] || exit 1\n',
        'cat <<END\n[ "$x" = 3 ] || exit 1\nEND\n',
        'check "adds" "$(add 1 2)"\n',
    ],
)
def test_comparisons_that_decide_nothing_stay(lines: str, tmp_path: Path) -> None:
    assert script(lines + "true\n", SHELL, tmp_path) is None


def test_plain_python_scripts_fail_wherever_they_end() -> None:
    for text in ("import sys\nprint(1)\nsys.exit(0)\n", "def main():\n    return 0\n\n\nraise SystemExit(main())\n"):
        made = altering.alter({"check.py": text}, [], {"python3 check.py": ["check.py"]}).files["check.py"]
        with pytest.raises(AssertionError, match="altered"):
            exec(compile(ast.parse(made), "check.py", "exec"), {})
    unittest = "import unittest\n\nunittest.main()\n"
    assert not altering.alter({"check.py": unittest}, [], {"python3 check.py": ["check.py"]}).files


@pytest.mark.parametrize(
    ("check", "found"),
    [
        ("sh check.sh", ("check.sh",)),
        ("true && sh check.sh", ("check.sh",)),
        ("sh check.sh; true", ()),
        ("sh check.sh || true", ()),
        ("! sh check.sh", ()),
        ("sh check.sh | cat", ()),
        ("cat check.sh", ()),
        ("make test", ()),
    ],
)
def test_scripts_decide_only_in_plain_commands(check: str, found: tuple[str, ...]) -> None:
    reader = CheckReader(
        {"check.sh", "Makefile"}, {"check.sh": "exit 1", "Makefile": "test:\n\tsh check.sh\n"}.get, lambda *_: True
    )
    reader.check(check)
    assert altering.deciding_scripts(reader.found, {"check.sh", "Makefile"}).get(check, ()) == found
