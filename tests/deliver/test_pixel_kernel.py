"""Which kernel images get on a device: the fused one, unless its first call shows that it cannot work here."""

from __future__ import annotations

import sys
import threading
import time
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from penstock.core.columns.pixel_ops import PixelOps

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
    threads = [threading.Thread(target=kernel, args=(pixels(), None, None, OPS)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torch.equal(kernel(pixels(), None, None, OPS), wanted())
    assert len(calls) == 5
    assert len({id(affine) for *_, affine in calls}) == 1, "scale and bias are copied once"


def test_without_it_tensors_do_the_same_and_a_warning_says_so(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fused(*_: Any) -> Any:
        raise RuntimeError("Failed to find C compiler")

    fused_by(fused, monkeypatch)
    with pytest.warns(
        UserWarning, match=r"RuntimeError: Failed to find C compiler\); several kernels of PyTorch do the same"
    ):
        assert torch.equal(kernel(pixels(), None, None, OPS), wanted())
    assert torch.equal(kernel(pixels(), None, None, OPS), wanted()), "and no second warning"


def test_errors_of_the_device_are_not_taken_for_a_missing_compiler(
    kernel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fused(*_: Any) -> Any:
        raise torch.cuda.OutOfMemoryError("no memory")

    fused_by(fused, monkeypatch)
    with pytest.raises(torch.cuda.OutOfMemoryError):
        kernel(pixels(), None, None, OPS)


def test_memory_that_ran_out_once_does_not_cost_the_fused_kernel(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = [torch.cuda.OutOfMemoryError("no memory"), RuntimeError("Triton Error [CUDA]: out of memory")]

    def fused(*arguments: Any) -> Any:
        if errors:
            raise errors.pop(0)
        return torch_pixels.expression(*arguments)

    fused_by(fused, monkeypatch)
    for error in (torch.cuda.OutOfMemoryError, RuntimeError):
        with pytest.raises(error, match="memory"):
            kernel(pixels(), None, None, OPS)
    assert torch.equal(kernel(pixels(), None, None, OPS), wanted())
    assert kernel._fused is fused
    assert kernel.name == "one Triton kernel"


def test_a_launch_that_fails_is_named_and_tried_again(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = [RuntimeError("Triton Error [CUDA]: invalid argument")]

    def fused(*arguments: Any) -> Any:
        if errors:
            raise errors.pop()
        return torch_pixels.expression(*arguments)

    fused_by(fused, monkeypatch)
    with pytest.warns(UserWarning, match="cannot start the kernel .*invalid argument"):
        assert torch.equal(kernel(pixels(), None, None, OPS), wanted())
    assert kernel.name == "several kernels of PyTorch, since Triton cannot start one"
    assert torch.equal(kernel(pixels(), None, None, OPS), wanted())
    assert kernel._fused is fused


def test_what_cannot_be_compiled_is_named(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fused_by(lambda *_: int("no number"), monkeypatch)
    with pytest.warns(UserWarning, match="install triton, a C compiler and Python's headers"):
        kernel(pixels(), None, None, OPS)
    assert kernel.name == "several kernels of PyTorch, since Triton cannot compile one"


def test_two_loaders_do_not_compile_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    inside, most = [0], [0]

    def fused(*arguments: Any) -> Any:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.05)
        inside[0] -= 1
        return torch_pixels.expression(*arguments)

    fused_by(fused, monkeypatch)
    kernels = [torch_pixels.PixelKernel(torch.device("cpu")) for _ in range(3)]
    for one in kernels:
        one._is_tried = False
    threads = [threading.Thread(target=one, args=(pixels(), None, None, OPS)) for one in kernels]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_the_grid_fits_images_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA has 65,535 programs along the second axis of a grid, and 2³¹ - 1 along the first."""
    triton_pixels = pytest.importorskip("penstock.deliver.triton_pixels", reason="Triton is not installed")
    grids: list[tuple[int, ...]] = []

    class Kernel:
        def __getitem__(self, grid: tuple[int, ...]) -> Any:
            grids.append(grid)
            return lambda *_, **__: None

    monkeypatch.setattr(triton_pixels, "_kernel", Kernel())
    for shape in ((1, 5000, 5000, 3), (256, 224, 224, 3), (3, 20_000, 20_000, 3)):
        made = triton_pixels.fused(
            torch.empty(shape, dtype=torch.uint8, device="meta"), None, None, OPS, None, torch.empty(0, 256)
        )
        assert made.shape == (shape[0], 3, *shape[1:3])
    assert all(first < 2**31 and all(axis <= 65_535 for axis in others) for first, *others in grids)
