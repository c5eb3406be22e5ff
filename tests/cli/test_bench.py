from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.observe.report import report_text
from support.cli_runner import GOLDEN_PICTURES, invoke

KEYS = {
    "samples_per_s",
    "bytes_per_s",
    "cpu_s_per_1000",
    "first_batch_s",
    "peak_memory_bytes",
    "verdict",
    "stages",
    "run",
}


@pytest.mark.parametrize("ops", ["rrc224", "decode", "none"])
def test_json_has_all_figures(photos: Path, ops: str) -> None:
    figures = json.loads(
        invoke("bench", str(photos), "--ops", ops, "--seconds", "0.2", "--batch", "16", "--json").stdout
    )
    assert figures.keys() >= KEYS
    assert all(figures[name] > 0 for name in ("samples_per_s", "bytes_per_s", "first_batch_s", "peak_memory_bytes"))
    assert figures["cpu_s_per_1000"] >= 0
    assert figures["run"]["ops"] == ops
    assert figures["run"]["batch"] == 16
    assert [stage["name"] for stage in figures["stages"]][:2] == ["read", "parse"]


def test_flat_folder_smaller_than_a_batch(photos: Path) -> None:
    figures = json.loads(invoke("bench", str(photos / "cats"), "--seconds", "0.2", "--json").stdout)
    assert figures["run"]["batch"] == figures["run"]["dataset_samples"] == 20
    assert figures["run"]["ops"] == "rrc224"


def test_text_ends_with_the_report(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever limits it, which may be what else this machine does."""
    bench, found = sys.modules["penstock.cli.bench"], list[Any]()
    measure = bench.measure

    def noted(*given: Any) -> Any:
        found.append(measure(*given))
        return found[-1]

    monkeypatch.setattr(bench, "measure", noted)
    text = invoke("bench", str(photos), "--seconds", "0.2", "--batch", "8", "--cpus", "1").stdout
    assert "samples/s" in text.splitlines()[0]
    assert text.rstrip().endswith(report_text(found[0]).rstrip())
    assert "transform" in text


def test_to_torch(photos: Path) -> None:
    pytest.importorskip("torch")
    figures = json.loads(
        invoke("bench", str(photos), "--to", "torch", "--seconds", "0.2", "--batch", "8", "--json").stdout
    )
    assert figures["run"]["to"] == "torch"


def test_records_of_pictures() -> None:
    figures = json.loads(invoke("bench", str(GOLDEN_PICTURES), "--seconds", "0.2", "--batch", "4", "--json").stdout)
    assert figures["run"]["format"] == "tfrecord"
    assert figures["run"]["ops"] == "rrc224"


def test_records_without_pictures() -> None:
    numbers = GOLDEN_PICTURES.with_name("dense.tfrecord")
    figures = json.loads(invoke("bench", str(numbers), "--seconds", "0.2", "--json").stdout)
    assert figures["run"]["ops"] == "none"
    result = invoke("bench", str(numbers), "--ops", "rrc224")
    assert result.exit_code == 1
    assert "no column holds images (columns: label, x, y)" in result.stderr
