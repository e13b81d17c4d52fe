"""The names of the API's operations, as clients that are generated from its description call them."""

from __future__ import annotations

from typing import Any, cast

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
            operation["operationId"] = known or operation["operationId"]


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
