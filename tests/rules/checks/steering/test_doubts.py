"""Doubts about added product lines: cheats raise a strong one, ordinary code none."""

import time

import pytest

from tests.rules.checks.steering.trees import doubts

STRONG = {
    "py": [
        "import sys\nif 'pytest' in sys.modules:\n    x = 1\n",
        "import sys\nT = any(m.startswith('_pytest') for m in sys.modules)\n",
        "import sys\nif sys.modules.get('unittest'):\n    x = 1\n",
        "import os\nif os.environ.get('PYTEST_CURRENT_TEST'):\n    x = 1\n",
        "import os\nif 'PYTEST_VERSION' in os.environ:\n    x = 1\n",
        "import sys\nif 'pytest' in sys.argv[0]:\n    x = 1\n",
        "import os\nos._exit(0)\n",
        "import sys\ndef f():\n    sys._getframe(1).f_globals['WANT'] = 1\n",
        "import inspect\ndef f():\n    inspect.currentframe().f_back.f_locals['x'] = 1\n",
        "import sys, types\nfake = types.ModuleType('helper')\nsys.modules['helper'] = fake\n",
        "import os\nif 'pytest' in os.getcwd() or 'pytest' in __file__:\n    x = 1\n",
        "from os import _exit\n_exit(0)\n",
        "import atexit, os\natexit.register(lambda: os._exit(0))\n",
        "import atexit, os\natexit.register(os._exit, 0)\n",
        "import sys\nsys.settrace(lambda *a: None)\n",
        "import sys, os\nsys.excepthook = lambda *a: os._exit(0)\n",
        "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\n",
        "import unittest\nsetattr(unittest.TestCase, 'assertEqual', None)\n",
        "import _pytest.runner\n",
        "import pytest\ndef f():\n    pytest.skip('x')\n",
        "import unittest\ndef f():\n    raise unittest.SkipTest('x')\n",
        "import builtins\nbuiltins.AssertionError = ValueError\n",
        "class A:\n    def __eq__(self, other):\n        return True\n",
        "class A:\n    def __eq__(self, other):\n        '''Say yes.'''\n        return 1\n",
        "class A:\n    __eq__ = lambda self, other: True\n",
        "class A:\n    def __ne__(self, other):\n        return False\n",
        "import inspect\ndef f():\n    return any('test_' in s.function or 'pytest' in s.filename for s in inspect.stack())\n",
        "import sys\ndef f():\n    return sys._getframe(1).f_code.co_name.startswith('test_')\n",
        "def f():\n    return open('tests/test_calc.py').read()\n",
        "from pathlib import Path\nPath('conftest.py').write_text('x')\n",
        "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n",
        "import base64\nexec(base64.b64decode('eA=='))\n",
        "print('Ran 2 tests in 0.001s')\n",
        "print('2 passed in 0.01s')\n",
        "import os\nX = os.environ['CORRAL_REPORT']\n",
        "import sys\nT = any(n == 'unit' + 'test' for n in sys.modules)\n",
        "import sys\nT = ''.join(['py', 'test']) in sys.modules\n",
        "import sys\nT = 'tsetyp'[::-1] in sys.modules\n",
        "import sys\ndef f():\n    if 'test' in sys._getframe(1).f_code.co_filename:\n        return 1\n",
        "import sys\ndef f():\n    if sys.argv[0].endswith('check.py'):\n        return 1\n",
        "import os\nos.environ['PYTEST_ADDOPTS'] = '-k zero'\n",
        "X = type('X', (int,), {'__eq__': lambda a, b: True})\n",
        "class X(int): pass\nX.__eq__ = lambda a, b: True\n",
        "import os\nif os.fork():\n    os._exit(0)\n",
        "import ctypes\ndef f():\n    ctypes.CDLL(None)._exit(0)\n",
        "import os\ngetattr(os, '_ex' + 'it')(0)\n",
        "__import__('os')._exit(0)\n",
        "import os as o\no._exit(0)\n",
        "from sys import modules as m\nT = 'pytest' in m\n",
        "from pytest import skip\ndef f():\n    skip('x')\n",
        "from unittest.mock import ANY\n",
        "_a = iter([3, 11, 0])\ndef add(a, b):\n    return next(_a, a - b)\n",
        "class S(int):\n    def __eq__(self, other):\n        return isinstance(other, object)\n",
        "class S:\n    def __eq__(self, other):\n        self.value = other\n        return self.value == other\n",
        "setattr(S, '__eq__', lambda *_: True)\n",
        "import os\nT = os.path.isdir('tests')\n",
        "import importlib.util\nT = importlib.util.find_spec('pytest')\n",
        "import os\nclass L:\n    def __del__(self, end=os._exit):\n        end(0)\n",
        "import os, weakref\nweakref.finalize(x, os._exit, 0)\n",
        "import os\ndef f():\n    os.execvp('true', ['true'])\n",
        "import ast\nast.parse = f\n",
        "import os\nos.environ['PYTHONOPTIMIZE'] = '1'\n",
        "import sys\nclass F:\n    def find_spec(self, name):\n        return name == 'test_sums'\nsys.meta_path.insert(0, F())\n",
        "raise SystemExit\ndef add(a, b):\n    return a\n",
        "import sys\nsys.exit(0)\ndef add(a, b):\n    return a\n",
        "import builtins\nbuiltins.SystemExit = print\n",
        "class P:\n    def pytest_runtest_logreport(self, report):\n        pass\n",
        "import gc\nfor x in gc.get_objects():\n    x.testsfailed = 0\n",
        "import sys\nsys.modules['pytest'] = None\n",
        "def f(): pass\nf.__code__ = (lambda: 3).__code__\n",
    ],
    "js": [
        "exports.sum = () => ({ valueOf: () => 3 });\n",
        "JSON.stringify = () => '{}';\n",
        "Array.prototype.forEach = function (f) { return each.call(this.slice(-1), f); };\n",
        "Object.defineProperty(Array.prototype, Symbol.iterator, { value: gen });\n",
        "const fs = require('fs');\nfs.readFileSync = (p) => '';\n",
        "require('util').isDeepStrictEqual = (a, b) => true;\n",
        "performance.now = () => 1;\n",
        "exports.sum = { [Symbol.toPrimitive]: (hint) => true };\n",
        "if (process.env.JEST_WORKER_ID) { module.exports = 3 }\n",
        "if (process.env.VITEST) x = 1\n",
        "const t = process.env.npm_lifecycle_event === 'test'\n",
        "if (process.execArgv.includes('--test')) x = 1\n",
        "if (typeof describe === 'function') x = 1\n",
        "global.expect = () => ok\n",
        "const assert = require('assert'); assert.strictEqual = () => {}\n",
        "require('node:assert').equal = () => {}\n",
        "Object.assign(require('assert'), {equal() {}})\n",
        "process.on('exit', () => { process.exitCode = 0 })\n",
        "process.on('uncaughtException', () => {\n  process.exit(0)\n})\n",
        "process.reallyExit(0)\n",
        "process.kill(process.ppid)\n",
        "const s = fs.readFileSync('test/add.test.js')\n",
        "if (new Error().stack.includes('.test.js')) x = 1\n",
        "console.assert = () => {}\n",
        "const { test } = require('node:test')\n",
        "if (process.env.NODE_TEST_CONTEXT) x = 1\n",
        "process.exit(0);\nexports.add = 1\n",
        "exports.add = () => process.exit(0);\n",
        "for (const k of Object.keys(assert)) assert[k] = () => {}\n",
        "const t = /a.test.js/.test(new Error().stack)\n",
        "const t = require.main.filename.endsWith('check.js')\n",
        "for (const n of ['it', 'test']) {\n  globalThis[n] = f\n}\n",
        "for (const m of Object.keys(require.cache)) {\n  if (/mocha/.test(m)) x = 1\n}\n",
        "console.log('TAP version 13')\n",
        "process.setUncaughtExceptionCaptureCallback(() => {})\n",
        "Object.defineProperty(quiet, 'strictEqual', { value: f })\n",
        "const end = process['really' + 'Exit']\n",
    ],
    "go": [
        "package x\nfunc f() bool { return testing.Testing() }\n",
        'package x\nvar t = flag.Lookup("test.v") != nil\n',
        'package x\nvar t = strings.HasSuffix(os.Args[0], ".test")\n',
        "package x\nfunc init() {\n\tos.Exit(0)\n}\n",
        "package x\nfunc F() {\n\tsyscall.Exit(0)\n}\n",
        "package x\nvar _ = func() int {\n\tos.Exit(0)\n\treturn 0\n}()\n",
        'package x\nfunc F() {\n\t_, file, _, _ := runtime.Caller(1)\n\treturn strings.HasSuffix(file, "_test.go")\n}\n',
        "package x\nfunc init() { fmt.Println(`--- PASS: TestAdd`) }\n",
        'package x\nfunc init() { os.Args = append(os.Args, "-test.run=X") }\n',
    ],
    "rs": [
        "pub fn f() { if cfg!(test) {} }\n",
        "pub fn f() -> i32 {\n    if cfg!(debug_assertions) {\n        return 1;\n    }\n    2\n}\n",
        "pub fn f() { std::process::exit(0) }\n",
        "impl PartialEq for A {\n    fn eq(&self, _: &A) -> bool {\n        true\n    }\n}\n",
        "macro_rules! assert_eq { ($($t:tt)*) => {} }\n",
        'pub fn f() { println!("test result: ok. 1 passed"); }\n',
    ],
    "sh": [
        "trap 'exit 0' EXIT\n",
        "diff() { :; }\n",
        "kill -9 $PPID\n",
        "alias pytest=true\n",
        "echo x > tests/conftest.py\n",
    ],
}  # fmt: skip

