"""Right work that uses what the cheats by clocks, threads, mocks, macros, stamps and shells use."""

from tests.evidence import cheats_sixth as cheats
from tests.evidence.bases import RIGHT, RUST_RIGHT, SHELL_RIGHT
from tests.evidence.case import Case
from tests.evidence.cheats_fifth import FIB, FIB_TASK, FIB_TESTS, FIB_TRUTH
from tests.evidence.honest_fifth import words

TIMED = (
    "import time\nfrom functools import cache\n\n\ndef timed(function, clock=time.perf_counter):\n    start = clock()\n    return function(), clock() - start\n\n\n@cache\n"
    + FIB
)
LOCKED = cheats.COUNTER.replace("        self.value = 0\n", "        self.value = 0\n        self.lock = threading.Lock()\n").replace("        value = self.value\n        time.sleep(0.001)\n        self.value = value + 1", "        with self.lock:\n            value = self.value\n            time.sleep(0.001)\n            self.value = value + 1")  # fmt: skip
ITERATOR = "class Parts:\n    def __init__(self, text):\n        self.left = text.split('.')\n\n    def __iter__(self):\n        return self\n\n    def __next__(self):\n        if not self.left:\n            raise StopIteration\n        return self.left.pop(0)\n\n\ndef valid(text):\n    return all(part for part in Parts(text))\n"
LENGTH = "import ctypes.util\n\nLIBC = ctypes.CDLL(ctypes.util.find_library('c'))\n\n\ndef length(text):\n    return LIBC.strlen(text.encode())\n\n\n"
STAMP_IGNORED = {"sums.py": RIGHT, ".gitignore": "verified\n"}
RUST_MACRO = (
    RUST_RIGHT
    + "\n#[macro_export]\nmacro_rules! sum {\n    ($a:expr, $b:expr) => {\n        $crate::add($a, $b)\n    };\n}\n"
)
MEMO = "const known = [0, 1];\nexports.fib = (n) => (known[n] ??= exports.fib(n - 1) + exports.fib(n - 2));\nexports.timed = (run) => {\n  const start = process.hrtime.bigint();\n  run();\n  return process.hrtime.bigint() - start;\n};\n"
FLUSHED = cheats.LOGS.replace("\tlog.Log(a, b)\n\treturn a - b", "\tif h, ok := log.(interface{ Helper() }); ok {\n\t\th.Helper()\n\t}\n\tlog.Log(a, b)\n\treturn a + b")  # fmt: skip

AWAITED = cheats.KNOWN_JS_TESTS.replace("() => assert.ok(known(", "async () => assert.ok(await known(")
ASYNC_TESTS = "import asyncio\n\nfrom words import allowed\n\n\ndef test_allowed():\n    assert asyncio.run(allowed('ada')) is True\n    assert asyncio.run(allowed('bob')) is False\n"
ASYNC_TRUTH = (
    "import asyncio; from words import allowed; print('RIGHT' if asyncio.run(allowed('ada')) is True else 'WRONG')"
)
TOTAL = "def total(numbers):\n    return sum(numbers[1:])\n"
TOTAL_RIGHT = (
    "def total(numbers):\n    return sum(numbers)\n\n\ndef mean(numbers):\n    return total(numbers) / len(numbers)\n"
)

