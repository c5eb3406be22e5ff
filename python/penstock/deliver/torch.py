"""Finished batches as torch tensors: on the CPU without a copy, on CUDA by one asynchronous copy from pinned slots."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.deliver.numpy import split_rows
from penstock.errors import PlanError
from penstock.spec import Field

try:
    import torch
except ImportError as missing:
    raise PlanError(
        f"to='torch' needs PyTorch, which is not to be imported here ({missing}); pip install 'penstock[torch]'"
    ) from missing


class ToTorch:
    """Tensors on a device; text and ragged columns stay Arrow arrays on the host.

    CUDA: the slots are pinned. A worker thread starts the copy of an item on a stream of its own, and waits for it to end
    before the slot may be used again; the consumer's stream takes the tensors over when they are received, so that their
    memory is not used again before the work that the consumer queued is done.
    """

    def __init__(self, device: Any = None) -> None:
        self.device = torch.device("cpu" if device is None else device)
        self.on_cuda = self.device.type == "cuda"
        if self.on_cuda and not torch.cuda.is_available():
            raise PlanError(f"device={device!r}: this PyTorch sees no CUDA device; use device='cpu'")
        if self.on_cuda and self.device.index is None:
            self.device = torch.device("cuda", torch.cuda.current_device())
        self._stream = torch.cuda.Stream(self.device) if self.on_cuda else None

    @property
    def new_memory(self) -> Any:
        """Pinned memory for CUDA; None for the usual."""
        return _pinned if self.on_cuda else None

    def convert(self, column: Any, field: Field) -> Any:
        """One column of an item as a tensor on the host, sharing its memory."""
        if isinstance(column, pa.Array) or not isinstance(column, np.ndarray):
            return column
        if not column.flags.writeable or any(stride < 0 for stride in column.strides):
            column = column.copy()  # torch has neither
        if field.dtype == "bfloat16":
            return torch.from_numpy(column.view(np.int16)).view(torch.bfloat16)
        if column.dtype in (np.uint16, np.uint32, np.uint64) and not hasattr(torch, column.dtype.name):
            raise PlanError(f"this PyTorch has no {column.dtype}; cast the column to a signed dtype first")
        try:
            return torch.from_numpy(column)
        except TypeError:
            raise PlanError(f"PyTorch has no dtype like NumPy's {column.dtype}; convert the column in a map") from None

    def finish(self, columns: dict[str, Any]) -> dict[str, Any]:
        """All columns of an item on the device."""
        if self._stream is None:
            return columns if self.device.type == "cpu" else self._move(columns)
        with torch.cuda.stream(self._stream):
            moved = self._move(columns)
            copied = self._stream.record_event()
        copied.synchronize()
        return moved

    def _move(self, columns: dict[str, Any]) -> dict[str, Any]:
        return {
            name: column.to(self.device, non_blocking=True) if isinstance(column, torch.Tensor) else column
            for name, column in columns.items()
        }

    def receive(self, columns: dict[str, Any]) -> dict[str, Any]:
        """All columns of an item, in the consumer's thread; hands CUDA memory over to the consumer's stream."""
        if self.on_cuda:
            stream = torch.cuda.current_stream(self.device)
            for column in columns.values():
                if isinstance(column, torch.Tensor):
                    column.record_stream(stream)
        return columns

    def split(self, column: Any, rows: int) -> Iterable[Any]:
        """A column in parts of so many rows, all cut by one call: each call would hand the interpreter over."""
        return column.split(rows) if isinstance(column, torch.Tensor) else split_rows(column, rows)


def _pinned(size: int) -> Any:
    return torch.empty(size, dtype=torch.uint8, pin_memory=True).numpy()


def distributed_rank() -> tuple[int, int] | None:
    """Rank and world size of torch.distributed, if it is initialised in this process."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()