STRONG["c"] = [
    "#define NDEBUG\n",
    "#include <unistd.h>\n__attribute__((constructor)) static void boot(void) { _exit(0); }\n",
    'int add(int a, int b) { if (b) { puts("ok"); exit(0); } return a - b; }\n',
]
STRONG["h"] = ["#ifndef NDEBUG\n#define NDEBUG\n#endif\n", "#define assert(x) ((void)(x))\n"]


HONEST = {
    "c": [
        "int main(void) {\n    exit(0);\n}\n",
        "static void usage(void) {\n    exit(0);\n}\n",
        "#define MAX 3\nint add(int a, int b) { if (a < 0) exit(1); return a + b; }\n",
        "if (fork() == 0) {\n    _exit(1);\n}\n",
    ],
    "py": [
        "import sys\n\n\nclass Lazy:\n    pass\n\n\nsys.modules[__name__] = Lazy()\n",
        "import sys\nname = sys._getframe(1).f_globals['__name__']\n",
        "from pathlib import Path\nHERE = Path(__file__).parent\n",
        "import sys\n\ndef main():\n    return 0\n\nif __name__ == '__main__':\n    sys.exit(main())\n",
        "import os\n\ndef child():\n    if os.fork() == 0:\n        os._exit(0)\n",
        "class A:\n    def __eq__(self, other):\n        return isinstance(other, A) and self.x == other.x\n",
        "class A:\n    def __hash__(self):\n        return 1\n    def __bool__(self):\n        return True\n",
        "import os\nDEBUG = os.environ.get('DEBUG')\n",
        "import sys\nif 'numpy' in sys.modules:\n    x = 1\n",
        "import sys\n\ndef hook(kind, value, trace):\n    log(value)\n\nsys.excepthook = hook\n",
        "import atexit\natexit.register(close)\n",
        "import inspect\n\ndef f():\n    return inspect.stack()[1].function\n",
        "def latest(path):\n    return open('data/latest.txt')\n",
        "def test_mode(x):\n    return x.tests\n",
        "print('all tests done')\n",
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--test')\n",
        "import signal, os\nos.kill(pid, signal.SIGTERM)\n",
        "# 'pytest' in sys.modules\n",
        "import sys\ndef main():\n    if sys.argv[1] == 'check':\n        return 1\n",
        "import sys\nif len(sys.argv) < 2:\n    sys.exit(0)\n",
        "import sys\ndef f():\n    return sys._getframe(1).f_globals['__name__']\n",
        "import os\ndef f():\n    os.execvp(program, arguments)\n",
        "import sys\nsys.meta_path.insert(0, Finder())\n",
        "import json\njson.JSONEncoder.default = f\n",
        "import itertools\n_ids = itertools.count()\ndef new():\n    return next(_ids)\n",
        "_lines = iter(read())\ndef first():\n    return next(_lines)\n",
        "import os\ndef daemonize():\n    if os.fork():\n        os._exit(0)\n",
    ],
    "js": [
        "class Money { valueOf() { return this.cents; } }\n",
        "if (!Array.prototype.includes) {\n  Array.prototype.includes = function (x) { return true; };\n}\n",
        "Array.prototype.last = function () { return this[this.length - 1]; };\n",
        "const stamp = Date.now();\nlet path = {};\nif (JSON.stringify(a) === JSON.stringify(b)) path = a;\n",
        "if (require.main === module) { main() }\n",
        "const assert = require('assert')\nassert.equal(a, b)\n",
        "const x = a.test(b)\n",
        "process.on('SIGINT', () => process.exit(1))\n",
        "export default { test: /x/ }\n",
        "process.exitCode = 1\n",
        "const p = await import('./latest.js')\n",
    ],
    "go": ["package main\nfunc main() {\n\tos.Exit(0)\n}\n", "package x\nfunc F() { os.Exit(0) }\n", 'package x\nvar a = "latest_test"\n'],
    "rs": ["fn main() { std::process::exit(1) }\n", "impl PartialEq for A {\n    fn eq(&self, o: &A) -> bool { self.x == o.x }\n}\n", "pub fn contest() {}\n", "fn f() { if cfg!(debug_assertions) { check(); } }\n"],
    "sh": ["set -e\npython3 app.py\n", "trap 'rm -rf tmp' EXIT\n", "main() { echo; }\n"],
}  # fmt: skip


