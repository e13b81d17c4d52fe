"""Bodies in and out as msgspec structs, and their place in the OpenAPI description."""

from __future__ import annotations

import re
from typing import Any, TypeVar, cast

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.requests import Request
from starlette.responses import Response

from corral.frontends.web.problems import Problem, RefusedRequest
from corral.model import ENCODER
from corral.version import __version__

PREFIX = "/api/v1"
NAMES: dict[str, str] = {
    "POST /runs": "submit_run",
    "GET /runs": "list_runs",
    "GET /runs/{run}": "show_run",
    "GET /runs/{run}/log": "show_run_log",
    "GET /runs/{run}/events": "stream_run_events",
    "GET /events": "stream_events",
    "POST /runs/{run}/stop": "stop_run",
    "POST /runs/{run}/pause": "pause_run",
    "POST /runs/{run}/resume": "resume_run",
    "POST /runs/{run}/retry": "retry_run",
    "POST /runs/{run}/rename": "rename_run",
    "POST /runs/{run}/steer": "steer_run",
    "POST /runs/{run}/condense": "condense_run",
    "GET /runs/{run}/diff": "show_run_diff",
    "GET /runs/{run}/diff.patch": "show_run_patch",
    "GET /runs/{run}/hunks": "list_run_hunks",
    "GET /runs/{run}/compare": "compare_attempts",
    "GET /runs/{run}/evidence": "show_evidence",
    "POST /runs/{run}/choose": "choose_attempt",
    "GET /runs/{run}/receipt": "show_receipt",
    "POST /runs/{run}/merge/preview": "preview_merge",
    "POST /runs/{run}/merge": "merge_run",
    "DELETE /runs/{run}/merge": "abort_merge",
    "POST /runs/{run}/undo": "undo_merge",
    "GET /runs/{run}/conflicts": "list_conflicts",
    "POST /runs/{run}/conflicts": "resolve_conflicts",
    "POST /flows/check": "check_flow",
    "GET /inbox": "list_inbox",
    "POST /inbox/{number}": "answer_inbox_entry",
    "GET /queue": "show_queue",
    "PATCH /queue": "change_queue",
    "PATCH /queue/{run}": "move_queued_run",
    "GET /budget": "show_budget",
    "PUT /budget": "set_budget",
    "DELETE /budget": "reset_budget",
    "GET /cost": "show_cost",
    "GET /cost/overview": "show_cost_overview",
    "GET /quota": "list_quotas",
    "POST /halt": "halt",
    "DELETE /halt": "end_halt",
    "GET /agents": "list_agents",
    "GET /machines": "list_machines",
    "GET /doctor": "show_doctor",
    "GET /health": "show_health",
    "GET /metrics": "show_metrics",
    "GET /schedules": "list_schedules",
    "PUT /schedules/{name}": "set_schedule",
    "DELETE /schedules/{name}": "remove_schedule",
    "GET /triggers": "list_triggers",
    "PUT /triggers/{name}": "set_trigger",
    "DELETE /triggers/{name}": "remove_trigger",
    "POST /triggers/{name}": "call_trigger",
    "GET /webhooks": "list_webhooks",
    "POST /webhooks": "create_webhook",
    "DELETE /webhooks/{webhook}": "remove_webhook",
    "GET /webhooks/{webhook}/deliveries": "list_deliveries",
    "POST /deliveries/{delivery}/again": "repeat_delivery",
    "GET /tokens": "list_tokens",
    "POST /tokens": "create_token",
    "GET /tokens/me": "show_own_token",
    "DELETE /tokens/{token}": "revoke_token",
    "GET /health/live": "show_liveness",
    "GET /health/ready": "show_readiness",
}


def name_operations(description: dict[str, Any]) -> None:
    """Give every operation of a description its name."""
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            known = NAMES.get(f"{method.upper()} {path.removeprefix(PREFIX)}")
            operation["operationId"] = known or _own_name(operation["operationId"], path, method)


def _own_name(made: str, path: str, method: str) -> str:
    """Return the name of the function that answers: what the framework made of it without path and method."""
    return made.removesuffix(f"_{method}").removesuffix(re.sub(r"\W", "_", path))


