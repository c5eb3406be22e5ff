"""Evaluations on several ranks, with the real trainers: every row once, in the order of the data, however the last step divides."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deliver.test_loops import run
from penstock.observe.ledger.verify import verify

pytestmark = [pytest.mark.timeout(300), pytest.mark.trainers, pytest.mark.slow]

PREDICTED = {
    **dict.fromkeys(("short", "pad", "wrap", "per rank"), range(245)),
    "drop": range(240),
    "one row": range(1),
    "filtered": range(0, 245, 2),
    "in parts": [*range(40), *range(100, 245)],
    "ragged": range(25),
}


@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.long), 2, pytest.param(3, marks=pytest.mark.long)])
def test_trainer_accelerate_and_plain_loops(tmp_path: Path, ranks: int) -> None:
    pytest.importorskip("transformers", reason="Transformers is not installed")
    for found in run("evaluation_run.py", str(tmp_path), ranks=ranks):
        for name, rows in PREDICTED.items():
            first, again, labels, width = found["predicted"][name]
            assert first == again == labels == [*rows], name
            assert width == (9 if name == "ragged" else 1), "ranks pad to one length before they gather"
        trained, batches = found["trained"], found["batches"]
        assert trained["seen"] == [[*range(245)]] * 4, "two evaluations while training, and two after it"
        assert (trained["best"], trained["again"]) == (245, [245, 245])
        assert batches == [[[30, False]] * 8 + [[5, True]], [[30, False]] * 7 + [[30, True]]]
        check_accelerate(found["accelerate"], ranks)
        if ranks > 1:
            plain = found["plain"]
            assert plain["mean"] == 122
            assert plain["sums"] == [[29_890, 245]] * 2
            assert plain["gathered"] == [*range(245)]
    report = verify([str(tmp_path / "ledger")])
    assert report.is_well
    assert [(epoch.rows, epoch.complete_steps) for epoch in report.epochs] == [(103, 5)], "no row twice"


def check_accelerate(found: dict[str, Any], ranks: int) -> None:
    steps = [[*range(first, min(103, first + 24))] for first in range(0, 103, 24)]
    assert found["whole"] == found["again"] == found["isolated"] == steps
    assert (found["broken off"], found["resumed"]) == (steps[:2], steps[3:])
    assert not found["active"], "a pass that was broken off is over for Accelerate, too"
    assert found["objects"] == [f"row {row}" for row in range(103)]
    assert [len(step) for step in found["shuffled"]] == [24, 24, 24, 24, 7]
    assert sorted(np.concatenate(found["shuffled"]).tolist()) == [*range(103)]
    local = [24 // ranks] * 4
    assert [rows for rows, _ in found["training"]][:4] == local
    assert not any(is_end for _, is_end in found["training"]), "a training is as it was"
    assert found["as it was"] == [rows for rows, _ in found["training"]]


@pytest.mark.long
def test_lightning(tmp_path: Path) -> None:
    """Nothing is padded: its metrics and predictions are exact with unequal parts, and the writer knows the rows."""
    pytest.importorskip("pytorch_lightning", reason="Lightning is not installed")
    script = Path(__file__).with_name("lightning_evaluation_run.py")
    ended = subprocess.run(
        [sys.executable, str(script), str(tmp_path), "2"],
        capture_output=True,
        check=False,
        encoding="utf-8",
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"},
    )
    assert ended.returncode == 0, ended.stderr
    assert "Couldn't infer the batch indices" not in ended.stderr
    ranks = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1)]
    written, predicted = [], []
    for step in range(9):
        for found in ranks:
            written += [*zip(*found["written"][step], strict=True)]
            predicted += found["predicted"][step]
    assert written == [(row, row) for row in range(245)]
    assert predicted == [*range(245)]
    for found in ranks:
        assert found["of epoch"] == [[ids for ids, _ in found["written"]], [rows for _, rows in found["written"]]]
        assert found["validated"]["metric"] == 122
        assert found["gathered"] == [*range(245)], "self.all_gather, with equal parts"
