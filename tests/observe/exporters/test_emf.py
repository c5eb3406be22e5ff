"""Lines for CloudWatch, held against the rules of the published schema of the embedded metric format."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from penstock.observe.exporters.emf import emf_lines
from penstock.observe.exporters.figures import FIGURES
from penstock.observe.exporters.opening import open_exporter
from penstock.observe.exporters.readings import FigureRead
from support.snapshots import a_snapshot, a_stage

UNITS = "Seconds|Microseconds|Milliseconds|Bytes|Kilobytes|Megabytes|Gigabytes|Terabytes|Bits|Percent|Count|Bytes/Second|Count/Second|None"
NAME = {"type": "string", "minLength": 1, "maxLength": 1024, "pattern": "^(.*)$"}
METRIC = {"type": "object", "required": ["Name"], "properties": {"Name": NAME, "Unit": {"pattern": f"^({UNITS})$"}}}
DIRECTIVE = {
    "type": "object",
    "required": ["Namespace", "Dimensions", "Metrics"],
    "properties": {
        "Namespace": NAME,
        "Dimensions": {"minItems": 1, "items": {"type": "array", "maxItems": 30, "items": {**NAME, "maxLength": 250}}},
        "Metrics": {"type": "array", "minItems": 1, "maxItems": 100, "items": METRIC},
    },
}
META = {
    "type": "object",
    "required": ["Timestamp", "CloudWatchMetrics"],
    "properties": {"Timestamp": {"type": "integer"}, "CloudWatchMetrics": {"type": "array", "items": DIRECTIVE}},
}
SCHEMA = {"type": "object", "required": ["_aws"], "properties": {"_aws": META}}


def check(line: str) -> dict[str, Any]:
    """A document, of which the schema, and what the specification says beside it, hold."""
    found: dict[str, Any] = json.loads(line, parse_constant=pytest.fail)
    jsonschema.validate(found, SCHEMA)
    assert len(line.encode()) < 256 << 10
    for directive in found["_aws"]["CloudWatchMetrics"]:
        for name in (name for names in directive["Dimensions"] for name in names):
            assert re.fullmatch(r"[!-9;-~][ -~]{0,1023}", found[name])
        for metric in directive["Metrics"]:
            assert isinstance(found[metric["Name"]], int | float)
    return found


def test_each_line_is_a_document(tmp_path: Path) -> None:
    exporter = open_exporter(f"emf:{tmp_path}/metrics.log")
    for batches in (10, 14):
        exporter.write(a_snapshot(batches=batches), [])
    exporter.close()
    found = [check(line) for line in (tmp_path / "metrics.log").read_text().splitlines()]
    whole = [one for one in found if one["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["Loader", "Rank"]]]
    assert [one["batches"] for one in whole] == [10, 4]  # CloudWatch adds up
    assert [one["samples_per_second"] for one in whole] == [2560, 2560]
    assert (whole[0]["Loader"], whole[0]["Rank"]) == ("0", "3")
    assert abs(whole[0]["_aws"]["Timestamp"] / 1000 - time.time()) < 3600
    assert {one["Stage"] for one in found if "Stage" in one} >= {"read", "transform", "transform 2"}
    names = {metric["Name"] for one in found for metric in one["_aws"]["CloudWatchMetrics"][0]["Metrics"]}
    assert names == {one.full_name.removesuffix("_total") for one in FIGURES} - {"gpu_tensor_active_ratio"}


def test_more_metrics_than_a_directive_may_have() -> None:
    figure = FIGURES[0]
    readings = [FigureRead(figure, (), float(number)) for number in range(250)]
    found = [json.dumps(one) for one in emf_lines(a_snapshot(), readings, 0)]
    assert [len(check(line)["_aws"]["CloudWatchMetrics"][0]["Metrics"]) for line in found] == [100, 100, 50]


def test_names_that_are_no_dimension(tmp_path: Path) -> None:
    exporter = open_exporter(f"emf:{tmp_path}/metrics.log")
    exporter.write(a_snapshot(stages=(a_stage(""), a_stage("a\nb → \u2028" + "x" * 5_000)), bottleneck=""), [])
    exporter.close()
    for line in (tmp_path / "metrics.log").read_text().split("\n")[:-1]:
        check(line)


def test_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    exporter = open_exporter("emf:-")
    exporter.write(a_snapshot(), [])
    exporter.close()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 3
    for line in lines:
        check(line)
