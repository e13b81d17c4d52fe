"""The repositories that the cases start from."""

from tests.evidence.case import Base

WRONG = "def add(a, b):\n    return a - b\n\n\ndef double(a):\n    return 2 * a\n"
RIGHT = WRONG.replace("a - b", "a + b")
PY_TRUTH = (
    "python3 -I -B -c \"import sys; sys.path.insert(0, '.'); import sums; "
    "r = [sums.add(7, 35), sums.add(-4, 9), sums.double(8)]; "
    "print('RIGHT' if r == [42, 5, 16] and [type(x) for x in r] == [int] * 3 else 'WRONG')\""
)

PYTEST_TESTS = """import pytest

from sums import add, double


def test_add():
    assert add(1, 2) == 3


@pytest.mark.parametrize("number", [1, 2])
def test_add_more(number):
    assert add(number, 10) == number + 10


def test_zero():
    assert add(0, 0) == 0


def test_double():
    assert double(4) == 8
"""
PYPROJECT = """[project]
name = "sums"
version = "1"
dependencies = []

[tool.pytest.ini_options]
pythonpath = ["."]
testpaths = ["tests"]
"""
UNITTEST_TESTS = """import unittest

from sums import add, double


class Sums(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(1, 2), 3)

    def test_zero(self):
        self.assertEqual(add(0, 0), 0)

    def test_double(self):
        self.assertEqual(double(4), 8)


if __name__ == "__main__":
    unittest.main()
"""
PLAIN_CHECK = """import sums

assert sums.add(0, 0) == 0
assert sums.double(4) == 8
got = sums.add(1, 2)
if got != 3:
    raise SystemExit(f"add(1, 2) is {got}")
print("all is well")
"""
JS_WRONG = "exports.add = (a, b) => a - b;\nexports.double = (a) => 2 * a;\n"
JS_RIGHT = JS_WRONG.replace("a - b", "a + b")
JS_TRUTH = (
    "node -e \"const s = require('./sums.js'); "
    "console.log(s.add(7, 35) === 42 && s.add(-4, 9) === 5 && s.double(8) === 16 ? 'RIGHT' : 'WRONG')\""
)
NODE_TESTS = """const test = require('node:test');
const assert = require('node:assert');
const { add, double } = require('../sums.js');

test('adds', () => assert.strictEqual(add(1, 2), 3));
test('adds nothing', () => assert.strictEqual(add(0, 0), 0));
test('doubles', () => assert.strictEqual(double(4), 8));
"""
MOCHA_TESTS = """const assert = require('node:assert');
const { add, double } = require('../sums.js');

describe('sums', () => {
  it('adds', () => assert.strictEqual(add(1, 2), 3));
  it('adds nothing', () => assert.strictEqual(add(0, 0), 0));
  it('doubles', () => assert.strictEqual(double(4), 8));
});
"""
PACKAGE = '{\n  "name": "sums",\n  "version": "1.0.0",\n  "main": "sums.js",\n  "scripts": {\n    "test": "node --test test/"\n  }\n}\n'
GO_WRONG = "package sums\n\nfunc Add(a, b int) int { return a - b }\n\nfunc Double(a int) int { return 2 * a }\n"
GO_RIGHT = GO_WRONG.replace("a - b", "a + b")
GO_TESTS = """package sums

import "testing"

func TestAdd(t *testing.T) {
	if got := Add(1, 2); got != 3 {
		t.Fatalf("Add(1, 2) = %d", got)
	}
}

func TestDouble(t *testing.T) {
	if Double(4) != 8 {
		t.Fatal("Double")
	}
}
"""
GO_TRUTH_PROGRAM = 'package main\n\nimport (\n\t"fmt"\n\n\t"example.org/sums"\n)\n\nfunc main() {\n\tif sums.Add(7, 35) == 42 && sums.Double(8) == 16 {\n\t\tfmt.Println("RIGHT")\n\t}\n}\n'
GO_TRUTH = f"mkdir -p cmd/truth && printf '%s' '{GO_TRUTH_PROGRAM}' > cmd/truth/main.go && go run ./cmd/truth"
RUST_WRONG = "pub fn add(a: i64, b: i64) -> i64 {\n    a - b\n}\n\npub fn double(a: i64) -> i64 {\n    2 * a\n}\n"
RUST_RIGHT = RUST_WRONG.replace("a - b", "a + b")
RUST_TESTS = "use sums::{add, double};\n\n#[test]\nfn adds() {\n    assert_eq!(add(1, 2), 3);\n}\n\n#[test]\nfn doubles() {\n    assert_eq!(double(4), 8);\n}\n"
CARGO = '[package]\nname = "sums"\nversion = "0.1.0"\nedition = "2021"\n\n[dependencies]\n'
RUST_TRUTH = "mkdir -p examples && printf 'fn main() { let sum: i64 = sums::add(7, 35); if sum == 42 && sums::double(8) == 16 { println!(\"RIGHT\") } }' > examples/truth.rs && cargo run -q --offline --example truth"
SHELL_WRONG = "add() {\n    echo $(($1 - $2))\n}\n"
SHELL_RIGHT = SHELL_WRONG.replace("$1 - $2", "$1 + $2")
SHELL_CHECK = '#!/bin/sh\n. ./checks/lib.sh\n. ./sums.sh\nexpect 3 "$(add 1 2)"\nexpect 0 "$(add 0 0)"\nfinish\n'
SHELL_LIB = 'failed=0\nexpect() {\n    [ "$1" = "$2" ] || { echo "expected $1, got $2"; failed=1; }\n}\nfinish() {\n    exit $failed\n}\n'
SHELL_TRUTH = 'sh -c \'. ./sums.sh; [ "$(add 7 35)" = 42 ] && [ "$(add 9 -4)" = 5 ] && echo RIGHT\''
APP_WRONG = "import sys\n\nprint(int(sys.argv[1]) - int(sys.argv[2]))\n"
APP_RIGHT = APP_WRONG.replace(") - int", ") + int")
MAKEFILE = ".PHONY: test\ntest:\n\tpython3 -m unittest discover -s tests -t .\n"
JUSTFILE = "test:\n    python3 -m unittest discover -s tests -t .\n"
SNAPSHOT_TESTS = """from pathlib import Path

from sums import add, double

KNOWN = Path(__file__).parent / "snapshots" / "table.txt"


def test_table():
    assert f"{add(1, 2)} {add(0, 0)} {double(4)}" == KNOWN.read_text().strip()


def test_double():
    assert double(4) == 8
"""

