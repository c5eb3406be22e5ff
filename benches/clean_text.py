"""Filters and deduplication of web pages: ours beside datatrove, rensa and datasketch, on the same pages and with the same thresholds.

    python benches/clean_text.py [--pages 24000] [--filtered 4000] [--rounds 3] [--json FILE]

Pages that a script makes (`texts.py`): lines of sentences, headings, and every tenth one a copy of another but for a line. Filters: pages a second of CPU; datatrove, which has one thread, gets `--filtered` of the pages,
as ours does, and both keep the same number, which is looked at. MinHash, 14 buckets of 8 hashes of 5-grams of words: all pages; rensa also with single words, as its own examples have it, which is another question.
Sides are processes of their own that run in turn. Imports do not count, reading lines of JSON does not. Ratios are of one round; the median counts. `python benches/run.py --workload text-clean` is this, too.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

import environments
import texts
from run import cpu_model
from side import OURS, Failed, Line, call
from work import HERE, REPOSITORY, interpreter, table_width, work_folder

ENVIRONMENT = "text-clean"
FILTERS = ("gopher", "c4", "fineweb")
TIMEOUT_S = 1_800
#: Of a task: the sides beside ours.
PEERS = {**dict.fromkeys(FILTERS, ("datatrove",)), "minhash": ("rensa", "rensa, single words", "datasketch")}


def side(folder: Path, pages: int, task: str, engine: str) -> Line:
    """One side once; the tree's Penstock is used, built for this Python."""
    script = HERE / "peers" / "clean_side.py"
    path = f"PYTHONPATH={REPOSITORY / 'python'}"
    return call(
        ["env", path, str(interpreter(ENVIRONMENT)), str(script), str(folder), str(pages), task, engine], TIMEOUT_S
    )


def of_round(folder: Path, pages: dict[str, int]) -> dict[tuple[str, str], Line]:
    """All sides once."""
    found = {
        (task, engine): side(folder, pages[task], task, engine)
        for task, peers in PEERS.items()
        for engine in (OURS, *peers)
    }
    for task in FILTERS:
        if len(kept := {found[task, engine]["kept"] for engine in (OURS, *PEERS[task])}) > 1:
            raise Failed(f"of {task} keeps another number of pages: {sorted(kept)}")
    return found


def shown(rounds: list[dict[tuple[str, str], Line]]) -> Table:
    """A line a side."""
    table = Table("task", "side", "kept", "pages a CPU s", "of ours", "pages/s", "of ours", "peak MB")
    for (task, engine), first in rounds[0].items():
        rates = {
            figure: [found[task, engine]["texts"] / found[task, engine][figure] for found in rounds]
            for figure in ("cpu_s", "seconds")
        }
        ours = {
            figure: [found[task, OURS]["texts"] / found[task, OURS][figure] for found in rounds] for figure in rates
        }
        cells = []
        for figure, values in rates.items():
            times = median(own / one for own, one in zip(ours[figure], values, strict=True))
            cells += [f"{median(values):,.0f}", f"1/{times:.2f}" if engine != OURS else "1"]
        peak = median(found[task, engine]["peak_mb"] for found in rounds)
        table.add_row(task, f"{engine} {first['version']}", f"{first['kept']:,}", *cells, f"{peak:,.0f}")
    return table


def main() -> int:
    """1 if a side gave no figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=24_000)
    parser.add_argument("--filtered", type=int, default=4_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", nargs="?", type=Path, const=work_folder() / "clean_text.json")
    arguments = parser.parse_args()
    if reason := environments.ensure(ENVIRONMENT):
        print(f"skipped, it {reason}")
        return 1
    folder = work_folder() / "data" / f"pages-{arguments.pages}"
    texts.write_pages(folder, arguments.pages)
    pages = {**dict.fromkeys(FILTERS, min(arguments.filtered, arguments.pages)), "minhash": arguments.pages}
    try:
        rounds = [of_round(folder, pages) for _ in range(arguments.rounds)]
    except Failed as failed:
        print(f"a side {failed}")
        return 1
    Console(width=table_width()).print(shown(rounds))
    if arguments.json:
        lines = [list(found.values()) for found in rounds]
        figures: dict[str, Any] = {"machine": {"cpu": cpu_model(), "cpus": os.cpu_count()}, "rounds": lines}
        arguments.json.write_text(json.dumps(figures, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
