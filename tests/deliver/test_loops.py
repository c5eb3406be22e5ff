"""Hugging Face's Trainer, Fabric, compiled steps and torch.profiler, the real ones, in processes of their own."""

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

HERE = Path(__file__).parent


def run(script: str, *arguments: str, ranks: int = 1) -> list[Any]:
    """What each rank's process printed last."""
    port = str(free_port())
    started = []
    for rank in range(ranks):
        launched = {
            "RANK": rank,
            "LOCAL_RANK": rank,
            "WORLD_SIZE": ranks,
            "LOCAL_WORLD_SIZE": ranks,
            "MASTER_PORT": port,
        }
        names = {name: str(value) for name, value in launched.items()} if ranks > 1 else {}
        started.append(
            subprocess.Popen(
                [sys.executable, str(HERE / script), *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={
                    **os.environ,
                    "CUDA_VISIBLE_DEVICES": "",
                    "OMP_NUM_THREADS": "1",
                    "MASTER_ADDR": "127.0.0.1",
                    **names,
                },
                encoding="utf-8",
            )
        )
    try:
        ended = [(*process.communicate(timeout=250), process.returncode) for process in started]
    finally:
        for process in started:
            process.kill()
    assert [code for _, _, code in ended] == [0] * ranks, [err for _, err, _ in ended]
    return [json.loads(out.splitlines()[-1]) for out, _, _ in ended]


def first_tokens() -> ps.Dataset:
    return ps.from_arrays({"id": np.arange(52)}).shuffle(seed=0).batch(8, drop_last=True)


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=pytest.mark.long)])
def test_hugging_face(tmp_path: Path, ranks: int) -> None:
    pytest.importorskip("transformers", reason="Transformers is not installed")
    steps = ("4", "8") if ranks == 1 else ()
    for rank, found in enumerate(run("hugging_face_run.py", str(tmp_path), *steps, ranks=ranks)):
        with ps.Loader(first_tokens(), rank=rank, world_size=ranks) as loader:
            wanted = [loader.sample_ids(epoch, step).tolist() for epoch in range(2) for step in range(len(loader))]
        assert [ids for _, ids in found["whole"]["seen"]] == wanted, "neither divided twice nor in another order"
        for step, after in found["after"].items():
            assert [ids for _, ids in after["seen"]] == wanted[int(step) :]
            assert after["steps"] == len(wanted)
            assert after["weights"] == found["whole"]["weights"]
        assert found["whole"].get("evaluated", True)


@pytest.mark.long
def test_compiled_profiled_and_with_fabric() -> None:
    pytest.importorskip("lightning_fabric", reason="Lightning is not installed")
    pytest.importorskip("tensordict", reason="tensordict is not installed")
    (found,) = run("loops_run.py")
    assert found["compiled"] == {"dict": 1, "tuple": 1, "namedtuple": 1, "tensordict": 1}, (
        "compiled once, without a graph break"
    )
    assert found["own"] == ["penstock: next batch"]
    assert found["all"] == ["penstock: deliver", "penstock: gather", "penstock: next batch"]
    assert "Only PyTorch DataLoader" in found["refused"]
    with ps.Loader(ps.from_arrays({"id": np.arange(64)}).shuffle(seed=0).batch(8)) as loader:
        assert found["fabric"] == [loader.sample_ids(epoch, step).tolist() for epoch in range(2) for step in range(8)]


def test_no_ranges_are_made_where_no_profiler_runs() -> None:
    from penstock.observe.torch_profiler import profiled

    assert profiled("read") is profiled("decode")
