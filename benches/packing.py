"""Packing rows of tokens to sequences of 2,048: ours, a plain NumPy collate and Google Grain, on the same rows and one core.

    python benches/packing.py [--rows 20000] [--rounds 3] [--json FILE]

Best fit in windows of 1,000 rows, and concatenation. Tokens per second of CPU count from rows in memory to arrays of tokens, segment ids, positions and
mask; of the rounds, which go through all sides in turn, the best counts. Ours fills memory that is used
again, as a Loader does. Grain runs in an environment of its own (`environments.py grain`) and gives no mask.
"""

from __future__ import annotations

import argparse
import json
import time
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import environments
from packing_rows import DISTRIBUTIONS, LENGTH, tokens
from penstock.batch.pack import pack_window
from penstock.core.packing import Packing
from penstock.runtime.slots import Slots
from run import cpu_model
from side import Failed, call
from work import HERE, interpreter, table_width, work_folder

WINDOW = 1_000
#: Of all rounds, so that all but the first find memory to use again.
SLOTS = Slots()
Figures = dict[str, float]


def ours(strategy: Any, column: pa.Array) -> Iterator[Any]:
    """The mask of each window's sequences."""
    packing = Packing(columns=("tokens",), length=LENGTH, strategy=strategy, window=WINDOW)
    first, skip = 0, 0
    while first < len(column):
        rows = column.slice(first, WINDOW)
        is_last = first + WINDOW >= len(column)
        packed = pack_window(
            {"tokens": rows},
            packing,
            [len(rows)],
            skip=[skip],
            is_last=is_last,
            allocate=lambda _, field, count: SLOTS.array(field, count),
        )
        first, skip = first + int(packed.used[0]), int(packed.skip[0])
        yield packed.columns["loss_mask"]


def plain(rows: list[Any]) -> Iterator[Any]:
    """The same as one writes it with NumPy and a sorted list: best fit decreasing of each window, then each sequence joined."""
    for first in range(0, len(rows), WINDOW):
        window = rows[first : first + WINDOW]
        sequences = best_fit([len(row) for row in window])
        columns = [np.zeros((len(sequences), LENGTH), dtype=np.int32) for _ in range(3)]
        mask = np.zeros((len(sequences), LENGTH), dtype=np.bool_)
        for number, sequence in enumerate(sequences):
            counts = [len(window[row]) for row in sequence]
            end = sum(counts)
            columns[0][number, :end] = np.concatenate([window[row] for row in sequence])
            columns[1][number, :end] = np.repeat(np.arange(1, len(counts) + 1), counts)
            columns[2][number, :end] = np.concatenate([np.arange(count) for count in counts])
            mask[number, :end] = True
        yield mask


def best_fit(counts: list[int]) -> list[list[int]]:
    """The rows of each sequence."""
    sequences: list[list[int]] = []
    rooms: list[tuple[int, int]] = []  # of each open sequence its room and number, the least room first
    for row in sorted(range(len(counts)), key=lambda row: -counts[row]):
        place = bisect_left(rooms, (counts[row], -1))
        room, number = rooms.pop(place) if place < len(rooms) else (LENGTH, len(sequences))
        if number == len(sequences):
            sequences.append([])
        sequences[number].append(row)
        insort(rooms, (room - counts[row], number))
    return sequences


def measure(make: Callable[[], Iterator[Any]]) -> Figures:
    """Tokens per second of CPU and of clock, and how full sequences are."""
    started, cpu_started = time.perf_counter(), time.process_time()
    sequences = real = 0
    for mask in make():
        sequences += len(mask)
        real += int(np.count_nonzero(mask))
    cpu_s, elapsed = time.process_time() - cpu_started, time.perf_counter() - started
    return {"tokens_per_cpu_s": real / cpu_s, "tokens_per_s": real / elapsed, "fill": real / sequences / LENGTH}


def grain(distribution: str, rows: int) -> dict[str, Figures]:
    """Grain's figures by way; nothing where it cannot be installed."""
    if reason := environments.ensure("grain"):
        print(f"grain: skipped, it {reason}")
        return {}
    script = str(HERE / "peers" / "pack_grain.py")
    try:
        line = call([str(interpreter("grain")), script, "--distribution", distribution, "--rows", str(rows)], 600)
    except Failed as failed:
        print(f"grain: skipped, it {failed}")
        return {}
    return {f"Grain {line['version']} {name}": figures for name, figures in line["found"].items()}


def of_round(distribution: str, count: int) -> dict[str, Figures]:
    """All sides once."""
    values, edges = tokens(distribution, count)
    column = pa.LargeListArray.from_arrays(pa.array(edges), pa.array(values))
    rows = np.split(values, edges[1:-1])
    return {
        "penstock best_fit": measure(lambda: ours("best_fit", column)),
        "penstock concat": measure(lambda: ours("concat", column)),
        "NumPy best_fit": measure(lambda: plain(rows)),
        **grain(distribution, count),
    }


def best_of(rounds: list[dict[str, Figures]]) -> dict[str, Figures]:
    """The best round of each side."""
    names = dict.fromkeys(name for found in rounds for name in found)
    return {
        name: max((found[name] for found in rounds if name in found), key=lambda figures: figures["tokens_per_cpu_s"])
        for name in names
    }


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Measure packing.")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures here")
    arguments = parser.parse_args()
    work_folder().mkdir(parents=True, exist_ok=True)
    found = {name: best_of([of_round(name, arguments.rows) for _ in range(arguments.rounds)]) for name in DISTRIBUTIONS}
    for distribution, sides in found.items():
        table = Table("side", "million tokens a CPU second", "fill", "ours is", title=distribution)
        for name, figures in sides.items():
            ratio = sides["penstock best_fit"]["tokens_per_cpu_s"] / figures["tokens_per_cpu_s"]
            table.add_row(name, f"{figures['tokens_per_cpu_s'] / 1e6:.1f}", f"{figures['fill']:.2%}", f"{ratio:.1f}×")
        Console(width=table_width()).print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": cpu_model(), "rows": arguments.rows, "figures": found}))


if __name__ == "__main__":
    main()
