"""The samples of the workloads that compare readers of a format: the same for every writer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from work import FORMAT_SAMPLES


def samples() -> Iterator[tuple[bytes, int, str]]:
    """Bytes like those of small pictures (2 to 6 KB that do not compress), a label, a caption of some words."""
    rng = np.random.default_rng(0)
    pool = rng.bytes(1 << 20)
    for number in range(FORMAT_SAMPLES):
        length, begin = int(rng.integers(2_000, 6_000)), int(rng.integers(0, 1_000_000))
        caption = f"caption {number} " + "of some words " * int(rng.integers(1, 6))
        yield pool[begin : begin + length], int(rng.integers(0, 1_000)), caption
