"""`pin_memory=True`: batches for the CPU in memory from which a training's own copies are fast."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import penstock as ps

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from support.fake_cuda import FakeCuda  # noqa: E402  # needs PyTorch

ROWS = 400


def data() -> ps.Dataset:
    pixels = np.random.default_rng(0).integers(0, 256, (ROWS, 8, 9, 3), np.uint8)
    columns = {"image": pixels, "label": np.arange(ROWS), "text": [str(row) for row in range(ROWS)]}
    ops = [ps.image.Normalize(ps.image.IMAGENET), ps.image.ToLayout("NHWC")]
    plan = ps.from_arrays(columns).shuffle(seed=1).transform(image=ops)
    return plan.map(lambda batch: {**batch, "half": batch["label"] / 2}).batch(50)


@pytest.mark.parametrize("isolation", [None, "process"])
def test_all_tensors_are_pinned_and_the_same(monkeypatch: pytest.MonkeyPatch, isolation: Any) -> None:
    cuda = FakeCuda(monkeypatch)
    cuda._exchange_device(1)
    plan = (
        data()
        if isolation is None
        else ps.from_arrays({"image": np.zeros((ROWS, 8, 9, 3)), "label": np.arange(ROWS)}).batch(50)
    )
    options: dict[str, Any] = {"to": "torch", "convert": {"image": "channels_last"}, "isolation": isolation}
    with ps.Loader(plan, **options) as plain, ps.Loader(plan, **options, pin_memory=True) as pinned:
        for one, other in zip(plain, pinned, strict=True):
            for name, column in one.items():
                if isinstance(column, torch.Tensor):
                    assert cuda.is_pinned(other[name]), name
                    assert not cuda.is_pinned(column)
                    assert torch.equal(column, other[name])
                    assert column.stride() == other[name].stride()
                else:
                    assert column.equals(other[name])
    assert cuda.contexts == {1}, "memory is pinned on the device that is current where the pass began"
    assert cuda.copies == []


def test_memory_is_pinned_in_threads_of_the_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda(monkeypatch)
    with ps.Loader(data(), to="torch", pin_memory=True) as loader:
        list(loader)
    assert threading.current_thread().name not in cuda.contexts_of


def test_on_the_device_nothing_is_left_to_pin(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeCuda(monkeypatch)
    with ps.Loader(data(), to="torch", device="cuda", pin_memory=True) as loader:
        assert loader.batch_at(0, 0)["label"].shape == (50,)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_cuda_a_warning_says_so() -> None:
    with pytest.warns(UserWarning, match="pin_memory=True: PyTorch sees no CUDA device"):
        loader = ps.Loader(data(), to="torch", pin_memory=True)
    with loader:
        assert len(list(loader)) == ROWS // 50


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"to": "numpy", "pin_memory": True}, "to='numpy': PyTorch alone pins memory; write to='torch'"),
        ({"to": "jax", "pin_memory": True}, "write to='torch'"),
        ({"to": "torch", "pin_memory": "yes"}, "write True or False"),
        ({"to": "torch", "pin_memory": None}, "write True or False"),
    ],
)
def test_what_cannot_be_pinned(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ps.PlanError, match=message):
        ps.Loader(data(), **options)
