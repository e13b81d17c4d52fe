"""Spans and numbers for a collector of traces and metrics. Pure data."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

Value = str | int | float

TOKENS = "gen_ai.client.token.usage"
SECONDS = "gen_ai.client.operation.duration"
COST = "corral.cost"
RUNS = "corral.runs"


class Span(Struct, frozen=True, kw_only=True):
    """Something that took time; ids come of names, so that a run that is resumed stays one trace."""

    name: str
    trace: int
    id: int
    parent: int | None
    start: float
    end: float
    error: str | None
    attributes: Mapping[str, Value]


class Number(Struct, frozen=True, kw_only=True):
    """One measurement."""

    name: str
    value: float
    attributes: Mapping[str, Value] = field(default_factory=dict[str, Value])
