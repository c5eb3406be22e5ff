"""What all sides of the bench of resuming read, and what they write of a run. Imports NumPy only: every environment reads it.

Two sources of 20,000 rows: a number, 256 random bytes and a document of 8 to 64 tokens. A token is the row's number × 64 + its place in the document, so
that the tokens of a packed sequence say which rows they are of.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

Numbers = np.ndarray[Any, np.dtype[Any]]

SOURCES = ("a", "b")
ROWS, FILES = 20_000, 8
PAYLOAD_BYTES = 256
SHORTEST, LONGEST = 8, 64
#: Rows of a step over all ranks, and the steps after which a run of any length ends.
BATCH, MOST_STEPS = 64, 400
#: The step after which the state is saved; the 20 after it are compared.
SAVED_STEP = int(os.environ.get("PENSTOCK_BENCH_SAVED_STEP", "20"))
STEPS = SAVED_STEP + 20
#: Tokens of a packed sequence.
LENGTH = 128
PLANS = {
    "shuffle": "one source, shuffled",
    "mix": "two sources, shuffled and mixed 0.7 to 0.3",
    "filter": "one source, shuffled, rows whose number is divisible by 3 drop out",
    "pack": f"one source, shuffled, its documents packed to sequences of {LENGTH} tokens",
}
WEIGHTS = (0.7, 0.3)


def stays(row: Any) -> Any:
    """The plan "filter": a row's number, or many, to whether it stays."""
    return row % 3 != 0


def rows(source: str, file: int) -> Iterator[dict[str, Any]]:
    """The rows of one of a source's files: id, tokens, payload."""
    per_file = ROWS // FILES
    first = SOURCES.index(source) * ROWS + file * per_file
    rng = np.random.default_rng(first)
    for row in range(first, first + per_file):
        tokens = row * LONGEST + np.arange(rng.integers(SHORTEST, LONGEST + 1), dtype=np.int64)
        yield {"id": row, "tokens": tokens, "payload": rng.bytes(PAYLOAD_BYTES)}


def rows_of(tokens: Numbers) -> Numbers:
    """The row of each token."""
    return tokens // LONGEST


def write_steps(path: Path, steps: list[Numbers]) -> None:
    """The row numbers (of "pack": tokens) of each of a rank's steps."""
    counts = np.array([len(step) for step in steps], dtype=np.int64)
    ids = np.concatenate([*steps, np.zeros(0, dtype=np.int64)])
    np.savez(path, ids=ids, counts=counts)


def read_steps(path: Path) -> list[Numbers]:
    """What write_steps wrote."""
    with np.load(path) as saved:
        return np.split(saved["ids"], np.cumsum(saved["counts"]))[:-1]