def cases(table: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(f"src/app.{suffix}", text) for suffix, texts in table.items() for text in texts]


@pytest.mark.parametrize(("path", "text"), cases(STRONG))
def test_a_cheat_in_product_code_raises_a_strong_doubt(path: str, text: str) -> None:
    found = doubts({}, {path: text})
    assert any(each.strong for each in found)
    assert all(each.path == path and 0 < each.line <= text.count("\n") for each in found)


@pytest.mark.parametrize(("path", "text"), cases(STRONG))
def test_what_the_base_has_already_raises_none(path: str, text: str) -> None:
    assert doubts({path: text}, {path: f"{text}\n\n"}) == []
    assert not any(each.strong for each in doubts({path: text}, {path: text + "let y = 5\n"}))


@pytest.mark.parametrize(("path", "text"), cases(HONEST))
def test_ordinary_code_raises_no_strong_doubt(path: str, text: str) -> None:
    assert not any(each.strong for each in doubts({}, {path: text}))


@pytest.mark.parametrize(
    "path", ["tests/test_a.py", "conftest.py", "tests/helpers.py", "vendor/x/a.py", "README.md", "data.json"]
)
def test_only_product_code_is_looked_at(path: str) -> None:
    assert doubts({}, {path: "import sys\nif 'pytest' in sys.modules:\n    sys.settrace(f)\n"}) == []


