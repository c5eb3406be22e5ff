"""Debian's Prometheus scrapes two processes that train, and has their figures, by rank."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from servers.free_port import free_port
from support.boards import board_queries

EXAMPLES = Path(__file__).parents[3] / "examples" / "observe"
RULES, BOARD = EXAMPLES / "prometheus_rules.yml", EXAMPLES / "grafana_dashboard.json"
TRAINS = """
import sys, time
import numpy as np
import penstock as ps
data = ps.from_arrays({"x": np.arange(4096)}).shuffle(seed=0).repeat(1_000_000).batch(16)
with ps.Loader(data, rank=int(sys.argv[1]), world_size=2, observe=[f"prometheus:{sys.argv[2]}"]) as loader:
    print("serves", flush=True)
    for _ in loader:
        time.sleep(0.005)
"""


@pytest.fixture
def trained() -> Iterator[list[int]]:
    ports = [free_port(), free_port()]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with ExitStack() as stack:
        for rank, port in enumerate(ports):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", TRAINS, str(rank), str(port)], stdout=subprocess.PIPE, env=environment))  # fmt: skip
            stack.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == b"serves\n"
        yield ports


#: With a store, GPUs and bad samples, which the two have not.
HAS_ALL = """
import itertools, sys, time
from dataclasses import replace
from penstock.observe.exporters.opening import open_exporter
from support.snapshots import a_snapshot
exporter, gpu = open_exporter("prometheus:" + sys.argv[1]), replace(a_snapshot().gpus[0], tensor=0.25)
for number in itertools.count():
    exporter.write(a_snapshot(samples=number, batches=number, gpus=(gpu,)), [])
    if not number:
        print("serves", flush=True)
    time.sleep(0.5)
"""


@pytest.fixture
def has_all() -> Iterator[int]:
    port, environment = free_port(), os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", HAS_ALL, str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"serves\n"
        yield port
        process.kill()


def asked(port: int, query: str) -> list[dict[str, Any]]:
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{port}/api/v1/query?{urllib.parse.urlencode({'query': query})}", timeout=30
        ) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
            return found
    except OSError:  # it starts
        return []


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="Prometheus is not installed (Debian: apt-get install prometheus)"
)
def test_a_server_scrapes_two_ranks_and_answers_the_dashboard(trained: list[int], has_all: int, tmp_path: Path) -> None:
    port = free_port()
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES)],
        "scrape_configs": [
            {"job_name": "train", "static_configs": [{"targets": [f"127.0.0.1:{one}" for one in trained]}]},
            {"job_name": "has all", "static_configs": [{"targets": [f"127.0.0.1:{has_all}"]}]},
        ],
    }
    (tmp_path / "prometheus.yml").write_text(json.dumps(config))  # which YAML reads
    command = ["prometheus", f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data", f"--web.listen-address=127.0.0.1:{port}"]  # fmt: skip
    with (tmp_path / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as server:
        try:
            query = "sum by (rank) (increase(penstock_batches_total{job='train'}[1m])) > 0"
            while server.poll() is None and len(found := asked(port, query)) < 2:
                time.sleep(0.5)
            assert server.poll() is None, (tmp_path / "log").read_text()
            assert {one["metric"]["rank"] for one in found} == {"0", "1"}
            assert {one["metric"]["instance"] for one in asked(port, "up == 1")} == {
                f"127.0.0.1:{one}" for one in (*trained, has_all)
            }
            assert len(asked(port, "count by (stage) (penstock_stage_busy_ratio)")) >= 2
            assert asked(port, "scrape_samples_post_metric_relabeling == 0") == []
            silent = board_queries(BOARD)
            assert len(silent) > 20
            while server.poll() is None and (silent := [query for query in silent if not asked(port, query)]):
                time.sleep(0.5)  # rates want two scrapes; the test's own limit ends it
            assert server.poll() is None, (tmp_path / "log").read_text()
            for variable in ("job", "rank"):
                assert asked(port, f"count by ({variable}) (penstock_samples_total)")[0]["metric"][variable]
        finally:
            server.kill()
