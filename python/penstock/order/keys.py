"""Purposes of random keys: a key made for one purpose says nothing about another."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.core.columns.spec import Ids
from penstock.core.kernels import mix

ORDER_KEY, TRANSFORM_KEY, SHARD_KEY, SOURCE_KEY, STAGE_KEY = 1, 2, 3, 4, 5
BUCKET_KEY, PICK_KEY, SUBSTITUTE_KEY, STEP_KEY, BATCH_KEY = 16, 17, 18, 19, 20


def mix_rows(ids: Ids, draws: Ids | np.int64) -> Ids:
    """A number (int64) for every row and draw, by which it draws its random numbers (SplitMix64's finaliser)."""
    with np.errstate(over="ignore"):
        mixed = ids.astype(np.uint64) + draws.astype(np.uint64) * np.uint64(0x9E37_79B9_7F4A_7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
        return np.asarray((mixed ^ (mixed >> np.uint64(31))).view(np.int64))


def hashed(keys: Ids, seed: int) -> npt.NDArray[np.uint64]:
    """A random number (uint64, all values equally likely) for every key and seed, the same on all machines."""
    return mix_rows(mix_rows(keys, np.int64(mix([seed, PICK_KEY]) >> 1)), np.int64(PICK_KEY)).view(np.uint64)


def shares(random: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    """Random numbers as numbers from 0 to below 1."""
    return (random >> np.uint64(11)).astype(np.float64) * 2.0**-53
