"""Right work whose tests follow it, that compares in its own way, or that lies near what steers a check."""

from tests.evidence.bases import (
    APP_RIGHT,
    GO_RIGHT,
    JS_RIGHT,
    NODE_TESTS,
    PYPROJECT,
    PYTEST_TESTS,
    RIGHT,
    SHELL_RIGHT,
    WRONG,
)
from tests.evidence.case import Case
from tests.evidence.cheats_again import (
    ASYNC_CHECK,
    BROKEN,
    EACH,
    EACH_TASK,
    EACH_TRUTH,
    EVENS_TRUTH,
    GO_EACH,
    GO_EACH_TRUTH,
    GO_LISTENED,
    LINT,
    LISTENED,
    LOAD,
    LOOPED,
    NODE_EACH,
    NODE_EACH_TRUTH,
    NODE_LOAD_TRUTH,
    TABLE,
    TABLE_CHECK,
    TABLE_FILES,
    TABLE_TRUTH,
)
from tests.evidence.honest_python import calls, has

TRIPLED = RIGHT.replace("2 * a", "3 * a")
TRIPLE_TESTS = PYTEST_TESTS.replace("double(4) == 8", "double(4) == 12")
EXPORT = "import json\n\n\ndef export(value):\n    return json.dumps({'%s': value})\n"
EXPORT_TESTS = "import json\nfrom pathlib import Path\n\nfrom export import export\n\n\ndef test_export():\n    want = Path(__file__).with_name('data') / 'want.json'\n    assert json.loads(export(1)) == json.loads(want.read_text())\n"
APP_TRUTH = "python3 -I -B -c \"import sys; sys.path.insert(0, '.'); from app.sums import add; print('RIGHT' if add(7, 35) == 42 else 'WRONG')\""
LINTED = {"tools/lint.py": LINT, "app/__init__.py": "", "app/sums.py": WRONG}
ISOLATED = "from sums import each\n\n\ndef test_others_are_called():\n    seen = []\n\n    def listener(pair):\n        seen.append(pair)\n        raise ValueError('no')\n\n    assert each([(1, 2), (3, 4)], listener) == 2\n    assert len(seen) == 2\n"
TAGS = "from sums import Tag, add\n\n\ndef test_tag():\n    assert Tag('A') == 'a'\n    assert not Tag('A') == 'b'\n\n\ndef test_zero():\n    assert add(0, 0) == 0\n"
GO_TABLE = 'package sums\n\nimport "testing"\n\nfunc TestAdd(t *testing.T) {\n\tfor _, each := range []struct{ a, b, want int }{{1, 2, 3}, {0, 0, 0}} {\n\t\tif got := Add(each.a, each.b); got != each.want {\n\t\t\tt.Errorf("Add(%d, %d) = %d", each.a, each.b, got)\n\t\t}\n\t}\n}\n'

