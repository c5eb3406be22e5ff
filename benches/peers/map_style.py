"""The trivial map-style dataset of workload "objects": what a loader adds to it is all that is measured."""

from __future__ import annotations

import numpy as np

SAMPLES = 200_000
FLOATS = 16


class Floats:
    """number → (float32[16], int)."""

    def __init__(self) -> None:
        self.floats = np.random.default_rng(0).random((SAMPLES, FLOATS), dtype=np.float32)

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, number: int) -> tuple[np.ndarray, int]:
        return self.floats[number], number


class Together(Floats):
    """The same with PyTorch's own protocol for whole batches: a list of items."""

    def __getitems__(self, numbers: list[int]) -> list[tuple[np.ndarray, int]]:
        return [(self.floats[number], number) for number in numbers]


class ByBatch(Floats):
    """The same with columns for a whole batch."""

    def __getitems__(self, numbers: list[int]) -> dict[str, np.ndarray]:
        rows = np.array(numbers)
        return {"0": self.floats[rows], "1": rows}
