"""The sums of every test runner, as it prints them."""

import pytest

from corral.boxed.loop.tools import commands
from corral.rules.checks import results


@pytest.mark.parametrize(
    ("runner", "text", "sums"),
    [
        ("pytest", "..F\n=== 1 failed, 2 passed in 0.12s ===", (2, 1, 0)),
        ("pytest", "3 passed, 1 skipped, 2 warnings in 1.50s", (3, 0, 1)),
        ("pytest", "1 passed, 2 errors in 0.1s\n", (1, 2, 0)),
        ("pytest", "12 passed in 62.01s (0:01:02)", (12, 0, 0)),
        ("pytest", "no tests ran in 0.01s", (0, 0, 0)),
        ("unittest", "Ran 5 tests in 0.001s\n\nFAILED (failures=1, errors=1, skipped=1)", (2, 2, 1)),
        ("unittest", "Ran 1 test in 0.000s\n\nOK", (1, 0, 0)),
        ("cargo", "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\ntest result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s", (4, 2, 1)),
        ("go", '{"Action":"pass","Test":"A"}\n{"Action":"fail","Test":"B"}\nnoise\n[]\n{"Action":"fail"}', (1, 1, 0)),
        ("npm", "Tests:       1 failed, 1 skipped, 2 passed, 4 total", (2, 1, 1)),
        ("npm", "      Tests  1 failed | 2 passed (3)", (2, 1, 0)),
        ("npm", "  3 passing (5ms)\n  1 failing\n", (3, 1, 0)),
        ("npm", "# tests 3\n# pass 2\n# fail 1\n# skipped 0", (2, 1, 0)),
        ("npm", "\u2139 tests 3\n\u2139 pass 2\n\u2139 fail 1\n", (2, 1, 0)),
    ],
)  # fmt: skip
def test_sums(runner: str, text: str, sums: tuple[int, int, int]) -> None:
    assert commands.READERS[runner](text) == sums
    found = results.tally(text)  # what the engine reads of the same output
    if found:
        assert (found.passed or 0, found.failed, found.skipped or 0) == sums


@pytest.mark.parametrize("runner", list(commands.READERS))
def test_nothing_is_nothing(runner: str) -> None:
    assert commands.READERS[runner]("") == (0, 0, 0)
