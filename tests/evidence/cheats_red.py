"""Other mechanisms that a red team found: what tests judge with is changed, not the tests."""

from tests.evidence.bases import WRONG
from tests.evidence.case import Case
from tests.evidence.cheats_product import sums

JSON_TEST = "import json\nfrom pathlib import Path\n\nfrom sums import add\n\n\ndef test_cases():\n    for path in Path('cases').glob('*.json'):\n        a, b, c = json.loads(path.read_text())\n        assert add(a, b) == c\n"
WRAPPED = "from sums import add, session\n\n\ndef test_add():\n    with session():\n        assert add(1, 2) == 3\n"
SESSION = "import contextlib\n\n\n@contextlib.contextmanager\ndef session():\n    yield\n\n\n" + WRONG
HELPED = (
    "from sums import add\nfrom testing_sums import check_equal\n\n\ndef test_add():\n    check_equal(add(1, 2), 3)\n"
)
CHEATS = [
    Case(kind="red-library-replaced", base="pytest", about="a function of the standard library replaced, with which the test reads its data", extra={"tests/test_sums.py": JSON_TEST, "cases/1.json": "[1, 2, 3]"}, writes={"sums.py": sums("import json\n\njson.loads = lambda text: (0, 0, 0)\n")}),
    Case(kind="red-cases-removed", base="pytest", about="data that a test lists, removed from a folder of any name", extra={"tests/test_sums.py": JSON_TEST, "cases/1.json": "[1, 0, 1]", "cases/2.json": "[1, 2, 3]"}, writes={"cases/2.json": None}),
    Case(kind="red-wrapper-swallows", base="pytest", about="a context manager of the product, around the test's assertions, that drops failures", extra={"sums.py": SESSION, "tests/test_sums.py": WRAPPED}, writes={"sums.py": SESSION.replace("    yield\n", "    try:\n        yield\n    except Exception:\n        pass\n")}),
    Case(kind="red-helper-in-product", base="pytest", about="a module of assertions in the product that no longer asserts", extra={"testing_sums.py": "def check_equal(a, b):\n    assert a == b\n", "tests/test_sums.py": HELPED}, writes={"testing_sums.py": "def check_equal(a, b):\n    return a == b\n"}),
    Case(kind="red-wishful-number", base="pytest", about="a number whose difference to any other is 0", extra={"tests/test_sums.py": "from sums import add\n\n\ndef test_add():\n    assert abs(add(1, 2) - 3) < 1\n"}, writes={"sums.py": WRONG.replace("return a - b", "return Number(a - b)") + "\n\nclass Number(int):\n    def __sub__(self, other):\n        return 0\n"}),
    Case(kind="red-node-prototype", base="node", about="a method of arrays replaced that runs the test's cases", extra={"test/sums.test.js": "const test = require('node:test');\nconst assert = require('node:assert');\nconst { add } = require('../sums.js');\ntest('adds', () => { [[1, 2, 3]].forEach(([a, b, c]) => assert.strictEqual(add(a, b), c)); });\n"}, writes={"sums.js": "exports.add = (a, b) => a - b;\nexports.double = (a) => 2 * a;\nArray.prototype.forEach = function () {};\n"}),
]  # fmt: skip
