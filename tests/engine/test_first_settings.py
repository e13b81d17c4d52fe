"""Which checks a repository suggests by the files in it."""

import pytest

from corral.engine.first_settings import usual_checks


@pytest.mark.parametrize(
    ("files", "checks"),
    [
        ({}, ()),
        ({"README.md": ""}, ()),
        ({"Makefile": "test: build\n\tgo test\n", "go.mod": ""}, ("make test",)),
        ({"Makefile": "tests = 1\ntest := x\n", "go.mod": ""}, ("go test ./...",)),
        ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, ("pytest -q",)),
        ({"pyproject.toml": "[project]\n"}, ()),
        ({"pyproject.toml": "[project]\n", "tests/": ""}, ("pytest -q",)),
        ({"test_total.py": "", "total.py": ""}, ("pytest -q",)),
        ({"setup.cfg": "[tool:pytest]\n"}, ("pytest -q",)),
        ({"package.json": '{"scripts": {"test": "node --test"}}'}, ("npm test",)),
        ({"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'}, ()),
        ({"package.json": "[1]"}, ()),
        ({"package.json": "{"}, ()),
        ({"package.json": '{"scripts": {"test": "jest"}}', "Cargo.toml": ""}, ("npm test", "cargo test")),
    ],
)
def test_files_tell_the_checks(files: dict[str, str], checks: tuple[str, ...]) -> None:
    assert usual_checks(files) == checks
