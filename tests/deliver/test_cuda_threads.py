"""Threads of a loader work on its device, and mind no capture of a CUDA graph; no device is needed."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.lower import context as lower

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
delivery = pytest.importorskip("penstock.deliver.torch")
from support.fake_cuda import FakeCuda  # noqa: E402  # needs PyTorch


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    monkeypatch.setattr(lower, "ITEM_BYTES", 1)
    return FakeCuda(monkeypatch)


def images(rows: int = 600) -> ps.Dataset:
    pixels = np.random.default_rng(0).integers(0, 256, (rows, 8, 8, 3), np.uint8)
    ops = [ps.image.RandomHorizontalFlip(), ps.image.Normalize(ps.image.IMAGENET)]
    return (
        ps.from_arrays({"image": pixels, "x": np.zeros((rows, 300), np.float32)}).shuffle(seed=1).transform(image=ops)
    )


def test_no_thread_asks_the_driver_anything_on_another_device(cuda: FakeCuda) -> None:
    """Memory is pinned, and events are asked for, in threads of every stage."""
    with ps.Loader(images().batch(50), to="torch", device="cuda:2", cpus=2) as loader:
        for _ in range(3):
            list(loader)
        loader.batch_at(0, 1)
    del loader
    assert cuda.contexts == {2}
    assert len([name for name in cuda.contexts_of if name.startswith("penstock-")]) >= 3
    assert {frozenset(found) for found in cuda.contexts_of.values()} == {frozenset({2})}


def test_users_functions_run_on_the_loaders_device(cuda: FakeCuda) -> None:
    seen: set[Any] = set()

    def note(batch: dict[str, Any]) -> dict[str, Any]:
        seen.add((threading.current_thread() is threading.main_thread(), torch.cuda.current_device()))
        return batch

    plan = images().map(note).filter(lambda batch: note(batch)["x"][:, 0] == 0).batch(50, steps=8)
    with ps.Loader(plan, to="torch", device="cuda:1", cpus=2) as loader:
        list(loader)
    assert seen == {(False, 1)}
    assert cuda.current_device() == 0


def test_a_copy_that_is_dropped_waits_on_its_own_device(cuda: FakeCuda) -> None:
    deliver = delivery.ToTorch("cuda:1")
    deliver.finish({"x": torch.zeros(4)}, 4)
    del deliver
    assert cuda.host_waits
    assert cuda.contexts == {1}


def test_a_graph_is_captured_while_batches_are_made(cuda: FakeCuda) -> None:
    """In the default mode a capture forbids other threads to allocate and to ask for events, unless they say that they have nothing to do with it."""
    with ps.Loader(images(1200).batch(50), to="torch", device="cuda", cpus=2) as loader:
        batches = iter(loader)
        next(batches)
        cuda.capturing = threading.get_ident()
        for _ in range(4):
            next(batches)
        cuda.capturing = None
        assert cuda.broken_captures == []
        assert len(list(batches)) == 24 - 5


def test_the_callers_own_mode_stays(cuda: FakeCuda) -> None:
    with ps.Loader(images().batch(50), to="torch", device="cuda") as loader:
        loader.batch_at(0, 0)
    assert getattr(cuda._thread, "mode", 0) == 0