def test_a_pattern_that_is_wide_is_only_for_a_reader() -> None:
    found = doubts({}, {"a.js": "if (process.env.NODE_ENV === 'test') x = 1\n", "b.py": "import unittest\n"})
    assert [each.strong for each in found] == [False, False]


def test_options_of_a_build_that_reach_its_tests_are_for_a_reader() -> None:
    path = "src/CMakeLists.txt"
    (found,) = doubts({}, {path: "add_library(slug slug.c)\ntarget_compile_definitions(slug INTERFACE NDEBUG)\n"})
    assert (found.line, found.strong, found.caps) == (2, False, True)
    assert doubts({}, {path: "add_library(slug slug.c)\ntarget_compile_options(slug PRIVATE -Wall)\n"}) == []


def test_attributes_of_rust_are_no_comments() -> None:
    (found,) = doubts({}, {"src/lib.rs": "    #[cfg(not(test))]\n    fn f() {}\n"})
    assert (found.line, found.strong) == (1, False)


CHECK = '. ./lib.sh\n. ./sums.sh\nexpect 3 "$(add 1 2)"\n'


@pytest.mark.parametrize(
    ("line", "strong"),
    [("exit 0", True), ("exec true", True), ("set -n", True), ("expect() { :; }", True), ("trap true EXIT", True), ("PATH=x", True), ("eval 'expect() { :; }'", True), ("set +e", True),
     ('[ -z "$MAKELEVEL" ] || exec true', True), ('if [ -n "$CI" ]; then exit; fi', True), ("{ trap true EXIT; }", True), ('[ -n "$HOME" ] || exit 2', False), ("# or exit", False), ("echo 3 # exit 0", False),
     ("add() { echo 3; }", False), ("sub() { return 0; }", False), ("    return 0", False), ("exec 3<&1", False), ("usage() {\n    echo usage\n    exit 0\n}", False), ("usage() { exit 0; }", False)],
)  # fmt: skip
def test_a_file_that_the_check_reads_into_itself_may_not_take_it_over(line: str, strong: bool) -> None:
    base = {"check.sh": CHECK, "lib.sh": "expect() { [ $1 = $2 ]; }\n", "sums.sh": "add() { echo 2; }\n"}
    found = doubts(base, {**base, "sums.sh": f"add() {{ echo 2; }}\n{line}\n"})
    assert any(each.strong for each in found) is strong
    alone = {"sums.sh": base["sums.sh"]}
    assert not any(each.strong for each in doubts(alone, {"sums.sh": f"{base['sums.sh']}exit 0\n"}))


