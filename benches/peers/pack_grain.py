"""Google Grain's packing of the rows of `packing_rows`: prints one line of JSON a strategy and number of bins.

Rows are a MapDataset of NumPy arrays in memory, read without threads, as its guide says of such sources. It gives tokens, segment ids and positions; no mask.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grain
import numpy as np
from grain.experimental import BestFitPackIterDataset, ConcatThenSplitIterDataset, FirstFitPackIterDataset

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from packing_rows import LENGTH, tokens

#: As many bins as hold about a window of 1,000 articles, and fewer, as a batch.
BINS = (64, 256)
STRUCT = {"tokens": LENGTH}

Pack = Callable[[Any], Any]


def packers() -> dict[str, Pack]:
    """Ways to pack, by name; rows packed are not shuffled, which spares Grain some work."""
    found: dict[str, Pack] = {}
    for name, kind in (("first_fit", FirstFitPackIterDataset), ("best_fit", BestFitPackIterDataset)):
        for bins in BINS:
            found[f"{name} {bins} bins"] = lambda rows, kind=kind, bins=bins: kind(
                rows, length_struct=STRUCT, num_packing_bins=bins, shuffle_bins=False
            )
    found["concat"] = lambda rows: ConcatThenSplitIterDataset(rows, length_struct=STRUCT)
    return found


def measure(pack: Pack, rows: list[dict[str, Any]]) -> dict[str, float]:
    """Tokens per second of CPU and of clock, and how full sequences are."""
    dataset = pack(
        grain.MapDataset.source(rows).to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0))
    )
    started, cpu_started = time.perf_counter(), time.process_time()
    sequences = real = 0
    for sequence in dataset:
        sequences += 1
        real += int(np.count_nonzero(sequence["tokens_segment_ids"]))
    cpu_s, elapsed = time.process_time() - cpu_started, time.perf_counter() - started
    return {"tokens_per_cpu_s": real / cpu_s, "tokens_per_s": real / elapsed, "fill": real / sequences / LENGTH}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Measure Grain's packing.")
    parser.add_argument("--distribution", default="articles")
    parser.add_argument("--rows", type=int, default=20_000)
    arguments = parser.parse_args()
    values, edges = tokens(arguments.distribution, arguments.rows)
    rows = [{"tokens": row} for row in np.split(values, edges[1:-1])]
    found = {name: measure(pack, rows) for name, pack in packers().items()}
    print(json.dumps({"version": grain.__version__, "found": found}))


if __name__ == "__main__":
    main()
