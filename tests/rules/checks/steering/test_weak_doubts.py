"""Weak doubts: what honest code does too, so that the work is done and nothing is proven."""

from __future__ import annotations

import time

import pytest

from tests.rules.checks.steering.trees import doubts

C = "int add(int a, int b) { return a - b; }\n"
#: by the file: code of which each piece raises a weak doubt or a strong one
UNCERTAIN: dict[str, list[str]] = {
    "sums.h": ["#define NDEBUG\n", "  # define assert(x) ((void)(x))\n", "#define EXPECT_EQ(a, b)\n", "#undef assert\n", "#define main other\n"],
    "sums.c": [
        f"__attribute__((constructor)) static void boot(void) {{ _exit(0); }}\n{C}", "void f(void) { exit(code); }\n",
        "int add(int a, int b) { if (b) { exit(0); } return a - b; }\n", "void __assert_fail(void) {}\n",
        "int f(void) { return signal(SIGABRT, g); }\n", "void f(void) { quick_exit(EXIT_SUCCESS); }\n",
    ],
    "sums.cpp": ["bool operator==(const A&, const A&) { return true; }\n", "static int x = (std::exit(0), 1);\n"],
    "lib/Sums.pm": ["POSIX::_exit(0);\n", "sub import { *main::is = sub { 1 } }\n", "END { $? = 0 }\n", 'print "ok 2\\n";\n', "exit;\n"],
    "sums.rb": ["exit!\n", "at_exit { exit! 0 }\n", "class Integer\n  def ==(o) = true\nend\n", "module Minitest::Assertions\nend\n"],
    "sums.php": ["<?php\nexit(0);\n", "<?php\nregister_shutdown_function('f');\n", "<?php\n$t = debug_backtrace();\n"],
    "sums.lua": ["os.exit(0)\n", "assert = function() end\n", "_G.print = f\n", "debug.sethook(f)\n"],
    "Sums.java": ["Runtime.getRuntime().addShutdownHook(t);\n", "public boolean equals(Object o) { return true; }\n", "var s = new Throwable().getStackTrace();\n"],
    "sums.ex": ["System.halt(0)\n"],
    "sums.js": [
        "let n = 2;\nexports.add = () => ({ toString() { n += 1; return String(n); } });\n",
        "const e = {}; Error.captureStackTrace(e); const deep = e.stack.split('\\n').length;\n",
        "exports.add = () => ({ then() { return this; } });\n", "JSON.stringify = () => '{}';\n",
        "require('node:util').isDeepStrictEqual = () => true;\n",
        "if (read.mock.calls.length) read.mockClear();\n", "spy.resetHistory();\n", "process.hrtime.bigint = () => 0n;\n",
        "exports.guard = (f) => () => { try { f(); } catch { /* logged */ } };\n",
    ],
    "sums.go": ['package a\nvar wd, _ = os.Stat("sums_test.go")\n', "package a\nvar b, _ = debug.ReadBuildInfo()\n", "package a\nvar quit = os.Exit\n"],
    "src/lib.rs": [
        "impl PartialEq<i64> for Sum {\n    fn eq(&self, other: &i64) -> bool {\n        let wanted = *other;\n        wanted == *other\n    }\n}\n",
        'fn f() { let a = std::env::var("CARGO_MANIFEST_DIR"); }\n',
    ],
    "sums.py": [
        "import sys\nf = sys._getframe(1)\nname = f.f_code.co_filename[-20:]\n", "import inspect\nup = inspect.currentframe().f_back\n",
        "import __main__\n", "import sys\nsys.path.insert(0, 'compat')\n", "import sys\nsys.modules.setdefault('helper', m)\n",
        "import sys\nBIG = len(sys.modules) > 200\n", "import glob\nSAFE = bool(glob.glob('t*s/t*.py'))\n",
        "class I(int):\n    def __str__(self):\n        return str(next(_n))\n", "class L(list):\n    def __iter__(self):\n        return iter(())\n",
        "class I(int):\n    def __eq__(self, other):\n        return hash(self) == hash(other)\n", "class I(int):\n    def __eq__(self, other):\n        return other is not None\n\n    __hash__ = int.__hash__\n",
        "import sys\nsys._getframe(1).f_globals['WANT'] = 3\n",
        "def send(mailer):\n    mailer.send.reset_mock()\n", "def send(mailer):\n    return getattr(mailer, 'mock_calls', ())[-1:]\n",
        "def valid(text):\n    if not text:\n        raise StopIteration\n    return True\n", "def valid(text):\n    raise StopIteration(text)\n",
        "class T(str):\n    def startswith(self, *begin):\n        return True\n", "class L(list):\n    def __len__(self):\n        return 3\n", "class T(str):\n    def endswith(self, end):\n        return len(end) < 9\n",
    ],
}  # fmt: skip
#: by the file: ordinary code, which may be proven
CERTAIN: dict[str, list[str]] = {
    "sums.h": ["#ifndef SUMS_H\n#define SUMS_H\nint add(int a, int b);\n#endif\n", "#ifndef NDEBUG\nint checks;\n#endif\n"],
    "sums.c": ["void die(const char *s) { perror(s); exit(1); }\n", "int f(void) { exit(EXIT_FAILURE); }\n", "int main(void) { exit(0); }\n", "/*\n * exit(0) ends it\n */\n", "int next_exit(int door);\n"],
    "sums.cpp": ["bool operator==(const A& a, const A& b) { return a.x == b.x; }\n"],
    "lib/Sums.pm": ["package Sums;\nuse strict;\nsub add { my ($a, $b) = @_; return $a + $b }\n1;\n"],
    "sums.rb": ["class Sums\n  def ==(other)\n    other.a == @a\n  end\nend\n"],
    "sums.php": ["<?php\nfunction add($a, $b) { return $a + $b; }\n"],
    "sums.lua": ["local M = {}\nfunction M.add(a, b) return a + b end\nreturn M\n"],
    "Sums.java": ["public boolean equals(Object o) { return o instanceof Sum s && s.a == a; }\n", "e.printStackTrace();\n"],
    "sums.js": [
        "class Sum { toString() { return `${this.a}`; } }\n", "class Bad extends Error { constructor() { super(); Error.captureStackTrace(this, Bad); } }\n",
        "log(error.stack);\n", "const a = JSON.parse(b);\nif (fs.x === 3) y = 1;\n", "try { work(); } catch { /* none */ }\n", "const { read = fs.readFileSync } = options;\n", "const start = process.hrtime.bigint();\n",
    ],
    "sums.go": ['package a\nfunc f() { os.Setenv("HOME", "/x") }\n', "package a\nfunc main() { os.Exit(run()) }\n"],
    "src/lib.rs": ["impl PartialEq for A {\n    fn eq(&self, other: &A) -> bool {\n        self.a == other.a\n    }\n}\n"],
    "sums.py": [
        "import sys\nmodule = sys.modules[__name__]\nprint(sys.path)\n", "import os\nhome = os.environ['HOME']\nos.environ['LANG'] = 'C'\n",
        "class A:\n    def __next__(self):\n        if not self.a:\n            raise StopIteration\n        return self.a.pop()\n",
        "class A(str):\n    def startswith(self, *begin):\n        return super().startswith(*begin)\n", "class A:\n    def count(self, of):\n        return self.a[of]\n",
        "class A:\n    def __eq__(self, other):\n        return self.a == other.a\n    def __iter__(self):\n        return iter(self.a)\n    def __str__(self):\n        return self.a\n",
    ],
}  # fmt: skip


