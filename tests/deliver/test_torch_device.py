"""Which device "cuda" is, on which rank."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import penstock as ps

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from support.fake_cuda import FakeCuda  # noqa: E402  # needs PyTorch

LAUNCHERS: dict[str, dict[str, str]] = {
    "torchrun": {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "3", "LOCAL_WORLD_SIZE": "4"},
    "a local rank alone": {"LOCAL_RANK": "1"},
    "srun": {"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8", "SLURM_LOCALID": "1", "SLURM_NTASKS_PER_NODE": "4"},
    "mpirun": {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
}  # fmt: skip


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    return FakeCuda(monkeypatch)


def loader(device: Any) -> ps.Loader[dict[str, Any]]:
    return ps.Loader(ps.from_arrays({"x": np.zeros(8)}).batch(4), to="torch", device=device, rank=0, world_size=1)


@pytest.mark.parametrize("environment", LAUNCHERS.values(), ids=LAUNCHERS.keys())
def test_a_rank_that_would_share_the_first_device_is_told(
    environment: dict[str, str], cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.warns(UserWarning, match=r"is cuda:0, and this is local rank [13] .*torch.cuda.set_device\([13]\)"):
        loader("cuda")


def test_others_are_not_told(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loader("cuda")  # no launcher
        monkeypatch.setenv("LOCAL_RANK", "0")
        loader("cuda")
        monkeypatch.setenv("LOCAL_RANK", "1")
        loader("cuda:0")  # as it was asked
        cuda._exchange_device(1)
        loader("cuda")
        cuda._exchange_device(0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
        loader("cuda")  # of each rank CUDA_VISIBLE_DEVICES shows one
