"""The page docs/reference/http-api.md: every operation of the API, from its own description."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from corral.frontends.web import bodies
from corral.frontends.web.api import machine
from corral.frontends.web.app import api

TEXT = """\
# The HTTP API

This page summarizes `GET /api/v1/openapi.json` of a running [server](../guides/server.md), which also has the
schema of every body. The tests check every operation against it. Errors are
`application/problem+json` with `detail`, `code` and `hint`.

{tables}
"""


def page() -> str:
    app = FastAPI()
    app.include_router(api())
    app.include_router(machine.open_router)
    groups: dict[str, list[str]] = {}
    for path, methods in bodies.describe(app)["paths"].items():
        for method, operation in methods.items():
            groups.setdefault(operation["tags"][0], []).append(_row(method, path, operation))
    tables = [
        f"## {name}\n\n| operation | purpose | takes | returns |\n|---|---|---|---|\n" + "\n".join(rows)
        for name, rows in groups.items()
    ]
    return TEXT.format(tables="\n\n".join(tables))


def _row(method: str, path: str, operation: dict[str, Any]) -> str:
    about = operation.get("description", operation["summary"]).replace("\n", " ").replace("|", "\\|")
    asked = [f"`{each['name']}`" for each in operation.get("parameters", ()) if each["in"] != "path"]
    takes = _kind(operation.get("requestBody", {}))
    answers: dict[str, dict[str, Any]] = operation["responses"]
    nothing: dict[str, Any] = {}
    good = next((found for status, found in answers.items() if status.startswith("2")), nothing)
    open_ = " (no token)" if operation.get("security") == [] else ""
    given = ", ".join([*filter(None, (takes,)), *asked])
    return f"| `{method.upper()} {path}` | {about}{open_} | {given or '-'} | {_kind(good) or '-'} |"


def _kind(part: dict[str, Any]) -> str:
    for kind, content in part.get("content", {}).items():
        schema = content.get("schema", {})
        many = "list of " if schema.get("type") == "array" else ""
        name = schema.get("items", schema).get("$ref", "").rpartition("/")[2]
        return f"{many}`{name}`" if name else f"`{kind}`" if kind != "application/json" else "JSON"
    return ""
