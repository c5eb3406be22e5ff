"""A training run that is killed by SIGKILL again and again, on 1, 2 or 4 ranks as it comes, loses no row and repeats none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.observe.ledger.words import wrong_lines
from support.cli_runner import invoke
from support.killed_training import checkpoint_in, new_model, plan
from support.ledgers import report_of
from support.tries import TRIES, tries

TESTS = Path(__file__).parent.parent
#: 12 in `make test`, all in a long run.
KILLS = tries(1_000) if TRIES >= 1_000 else tries(500)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("kind", "kills"), [("order", KILLS), ("lanes", KILLS // 4)])
def test_nothing_is_lost_and_nothing_repeated(kind: str, kills: int, tmp_path: Path) -> None:
    seed = np.random.SeedSequence().entropy
    script = [sys.executable, "-m", "support.killed_training", str(tmp_path), kind, str(kills), str(seed)]
    ran = subprocess.run(script, cwd=TESTS, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"seed {seed}: {ran.stderr}"
    ran_for = json.loads(ran.stdout)
    report = report_of(tmp_path / "ledger")
    assert report.is_well, f"seed {seed}: {[*wrong_lines(report)]}"
    assert (report.lost, report.repeated) == (0, 0)
    assert report.files > kills // 2
    assert len(report.resumes) > kills // 4
    assert [epoch.complete_steps for epoch in report.epochs] == [epoch.steps for epoch in report.epochs]
    assert len(report.epochs) == ran_for["epochs"]
    assert np.array_equal(weights_of(tmp_path), learned(tmp_path, kind, ran_for["epochs"])), (
        f"seed {seed}: other weights"
    )
    shown = invoke("verify", str(tmp_path / "ledger"))
    assert shown.exit_code == 0
    assert "0 rows lost, 0 repeated" in shown.stdout


def weights_of(folder: Path) -> Any:
    model = new_model()
    model.load(checkpoint_in(folder)["model"])
    return model.weights


def learned(folder: Path, kind: str, epochs: int) -> Any:
    """The weights of a run that nothing interrupts."""
    model = new_model()
    with ps.Loader(plan(folder, kind), rank=0, world_size=1) as loader:
        for _ in range(epochs):
            for batch in loader:
                model.learn(batch["id"])
    return model.weights
