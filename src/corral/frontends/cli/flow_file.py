"""Read a flow file that a user names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from corral.config import paths
from corral.config.paths import MOST_TEXT
from corral.model import Request
from corral.model.errors import BadRequest


def flow_request(file: str, *, inputs: Sequence[str], **options: Any) -> Request:  # noqa: ANN401
    path, text = Path(file), _text(file, "begin one: corral flow new feature")
    given: dict[str, Any] = {}
    for each in inputs:
        name, equals, value = each.partition("=")
        if not equals:
            raise BadRequest(f"--input {each}: what is its value?", hint="--input NAME=VALUE")
        given[name] = value
    return Request(flow=text, flow_file=str(path.absolute()), inputs=given, **options)


def stub_text(file: str) -> str:
    """Return the text of a stub file."""
    return _text(file, "a line each: `plan: success`")


def _text(file: str, hint: str) -> str:
    try:
        return paths.read_file(Path(file), MOST_TEXT, file, hint).decode()
    except UnicodeError:
        raise BadRequest(f"{file} is not UTF-8 text", hint="save it as UTF-8") from None
