"""The end of chains of image ops on a device of PyTorch's: one Triton kernel, or the same as an expression of tensors."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from penstock.core.columns.pixel_ops import FIRST_TABLE, HORIZONTAL, VERTICAL, PixelOps
from penstock.core.warnings import warn


@dataclass(frozen=True, kw_only=True)
class Pixels:
    """uint8 images, and what becomes of them on the device.

    drawn: a tensor for each kind of what the images drew: "flags", one byte an image, what it goes through; "patches", parts of each that are erased, int32 of shape (images, erasings, 4);
    "partners", and "weights" or "cuts", see `torch_mixes`.
    """

    tensor: torch.Tensor
    drawn: Mapping[str, torch.Tensor]
    ops: PixelOps

    @property
    def dtype(self) -> str:
        """That of the images on the device."""
        return self.ops.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the images on the device."""
        rows, *axes = self.tensor.shape
        return (rows, *self.ops.shape(axes))


#: Triton's compiler, and what it made so far, are the process's.
_compiling = threading.Lock()


class PixelKernel:
    """Runs ops on pixels that are on the device, on the stream that is current. The results are those of the CPU's kernel, bit for bit.

    name: which kernel that is, in words.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._constants: dict[PixelOps, tuple[torch.Tensor, torch.Tensor]] = {}
        self._fused: Any = None
        self._is_tried = device.type != "cuda"
        self._lock = threading.Lock()
        self.name = (
            "several kernels of PyTorch" if self._is_tried else "one Triton kernel, compiled with the first batch"
        )

    def __call__(
        self, pixels: torch.Tensor, flags: torch.Tensor | None, patches: torch.Tensor | None, ops: PixelOps
    ) -> torch.Tensor:
        """Images of `ops.dtype`, in `ops.layout_to`."""
        constants = self._constants_of(ops)
        if not self._is_tried:
            made = self._first(pixels, flags, patches, ops, *constants)
            if made is not None:
                return made
        return (self._fused or expression)(pixels, flags, patches, ops, *constants)

    def _constants_of(self, ops: PixelOps) -> tuple[torch.Tensor, torch.Tensor]:
        """See `affine_of` and `tables_of`; on the device."""
        with self._lock:
            if ops not in self._constants:
                found = affine_of(ops), tables_of(ops)
                self._constants[ops] = (
                    found[0].to(self._device, non_blocking=True),
                    found[1].to(self._device, non_blocking=True),
                )
            return self._constants[ops]

    def _first(self, *arguments: Any) -> torch.Tensor | None:
        """The result of the fused kernel's first call, which compiles it; None, and a warning, where that cannot be.

        Only what will not change, a kernel that cannot be compiled, is not tried again. Memory that ran out is the caller's to know.
        """
        with _compiling:
            if self._is_tried:
                return None
            try:
                fused = importlib.import_module("penstock.deliver.triton_pixels").fused
                made: torch.Tensor = fused(*arguments)
            except Exception as error:
                if _is_of_device(error):
                    raise
                self._is_tried = "Triton Error [" not in str(error)  # which is the driver's, about this launch
                failed = "compile" if self._is_tried else "start"
                self.name = f"several kernels of PyTorch, since Triton cannot {failed} one"
                warn(
                    f"penstock: Triton cannot {failed} the kernel for images on the device ({type(error).__name__}: {error}); several kernels of "
                    f"PyTorch do the same, slower, in more memory; install triton, a C compiler and Python's headers (python3-dev)"
                )
                return None
            self._fused, self._is_tried, self.name = fused, True, "one Triton kernel"
            return made


def _is_of_device(error: Exception) -> bool:
    """Whether the device has no memory left, or is lost."""
    of_device = (torch.cuda.OutOfMemoryError, *([torch.AcceleratorError] if hasattr(torch, "AcceleratorError") else []))
    return isinstance(error, of_device) or "out of memory" in str(error)


def affine_of(ops: PixelOps) -> torch.Tensor:
    """Scale, bias, and what each erasing writes, float32 of shape (2 + erasings, 3), on the host."""
    return torch.tensor([ops.scale, ops.bias, *ops.erased], dtype=torch.float32, device="cpu")


def tables_of(ops: PixelOps) -> torch.Tensor:
    """The tables, uint8 of shape (tables, 256), on the host."""
    return torch.tensor([list(table) for table in ops.tables], dtype=torch.uint8, device="cpu").reshape(-1, 256)


def inside(patches: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """Of each pixel whether it is in its image's patch (top, left, height, width): of shape (images, height, width)."""
    y, x = (torch.arange(side, device=patches.device) for side in (height, width))
    top, left, rows, columns = patches[:, :, None].unbind(1)
    return ((y >= top) & (y < top + rows))[:, :, None] & ((x >= left) & (x < left + columns))[:, None, :]


def expression(
    pixels: torch.Tensor,
    flags: torch.Tensor | None,
    patches: torch.Tensor | None,
    ops: PixelOps,
    affine: torch.Tensor,
    tables: torch.Tensor,
) -> torch.Tensor:
    """The kernel's work in tensors' own operations, on any device."""
    images = pixels.permute(0, 3, 1, 2) if ops.layout_from == "NHWC" else pixels
    if flags is not None:
        for bit, axis in ((HORIZONTAL, 3), (VERTICAL, 2)):
            images = torch.where((flags & bit).bool()[:, None, None, None], images.flip(axis), images)
        for number, table in enumerate(tables):
            goes = (flags & FIRST_TABLE << number).bool()[:, None, None, None]
            images = torch.where(goes, table[images.int()], images)
    scale, bias, *erased = affine[:, : images.shape[1], None, None]
    numbers = images.float().mul_(scale).add_(bias)  # two roundings, as on the CPU
    if patches is not None:
        for number, value in enumerate(erased):
            numbers = torch.where(inside(patches[:, number], *images.shape[2:])[:, None], value, numbers)
    numbers = numbers.type(getattr(torch, ops.dtype))
    return (numbers.permute(0, 2, 3, 1) if ops.layout_to == "NHWC" else numbers).contiguous()
