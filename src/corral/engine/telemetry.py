"""Traces and metrics of attempts and runs for an OpenTelemetry collector; off unless settings name one."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING

from corral.config import loader
from corral.model import OPEN, AttemptRecord, RunRecord
from corral.model.events import Listener, Noted, RunEvent, StatusChanged, tell
from corral.model.trace import COST, RUNS, SECONDS, TOKENS, Number, Span, Value
from corral.store.interface import Store

if TYPE_CHECKING:
    from corral.world.otlp import Collector

#: Who is behind an agent, by the words of OpenTelemetry; of others it is not known.
PROVIDERS: dict[str, str] = {
    "claude": "anthropic", "anthropic": "anthropic", "acp:claude": "anthropic", "auto-claude": "anthropic",
    "codex": "openai", "openai": "openai", "acp:codex": "openai",
    "gemini": "gcp.gemini", "google": "gcp.gemini", "acp:gemini": "gcp.gemini",
    "ollama": "ollama", "copilot": "github.copilot", "acp:copilot": "github.copilot", "qwen": "alibaba_cloud.qwen",
}  # fmt: skip


class RunTelemetry:
    """Listens to one run; passes on all events unchanged."""

    def __init__(self, store: Store, run: str, listen: Listener, collector: Collector) -> None:
        self._store, self._run, self._listen, self._collector = store, run, listen, collector
        self._ended: set[str] = set()  # attempts whose record is being written

    def hear(self, heard: RunEvent) -> None:
        tell(self._listen, heard)
        self._send_ended()
        event = heard.event
        if isinstance(event, StatusChanged) and heard.attempt and event.status not in OPEN:
            self._ended.add(heard.attempt)

    def _send_ended(self) -> None:
        if not self._ended:
            return
        for record in self._store.attempts(self._run):
            if record.attempt.id in self._ended and record.phase == "over":
                self._ended.discard(record.attempt.id)
                self._collector.add(*of_attempt(record))

    async def close(self) -> None:
        """Send the rest, and the run itself if it is over; a collector that is away holds nothing up for long."""
        self._send_ended()
        record = self._store.run(self._run)
        if record.status not in OPEN:
            child = self._store.lineage.of(self._run)
            self._collector.add(*of_run(record, child.parent if child else None))
        if not await asyncio.to_thread(self._collector.close):
            tell(
                self._listen, RunEvent(self._run, None, None, Noted("the collector of [telemetry] did not take it all"))
            )


def open_telemetry(store: Store, run: str, listen: Listener) -> RunTelemetry | None:
    """Return what listens to a run for a collector, if the user named one."""
    url = loader.telemetry().otlp
    if url is None:
        return None
    try:
        from corral.world.otlp import Collector  # noqa: PLC0415 -- an extra, and slow to load
    except ImportError:
        tell(listen, RunEvent(run, None, None, Noted("[telemetry] is not sent: pip install 'corral[otel]'")))
        return None
    return RunTelemetry(store, run, listen, Collector(url))


def of_run(record: RunRecord, parent: str | None) -> tuple[Span, list[Number]]:
    """Return a run that is over."""
    flow = record.plan.flow
    attributes: dict[str, Value] = {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.workflow.name": flow.name,
        "corral.run": record.id,
        "corral.strategy": flow.strategy,
        "corral.status": record.status,
        **({"corral.parent": parent} if parent else {}),
    }
    failed = record.status not in ("done", "stopped")
    if failed:
        attributes["error.type"] = record.status
    span = Span(
        name=f"invoke_workflow {flow.name}",
        trace=_id(record.id, 16),
        id=_id(record.id, 8),
        parent=None,
        start=record.created,
        end=max(record.ended or record.created, record.created),
        error=(record.reason or record.status) if failed else None,
        attributes=attributes,
    )
    return span, [Number(name=RUNS, value=1, attributes={"corral.status": record.status})]


def of_attempt(record: AttemptRecord) -> tuple[Span, list[Number]]:
    """Return an attempt that is over."""
    attempt = record.attempt
    common: dict[str, Value] = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": attempt.agent}
    if provider := PROVIDERS.get(attempt.agent):
        common["gen_ai.provider.name"] = provider
    if attempt.model:
        common["gen_ai.request.model"] = attempt.model
    if attempt.error:
        common["error.type"] = attempt.error.kind
    tokens = attempt.tokens
    whole = tokens.input + tokens.cache_read + tokens.cache_write
    attributes: dict[str, Value] = {
        **common,
        "gen_ai.usage.input_tokens": whole,
        "gen_ai.usage.output_tokens": tokens.output,
        "gen_ai.usage.cache_read.input_tokens": tokens.cache_read,
        "gen_ai.usage.cache_creation.input_tokens": tokens.cache_write,
        "corral.run": record.run,
        "corral.node": record.node,
        "corral.attempt": attempt.id,
        "corral.try": attempt.number,
        "corral.status": attempt.status,
        "corral.cost.source": attempt.cost.source,
    }
    if attempt.session:
        attributes["gen_ai.conversation.id"] = attempt.session
    if attempt.cost.usd is not None:
        attributes["corral.cost.usd"] = attempt.cost.usd
    if attempt.account:
        attributes["corral.account"] = attempt.account
    span = Span(
        name=f"invoke_agent {attempt.agent}",
        trace=_id(record.run, 16),
        id=_id(attempt.id, 8),
        parent=_id(record.run, 8),
        start=record.started,
        end=max(record.ended or record.started, record.started),
        error=attempt.error.message if attempt.error else None,
        attributes=attributes,
    )
    return span, _numbers(record, common, whole)


def _numbers(record: AttemptRecord, common: dict[str, Value], whole: int) -> list[Number]:
    attempt = record.attempt
    numbers = [Number(name=SECONDS, value=attempt.seconds, attributes=common)]
    for kind, count in (("input", whole), ("output", attempt.tokens.output)):
        if count:
            numbers.append(Number(name=TOKENS, value=count, attributes={**common, "gen_ai.token.type": kind}))
    if attempt.cost.usd:
        charged = {**common, "corral.cost.source": attempt.cost.source}
        numbers.append(Number(name=COST, value=attempt.cost.usd, attributes=charged))
    return numbers


def _id(name: str, size: int) -> int:
    """Make an id of a name; 0 is none."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:size]) or 1
