"""An added file that is named like a test and that the product imports is product."""

import pytest

from corral.model.flow import Task
from corral.rules.checks.steering import harness
from corral.rules.checks.steering.work import Contents, PathChange


def steered(files: dict[str, str]) -> set[str]:
    contents: Contents = {("delivered", path): text.encode() for path, text in files.items()}
    changes = [PathChange(path=path, kind="added") for path in files]
    found = harness(changes, ["pytest -q"], Task(prompt="t"), ["tests/test_a.py"], contents)
    return {each.path for each in found.steered}


@pytest.mark.parametrize(
    ("path", "source", "text"),
    [
        ("ab_test.py", "app.py", "from ab_test import variant\n"),
        ("ab_test.py", "app.py", "import os, ab_test\n"),
        ("shop/ab_test.py", "shop/cart.py", "from .ab_test import variant\n"),
        ("shop/ab_test.py", "shop/cart.py", "from . import ab_test\n"),
        ("shop/ab_test.py", "shop/cart.py", "from shop import prices, ab_test\n"),
        ("src/shop/ab_test.py", "src/shop/cart.py", "from shop.ab_test import variant\n"),
        ("spec/schema.py", "app.py", "from spec.schema import SIGN\n"),
        ("spec/__init__.py", "app.py", "from spec.schema import SIGN\n"),
        ("lib/ab.test.js", "lib/app.js", "const { variant } = require('./ab.test.js');\n"),
        ("lib/spec/index.ts", "lib/app.ts", "import { schema } from './spec';\n"),
    ],
)
def test_what_the_product_imports_is_product(path: str, source: str, text: str) -> None:
    assert steered({path: "", source: text}) == set()


@pytest.mark.parametrize("text", ["", "# from ab_test import variant\n", "import ab_tests\n", "x = 'import ab_test'\n"])
def test_a_test_that_nobody_imports_is_a_new_test(text: str) -> None:
    assert steered({"ab_test.py": "", "app.py": text}) == {"ab_test.py"}


def test_a_conftest_steers_even_where_the_product_imports_it() -> None:
    assert steered({"conftest.py": "", "app.py": "import conftest\n"}) == {"conftest.py"}