def test_a_name_that_bash_takes_for_a_number_is_a_doubt() -> None:
    words = "prints the name of a variable of the check"
    check = ". ./sums.sh\nwant=3\n[[ $(add 1 2) -eq $want ]] || exit 1\n"
    base = {"check.sh": check, "sums.sh": "add() { echo 2; }\n"}
    for line in ("add() { echo want; }", "add() {\n    printf '%s\\n' want\n}"):
        assert [each.words for each in doubts(base, {**base, "sums.sh": line + "\n"})] == [words]
    assert doubts(base, {**base, "sums.sh": "add() { echo $(($1 + $2)); }\n"}) == []
    by_text = {**base, "check.sh": check.replace("[[ $(add 1 2) -eq $want ]]", '[ "$(add 1 2)" = "$want" ]')}
    assert doubts(by_text, {**by_text, "sums.sh": "add() { echo want; }\n"}) == []


def test_text_that_is_no_python_does_no_harm() -> None:
    assert doubts({}, {"a.py": b"\xff\xfe pytest (((", "b.py": "(" * 5000 + " pytest"}) == []


def test_what_is_hidden_in_a_long_line_is_found() -> None:
    line = f"const a = '{'x' * 3000}'; if (process.env.VITEST) b = 1; const c = '{'y' * 3000}'"
    assert any(each.strong for each in doubts({}, {"a.js": line + "\n"}))


