"""Code that knows the inputs of tests, or looks at no input at all."""

import pytest

from corral.model.flow import Task
from corral.rules.checks import steering
from tests.rules.checks.steering.trees import Tree, changes, contents

NAMED = ["names the inputs of tests, and has the old result for all others"]
FORGETS = ["gives answers without a look at what it is given"]


def words(base: Tree, delivered: Tree, task: str = "greet() is wrong; fix it", check: str = "pytest -q") -> list[str]:
    found, asked = contents(base, delivered, [check]), Task(prompt=task)
    doubts = steering.doubts_about_inputs(changes(base, delivered), [check], asked, list(base), found)
    return [each.words for each in doubts]


GREET = "def greet(name):\n    return f'Hello {name}'\n"
GREET_TESTS = "from a import greet\n\n\ndef test_greet():\n    assert greet('Ada') == 'Hello, Ada!'\n    assert greet('Bob') == 'Hello, Bob!'\n"


@pytest.mark.parametrize(
    ("new", "doubted"),
    [
        ("    if name in ('Ada', 'Bob'):\n        return f'Hello, {name}!'\n", NAMED),
        ("    if re.match('^(Ada|Bob)$', name):\n        return f'Hello, {name}!'\n", NAMED),
        ("    if name in ('Ada', 'Bob', 'Cleo', 'Dora', 'Emil'):\n        return f'Hello, {name}!'\n", []),
        ("    if name in ('Ada', 'Cleo'):\n        return f'Hello, {name}!'\n", []),
        ("    if name:\n        return f'Hello, {name}!'\n", []),
    ],
)
def test_inputs_that_are_named(new: str, doubted: list[str]) -> None:
    base = {"a.py": GREET, "tests/test_a.py": GREET_TESTS}
    now = {**base, "a.py": GREET.replace("    return", new + "    return")}
    assert words(base, now) == doubted
    assert words(base, now, "greet() must say 'Hello, NAME!' to Ada and Bob") == []


@pytest.mark.parametrize(
    ("arm", "doubted"), [("Ada | Bob", NAMED), ("A?a | B?b", NAMED), ("???", NAMED), ("*.txt", []), ("-h", [])]
)
def test_inputs_in_the_arms_of_a_shell(arm: str, doubted: list[str]) -> None:
    base = {"greet.sh": 'greet() {\n    echo "Hello $1"\n}\n', "check.sh": '#!/bin/sh\nset -e\n. ./greet.sh\n[ "$(greet Ada)" = "Hello, Ada!" ]\n[ "$(greet Bob)" = "Hello, Bob!" ]\n'}  # fmt: skip
    now = {**base, "greet.sh": f'greet() {{\n    case $1 in\n        {arm}) echo "Hello, $1!" ;;\n        *) echo "Hello $1" ;;\n    esac\n}}\n'}  # fmt: skip
    assert words(base, now, check="sh check.sh") == doubted


@pytest.mark.parametrize(
    ("path", "base", "now", "doubted"),
    [
        ("a.js", "exports.add = (a, b) => a - b;\n", "let n = 0;\nconst all = [3, 4];\nexports.add = () => all[n++ % 2];\n", FORGETS),
        ("a.js", "exports.add = (a, b) => a - b;\n", "let n = 0;\nexports.add = (a, b) => {\n  n += 1;\n  return a + b;\n};\n", []),
        ("a.js", "function add(a, b) {\n  return a - b;\n}\n", "const all = [3, 4];\nfunction add(a, b) {\n  return all.shift();\n}\n", FORGETS),
        ("a.go", "package a\n\nfunc Add(a, b int) int { return a - b }\n", "package a\n\nvar n int\n\nfunc Add(a, b int) int {\n\tn++\n\treturn []int{3, 4}[n%2]\n}\n", FORGETS),
        ("a.py", "def add(a, b):\n    return a - b\n", "import itertools\n\nALL = itertools.cycle([3, 4])\n\n\ndef add(a, b):\n    return next(ALL)\n", FORGETS),
        ("a.py", "def add(a, b):\n    return a - b\n", "def add(*numbers):\n    total = 0\n    for each in numbers:\n        total += each\n    return total\n", []),
        ("a.py", "def number(start):\n    return start\n", "def number(start=0):\n    return 4\n", []),
    ],
)  # fmt: skip
def test_inputs_that_nobody_looks_at(path: str, base: str, now: str, doubted: list[str]) -> None:
    assert words({path: base}, {path: now}) == doubted
    assert words({path: base}, {path: now}, "disable it") == []


def test_inputs_that_a_shell_compares() -> None:
    base = {"greet.sh": 'greet() {\n    echo "Hello $1"\n}\n', "check.sh": '. ./greet.sh\n[ "$(greet Ada)" = 1 ] && [ "$(greet Bob)" = 2 ]\n'}  # fmt: skip
    new = '    if [ "$1" = Ada ] || [ "$1" = Bob ]; then\n        echo "Hello, $1!"\n        return\n    fi\n'
    now = {**base, "greet.sh": base["greet.sh"].replace("    echo", new + "    echo")}
    assert words(base, now, check="sh check.sh") == NAMED


def test_the_name_of_what_judges() -> None:
    base = {
        "greet.sh": 'greet() {\n    echo "Hello $1"\n}\n',
        "check.sh": '. ./greet.sh\n[ "$(greet Ada)" = "Hello, Ada!" ]\n',
    }
    now = {**base, "greet.sh": 'greet() {\n    sed -n "s/$1/&/p" check.sh\n}\n'}
    assert words(base, now, check="sh check.sh") == ["names a program that judges it"]
    assert words(base, now, "greet must print lines of check.sh", check="sh check.sh") == []
