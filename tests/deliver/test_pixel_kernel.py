"""Which kernel images get on a device: the fused one, unless its first call shows that it cannot work here."""

from __future__ import annotations

import sys
import threading
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from penstock.core.pixel_ops import PixelOps

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
torch_pixels = pytest.importorskip("penstock.deliver.torch_pixels")

OPS = PixelOps(dtype="float32", scale=(0.5,) * 3, bias=(-1.0, 0.0, 1.0), layout_from="NHWC", layout_to="NCHW")


def pixels() -> Any:
    return torch.from_numpy(np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3))


def wanted() -> Any:
    return pixels().permute(0, 3, 1, 2).float() * 0.5 + torch.tensor([-1.0, 0.0, 1.0]).view(3, 1, 1)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Any:
    """As on CUDA: the fused kernel is still to be tried."""
    made = torch_pixels.PixelKernel(torch.device("cpu"))
    made._is_tried = False
    return made


def fused_by(function: Any, patch: pytest.MonkeyPatch) -> None:
    module = ModuleType("penstock.deliver.triton_pixels")
    module.fused = function  # type: ignore[attr-defined]
    patch.setitem(sys.modules, module.__name__, module)


def test_the_fused_kernel_is_compiled_once(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def fused(*arguments: Any) -> Any:
        calls.append(arguments)
        return torch_pixels.expression(*arguments)

    fused_by(fused, monkeypatch)
    threads = [threading.Thread(target=kernel, args=(pixels(), None, OPS)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torch.equal(kernel(pixels(), None, OPS), wanted())
    assert len(calls) == 5
    assert len({id(affine) for *_, affine in calls}) == 1, "scale and bias are copied once"


def test_without_it_tensors_do_the_same_and_a_warning_says_so(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fused(*_: Any) -> Any:
        raise RuntimeError("Failed to find C compiler")

    fused_by(fused, monkeypatch)
    with pytest.warns(
        UserWarning, match=r"RuntimeError: Failed to find C compiler\); several kernels of PyTorch do the same"
    ):
        assert torch.equal(kernel(pixels(), None, OPS), wanted())
    assert torch.equal(kernel(pixels(), None, OPS), wanted()), "and no second warning"


def test_errors_of_the_device_are_not_taken_for_a_missing_compiler(
    kernel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fused(*_: Any) -> Any:
        raise torch.cuda.OutOfMemoryError("no memory")

    fused_by(fused, monkeypatch)
    with pytest.raises(torch.cuda.OutOfMemoryError):
        kernel(pixels(), None, OPS)