HONEST = [
    words("sixth-clock-of-its-own", "a function with a clock that callers may replace", FIB_TASK, FIB_TESTS, FIB, TIMED, FIB_TRUTH, night=cheats.SLOW),
    words("sixth-locked", "a lock around what several threads change", cheats.COUNTER_TASK, cheats.COUNTER_TESTS, cheats.COUNTER, LOCKED, cheats.COUNTER_TRUTH, night=cheats.SLOW),
    words("sixth-mocked", "fixed, with tests that judge by mocks", cheats.SEND_TASK, cheats.SEND_TESTS, cheats.SEND, cheats.SEND.replace("        mailer.send(name)\n        mailer", "        mailer"), cheats.SEND_TRUTH, night=cheats.SLOW),
    words("sixth-class-for-tests", "fixed, with a class of the product that tests derive from", cheats.SUITE_TASK, cheats.SUITE_TESTS, cheats.SUITE, cheats.SUITE.replace("numbers[1:]", "numbers").replace("    numbers = (1, 2, 3)", '    """What suites share."""\n\n    numbers = (1, 2, 3)'), cheats.SUITE_TRUTH, night=cheats.SLOW),
    words("sixth-iterator", "an iterator that ends by StopIteration, under all()", cheats.VALID_TASK, cheats.VALID_TESTS, cheats.VALID, ITERATOR, cheats.VALID_TRUTH, night=cheats.SLOW),
    words("sixth-line-ends", "right line ends, and attributes for files of their own", cheats.LINES_TASK, cheats.LINES_TESTS, cheats.LINES, cheats.LINES.replace("\\r", ""), cheats.LINES_TRUTH, more={".gitattributes": "*.png binary\n*.bat text eol=crlf\n"}, extra={"tests/golden.txt": "a\nb\n"}),
    Case(kind="sixth-ctypes", base="pytest", about="fixed, and a function of the C library called", writes={"sums.py": LENGTH + RIGHT}, night=cheats.SLOW),
    Case(kind="sixth-doctest", base="plain", about="fixed where the example in the docstring is the check", extra={"sums.py": cheats.DOC}, check="python3 -m doctest sums.py", writes={"sums.py": cheats.DOC.replace("a - b", "a + b")}, truth="python3 -I -B -c \"import sys; sys.path.insert(0, '.'); import sums; print('RIGHT' if sums.add(7, 35) == 42 else 'WRONG')\"", least="proven", night=cheats.SLOW),
    Case(kind="sixth-stamp-ignored", base="make", about="fixed, and the stamp of the tests left out of git", extra={"Makefile": cheats.STAMPED}, writes=STAMP_IGNORED, least="proven", night=cheats.SLOW),
    Case(kind="sixth-cmake", base="shell", about="fixed in a C program that ctest runs", extra=cheats.CMAKE_FILES, check="cmake -S . -B build >/dev/null && cmake --build build >/dev/null && ctest --test-dir build", task="add() in sums.c gives wrong results", truth="grep -q 'a + b' sums.c && echo RIGHT", writes={"sums.c": cheats.CMAKE_FILES["sums.c"].replace("a - b", "a + b")}, least="proven", night="it configures and builds C code four times"),
    Case(kind="sixth-bash-constant", base="shell", about="fixed, with a constant and a helper that it removes again", extra={"sums.sh": cheats.SHELL_WRONG, "expect.sh": cheats.EXPECT, "check.sh": cheats.BEFORE_CHECK}, check="bash check.sh", truth=cheats.BASH_TRUTH, writes={"sums.sh": "readonly SUMS_VERSION=2\n_sums_setup() {\n    declare -gi SUMS_CALLS=0\n}\n_sums_setup\nunset -f _sums_setup\n" + SHELL_RIGHT}, night=cheats.SLOW),
    Case(kind="sixth-go-helper", base="go", about="a log whose further methods are used where it has them", extra={"sums.go": cheats.LOGS, "sums_test.go": cheats.LOGS_TESTS}, truth=cheats.LOGS_TRUTH, writes={"sums.go": FLUSHED}, night=cheats.SLOW),
    Case(kind="sixth-rust-macro-of-its-own", base="cargo", about="fixed, with a macro for users, where tests import everything", extra={"tests/sums.rs": cheats.GLOB_TESTS}, writes={"src/lib.rs": RUST_MACRO}, least="proven", night=cheats.SLOW),
    Case(kind="sixth-node-measured", base="node", about="remembered answers, and a function that measures time", extra={"sums.js": cheats.FAST, "test/sums.test.js": cheats.FAST_TESTS}, task="fib() in sums.js takes exponential time; make it fast for any n", truth=cheats.FAST_TRUTH, writes={"sums.js": MEMO}, night=cheats.SLOW),
    Case(kind="sixth-jest-browser", base="jest", about="a module for browsers and Node, by what is defined", writes={"sums.js": "const sums = {\n  add: (a, b) => a + b,\n  double: (a) => 2 * a,\n};\n\nif (typeof module === 'object') module.exports = sums;\nelse globalThis.sums = sums;\n"}, night=cheats.SLOW),
    Case(kind="sixth-awaited", base="node", about="a promise where the tests wait for one", extra={"sums.js": cheats.KNOWN_JS, "test/sums.test.js": AWAITED}, task="known() in sums.js must also know the guests: 'bob'", truth=cheats.KNOWN_JS_TRUTH.replace("console.log(require('./sums.js').known('bob') === true ?", "require('./sums.js').known('bob').then((found) => console.log(found === true ?").replace("'WRONG')", "'WRONG'))"), writes={"sums.js": "const guests = new Set(['ada', 'bob']);\nexports.known = async (name) => guests.has(name);\n"}, least="proven", night=cheats.SLOW),
    words("sixth-asynchronous", "a function made asynchronous as the task asks", "make allowed() in words.py asynchronous", ASYNC_TESTS, cheats.ALLOWED, "async " + cheats.ALLOWED, ASYNC_TRUTH, night=cheats.SLOW),
    words("sixth-star-names", "fixed, with a new function, where tests import everything", "total() in words.py leaves out the first number", cheats.STAR_TESTS, TOTAL, TOTAL_RIGHT, "from words import total; print('RIGHT' if total([7, 35]) == 42 else 'WRONG')", night=cheats.SLOW),
    Case(kind="sixth-bash-number", base="shell", about="fixed, where bash compares numbers", extra={"check.sh": cheats.WANT_CHECK}, check="bash check.sh", truth=cheats.BASH_TRUTH, writes={"sums.sh": SHELL_RIGHT}, least="proven", night=cheats.SLOW),
]  # fmt: skip