def without_tuples(schema: Any) -> Any:  # noqa: ANN401 -- any part of a description
    """Return a schema in which lists of a fixed length are plain lists: generators do not know `prefixItems`."""
    if isinstance(schema, list | tuple):
        return [without_tuples(each) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    found = {key: without_tuples(value) for key, value in cast("dict[str, Any]", schema).items()}
    if "prefixItems" in found:
        kinds: list[Any] = found.pop("prefixItems")
        unique = [kind for place, kind in enumerate(kinds) if kind not in kinds[:place]]
        found["items"] = unique[0] if len(unique) == 1 else {"anyOf": unique}
    return found


T = TypeVar("T")
MOST_LEVELS = 100
BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]')  #: or a text, which may hold any
REF = "#/components/schemas/{name}"
_kinds: dict[str, Any] = {"Problem": Problem}

_problem = {"application/problem+json": {"schema": {"$ref": REF.format(name="Problem")}}}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"description": words, "content": _problem}
    for status, words in (
        (400, "A bad request."), (401, "No token, or an unknown one."), (403, "The scope does not suffice."),
        (404, "Not found."), (409, "It goes against what is there."), (413, "Too large."), (415, "Not JSON."),
        (422, "Not understood."), (429, "Too many requests."),
    )
}  # fmt: skip

OPEN: dict[str, Any] = {"security": []}  #: for `openapi_extra=` of what needs no token


def gives(kind: Any, status: int = 200, words: str = "So it is.") -> dict[int | str, dict[str, Any]]:  # noqa: ANN401
    """Describe what a route answers with; for `responses=`."""
    content = {"application/json": {"schema": _schema(kind)}, **(_problem if status >= 400 else {})}
    return {status: {"description": words, "content": content}}


def takes(kind: Any, *, required: bool = True) -> dict[str, Any]:  # noqa: ANN401
    """Describe the body that a route takes; for `openapi_extra=`."""
    return {"requestBody": {"required": required, "content": {"application/json": {"schema": _schema(kind)}}}}


def _schema(kind: Any) -> dict[str, Any]:  # noqa: ANN401
    (schema,), components = msgspec.json.schema_components([kind], ref_template=REF)
    _kinds.update(components)
    return schema


async def body(request: Request, kind: type[T], *, required: bool = True) -> T:
    """Read a JSON body; what does not fit is refused with the place where it does not."""
    content = request.headers.get("content-type", "")
    raw = await request.body()
    if required and not raw.strip():
        raise RefusedRequest(422, "invalid", "the body is missing", hint="see /api/v1/openapi.json")
    if raw and content.partition(";")[0].strip().lower() != "application/json":
        raise RefusedRequest(415, "not_json", f"`{content}` is not understood", hint="Content-Type: application/json")
    if _is_deep(raw):
        raise RefusedRequest(
            422, "invalid", f"the body is nested deeper than {MOST_LEVELS} levels", hint="write it flatter"
        )
    try:
        return msgspec.json.decode(raw or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RefusedRequest(422, "invalid", str(error), hint="see /api/v1/openapi.json") from error


def _is_deep(raw: bytes) -> bool:
    """Tell whether JSON has too many levels to be read, stored and read again anywhere."""
    if raw.count(b"[") + raw.count(b"{") <= MOST_LEVELS:
        return False
    level = 0
    for found in BRACKET.finditer(raw):
        level += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(found.group(), 0)
        if level > MOST_LEVELS:
            return True
    return False


def answer(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(ENCODER.encode(value), status, headers, "application/json")


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI description, with the schemas of all bodies."""
    if app.openapi_schema is None:
        found = get_openapi(
            title="corral", version=__version__, routes=app.routes,
            description="Run any coding agent on any task: isolated, budgeted, proven, merged.",
        )  # fmt: skip
        parts = found.setdefault("components", {})
        schemas = parts.setdefault("schemas", {})
        _schema(Problem)
        schemas.update({name: schema for name, schema in _kinds.items() if isinstance(schema, dict)})
        parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"token": []}]
        name_operations(found)
        app.openapi_schema = without_tuples(found)
    return app.openapi_schema or {}
