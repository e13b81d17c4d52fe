"""Runs and attempts as OpenTelemetry names them: spans and numbers, `gen_ai.*` where it has a word. No content."""

from __future__ import annotations

import hashlib

from corral.model import AttemptRecord, RunRecord
from corral.model.trace import COST, RUNS, SECONDS, TOKENS, Number, Span, Value

#: Who is behind an agent, by the words of OpenTelemetry; of others it is not known.
PROVIDERS: dict[str, str] = {
    "claude": "anthropic", "anthropic": "anthropic", "acp:claude": "anthropic", "auto-claude": "anthropic",
    "codex": "openai", "openai": "openai", "acp:codex": "openai",
    "gemini": "gcp.gemini", "google": "gcp.gemini", "acp:gemini": "gcp.gemini",
    "ollama": "ollama", "copilot": "github.copilot", "acp:copilot": "github.copilot", "qwen": "alibaba_cloud.qwen",
}  # fmt: skip


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
