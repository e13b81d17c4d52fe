"""Product files that tests use as their own are put back for one more run; the work is never refused for them."""

import pytest

from tests.rules.checks.steering.trees import Tree, harness, how

PYTEST = "pytest -q"
LINT = "import json, pathlib, sys\nc = json.loads(pathlib.Path('.lintrc.json').read_text())\nsys.exit(bool(c))\n"
CASES = "from pathlib import Path\ndef test_a():\n    for p in Path('cases').glob('*.json'):\n        assert p\n"
EQUAL = "def check_equal(a, b):\n    assert a == b\n"
FIXTURE = "import pytest\n@pytest.fixture\ndef add():\n    return 1\n"
SUMS = "def add(a, b):\n    return a - b\n"
TESTING = "from sums import add\nfrom sums.testing import check_equal\n"
COMPARE = "from sums import add\nfrom sums.compare import same\n"
GO_TEST = 'package sums\nimport (\n\t"testing"\n\t"example.org/sums/check"\n)\n'
USED: list[tuple[Tree, str, str]] = [
    ({"cases/2.json": "1", "test_a.py": CASES}, PYTEST, "cases/2.json"),
    ({"data/in.csv": "1", "test_a.py": "open('data/in.csv')\n"}, PYTEST, "data/in.csv"),
    ({"web/a/b.html": "1", "test_a.py": "Path('web').rglob('*.html')\n"}, PYTEST, "web/a/b.html"),
    ({".lintrc.json": "1", "tools/lint.py": LINT}, "python3 tools/lint.py", ".lintrc.json"),
    ({"sums/__init__.py": SUMS, "sums/testing.py": EQUAL, "tests/test_a.py": TESTING}, PYTEST, "sums/testing.py"),
    ({"sums/plugin.py": FIXTURE, "conftest.py": "pytest_plugins = ['sums.plugin']\n"}, PYTEST, "sums/plugin.py"),
    ({"sums/__init__.py": SUMS, "sums/compare.py": "x", "tests/test_a.py": COMPARE}, PYTEST, "sums/compare.py"),
    ({"sums.go": "x", "check/check.go": "x", "sums_test.go": GO_TEST}, "go test ./...", "check/check.go"),
]
UNUSED: list[tuple[Tree, str, str]] = [
    ({"data/in.csv": "1", "test_a.py": "import sums\n"}, PYTEST, "data/in.csv"),
    ({"src/app/page.html": "1", "test_a.py": "sys.path.insert(0, 'src')\n"}, PYTEST, "src/app/page.html"),
    ({"app.py": "open('config.json')", "config.json": "1"}, "python3 app.py | grep ok", "config.json"),
    ({"gen.py": "open('ops.json')", "Makefile": "test:\n\tpython3 gen.py\n", "ops.json": "1"}, "make test", "ops.json"),
    ({"sums.py": SUMS, "test_a.py": "from sums import add\n"}, PYTEST, "sums.py"),
    ({"compare.py": "x", "test_compare.py": "from compare import same\n"}, PYTEST, "compare.py"),
    ({"check/check.go": "x", "check/check_test.go": "package check\n"}, "go test ./...", "check/check.go"),
    ({"checks.py": "x", "sums.py": SUMS, "test_a.py": "from sums import add\n"}, PYTEST, "checks.py"),
]


@pytest.mark.parametrize(("base", "check", "path"), USED, ids=[path for _, _, path in USED])
def test_what_tests_use_too_is_put_back_for_a_look(base: Tree, check: str, path: str) -> None:
    changed = {**base, path: "other"}
    deleted = {name: text for name, text in base.items() if name != path}
    assert how(harness(base, changed, check)) == {path: "allowed"}
    if not path.endswith((".py", ".go")):
        assert how(harness(base, deleted, check)) == {path: "allowed"}


@pytest.mark.parametrize(("base", "check", "path"), UNUSED, ids=[path for _, _, path in UNUSED])
def test_what_tests_do_not_use_is_product(base: Tree, check: str, path: str) -> None:
    assert how(harness(base, {**base, path: "other"}, check)) == {}


def test_new_data_beside_what_tests_read_is_product() -> None:
    base = {"cases/1.json": "1", "test_a.py": CASES}
    assert how(harness(base, {**base, "cases/2.json": "2"}, PYTEST)) == {}
