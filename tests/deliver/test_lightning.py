"""Lightning's Trainer, the real one: fit with validation, resumed from its checkpoints, on one process and on two."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps

pytestmark = [pytest.mark.timeout(400), pytest.mark.trainers]

SCRIPT = Path(__file__).with_name("lightning_run.py")
STEPS, EPOCHS = 6, 3

Seen = list[tuple[int, int, Any]]


def train(folder: Path, runs: list[dict[str, Any]]) -> None:
    """Runs trainings one after the other; in processes of their own, since Lightning starts and leaves some."""
    pytest.importorskip("pytorch_lightning", reason="Lightning is not installed")
    ended = subprocess.run(
        [sys.executable, str(SCRIPT), json.dumps(runs)],
        capture_output=True,
        check=False,
        cwd=folder,
        encoding="utf-8",
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"},
    )
    assert ended.returncode == 0, ended.stderr
    assert "not resumable" not in ended.stderr


def resumed(save: str, at: tuple[int, ...], **options: Any) -> list[dict[str, Any]]:
    """A training that saves after every step, and those that go on after some of them."""
    whole = {"out": f"{save}/whole", "save": f"{save}/checkpoints", **options}
    return [
        whole,
        *({"out": f"{save}/{step}", "resume": f"{save}/checkpoints/step={step}.ckpt", **options} for step in at),
    ]


def seen(folder: Path, phase: str = "train", rank: int = 0) -> Seen:
    file = folder / f"{phase}-{rank}.jsonl"
    return [tuple(json.loads(line)) for line in file.read_text().splitlines()] if file.exists() else []


def assert_goes_on(folder: Path, save: str, at: tuple[int, ...], ranks: int = 1) -> None:
    for rank in range(ranks):
        whole, checked = (seen(folder / save / "whole", phase, rank) for phase in ("train", "val"))
        for step in at:
            assert seen(folder / save / str(step), "train", rank) == whole[step:], f"{save}, from step {step}"
            after = seen(folder / save / str(step), "val", rank)
            assert bool(after) == bool(checked)
            assert after == checked[len(checked) - len(after) :]


def of_train(rank: int = 0, ranks: int = 1) -> Seen:
    """What Trainer.fit must see: epochs 0, 1, 2 of the plan in lightning_run.py."""
    dataset = ps.from_arrays({"id": np.arange(52)}).shuffle(seed=0).batch(8, drop_last=True)
    with ps.Loader(dataset, rank=rank, world_size=ranks) as loader:
        steps = [(epoch, step) for epoch in range(EPOCHS) for step in range(len(loader))]
        return [(epoch, step, loader.sample_ids(epoch, step).tolist()) for epoch, step in steps]


def of_validation(rank: int = 0, ranks: int = 1) -> Seen:
    with ps.Loader(ps.from_arrays({"id": np.arange(20)}).batch(8), rank=rank, world_size=ranks) as loader:
        return [(epoch, step, loader.sample_ids(0, step).tolist()) for epoch in range(EPOCHS) for step in range(3)]


@pytest.fixture(scope="module")
def one_process(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lightning")
    runs = [
        *resumed("loaders", (1, 5, 6, 7, 17)),
        *resumed("module", (4,), given="module", limit_train_batches=4, val_check_interval=2),
        *resumed("model", (8,), given="model", max_epochs=-1, max_steps=15),
        *resumed("several", (3, 8), given="several"),
        *resumed("ends", (6, 12), at_epoch_end=True),
    ]
    train(folder, runs)
    return folder


def test_fit_and_validate(one_process: Path) -> None:
    assert seen(one_process / "loaders/whole") == of_train()
    assert seen(one_process / "loaders/whole", "val") == of_validation()


def test_resumed_from_a_checkpoint_of_any_step(one_process: Path) -> None:
    assert_goes_on(one_process, "loaders", (1, 5, 6, 7, 17))


def test_resumed_from_a_checkpoint_of_an_epochs_end(one_process: Path) -> None:
    """Lightning does not load the loaders' states then, and only says which epoch comes."""
    assert seen(one_process / "ends/whole") == of_train()
    assert_goes_on(one_process, "ends", (6, 12))


