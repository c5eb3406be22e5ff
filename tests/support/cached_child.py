"""A plan that keeps rows in a folder, for several processes; PENSTOCK_TEST_PAUSE_S lets each batch take so long."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

import penstock as ps

ROWS = 600


def slow(batch: dict[str, Any]) -> dict[str, Any]:
    """Takes some time, so that whoever kills meets rows half written."""
    time.sleep(float(os.environ.get("PENSTOCK_TEST_PAUSE_S", "0")))
    return {
        "x": np.repeat(batch["x"][:, None], 500, axis=1),
        "text": [f"row {one} " * (one % 40) for one in batch["x"].tolist()],
    }


def dataset(folder: str, **options: Any) -> ps.Dataset:
    return ps.from_arrays({"x": np.arange(ROWS)}).map(slow).cache(folder, **options).shuffle(seed=1).batch(20)


def digest(data: ps.Dataset, epochs: int = 1) -> str:
    """Of all batches."""
    with ps.Loader(data, rank=0, world_size=1) as loader:
        return digest_of(batch for _ in range(epochs) for batch in loader)


def digest_of(batches: Iterable[Mapping[str, Any]]) -> str:
    """Of these batches."""
    state = hashlib.blake2b(digest_size=8)
    for batch in batches:
        state.update(np.asarray(batch["x"]).tobytes())
        state.update("".join(batch["text"].to_pylist()).encode())
    return state.hexdigest()