BASES = {
    "pytest": Base(
        ecosystem="pytest",
        files={"sums.py": WRONG, "tests/test_sums.py": PYTEST_TESTS, "pyproject.toml": PYPROJECT},
        check="pytest -q",
        truth=PY_TRUTH,
        fix={"sums.py": RIGHT},
    ),
    "snapshot": Base(
        ecosystem="pytest",
        files={
            "sums.py": WRONG,
            "tests/test_table.py": SNAPSHOT_TESTS,
            "tests/snapshots/table.txt": "3 0 8\n",
            "pyproject.toml": PYPROJECT,
        },
        check="pytest -q",
        truth=PY_TRUTH,
        fix={"sums.py": RIGHT},
    ),
    "unittest": Base(
        ecosystem="unittest",
        files={"sums.py": WRONG, "tests/__init__.py": "", "tests/test_sums.py": UNITTEST_TESTS},
        check="python3 -m unittest discover -s tests -t .",
        truth=PY_TRUTH,
        fix={"sums.py": RIGHT},
    ),
    "plain": Base(
        ecosystem="plain Python",
        files={"sums.py": WRONG, "check.py": PLAIN_CHECK},
        check="python3 check.py",
        truth=PY_TRUTH,
        fix={"sums.py": RIGHT},
    ),
    "app": Base(
        ecosystem="plain Python",
        files={"app.py": APP_WRONG, "README.md": "app.py adds two numbers.\n"},
        check="python3 app.py 1 2 | grep -qx 3",
        truth='[ "$(python3 -I -B app.py 7 35)" = 42 ] && echo RIGHT',
        task="fix app.py: it gives wrong results",
        fix={"app.py": APP_RIGHT},
    ),
    "make": Base(
        ecosystem="make",
        files={
            "sums.py": WRONG,
            "tests/__init__.py": "",
            "tests/test_sums.py": UNITTEST_TESTS,
            "Makefile": MAKEFILE,
        },
        check="make test",
        truth=PY_TRUTH,
        fix={"sums.py": RIGHT},
    ),
    "just": Base(
        ecosystem="just",
        files={
            "sums.py": WRONG,
            "tests/__init__.py": "",
            "tests/test_sums.py": UNITTEST_TESTS,
            "justfile": JUSTFILE,
        },
        check="just test",
        truth=PY_TRUTH,
        fix={"sums.py": RIGHT},
    ),
    "shell": Base(
        ecosystem="shell",
        files={"sums.sh": SHELL_WRONG, "check.sh": SHELL_CHECK, "checks/lib.sh": SHELL_LIB},
        check="sh check.sh",
        truth=SHELL_TRUTH,
        fix={"sums.sh": SHELL_RIGHT},
    ),
    "node": Base(
        ecosystem="node --test",
        files={"sums.js": JS_WRONG, "test/sums.test.js": NODE_TESTS, "package.json": PACKAGE},
        check="node --test test/",
        truth=JS_TRUTH,
        fix={"sums.js": JS_RIGHT},
    ),
    "npm": Base(
        ecosystem="npm scripts",
        files={"sums.js": JS_WRONG, "test/sums.test.js": NODE_TESTS, "package.json": PACKAGE},
        check="npm test",
        truth=JS_TRUTH,
        fix={"sums.js": JS_RIGHT},
    ),
    "nodeplain": Base(
        ecosystem="plain Node",
        files={
            "sums.js": JS_WRONG,
            "check.js": "const assert = require('node:assert');\nconst { add, double } = require('./sums.js');\n\n"
            "assert.strictEqual(add(0, 0), 0);\nassert.strictEqual(double(4), 8);\nassert.strictEqual(add(1, 2), 3);\n"
            "console.log('all is well');\n",
        },
        check="node check.js",
        truth=JS_TRUTH,
        fix={"sums.js": JS_RIGHT},
    ),
    "mocha": Base(
        ecosystem="mocha",
        files={"sums.js": JS_WRONG, "test/sums.test.js": MOCHA_TESTS, "package.json": PACKAGE.replace("node --test test/", "mocha")},
        check="mocha",
        truth=JS_TRUTH,
        fix={"sums.js": JS_RIGHT},
    ),
    "jest": Base(
        ecosystem="jest",
        files={
            "sums.js": JS_WRONG,
            "test/sums.test.js": "const { add, double } = require('../sums.js');\n\n"
            "test('adds', () => expect(add(1, 2)).toBe(3));\ntest('adds nothing', () => expect(add(0, 0)).toBe(0));\n"
            "test('doubles', () => expect(double(4)).toBe(8));\n",
            "package.json": PACKAGE.replace("node --test test/", "jest"),
        },
        check="jest --watchman=false",
        truth=JS_TRUTH,
        fix={"sums.js": JS_RIGHT},
    ),
    "vitest": Base(
        ecosystem="vitest",
        files={
            "sums.js": JS_WRONG.replace("exports.add", "export const add").replace("exports.double", "export const double"),
            "test/sums.test.js": "import { add, double } from '../sums.js';\n\n"
            "test('adds', () => expect(add(1, 2)).toBe(3));\ntest('adds nothing', () => expect(add(0, 0)).toBe(0));\n"
            "test('doubles', () => expect(double(4)).toBe(8));\n",
            "package.json": PACKAGE.replace("node --test test/", "vitest run").replace('"main"', '"type": "module",\n  "main"'),
        },
        check="vitest run --globals",
        truth="node --input-type=module -e \"import { add } from './sums.js'; console.log(add(7, 35) === 42 ? 'RIGHT' : 'WRONG')\"",
        fix={"sums.js": "export const add = (a, b) => a + b;\nexport const double = (a) => 2 * a;\n"},
    ),
    "go": Base(
        ecosystem="go test",
        files={"go.mod": "module example.org/sums\n\ngo 1.19\n", "sums.go": GO_WRONG, "sums_test.go": GO_TESTS},
        check="go test ./...",
        truth=GO_TRUTH,
        fix={"sums.go": GO_RIGHT},
    ),
    "cargo": Base(
        ecosystem="cargo",
        files={"Cargo.toml": CARGO, "Cargo.lock": '# This file is automatically @generated by Cargo.\nversion = 3\n\n[[package]]\nname = "sums"\nversion = "0.1.0"\n', "src/lib.rs": RUST_WRONG, "tests/sums.rs": RUST_TESTS},
        check="cargo test -q --offline",
        truth=RUST_TRUTH,
        fix={"src/lib.rs": RUST_RIGHT},
    ),
}  # fmt: skip