def test_epochs_that_lightning_ends_early(one_process: Path) -> None:
    assert seen(one_process / "module/whole") == [place for place in of_train() if place[1] < 4]
    assert seen(one_process / "module/4") == [place for place in of_train() if place[0] > 0 and place[1] < 4]


def test_a_number_of_steps(one_process: Path) -> None:
    assert seen(one_process / "model/whole") == of_train()[:15]
    assert_goes_on(one_process, "model", (8,))


def test_several_loaders_of_which_the_shorter_one_begins_anew(one_process: Path) -> None:
    whole = seen(one_process / "several/whole")
    assert [(epoch, step, ids["long"]) for epoch, step, ids in whole] == of_train()
    with ps.Loader(ps.from_arrays({"id": np.arange(20)}).shuffle(seed=1).batch(8, drop_last=True)) as short:
        wanted = [
            short.sample_ids(first + step // 2, step % 2).tolist() for first in range(EPOCHS) for step in range(STEPS)
        ]
    assert [ids["short"] for _, _, ids in whole] == wanted
    assert_goes_on(one_process, "several", (3, 8))


@pytest.mark.long
def test_two_processes(tmp_path: Path) -> None:
    """The loaders are made before Lightning makes the process group, and in a DataModule."""
    loaders, module = {"devices": 2, "strategy": "ddp"}, {"devices": 2, "strategy": "ddp", "given": "module"}
    train(tmp_path, [*resumed("loaders", (4, 7), **loaders), *resumed("module", (9,), **module)])
    for rank in (0, 1):
        for given in ("loaders", "module"):
            assert seen(tmp_path / given / "whole", "train", rank) == of_train(rank, 2)
            assert seen(tmp_path / given / "whole", "val", rank) == of_validation(rank, 2)
    assert_goes_on(tmp_path, "loaders", (4, 7), ranks=2)
    assert_goes_on(tmp_path, "module", (9,), ranks=2)


@pytest.mark.long
def test_two_spawned_processes(tmp_path: Path) -> None:
    train(tmp_path, [{"out": "spawned", "devices": 2, "strategy": "ddp_spawn", "given": "module"}])
    for rank in (0, 1):
        assert seen(tmp_path / "spawned", "train", rank) == of_train(rank, 2)


@pytest.mark.parametrize("send", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_loader_is_not_sent_to_a_spawned_process(send: Any) -> None:
    with pytest.raises(ps.ProcessError, match="make it there, with Lightning's ddp_spawn in train_dataloader"):
        send(ps.Loader(ps.from_arrays({"id": np.arange(20)}).batch(8)))


def test_where_a_data_loader_has_samplers() -> None:
    loader = ps.Loader(ps.from_arrays({"id": np.arange(20)}).batch(8, drop_last=True), rank=1, world_size=2)
    sampler = loader.batch_sampler
    assert (len(sampler), sampler.batch_size, sampler.drop_last, len(loader.dataset)) == (2, 4, True, 20)
    assert sampler.sampler == loader.sampler
    loader.load_state_dict({**loader.state_dict(), "epoch": 2, "step": 1})
    loader.sampler.set_epoch(1)
    assert (loader.epoch, loader.step) == (2, 1), "a trainer that counts other epochs"
    loader.set_epoch(1)
    assert (loader.epoch, loader.step) == (1, 0)
    for each in (loader.sampler, loader.batch_sampler):
        with pytest.raises(ps.ProcessError, match="sampler draws nothing: a loader makes its batches itself"):
            iter(each)
    with pytest.raises(ps.PlanError, match="set_epoch"):
        loader.sampler.set_epoch(-1)
