"""Instruments of OpenTelemetry: read by the SDK, and sent to a receiver of OTLP over HTTP. Each in a process of its own, whose meter provider is global."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")

BEGIN = """
import json, sys
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, PeriodicExportingMetricReader
from penstock.observe.exporters.opening import open_exporter
from support.snapshots import a_snapshot
"""
READ = """
def values():
    found = {}
    data = reader.get_metrics_data()
    for one in [] if data is None else data.resource_metrics[0].scope_metrics[0].metrics:
        for point in one.data.data_points:
            found[f"{one.name} {one.unit} {json.dumps(dict(point.attributes), sort_keys=True)}"] = point.value
    return found
"""


def run(code: str, **environment: str) -> Any:
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-W", "error", "-c", BEGIN + code], capture_output=True, text=True, env=os.environ | paths | environment, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_the_sdk_reads_them() -> None:
    code = (
        READ
        + """
first = open_exporter("otel")  # before the provider is there, as a loader may be made before it
reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider([reader]))
first.write(a_snapshot(batches=4), [])
one = values()
second = open_exporter("otel")
second.write(a_snapshot(batches=7), [])
two = values()
second.close()
closed = values()
third = open_exporter("otel")
third.write(a_snapshot(batches=1, elapsed_s=0.1), [])
print(json.dumps([one, two, closed, values()]))
"""
    )
    one, two, closed, three = run(code)
    first, second = (f'penstock.batches 1 {{"loader": {number}, "rank": 3}}' for number in range(2))
    assert one[first] == 4
    assert second not in one
    assert (two[first], two[second]) == (4, 7)
    assert one['penstock.stage_busy_ratio 1 {"kind": "cpu", "loader": 0, "rank": 3, "stage": "transform 2"}'] == 0.5
    assert one['penstock.waited_seconds s {"loader": 0, "rank": 3}'] == 0.125
    assert closed[second] == 7  # what was counted is sent once more, at the end of a run
    assert not any('"loader": 1' in name and "ratio" in name for name in closed)
    assert three[second] == 8  # and never goes back


class Receiver(BaseHTTPRequestHandler):
    received: list[bytes]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
        self.server.received.append((self.path, body))  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.mark.slow
def test_a_receiver_of_otlp_gets_them() -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    server.received = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        code = """
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
provider = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter(), export_interval_millis=3_600_000)])
metrics.set_meter_provider(provider)
exporter = open_exporter("otel")
exporter.write(a_snapshot(batches=4), [])
exporter.close()
provider.shutdown()
print("[]")
"""
        run(code, OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{server.server_address[1]}")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    ((path, body),) = server.received  # type: ignore[attr-defined]
    assert path == "/v1/metrics"
    request = ExportMetricsServiceRequest.FromString(body)
    (scope,) = request.resource_metrics[0].scope_metrics
    assert scope.scope.name == "penstock"
    sums = {one.name: one.sum for one in scope.metrics if one.WhichOneof("data") == "sum"}
    assert sums["penstock.batches"].is_monotonic
    assert [point.as_double or point.as_int for point in sums["penstock.batches"].data_points] == [4]
    assert b"tfrecord" not in body


def test_it_takes_no_target() -> None:
    from penstock.core.errors import PlanError
    from penstock.observe.exporters.opening import open_exporter

    with pytest.raises(PlanError, match="OTEL_EXPORTER_OTLP_ENDPOINT"):
        open_exporter("otel:http://host:4318")
