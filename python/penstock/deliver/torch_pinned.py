"""Batches for the CPU in pinned memory, for a training that moves them itself: `Loader(pin_memory=True)`."""

from __future__ import annotations

from typing import Any

import torch

from penstock.core.warnings import warn
from penstock.deliver.torch_staging import in_order_of_memory


def can_pin() -> bool:
    """Whether memory can be pinned here; a warning where not."""
    if torch.cuda.is_available():
        return True
    warn("penstock: pin_memory=True: PyTorch sees no CUDA device here, so that memory is not pinned")
    return False


def pinned_copy(column: Any) -> Any:
    """The tensor in memory of PyTorch's allocator; anything else as it is.

    Not in a slot: copies that the training begins may still read from it when nobody holds the tensor, which that allocator alone knows.
    """
    if not isinstance(column, torch.Tensor):
        return column
    ordered, axes = in_order_of_memory(column)
    made = torch.empty(ordered.shape, dtype=ordered.dtype, device="cpu", pin_memory=True).copy_(ordered)
    return made.permute(axes) if axes else made
