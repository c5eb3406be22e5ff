"""Accelerate, the real one: what `prepare`, `save_state` and `skip_first_batches` do with a loader."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from servers.free_port import free_port

pytestmark = [pytest.mark.timeout(300), pytest.mark.trainers]

SCRIPT = Path(__file__).with_name("accelerate_run.py")


def train(folder: Path, ranks: int) -> list[dict[str, Any]]:
    pytest.importorskip("accelerate", reason="Accelerate is not installed")
    port = str(free_port())
    started = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(folder / "checkpoint")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={
                **os.environ,
                "CUDA_VISIBLE_DEVICES": "",
                "OMP_NUM_THREADS": "1",
                **(_launched(rank, ranks, port) if ranks > 1 else {}),
            },
            encoding="utf-8",
        )
        for rank in range(ranks)
    ]
    ended = [(*process.communicate(timeout=250), process.returncode) for process in started]
    assert [code for _, _, code in ended] == [0] * ranks, [err for _, err, _ in ended]
    return [json.loads(out.splitlines()[-1]) for out, _, _ in ended]


def _launched(rank: int, ranks: int, port: str) -> dict[str, str]:
    """As torchrun and `accelerate launch` do it."""
    names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks, "MASTER_PORT": port}
    return {**{name: str(value) for name, value in names.items()}, "MASTER_ADDR": "127.0.0.1"}


@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.long), 2])
def test_prepared_trained_saved_and_loaded(tmp_path: Path, ranks: int) -> None:
    dataset = ps.from_arrays({"id": np.arange(52)}).shuffle(seed=0).batch(8, drop_last=True)
    with ps.Loader(dataset) as whole:
        batches = [[epoch, whole.sample_ids(epoch, step).tolist()] for epoch in range(2) for step in range(len(whole))]
    for rank, found in enumerate(train(tmp_path, ranks)):
        assert found["same"], "it shards itself, so nothing may be put around it"
        with ps.Loader(dataset, rank=rank, world_size=ranks) as loader:
            local = [loader.sample_ids(epoch, step).tolist() for epoch in range(2) for step in range(len(loader))]
        assert [ids for _, ids, _ in found["seen"]] == local
        assert [[epoch, ids] for epoch, _, ids in found["seen"]] == batches
        assert "skip_first_batches does, set the position: loader.load_state_dict" in found["skipped"]