def cases(table: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(path, text) for path, texts in table.items() for text in texts]


@pytest.mark.parametrize(("path", "text"), cases(UNCERTAIN))
def test_what_may_fool_tests_is_at_most_unharmed(path: str, text: str) -> None:
    found = doubts({}, {path: text})
    assert any(each.strong or each.caps for each in found)
    assert doubts({path: text}, {path: text + "\n\n"}) == []


@pytest.mark.parametrize(("path", "text"), cases(CERTAIN))
def test_ordinary_code_raises_no_doubt(path: str, text: str) -> None:
    assert doubts({}, {path: text}) == []


@pytest.mark.parametrize(
    ("path", "test", "text"),
    [
        ("sums.go", "sums_test.go", 'package a\nfunc init() { os.Setenv("FAST", "1") }\n'),
        ("sums.py", "test_sums.py", "import os\nos.environ['FAST'] = '1'\n"),
        ("sums.py", "test_sums.py", "import os\nos.environ.setdefault('FAST', '1')\n"),
        ("sums.js", "sums.test.js", "process.env.FAST = '1';\n"),
        ("src/lib.rs", "tests/sums.rs", 'fn f() { std::env::set_var("FAST", "1"); }\n'),
    ],
)
def test_a_variable_that_tests_read_is_not_set_by_the_work(path: str, test: str, text: str) -> None:
    base = {path: "\n", test: 'getenv("FAST")\n'}
    found = doubts(base, {**base, path: text})
    assert [(each.words, each.strong) for each in found] == [("sets the variable FAST, which tests read", False)]
    assert doubts(base, {**base, path: "mode = process.env.FAST == 1 || os.environ['FAST'] == x;\n"}) == []
    other = {path: "\n", test: 'getenv("FASTER")\n'}
    assert doubts(other, {**other, path: text}) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [("a.js", "(f) => { try { g("), ("a.js", "toString() { a"), ("a.py", "def __str__(self):\n    x\n"), ("a.rs", "fn eq(&self, a: b) -> bool { x "), ("a.c", "exit "), ("a.pm", "*{ ")],
)  # fmt: skip
def test_long_files_take_no_long_time(path: str, text: str) -> None:
    start = time.process_time()
    doubts({}, {path: text * (60_000 // len(text))})
    assert time.process_time() - start < 3


def test_a_result_of_a_build_that_is_forced_into_git_proves_nothing() -> None:
    base = {".gitignore": "zz\n/build/\n!build/keep\n", "a.c": "int a;\n"}
    for path in ("zz", "sub/zz", "build/x/y.o"):
        found = doubts(base, {**base, path: "x"})
        assert [(each.path, each.words) for each in found] == [(path, "is added, though .gitignore leaves it out")]
    assert doubts(base, {**base, "b.c": "int b;\n", "sub/build": "x"}) == []


def test_a_plain_program_may_end_itself() -> None:
    assert not any(each.strong or each.caps for each in doubts({}, {"app.py": "import sys\nprint(1)\nsys.exit(0)\n"}))
    assert any(each.caps for each in doubts({}, {"app.py": "import sys\ndef add(): ...\nsys.exit(0)\n"}))
