"""Ray Data and Ray Train with Penstock. Ray runs in scripts of their own, each in its own session: it may not outlive a test, nor take one with it."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from support.own_session import run_alone

pytestmark = [
    pytest.mark.trainers,
    pytest.mark.slow,
    pytest.mark.xdist_group("ray"),
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed"),
]
#: Cases of support/ray_data_cases.py that `make test` runs; `make test-long` runs all.
SOME = ["the_rows_are_those_of_the_tables", "states_go_on_with_the_same_blocks_alone", "ray_reads_the_rows_of_a_plan"]


def data_cases(folder: Path, *names: str) -> None:
    said = run_alone("-m", "support.ray_data_cases", folder, *names, timeout_s=280 if names else 600).splitlines()
    assert [line for line in said if line.startswith("failed")] == [], "\n".join(said)
    assert len([line for line in said if line.startswith("passed")]) == (len(names) or 12)


@pytest.mark.timeout(300)
def test_rays_datasets_are_inputs_and_ours_are_its(tmp_path: Path) -> None:
    data_cases(tmp_path, *SOME)


@pytest.mark.long
def test_rays_datasets_in_all_cases(tmp_path: Path) -> None:
    data_cases(tmp_path)


@pytest.mark.long
@pytest.mark.timeout(330)
def test_an_elastic_training_goes_on_with_fewer_workers_and_then_with_more(tmp_path: Path) -> None:
    """On two workers, on the one whose node is left, and on two again when another node has come; every row once an epoch."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    said = run_alone("-m", "support.ray_train_case", tmp_path, timeout_s=300)
    found = json.loads(said.partition("\nfound ")[2].partition("\n")[0])
    assert found["wrong"] == []
    assert found["epochs"] == [[epoch, 4_800] for epoch in range(10)]
    assert found["world_sizes"] == [2, 1, 2]
    assert found["steps_again"] <= 2 * 2 * 20  # there is a checkpoint every 20 steps
