"""What the server logs: a line each, as words or as JSON with the ids of run and attempt."""

from __future__ import annotations

import logging
import sys

import msgspec

from corral.engine.views.run_document import moment
from corral.model.events import RunEvent, StatusChanged

attempts = logging.getLogger("corral.attempt")
FIELDS = ("run", "attempt", "method", "path", "status", "ms", "token", "webhook", "schedule", "trigger")


class JsonLines(logging.Formatter):
    """One JSON object on each line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": moment(record.created),
            "level": record.levelname.lower(),
            "from": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name in FIELDS if (value := getattr(record, name, None)) is not None}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


class LineFormatter(logging.Formatter):
    """A line as users read it."""

    def format(self, record: logging.LogRecord) -> str:
        run = getattr(record, "run", None)
        head = f"{moment(record.created)[11:19]} {record.levelname.lower():<7} "
        text = head + (f"run {run}: " if run else "") + record.getMessage()
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def set_up(*, as_json: bool, level: int) -> None:
    """Log to stderr; stdout is data."""
    out = logging.StreamHandler(sys.stderr)
    out.setFormatter(JsonLines() if as_json else LineFormatter())
    root = logging.getLogger()
    root.handlers[:] = [out]
    root.setLevel(logging.WARNING)
    logging.getLogger("corral").setLevel(level)


def log_attempt_event(what: RunEvent) -> None:
    """Log how attempts begin and end."""
    if isinstance(what.event, StatusChanged) and what.attempt:
        reason = f" ({what.event.reason})" if what.event.reason else ""
        attempts.info("%s%s", what.event.status, reason, extra={"run": what.run, "attempt": what.attempt})
