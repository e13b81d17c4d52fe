"""Errors as problem+json (RFC 9457), with a hint; every error of the API has this one form."""

from __future__ import annotations

import msgspec
from msgspec import Struct
from starlette.responses import Response

from corral.model.errors import (
    BadFlow,
    BadRequest,
    ChecksFailed,
    Conflicting,
    CorralError,
    NotFound,
    Stopped,
    StoreTrouble,
    Untrusted,
)

#: The first that fits counts.
STATUSES: tuple[tuple[type[CorralError], int, str], ...] = (
    (NotFound, 404, "not_found"),
    (Conflicting, 409, "conflict"),
    (Untrusted, 403, "untrusted"),
    (BadFlow, 422, "bad_flow"),
    (BadRequest, 400, "bad_request"),
    (ChecksFailed, 412, "checks_failed"),
    (Stopped, 409, "stopped"),
    (StoreTrouble, 503, "store"),
)
TITLES = {
    400: "Bad request", 401: "Who are you?", 403: "Not allowed", 404: "Not found", 405: "Method not allowed",
    408: "Too slow", 409: "Conflict", 412: "Checks fail", 413: "Too large", 415: "Wrong kind of content",
    421: "Misdirected request", 422: "Not understood", 429: "Too many requests", 431: "Too large",
    500: "Our fault", 503: "Not available",
}  # fmt: skip


class Problem(Struct, frozen=True, kw_only=True):
    """What went wrong, for users and for programs."""

    status: int
    title: str
    detail: str
    code: str
    hint: str = ""
    type: str = "about:blank"


class RefusedRequest(CorralError):
    """A request that the front end itself refuses."""

    def __init__(self, status: int, code: str, detail: str, *, hint: str = "", retry_seconds: int = 0) -> None:
        super().__init__(detail, hint=hint)
        self.status, self.code, self.retry_seconds = status, code, retry_seconds


def problem(status: int, code: str, detail: str, hint: str = "", headers: dict[str, str] | None = None) -> Response:
    """Return an error as every client of the API gets it."""
    body = Problem(status=status, title=TITLES.get(status, "Error"), detail=detail, code=code, hint=hint)
    return Response(msgspec.json.encode(body), status, headers, "application/problem+json")


def of_error(error: CorralError) -> Response:
    if isinstance(error, RefusedRequest):
        headers = {"Retry-After": str(error.retry_seconds)} if error.retry_seconds else {}
        if error.status == 401:
            headers["WWW-Authenticate"] = 'Bearer realm="corral"'
        return problem(error.status, error.code, str(error), error.hint, headers)
    for kind, status, code in STATUSES:
        if isinstance(error, kind):
            return problem(status, code, str(error), error.hint)
    return problem(500, "trouble", str(error), error.hint)