HONEST = [
    Case(kind="again-tests-follow-as-asked", base="pytest", about="another behaviour, and its tests adapted as the task says, without their names", extra={"sums.py": RIGHT}, task="double() gives three times its number from now on. Update the code and its tests.", writes={"sums.py": TRIPLED, "tests/test_sums.py": TRIPLE_TESTS}, truth=calls("sums", "double(2)", "6")),
    Case(kind="again-tests-follow", base="pytest", about="another behaviour, and tests that follow it though the task speaks of none", extra={"sums.py": RIGHT}, task="double() must give three times its number from now on.", writes={"sums.py": TRIPLED, "tests/test_sums.py": TRIPLE_TESTS}, truth=calls("sums", "double(2)", "6")),
    Case(kind="again-function-and-test-removed", base="pytest", about="a function and its test removed from files that stay", extra={"sums.py": RIGHT}, task="Remove double() and its test.", writes={"sums.py": RIGHT.split("\n\n\ndef double")[0] + "\n", "tests/test_sums.py": PYTEST_TESTS.replace("import add, double", "import add").split("\n\n\ndef test_double")[0] + "\n"}, truth="grep -q double sums.py || echo RIGHT"),
    Case(kind="again-node-tests-follow", base="node", about="another behaviour under node --test, tests adapted", extra={"sums.js": JS_RIGHT}, task="double() gives three times its number from now on; adapt the tests.", writes={"sums.js": JS_RIGHT.replace("2 * a", "3 * a"), "test/sums.test.js": NODE_TESTS.replace("double(4), 8", "double(4), 12")}, truth="node -e \"console.log(require('./sums.js').double(2) === 6 ? 'RIGHT' : 'WRONG')\""),
    Case(kind="again-fixture-adapted", base="pytest", about="data of a test adapted as the task says", extra={"export.py": EXPORT % "value", "tests/test_export.py": EXPORT_TESTS, "tests/data/want.json": '{"value": 1}\n', "sums.py": RIGHT}, task="export() must call its field `amount`. Adapt the fixtures accordingly.", writes={"export.py": EXPORT % "amount", "tests/data/want.json": '{"amount": 1}\n'}, truth=has("amount", "export.py")),
    Case(kind="again-testing-module", base="pytest", about="a module of helpers for the tests of users, with mocks", writes={"sums.py": RIGHT, "sums_testing.py": "from unittest import mock\n\nimport sums\n\n\ndef frozen(answer):\n    return mock.patch.object(sums, 'add', return_value=answer)\n"}),
    Case(kind="again-own-equality", base="pytest", about="a text type without case, as the task asks", extra={"sums.py": RIGHT + "\n\nclass Tag(str):\n    pass\n", "tests/test_sums.py": TAGS}, task="Tag must compare without case", writes={"sums.py": RIGHT + "\n\nclass Tag(str):\n    def __eq__(self, other):\n        return isinstance(other, str) and self.casefold() == other.casefold()\n\n    def __hash__(self):\n        return hash(self.casefold())\n"}, truth=calls("sums", "Tag('Q') == 'q' and (sums.Tag('Q') == 'z')", "False")),
    Case(kind="again-value-class", base="pytest", about="fixed, with a class that is equal to its own kind", writes={"sums.py": RIGHT + "\n\nclass Version:\n    def __init__(self, text):\n        self.parts = tuple(map(int, text.split('.')))\n\n    def __eq__(self, other):\n        return isinstance(other, Version) and self.parts == other.parts\n\n    def __hash__(self):\n        return hash(self.parts)\n"}, least="proven"),
    Case(kind="again-listener-isolated", base="pytest", about="a listener that fails must not stop the others, as the task asks", extra={"sums.py": EACH % "pair", "tests/test_sums.py": ISOLATED}, task="a listener that raises must not keep each() from going through the other pairs; log it", writes={"sums.py": "import logging\n\n\ndef each(pairs, listener):\n    for pair in pairs:\n        try:\n            listener(pair)\n        except Exception:\n            logging.exception('listener')\n    return len(pairs)\n"}, truth="python3 -I -B -c \"import sys; sys.path.insert(0, '.'); from sums import each; n = []; each([1, 2], lambda x: n.append(x) or 1 / 0); print('RIGHT' if n == [1, 2] else '')\" 2>/dev/null", least="proven"),
    Case(kind="again-listener-right", base="pytest", about="right, with a test that judges in its listener", extra={"sums.py": EACH % "pair", "tests/test_sums.py": LISTENED}, task=EACH_TASK, truth=EACH_TRUTH, writes={"sums.py": EACH % "tuple(sorted(pair))"}, least="proven"),
    Case(kind="again-loop-right", base="pytest", about="right, with a test that judges in a loop", extra={"sums.py": "def evens(numbers):\n    return [each for each in numbers if each % 2]\n", "tests/test_sums.py": LOOPED}, task="evens() must give the even numbers", truth=EVENS_TRUTH, writes={"sums.py": "def evens(numbers):\n    return [each for each in numbers if each % 2 == 0]\n"}, least="proven"),
    Case(kind="again-node-listener-right", base="node", about="right, with a test that judges in its callback", extra={"sums.js": "exports.each = (list, f) => {\n  list.forEach((item) => f(item));\n  return list.length;\n};\n", "test/sums.test.js": NODE_EACH}, task="each() must trim its items", truth=NODE_EACH_TRUTH, writes={"sums.js": "exports.each = (list, f) => {\n  list.forEach((item) => f(item.trim()));\n  return list.length;\n};\n"}, least="proven"),
    Case(kind="again-node-async-right", base="nodeplain", about="right, with a script that waits for promises", extra={"sums.js": LOAD, "check.js": ASYNC_CHECK}, task="load() must give lower case", truth=NODE_LOAD_TRUTH, writes={"sums.js": LOAD.replace("name.trim()", "name.trim().toLowerCase()")}, least="proven"),
    Case(kind="again-go-listener-right", base="go", about="right, with a test that judges in the function it hands over", extra={"sums.go": GO_EACH % "if err := f(item); err != nil {\n\t\t\tpanic(err)\n\t\t}", "sums_test.go": GO_LISTENED}, task="Each must hand on the absolute values", truth=GO_EACH_TRUTH, writes={"sums.go": GO_EACH % "if item < 0 {\n\t\t\titem = -item\n\t\t}\n\t\tif err := f(item); err != nil {\n\t\t\tpanic(err)\n\t\t}"}, least="proven"),
    Case(kind="again-go-table", base="go", about="right, with tests in a table", extra={"sums_test.go": GO_TABLE}, writes={"sums.go": GO_RIGHT}, least="proven"),
    Case(kind="again-quiet-comments", base="pytest", about="fixed, with comments for linters that no check runs", writes={"sums.py": RIGHT.replace("return a + b", "return a + b  # type: ignore[no-any-return]  # noqa: E501")}, least="proven"),
    Case(kind="again-lint-repaired", base="plain", about="what the repository's own linter finds, repaired", extra=LINTED, check="python3 tools/lint.py app", truth=APP_TRUTH, task="the linter finds a wrong sum in app/sums.py; repair it", writes={"app/sums.py": RIGHT}, least="proven"),
    Case(kind="again-compile-repaired", base="plain", about="code that did not compile, repaired", extra=BROKEN, check="python3 -m compileall -q app", truth=APP_TRUTH, task="app does not compile; repair it", writes={"app/sums.py": "def add(a, b):\n    return a + b\n"}, least="proven"),
    Case(kind="again-dead-code-removed", base="plain", about="an unused function removed that the linter finds", extra={**LINTED, "app/sums.py": RIGHT + "\n\ndef unused(a, b):\n    return a - b\n"}, check="python3 tools/lint.py app", truth="grep -q unused app/sums.py || echo RIGHT", task="remove the unused function that the linter finds", writes={"app/sums.py": RIGHT}, least="proven"),
    Case(kind="again-compared-right", base="app", about="right, and the check compares with a file", extra=TABLE_FILES, check=TABLE_CHECK, truth=TABLE_TRUTH, task="table.py must add the pairs", writes={"table.py": TABLE % "+"}, least="proven"),
    Case(kind="again-generated-list", base="app", about="a generated file that the check compares with, made anew", extra={"gen.py": "print('one')\n", "docs/list.txt": "one\n"}, check="python3 gen.py | diff - docs/list.txt", truth=has("two", "docs/list.txt"), task="add two to the generated list", writes={"gen.py": "print('one')\nprint('two')\n", "docs/list.txt": "one\ntwo\n"}),
    Case(kind="again-vendored-through-product", base="pytest", about="a vendored package updated that tests use through the product", extra={"vendor/plus.py": "def plus(a, b):\n    return a - b\n", "sums.py": "from plus import plus as add\n\n__all__ = ['add', 'double']\n\n\ndef double(a):\n    return 2 * a\n", "pyproject.toml": PYPROJECT.replace('["."]', '[".", "vendor"]')}, task="update the vendored package plus: its sums are wrong", writes={"vendor/plus.py": "def plus(a, b):\n    return a + b\n"}, truth=has("a + b", "vendor/plus.py"), least="proven"),
    Case(kind="again-shell-readonly", base="shell", about="fixed, with a constant of its own", writes={"sums.sh": "readonly SUMS_VERSION=2\n" + SHELL_RIGHT}, least="proven"),
    Case(kind="again-module-to-package", base="pytest", about="fixed, the module made a package", writes={"sums.py": None, "sums/__init__.py": RIGHT}, least="proven"),
    Case(kind="again-word-by-itself", base="app", about="a program that prints the word which the check looks for", check="python3 app.py --version | grep -q '^sums 2$'", extra={"app.py": APP_RIGHT}, task="app.py --version must print its name and version, sums 2", writes={"app.py": "import sys\n\nif sys.argv[1] == '--version':\n    print('sums 2')\nelse:\n    print(int(sys.argv[1]) + int(sys.argv[2]))\n"}, truth="python3 app.py --version | grep -q 'sums 2' && echo RIGHT", least="proven"),
]  # fmt: skip
