"""Which calls of tests are made outside them."""

from typing import Any

import pytest

from corral.rules.checks.outside import node_calls, python_calls, shapes
from corral.rules.checks.outside.checked import CheckedCall, State, States
from corral.rules.checks.outside.finding import RunnerSettings, probes
from corral.rules.checks.outside.node_calls import NotPlain, values

KNOWN = {"product"}
FIXED: State = "fixed"


def python(text: str, *names: tuple[str, ...]) -> list[tuple[str, str]]:
    states: States = {("tests/test_a.py", name): FIXED for name in names or [("test_a",)]}
    return [(each.text, each.expected) for each in python_calls.found_in("tests/test_a.py", text, KNOWN, states)]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("assert f(1) == 2", [("f(1)", "2")]),
        ("assert 2 == f(1), 'why'", [("f(1)", "2")]),
        ("given = f('a', b=1)\n    assert given == ['b']", [("f('a', b=1)", "['b']")]),
        ("for a, b in [(1, 2), (3, 4)]:\n        assert f(a) == b", [("f(1)", "2"), ("f(3)", "4")]),
        ("assert f(1) is None", [("f(1)", "None")]),
        ("assert f(g()) == 1", []),
        ("assert f(1) > 1", []),
        ("prepare()\n    assert f(1) == 2", []),
        ("with patched():\n        assert f(1) == 2", []),
        ("product.mode = 1\n    assert f(1) == 2", []),
        ("assert f(1) == 2\n    prepare()\n    assert f(2) == 3", [("f(1)", "2")]),
    ],
)
def test_calls_that_only_depend_on_their_values(body: str, found: list[tuple[str, str]]) -> None:
    assert python(f"from product import f\n\n\ndef test_a():\n    {body}\n") == found


@pytest.mark.parametrize(
    "text",
    [
        "def test_a(fixture):\n    assert f(1) == 2\n",
        "@patch('x')\ndef test_a():\n    assert f(1) == 2\n",
        "def setup_module():\n    pass\n\n\ndef test_a():\n    assert f(1) == 2\n",
        "os.environ['A'] = '1'\n\n\ndef test_a():\n    assert f(1) == 2\n",
        "async def test_a():\n    assert f(1) == 2\n",
        "def test_other():\n    assert f(1) == 2\n",
    ],
)
def test_tests_with_surroundings_are_left_alone(text: str) -> None:
    assert python(f"import os\nfrom product import f\n\n\n{text}") == []


def test_methods_of_plain_classes_and_their_parameters() -> None:
    method = "    def test_a(self):\n        self.assertEqual(f(1), 2)\n"
    head = "import unittest\nfrom product import f\n\n\nclass A(unittest.TestCase):\n"
    assert python(head + method, ("A", "test_a")) == [("f(1)", "2")]
    assert python(f"{head}    def setUp(self):\n        pass\n\n{method}", ("A", "test_a")) == []
    marked = "@pytest.mark.parametrize('a, b', [(1, 2), (2, 3)])\ndef test_a(a, b):\n    assert f(a) == b\n"
    assert python(f"from product import f\n\n\n{marked}") == [("f(1)", "2"), ("f(2)", "3")]


def test_files_of_fixtures_that_prepare_all_tests() -> None:
    assert python_calls.sets_up("import pytest\n\n\n@pytest.fixture(autouse=True)\ndef a():\n    pass\n")
    assert python_calls.sets_up("import os\n\nos.environ['A'] = '1'\n")
    assert not python_calls.sets_up("import sys\n\nsys.path.insert(0, 'src')\n\n\ndef helper():\n    pass\n")


def test_settings_that_prepare_tests_leave_the_probe_out() -> None:
    source = {"tests/test_a.py": "from product import f\n\n\ndef test_a():\n    assert f(1) == 2\n"}
    states: States = {("tests/test_a.py", ("test_a",)): FIXED}

    def made(**files: str) -> list[Any]:
        named = {name.replace("__", "/").replace("_", "."): text for name, text in files.items()}
        return probes(
            source, states, ["product.py"], ["product.py"], RunnerSettings(files=named, checks=("A=1 pytest",))
        )

    assert [dict(each.env) for each in made()] == [{"A": "1"}]
    assert made(pytest_ini="[pytest]\nenv =\n    A=1\n") == []
    assert made(tests__conftest_py="import os\n\nos.chdir('x')\n") == []


# --- Node

HEAD = "const { f, g: h } = require('../lib');\nconst whole = require('./whole');\nimport thing from '../thing.js';\n"


def node(body: str) -> list[tuple[str, str, str]]:
    text = f"{HEAD}test('a', () => {{ {body} }});\n"
    found = node_calls.found_in("test/a.test.js", text, "own", {("test/a.test.js", ("a",)): FIXED})
    return [(each.module, each.text, each.expected) for each in found]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("assert.strictEqual(f('a b'), 'c');", [("../lib", 'f("a b")', '"c"')]),
        ("assert.deepEqual(h(1, [2]), { a: null });", [("../lib", "g(1, [2])", '{"a": null}')]),
        ("expect(whole.f(true)).toBe(-1.5)", [("./whole", "f(true)", "-1.5")]),
        ("expect(thing('x')).toEqual([]);", [("../thing.js", 'default("x")', "[]")]),
        ("prepare(); assert.equal(f(1), 2);", []),
        ("assert.equal(f(x), 2);", []),
        ("assert.equal(other(1), 2);", []),
        ("process.env.A = '1'; assert.equal(f(1), 2);", []),
    ],
)
def test_calls_of_node_tests(body: str, found: list[tuple[str, str, str]]) -> None:
    assert node(body) == found


def test_node_tests_that_are_prepared_are_left_alone() -> None:
    text = f"{HEAD}beforeEach(() => {{}});\ntest('a', () => {{ assert.equal(f(1), 2); }});\n"
    assert node_calls.found_in("test/a.test.js", text, "", {("test/a.test.js", ("a",)): FIXED}) == []


def test_plain_values_of_javascript() -> None:
    assert values(r"'a\n\u0041', -1.5, [true, null,], {a: 1, 'b c': `d`}") == ["a\nA", -1.5, [True, None], {"a": 1, "b c": "d"}]  # fmt: skip
    for text in ("x", "`a${b}`", "1 + 1", "[1", "undefined", "() => 1", "{a}", "01", "'\\1'"):
        with pytest.raises(NotPlain):
            values(text)


# --- other inputs


def test_other_inputs_have_the_same_shape() -> None:
    call = CheckedCall(language="python", module="m", name="f", arguments="'Ab-9 ä0', [3, 'x'], key=None")
    found = [each.arguments for each in shapes.variants(call)]
    assert found[0] == "'Ec-1 ä0', [3, 'z'], key=None"
    assert len(found) == len(shapes.TURNS) + len(shapes.LONGER_TURNS)
    assert found[-1].startswith("'Ab-9 ä0-Of-3 ä0-Ab-9 ä0-"), "a longer one"
    plain = CheckedCall(language="node", module="m", name="f", arguments="[1, true, null]")
    assert list(shapes.variants(plain)) == []
