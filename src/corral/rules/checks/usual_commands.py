"""The commands that usually check a repository, told from the files in it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

#: What is read of a repository to tell its checks; other names count by being there.
READ = ("Makefile", "makefile", "GNUmakefile", "package.json", "pyproject.toml", "setup.cfg", "tox.ini")
_BY_FILE = (
    ("Cargo.toml", "cargo test"),
    ("go.mod", "go test ./..."),
    ("mix.exs", "mix test"),
    ("pom.xml", "mvn -q test"),
    ("gradlew", "./gradlew test"),
)
_TEST_TARGET = re.compile(r"^test\s*:(?!=)", re.MULTILINE)
_PYTEST = re.compile(r"^\[(tool\.pytest\b.*|tool:pytest|pytest)\]", re.MULTILINE)


def usual_checks(files: Mapping[str, str]) -> tuple[str, ...]:
    """Return the checks of a repository with these files at its top; folders end with a slash, their text is empty."""
    if any(_TEST_TARGET.search(files.get(name, "")) for name in READ[:3]):
        return ("make test",)
    found = ["pytest -q"] if _has_pytest(files) else []
    found += ["npm test"] if _has_npm_test(files.get("package.json", "")) else []
    return (*found, *(command for name, command in _BY_FILE if name in files))


def _has_pytest(files: Mapping[str, str]) -> bool:
    if "pytest.ini" in files or "conftest.py" in files:
        return True
    if any(_PYTEST.search(files.get(name, "")) for name in READ[4:]):
        return True
    python = "pyproject.toml" in files or any(name.endswith(".py") for name in files)
    return python and ("tests/" in files or any(re.fullmatch(r"test_\w+\.py", name) for name in files))


def _has_npm_test(text: str) -> bool:
    try:
        package: Any = json.loads(text) if text else {}
    except ValueError:
        return False
    scripts: Any = cast("dict[str, Any]", package).get("scripts") if isinstance(package, dict) else None
    command: Any = cast("dict[str, Any]", scripts).get("test") if isinstance(scripts, dict) else None
    return isinstance(command, str) and "no test specified" not in command
