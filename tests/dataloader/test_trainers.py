"""Trainers that take a DataLoader, with ours in place of PyTorch's: the same batches, and resumed in mid-epoch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from servers.free_port import free_port

pytestmark = [pytest.mark.timeout(400), pytest.mark.trainers, pytest.mark.slow]

SCRIPT = Path(__file__).with_name("trainers_run.py")
ENVIRONMENT = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}


#: After which steps trainings are resumed; an epoch has 7, or 3.
STEPS = {"loader": (3, 9), "seeded": (3, 7), "several": (4,), "combined": (4,)}


def run(folder: Path, runs: list[dict[str, Any]]) -> None:
    pytest.importorskip("pytorch_lightning", reason="Lightning is not installed")
    command = [sys.executable, str(SCRIPT), json.dumps(runs)]
    ended = subprocess.run(command, capture_output=True, check=False, cwd=folder, encoding="utf-8", env=ENVIRONMENT)
    assert ended.returncode == 0, ended.stderr


def seen(folder: Path, rank: int = 0) -> list[Any]:
    return [json.loads(line) for line in (folder / f"{rank}.jsonl").read_text().splitlines()]


def lightning(out: str, loader: str = "penstock", **options: Any) -> dict[str, Any]:
    return {"trainer": "lightning", "loader": loader, "out": out, **options}


@pytest.fixture(scope="module")
def one_process(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dropin")
    runs = []
    for given, steps in STEPS.items():
        runs += [lightning(f"{given}-{loader}", loader, given=given) for loader in ("torch", "penstock")]
        runs += [
            lightning(f"{given}-{step}", given=given, resume=f"{given}-penstock/step={step}.ckpt") for step in steps
        ]
    run(folder, runs)
    return folder


@pytest.mark.parametrize("given", STEPS)
def test_lightning_sees_the_batches_of_pytorchs(one_process: Path, given: str) -> None:
    assert seen(one_process / f"{given}-penstock") == seen(one_process / f"{given}-torch")


@pytest.mark.parametrize(("given", "step"), [(given, step) for given, steps in STEPS.items() for step in steps])
def test_lightning_resumes(one_process: Path, given: str, step: int) -> None:
    """Exactly where each loader has a generator of its own; else up to the epoch's end, since the next one is drawn from the generator that the training uses."""
    whole, resumed = seen(one_process / f"{given}-penstock")[step:], seen(one_process / f"{given}-{step}")
    is_exact = given in ("seeded", "several")
    rest = [one for one in whole if is_exact or one[0] == whole[0][0]]
    assert len(rest) > 0
    assert resumed[: len(rest)] == rest
    assert len(resumed) == len(whole)


@pytest.mark.long
def test_two_processes_of_lightning(tmp_path: Path) -> None:
    runs = [lightning(loader, loader, devices=2, strategy="ddp") for loader in ("torch", "penstock")]
    run(tmp_path, [*runs, lightning("resumed", devices=2, strategy="ddp", resume="penstock/step=2.ckpt")])
    for rank in (0, 1):
        assert seen(tmp_path / "penstock", rank) == seen(tmp_path / "torch", rank)
        assert seen(tmp_path / "resumed", rank) == seen(tmp_path / "penstock", rank)[2:]


@pytest.mark.long
def test_two_spawned_processes_of_lightning(tmp_path: Path) -> None:
    run(
        tmp_path,
        [lightning(kind, kind, devices=2, strategy="ddp_spawn", given="model") for kind in ("torch", "penstock")],
    )
    for rank in (0, 1):
        assert seen(tmp_path / "penstock", rank) == seen(tmp_path / "torch", rank)


@pytest.mark.long
@pytest.mark.parametrize("ranks", [1, 2])
def test_accelerate(tmp_path: Path, ranks: int) -> None:
    pytest.importorskip("accelerate", reason="Accelerate is not installed")
    for loader in ("torch", "penstock"):
        port = str(free_port())
        names = {"WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks, "MASTER_PORT": port, "MASTER_ADDR": "127.0.0.1"}
        command = [
            sys.executable,
            str(SCRIPT),
            json.dumps([{"trainer": "accelerate", "loader": loader, "out": loader}]),
        ]
        started = [
            subprocess.Popen(
                command,
                cwd=tmp_path,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                env={
                    **ENVIRONMENT,
                    **{key: str(value) for key, value in (names | {"RANK": rank, "LOCAL_RANK": rank}).items()},
                }
                if ranks > 1
                else ENVIRONMENT,
            )
            for rank in range(ranks)
        ]
        ended = [(process.communicate(timeout=200)[1], process.returncode) for process in started]
        assert [code for _, code in ended] == [0] * ranks, ended
    for rank in range(ranks):
        assert seen(tmp_path / "penstock", rank) == seen(tmp_path / "torch", rank)
        assert len(seen(tmp_path / "penstock", rank)) == 2 * -(-52 // (8 * ranks))
