"""Send spans and numbers to an OpenTelemetry collector, by OTLP over HTTP: only where settings name one."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import NonRecordingSpan, SpanContext, Status, StatusCode, TraceFlags

from corral.model.trace import COST, RUNS, SECONDS, TOKENS, Number, Span
from corral.version import __version__

NANO = 1_000_000_000
FLUSH_SECONDS = 10
#: Names by the GenAI conventions of OpenTelemetry.
TOKEN_STEPS = tuple(float(4**power) for power in range(14))
SECOND_STEPS = tuple(0.01 * 2**power for power in range(0, 21, 1))


class _Ids(IdGenerator):
    """Gives the ids that come of our own names."""

    trace_id, span_id = 1, 1

    def generate_trace_id(self) -> int:
        return self.trace_id

    def generate_span_id(self) -> int:
        return self.span_id


class Collector:
    """One collector, for as long as this process drives a run."""

    def __init__(self, url: str) -> None:
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # a collector that is down is not our trouble
        base, resource = url.rstrip("/"), Resource.create({"service.name": "corral", "service.version": __version__})
        self._ids = _Ids()
        self._spans = TracerProvider(resource=resource, id_generator=self._ids, shutdown_on_exit=False)
        self._spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{base}/v1/traces", timeout=5)))
        reader = PeriodicExportingMetricReader(OTLPMetricExporter(endpoint=f"{base}/v1/metrics", timeout=5))
        views = [
            View(instrument_name=TOKENS, aggregation=ExplicitBucketHistogramAggregation(TOKEN_STEPS)),
            View(instrument_name=SECONDS, aggregation=ExplicitBucketHistogramAggregation(SECOND_STEPS)),
        ]
        self._meters = MeterProvider([reader], resource=resource, views=views, shutdown_on_exit=False)
        meter = self._meters.get_meter("corral", __version__)
        self._histograms = {
            TOKENS: meter.create_histogram(TOKENS, unit="{token}", description="Tokens of attempts"),
            SECONDS: meter.create_histogram(SECONDS, unit="s", description="How long attempts took"),
        }
        self._counters = {
            COST: meter.create_counter(COST, unit="USD", description="What attempts cost, where it is known"),
            RUNS: meter.create_counter(RUNS, unit="{run}", description="Runs that ended"),
        }
        self._tracer = self._spans.get_tracer("corral", __version__)

    def add(self, span: Span, numbers: Sequence[Number]) -> None:
        """Take one in; it is sent in the background."""
        self._ids.trace_id, self._ids.span_id = span.trace, span.id
        context = trace.set_span_in_context(trace.INVALID_SPAN)
        if span.parent is not None:
            above = SpanContext(span.trace, span.parent, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
            context = trace.set_span_in_context(NonRecordingSpan(above))
        made = self._tracer.start_span(
            span.name, context=context, start_time=int(span.start * NANO), attributes=dict(span.attributes)
        )
        if span.error:
            made.set_status(Status(StatusCode.ERROR, span.error))
        made.end(int(span.end * NANO))
        for number in numbers:
            attributes = dict(number.attributes)
            if number.name in self._histograms:
                self._histograms[number.name].record(number.value, attributes)
            else:
                self._counters[number.name].add(number.value, attributes)

    def close(self) -> bool:
        """Send what is left; tell whether it arrived."""
        sent = self._spans.force_flush(FLUSH_SECONDS * 1000)
        sent = self._meters.force_flush(FLUSH_SECONDS * 1000) and sent
        self._spans.shutdown()
        self._meters.shutdown()
        return sent
