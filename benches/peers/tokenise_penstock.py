"""Penstock: read, map(tokenise), pack, batch; 2 CPUs. `tokenise_penstock.py FOLDER STRATEGY TOKENS` prints one line of JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tokenise_common import BATCH, LENGTH, files, measure, tokenizer

import penstock as ps

CPUS = 2
#: Of each of 32 lanes: so many documents are tokenised before the first sequence is packed by best fit.
WINDOW = 100


def planned(folder: Path, strategy: Any, tokens: int) -> ps.Dataset:
    """The plan; an epoch has as many steps as the tokens fill."""
    encoder = tokenizer(folder)

    def tokenise(batch: dict[str, Any]) -> dict[str, Any]:
        encodings = encoder.encode_batch_fast(texts_of(batch["text"]))
        rows = [encoding.ids for encoding in encodings]
        edges = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in rows], out=edges[1:])
        joined = np.fromiter(chain.from_iterable(rows), np.int32, edges[-1])
        return {"tokens": pa.LargeListArray.from_arrays(edges, joined)}

    texts = ps.read(files(folder), columns=["text"]).map(tokenise)
    return texts.pack("tokens", length=LENGTH, strategy=strategy, window=WINDOW).batch(
        BATCH, steps=tokens // (BATCH * LENGTH)
    )


def texts_of(column: Any) -> list[str]:
    """Text as the tokenizer takes it."""
    return column.to_pylist() if hasattr(column, "to_pylist") else list(column)


def batches(folder: Path, strategy: str, tokens: int) -> Iterator[tuple[int, int]]:
    """Tokens and places of each batch."""
    with ps.Loader(planned(folder, strategy, tokens), rank=0, world_size=1, cpus=CPUS) as loader:
        for batch in loader:
            yield int(np.count_nonzero(batch["loss_mask"])), batch["tokens"].size
        if "PENSTOCK_BENCH_REPORT" in os.environ:
            print(loader.report(), file=sys.stderr)


def main() -> None:
    """Prints one line of JSON."""
    folder, strategy, tokens = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    print(json.dumps(measure(f"Penstock {strategy}", ps.__version__, lambda: batches(folder, strategy, tokens))))


if __name__ == "__main__":
    main()