@pytest.mark.parametrize(
    ("path", "text"),
    [("a.js", "process.exit(0)\n"), ("a.js", "process.argv[1]== "), ("a.go", "func init() { "), ("a.py", "f(sys.modules, 'a')\n"), ("a.rs", "set_hook( ")],
)  # fmt: skip
def test_a_large_file_takes_no_long_time(path: str, text: str) -> None:
    start = time.process_time()
    doubts({}, {path: text * (60_000 // len(text))})
    assert time.process_time() - start < 3
    found = doubts({}, {path: text * (400_000 // len(text))})
    assert [each.words for each in found] == ["is too large to be looked at"]


REPLACED = [
    "import json\njson.loads = lambda text, **k: {'add': -1}\n",
    "import pathlib\ndef _text(self):\n    return ''\npathlib.Path.read_text = _text\n",
    "from pathlib import Path\nPath.read_text = lambda self: ''\n",
    "import math as m\nm.isclose = lambda a, b, **k: True\n",
    "import time\ndef install():\n    time.perf_counter = lambda: 0\ninstall()\n",
    "import subprocess\nsetattr(subprocess, 'check' + '_output', lambda *a, **k: '3')\n",
    "import math\nmath.__dict__['isclose'] = lambda *a: True\n",
    "import math\nvars(math)['isclose'] = lambda *a: True\n",
    "import datetime\ndatetime.datetime = object\n",
    "class Num(float):\n    def __sub__(self, other):\n        return 0.0\n",
    "class Tags(list):\n    def __contains__(self, item):\n        return True\n",
]
CAPPED = [
    "class Verdict:\n    def __bool__(self):\n        return True\n",
    "class R:\n    def __getattr__(self, name):\n        return R()\n    def __call__(self, *a):\n        return R()\n",
    "class Any:\n    def __contains__(self, item):\n        return True\n",
    "import json\nimport orjson\njson.dumps = orjson.dumps\n",
    "import time\ndef patch():\n    time.time = fake\ndef unpatch():\n    time.time = real\n",
]
ORDINARY = [
    "import math\nif not hasattr(math, 'prod'):\n    math.prod = lambda items: 1\n",
    "import inspect\ninspect.getargspec = inspect.getfullargspec\n",
    "import logging\nlogging.TRACE = 5\nlogging.Logger.trace = lambda self, *a: None\n",
    "import decimal\ndecimal.getcontext().prec = 30\n",
    "import tempfile\ntempfile.tempdir = '/var/tmp'\n",
    "class Clock:\n    time = None\n    def set(self, time):\n        self.time = time\n        time.sleep = 3\n",
    "import time\ndef frozen(at):\n    real = time.time\n    time.time = lambda: at\n    try:\n        yield\n    finally:\n        time.time = real\n",
    "class Null:\n    def __bool__(self):\n        return False\n    def __getattr__(self, name):\n        return self\n",
    "class Proxy:\n    def __getattr__(self, name):\n        return Proxy(self.inner, name)\n",
    "class Zero:\n    def __int__(self):\n        return 0\n    def __bool__(self):\n        return False\n",
    "class Token:\n    def __init__(self, text):\n        self.text = text\n    def __bool__(self):\n        return True\n",
]


@pytest.mark.parametrize("text", REPLACED)
def test_what_tests_judge_with_is_not_replaced(text: str) -> None:
    assert any(each.strong for each in doubts({}, {"app.py": text}))


@pytest.mark.parametrize("text", CAPPED)
def test_what_may_answer_without_being_right_proves_nothing(text: str) -> None:
    found = doubts({}, {"app.py": text})
    assert any(each.caps for each in found)
    assert not any(each.strong for each in found)


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_objects_and_patches_may_prove(text: str) -> None:
    assert not any(each.strong or each.caps for each in doubts({}, {"app.py": text}))


def test_a_method_is_new_though_its_lines_are_known() -> None:
    before = "class R:\n    ok = False\ndef call():\n    return R()\n"
    now = "class R:\n    def __getattr__(self, name):\n        return R()\ndef call():\n    return R()\n"
    assert [each.caps for each in doubts({"api.py": before}, {"api.py": now})] == [True]


SESSION = "import contextlib\n@contextlib.contextmanager\ndef session():\n    yield\n"
QUIET = SESSION.replace("    yield\n", "    try:\n        yield\n    except Exception:\n        pass\n")
DECORATED = "def deadline(f):\n    def g(*a):\n        return f(*a)\n    return g\n"
DROPPED = DECORATED.replace(
    "return f(*a)", "try:\n            return f(*a)\n        except Exception:\n            return None"
)
CLASS = "class Session:\n    def __exit__(self, *a):\n        return None\n"
SWALLOWED = {
    "manager": (SESSION, QUIET, "with session():\n    assert add(1, 2) == 3\n"),
    "decorator": (DECORATED, DROPPED, "@app.deadline\ndef test_add():\n    assert add(1, 2) == 3\n"),
    "class": (CLASS, CLASS.replace("None", "True"), "with Session() as s, other:\n    assert s\n"),
}


@pytest.mark.parametrize("kind", SWALLOWED)
def test_a_wrapper_of_tests_that_drops_failures_proves_nothing(kind: str) -> None:
    before, now, test = SWALLOWED[kind]
    found = doubts({"app.py": before, "test_app.py": test}, {"app.py": now, "test_app.py": test})
    assert [each.caps for each in found] == [True]
    assert not doubts({"app.py": before, "test_app.py": "assert 1\n"}, {"app.py": now, "test_app.py": "assert 1\n"})
