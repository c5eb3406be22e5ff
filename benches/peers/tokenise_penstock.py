"""Penstock: read, Tokenize, pack, batch; 2 CPUs. `tokenise_penstock.py FOLDER STRATEGY TOKENS` prints one line of JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tokenise_common import BATCH, LENGTH, files, measure, tokenizer

import penstock as ps

CPUS = 2
#: Of each of 32 lanes: so many documents are tokenised before the first sequence is packed by best fit.
WINDOW = 100


def planned(folder: Path, strategy: Any, tokens: int) -> ps.Dataset:
    """The plan; an epoch has as many steps as the tokens fill."""
    tokenise = ps.text.Tokenize(tokenizer(folder), special_in_text="as_text")
    rows = ps.read(files(folder), columns=["text"]).transform(text=tokenise)
    return rows.pack("tokens", length=LENGTH, strategy=strategy, window=WINDOW).batch(
        BATCH, steps=tokens // (BATCH * LENGTH)
    )


def batches(folder: Path, strategy: str, tokens: int) -> Iterator[tuple[int, int]]:
    """Tokens and places of each batch."""
    with ps.Loader(planned(folder, strategy, tokens), rank=0, world_size=1, cpus=CPUS) as loader:
        for batch in loader:
            yield int(np.count_nonzero(batch["loss_mask"])), batch["tokens"].size
        if "PENSTOCK_BENCH_REPORT" in os.environ:
            print(loader.report(), file=sys.stderr)


def main() -> None:
    """Prints one line of JSON."""
    _ = ps.text, ps.Loader, ps.read  # whose modules are imported at first use, which does not count
    folder, strategy, tokens = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    print(json.dumps(measure(f"Penstock {strategy}", ps.__version__, lambda: batches(folder, strategy, tokens))))


if __name__ == "__main__":
    main()
