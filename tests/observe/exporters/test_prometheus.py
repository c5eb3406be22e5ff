"""What Prometheus scrapes: read by its own parser, from a port, a file and the process's registry."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import prometheus_client
import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.core.errors import PlanError
from penstock.observe.exporters.figures import FIGURES
from penstock.observe.exporters.opening import open_exporter
from penstock.observe.exporters.protocol import Exporter
from penstock.observe.snapshot import Identity
from servers.free_port import free_port
from support.boards import board_queries
from support.snapshots import a_snapshot

EXAMPLES = Path(__file__).parents[3] / "examples" / "observe"


@contextmanager
def opened(text: str) -> Iterator[Exporter]:
    exporter = open_exporter(text)
    try:
        yield exporter
    finally:
        exporter.close()


def port_of(exporter: Any) -> int:
    return int(exporter.place.held.port)


def scraped(port: int, host: str = "127.0.0.1") -> str:
    with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=30) as answer:
        return str(answer.read().decode())


def samples(text: str) -> dict[tuple[str, str], float]:
    """Values by name and number of the loader, of what has no other labels."""
    return {
        (one.name, one.labels["loader"]): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
        if one.labels.keys() <= {"loader", "rank"}
    }


@pytest.fixture
def free() -> str:
    return f"{free_port()}+"


def test_a_scrape_reads_the_newest_figures(free: str) -> None:
    with opened(f"prometheus:{free}") as exporter:
        assert samples(scraped(port_of(exporter))) == {}  # before the first snapshot
        for batches in (1, 2):
            exporter.write(a_snapshot(batches=batches, samples_per_s=7.5), [])
        text = scraped(port_of(exporter))
    found = samples(text)
    assert found["penstock_batches_total", "0"] == 2
    assert found["penstock_samples_per_second", "0"] == 7.5
    assert found["penstock_waited_seconds_total", "0"] == 0.125
    assert 'penstock_stage_busy_ratio{kind="cpu",loader="0",rank="3",stage="transform 2"} 0.5' in text
    assert "secret-place" not in text
    assert "tfrecord" not in text
    names = {family.name for family in text_string_to_metric_families(text)}
    assert names == {f"penstock_{one.full_name.removesuffix('_total')}" for one in FIGURES} - {
        "penstock_gpu_tensor_active_ratio"
    }


def test_loaders_of_a_process_share_a_port(free: str) -> None:
    with opened(f"prometheus:{free}") as first:
        with opened(f"prometheus:{free}") as second:
            assert port_of(first) == port_of(second)
            first.write(a_snapshot(batches=1), [])
            second.write(a_snapshot(batches=5), [])
            found = samples(scraped(port_of(first)))
            assert (found["penstock_batches_total", "0"], found["penstock_batches_total", "1"]) == (1, 5)
        assert {loader for _, loader in samples(scraped(port_of(first)))} == {"0"}
        with opened(f"prometheus:{free}") as third:  # numbers are given again: as many label values as loaders at once
            third.write(a_snapshot(), [])
            assert {loader for _, loader in samples(scraped(port_of(first)))} == {"0", "1"}
        port = port_of(first)
    with pytest.raises(OSError, match="refused"):
        scraped(port)
    with opened(f"prometheus:{port}") as again:
        assert port_of(again) == port


def test_a_port_that_is_taken(free: str) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(
            PlanError,
            match=rf"127.0.0.1:{port} cannot be served \(Address already in use\); name another one, or 'prometheus:{port}\+'",
        ):
            open_exporter(f"prometheus:{port}")
        with opened(f"prometheus:{port}+") as exporter:
            assert port < port_of(exporter) < port + 64


def test_only_this_machine_sees_it_unless_told(free: str) -> None:
    with opened(f"prometheus:{free}") as exporter:
        assert exporter.place.held._server.server_address[0] == "127.0.0.1"  # type: ignore[attr-defined]
    with opened(f"prometheus:0.0.0.0:{free}") as exporter:
        assert exporter.place.held._server.server_address[0] == "0.0.0.0"  # type: ignore[attr-defined]
        exporter.write(a_snapshot(), [])
        assert "penstock_batches_total" in scraped(port_of(exporter))


@pytest.mark.parametrize(
    "target", ["0", "99999", "-1", "port", "1.2.3.4", "metrics.txt", "host:", ":9464", "http://x:9464", "9464 ", "٩٤٦٤"]
)
def test_what_is_no_address(target: str) -> None:
    if target == "9464 ":
        target = "94 64"
    with pytest.raises(PlanError, match=r"is no port, address or file; write 'prometheus:9464'"):
        open_exporter(f"prometheus:{target}")


def test_an_address_that_this_machine_has_not() -> None:
    with pytest.raises(PlanError, match=r"192.0.2.1:9464 cannot be served"):
        open_exporter("prometheus:192.0.2.1:9464")


def test_scrapes_while_loaders_come_and_go(free: str) -> None:
    """Every scrape is answered in full, or refused; none is cut, and none hangs."""
    over, failures, answers = threading.Event(), list[BaseException](), list[int]()
    with opened(f"prometheus:{free}") as first:
        port = port_of(first)
        first.write(a_snapshot(), [])

        def scrape() -> None:
            try:
                while not over.is_set():
                    answers.append(len(samples(scraped(port))))
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=scrape) for _ in range(3)]
        for thread in threads:
            thread.start()
        while len(answers) < 30 and not failures:
            with opened(f"prometheus:{free}") as other:
                other.write(a_snapshot(), [])
        over.set()
        for thread in threads:
            thread.join()
    assert failures == []
    assert min(answers) > 10


def test_closing_while_a_scrape_is_under_way(free: str) -> None:
    exporter, before = open_exporter(f"prometheus:{free}"), {*threading.enumerate()}
    with socket.create_connection(("127.0.0.1", port_of(exporter)), timeout=30) as slow:
        slow.sendall(b"GET /metrics HTTP/1.1\r\nHost: ")  # and no more for now
        while not any("process_request_thread" in one.name for one in {*threading.enumerate()} - before):
            time.sleep(0.01)  # until it is taken up
        exporter.close()
        slow.sendall(b"x\r\n\r\n")
        assert slow.recv(12).endswith(b"200")


def test_a_file_for_the_node_exporter(tmp_path: Path) -> None:
    path = tmp_path / "metrics.prom"
    with opened(f"prometheus:{path}") as exporter:
        exporter.write(a_snapshot(batches=4), [])
        assert samples(path.read_text())["penstock_batches_total", "0"] == 4
        with opened(f"prometheus:{path}") as second:
            second.write(a_snapshot(batches=9), [])
            assert samples(path.read_text())["penstock_batches_total", "1"] == 9
    assert samples(path.read_text())["penstock_batches_total", "0"] == 4  # the end of a run is there to be read
    assert os.listdir(tmp_path) == ["metrics.prom"]


def test_a_file_that_another_process_writes(tmp_path: Path) -> None:
    path = tmp_path / "metrics.prom"
    path.write_text(f"# Written by process 1 on {socket.gethostname()}\n")
    with pytest.raises(
        PlanError,
        match=r"is written by process 1; each process needs a file of its own, as 'prometheus:metrics-{rank}.prom'",
    ):
        open_exporter(f"prometheus:{path}")
    path.write_text(f"# Written by process 99999999 on {socket.gethostname()}\n")  # which has ended
    open_exporter(f"prometheus:{path}").close()


def test_the_registry_that_the_user_serves() -> None:
    with opened("prometheus:registry") as exporter:
        exporter.write(a_snapshot(batches=4), [])
        assert prometheus_client.REGISTRY.get_sample_value("penstock_batches_total", {"loader": "0", "rank": "3"}) == 4
    assert prometheus_client.REGISTRY.get_sample_value("penstock_batches_total", {"loader": "0", "rank": "3"}) is None


def test_hostile_names_of_functions_are_quoted(free: str) -> None:
    from support.snapshots import a_stage

    with opened(f"prometheus:{free}") as exporter:
        name = 'map "a"} 1\nforged{x="\\'
        exporter.write(a_snapshot(stages=(a_stage(name),), loader=Identity(rank=0)), [])
        text = scraped(port_of(exporter))
    found = [one for family in text_string_to_metric_families(text) for one in family.samples if "stage" in one.labels]
    assert {one.labels["stage"] for one in found} == {name, "transform"}
    assert not re.search("^forged", text, re.MULTILINE)


def metrics_in(text: str) -> set[str]:
    return set(re.findall(r"\bpenstock_[a-z_]+", text))


@pytest.mark.parametrize("name", ["grafana_dashboard.json", "prometheus_rules.yml"])
def test_the_files_for_grafana_and_alerts_ask_for_what_is_exported(name: str) -> None:
    text = (EXAMPLES / name).read_text()
    expressions = " ".join(re.findall(r'"expr": "((?:[^"\\]|\\.)*)"', text)) if name.endswith("json") else text
    known = {f"penstock_{figure.full_name}" for figure in FIGURES}
    assert len(metrics_in(expressions)) > 5
    assert metrics_in(expressions) <= known
    if name.endswith("json"):
        board = json.loads(text)
        assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"]) > 8


def test_grafanas_own_description_of_dashboards_knows_all_of_ours() -> None:
    """Read and written again by what Grafana publishes for making dashboards, made of its schema: what it does not know, it leaves out."""
    if importlib.util.find_spec("grafana_foundation_sdk") is None:
        pytest.skip("grafana-foundation-sdk is not installed; `make exporters` runs these tests beside it")
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard

    register_default_plugins()
    board = json.loads((EXAMPLES / "grafana_dashboard.json").read_text())
    again = json.loads(json.dumps(Dashboard.from_json(board), cls=JSONEncoder))
    assert [
        where for where in left_out(board, again) if not where.endswith(".definition")
    ] == []  # Grafana's editor writes these
    board["panels"][0]["fieldConfig"]["defaults"]["custom"]["fillOpacities"] = 20
    again = json.loads(json.dumps(Dashboard.from_json(board), cls=JSONEncoder))
    assert [one for one in left_out(board, again) if "fillOpacities" in one], "what it does not know would be seen"


def left_out(one: Any, other: Any, where: str = "") -> Iterator[str]:
    """Places of a document that another one has not, or otherwise."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name, value in one.items():
            yield from left_out(value, other.get(name), f"{where}.{name}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for place, (value, told) in enumerate(zip(one, other, strict=True)):
            yield from left_out(value, told, f"{where}[{place}]")
    elif one != other:
        yield where


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed (Debian: apt-get install prometheus)"
)
def test_promtool_finds_nothing_to_say(free: str, tmp_path: Path) -> None:
    with opened(f"prometheus:{free}") as exporter:
        exporter.write(a_snapshot(), [])
        text = scraped(port_of(exporter))
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    asked = [{"record": f"board:{number}", "expr": one} for number, one in enumerate(board_queries(EXAMPLES / "grafana_dashboard.json"))]  # fmt: skip
    (tmp_path / "board.yml").write_text(json.dumps({"groups": [{"name": "board", "rules": asked}]}))  # which YAML reads
    rules = subprocess.run(["promtool", "check", "rules", EXAMPLES / "prometheus_rules.yml", tmp_path / "board.yml"], capture_output=True, text=True, check=False)  # fmt: skip
    assert rules.returncode == 0, rules.stderr
    tried = subprocess.run(["promtool", "test", "rules", Path(__file__).parent / "prometheus_rules_test.yml"], capture_output=True, text=True, check=False)  # fmt: skip
    assert tried.returncode == 0, tried.stdout + tried.stderr
