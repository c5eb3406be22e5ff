"""PyTorch's iterators, which say how many batches were taken of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter, _SingleProcessDataLoaderIter


@dataclass
class EpochPosition:
    """Where an iteration is. generator, sampler: their states when the epoch began."""

    batches: int = 0
    generator: str = ""
    drawn: str = ""
    sampler: Any = None


class CountsBatches:
    """Counts the batches that are taken. After the last one the next epoch is due."""

    position: EpochPosition | None = None

    def __next__(self) -> Any:
        try:
            batch = super().__next__()  # type: ignore[misc]  # PyTorch's
        except StopIteration:
            if self.position is not None:
                self.position.batches = 0
            raise
        if self.position is not None:
            self.position.batches += 1
        return batch


class InProcesses(CountsBatches, _MultiProcessingDataLoaderIter):  # type: ignore[misc]  # mypy does not look into PyTorch
    """Batches of PyTorch's workers."""


class InThisProcess(CountsBatches, _SingleProcessDataLoaderIter):  # type: ignore[misc]
    """Batches that PyTorch fetches in the training process."""
