"""Runs and attempts as spans and numbers at a collector of OpenTelemetry, by OTLP over HTTP."""

import gzip
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.rig.command import Corral

SCRIPT = """
[[step]]
write = "x.txt"
text = "x"
[[step]]
spend = 0.25
input = 1000
output = 200
"""


class Collector(BaseHTTPRequestHandler):
    """Takes what is sent, as a collector does, and keeps it."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.got.append((self.path, body))  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Stay silent."""


@pytest.fixture
def collector() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        server.got = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def spans(server: Any) -> list[Any]:
    found = [ExportTraceServiceRequest.FromString(body) for path, body in server.got if path == "/v1/traces"]
    return [span for each in found for of in each.resource_spans for scope in of.scope_spans for span in scope.spans]


def metrics(server: Any) -> dict[str, Any]:
    found = [ExportMetricsServiceRequest.FromString(body) for path, body in server.got if path == "/v1/metrics"]
    return {
        one.name: one
        for each in found
        for of in each.resource_metrics
        for scope in of.scope_metrics
        for one in scope.metrics
    }


def told(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


def test_a_run_and_its_attempts_arrive_as_one_trace(corral: Corral, collector: ThreadingHTTPServer) -> None:
    repo = corral.repo()
    corral.config(f'[telemetry]\notlp = "http://127.0.0.1:{collector.server_address[1]}"')
    outcome = corral.run(
        repo, "the secret task", "--agent", corral.script(SCRIPT), "--check", "test -e y.txt", "--retries", "1"
    )
    assert outcome.code == 1, outcome
    found = {span.name: [each for each in spans(collector) if each.name == span.name] for span in spans(collector)}
    (run,), attempts = found["invoke_workflow task"], found["invoke_agent scripted"]
    assert len(attempts) == len(outcome.json["nodes"][0]["attempts"]) == 2
    assert {span.trace_id for span in (run, *attempts)} == {run.trace_id}
    assert {span.parent_span_id for span in attempts} == {run.span_id}
    assert all(run.start_time_unix_nano <= span.start_time_unix_nano < span.end_time_unix_nano for span in attempts)
    first = told(attempts[0].attributes)
    assert first["gen_ai.operation.name"] == "invoke_agent"
    assert first["gen_ai.agent.name"] == "scripted"
    assert (first["gen_ai.usage.input_tokens"], first["gen_ai.usage.output_tokens"]) == (1000, 200)
    assert (first["corral.cost.usd"], first["error.type"]) == (0.25, "check_failed")
    assert told(run.attributes)["corral.run"] == outcome.json["run"]
    numbers = metrics(collector)
    points = numbers["gen_ai.client.token.usage"].histogram.data_points
    assert {told(point.attributes)["gen_ai.token.type"]: point.sum for point in points} == {
        "input": 2000,
        "output": 400,
    }
    assert numbers["corral.cost"].sum.data_points[0].as_double == pytest.approx(0.5)
    assert numbers["gen_ai.client.operation.duration"].histogram.data_points[0].count == 2
    assert not any(b"the secret task" in body for _, body in collector.got)  # type: ignore[attr-defined]


def test_a_collector_that_is_away_holds_nothing_up(corral: Corral, collector: ThreadingHTTPServer) -> None:
    repo = corral.repo()
    corral.config('[telemetry]\notlp = "http://127.0.0.1:9"')
    outcome = corral.run(repo, "t", "--agent", corral.script(SCRIPT))
    assert outcome.code == 0, outcome
    corral.config_file.write_text("")
    assert corral.run(repo, "t", "--agent", corral.script(SCRIPT)).code == 0
    assert collector.got == []  # type: ignore[attr-defined] -- nothing is told unless settings say to whom
    theirs = corral.repo("theirs", {"corral.toml": '[telemetry]\notlp = "http://127.0.0.1:9"\n'})
    assert "is yours to say" in corral.run(theirs, "t", "--agent", corral.script(SCRIPT)).err


def test_it_is_loaded_only_where_it_is_used() -> None:
    words = "import sys, corral.engine.engine, corral.engine.telemetry, corral.engine.run_loop; print('opentelemetry' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
