"""The rows that all sides of the bench of packing pack. Imports NumPy only: every environment reads it."""

from __future__ import annotations

from typing import Any

import numpy as np

LENGTH = 2_048
SHORTEST = 16
Numbers = np.ndarray[Any, np.dtype[Any]]

#: Mean and spread of lognormal lengths, before they are clipped: articles, and a mix in which half of the tokens are in long documents.
DISTRIBUTIONS = {"articles": (400, 0.8), "long": (1_200, 0.8)}


def lengths(distribution: str, rows: int) -> Numbers:
    """Tokens of each row, from 16 to 2,048."""
    mean, spread = DISTRIBUTIONS[distribution]
    drawn = np.random.default_rng(0).lognormal(np.log(mean) - spread**2 / 2, spread, rows)
    return np.clip(drawn, SHORTEST, LENGTH).astype(np.int64)


def tokens(distribution: str, rows: int) -> tuple[Numbers, Numbers]:
    """All tokens (int32) one row after another, and where each row begins and the last one ends."""
    edges = np.concatenate([[0], np.cumsum(lengths(distribution, rows))])
    return np.random.default_rng(1).integers(1, 50_257, edges[-1], dtype=np.int32), edges
