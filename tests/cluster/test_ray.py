"""Ray Data with Penstock. Ray runs in scripts of their own, each in its own session: it may not outlive a test, nor take one with it."""

from __future__ import annotations

import importlib.util
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
    said = run_alone("-m", "support.ray_data_cases", folder, *names, timeout_s=110 if names else 600).splitlines()
    assert [line for line in said if line.startswith("failed")] == [], "\n".join(said)
    assert len([line for line in said if line.startswith("passed")]) == (len(names) or 12)


def test_rays_datasets_are_inputs_and_ours_are_its(tmp_path: Path) -> None:
    data_cases(tmp_path, *SOME)


@pytest.mark.long
def test_rays_datasets_in_all_cases(tmp_path: Path) -> None:
    data_cases(tmp_path)
