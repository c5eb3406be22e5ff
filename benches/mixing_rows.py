"""What all sides of the bench of mixing read. Imports NumPy only: every environment reads it.

"mix": sources of rows of 2,048 uint16 tokens, as files without a header. A row's first token is its source's number, by which a side is checked. A source is as long as
its weight says, so that an epoch takes about all rows of all. "lengths": the lists of tokens of `packing_rows`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import packing_rows

Numbers = np.ndarray[Any, np.dtype[Any]]

SOURCES = 10
#: Zipf's: 1, 1/2, 1/3, …
WEIGHTS = tuple(1 / number / sum(1 / other for other in range(1, SOURCES + 1)) for number in range(1, SOURCES + 1))
ROWS = 60_000
LENGTH, BATCH = 2_048, 64
ROW_BYTES = 2 * LENGTH
#: Bounds of the buckets of lengths, and what a batch holds with its padding where rows are not counted.
BOUNDARIES, LONGEST, MAX_TOKENS = (128, 256, 512, 1_024), 2_048, 32_768
PLANS = {
    "mix": f"{SOURCES} sources with weights 1, 1/2, … 1/{SOURCES}, shuffled, rows of {LENGTH:,} uint16 tokens, batches of {BATCH}",
    "lengths": f"lists of tokens of lognormal lengths, shuffled, padded in batches of similar length: {BATCH} rows, or {MAX_TOKENS:,} tokens",
}


def token_files(data: Path) -> list[Path]:
    """A file a source."""
    return [data / "tokens" / f"{number}.bin" for number in range(SOURCES)]


def source_rows(data: Path, number: int) -> Numbers:
    """The rows of one source, uint16 (rows, LENGTH)."""
    return np.fromfile(token_files(data)[number], dtype=np.uint16).reshape(-1, LENGTH)


def write_tokens(data: Path, rows: int) -> None:
    """What is missing of the sources, together about so many rows."""
    (data / "tokens").mkdir(parents=True, exist_ok=True)
    for number, path in enumerate(token_files(data)):
        if path.exists():
            continue
        shape = (round(rows * WEIGHTS[number]), LENGTH)
        values = np.random.default_rng(number).integers(0, 50_257, shape, dtype=np.uint16)
        values[:, 0] = number
        scratch = path.with_suffix(".tmp")
        values.tofile(scratch)
        scratch.rename(path)


def lists(rows: int) -> tuple[Numbers, Numbers]:
    """So many lists' tokens (int32, none is 0), one list after another, and where each begins and the last one ends."""
    return packing_rows.tokens("articles", rows)
