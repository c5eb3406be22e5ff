"""Autotuned against settings found by hand, on five pipelines; and tf.data's AUTOTUNE against its own best.

    python benches/tuning.py [--pipelines decode,consumer] [--rounds 2] [--duels 3] [--seconds 4] [--no-peers] [--json FILE]

- decode: JPEG photographs, decoded as fast as they go.
- s3: 1.3 GB in objects of 5 MB, from a server where each request waits 30 ms (see benches/s3.py); TensorFlow's wheels read no S3.
- function: 2 ms of Python a batch.
- consumer: a loop that computes on all CPUs for each batch of photographs.
- mixed: photographs, and a function that waits 60 ms for each batch.

Each run is a process of its own. Every setting of the grid runs in each round; then the one with the best median and the tuner run in turn, `--duels` times, and
the median of these ratios is the result: the best of many noisy runs is flattered by the noise. The clock starts after 5 seconds, by which the tuner must be done. Peers the same, their AUTOTUNE against their own best.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from contextlib import ExitStack, nullcontext
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import data as bench_data
import environments
import s3
import s3_store
from run import cpu_model
from side import Failed, Line, call
from tuning_work import ROWS, TITLES
from work import HERE, data_folder, interpreter, table_width, work_folder

CPUS = len(os.sched_getaffinity(0))
Setting = dict[str, Any]
AUTO: Setting = {}


def grid(peer: str, pipeline: str) -> list[Setting]:
    """What somebody would try by hand."""
    numbers = sorted({1, max(1, CPUS // 2), CPUS, 2 * CPUS})
    if pipeline in ("mixed", "function"):
        numbers = sorted({*numbers, 8, 16, 32})
    if peer == "tfdata":
        return [{"parallel": one, "prefetch": depth} for one, depth in product(numbers, (1, 8))]
    if pipeline == "s3":
        return [{"memory": size, "prefetch": depth} for size, depth in product(("64MB", "256MB", "1GB", "4GB"), (2, 8))]
    return [{"cpus": one, "prefetch": depth} for one, depth in product(numbers, (1, 8))]


def command(peer: str, pipeline: str, setting: Setting, asked: argparse.Namespace) -> list[str]:
    """The command line of one run."""
    ours = [sys.executable, str(HERE / "tuning_ours.py")]
    theirs = [str(interpreter(peer)), str(HERE / "peers" / f"tuning_{peer}.py")]
    options = ["--pipeline", pipeline, "--setting", json.dumps(setting)]
    times = ["--warmup", str(asked.warmup), "--seconds", str(asked.seconds)]
    return [*(ours if peer == "penstock" else theirs), *options, *times]


def judged(peer: str, pipeline: str, asked: argparse.Namespace, step: Any) -> Line:
    """The grid, and the duels of its best with the tuner."""

    def rate(setting: Setting) -> Line:
        step(f"{peer}, {pipeline}: {setting or 'tuned'}")
        return call(command(peer, pipeline, setting, asked), timeout_s=90 + 4 * (asked.warmup + asked.seconds))

    settings = grid(peer, pipeline)
    rates: dict[str, list[float]] = {json.dumps(setting): [] for setting in settings}
    for _ in range(asked.rounds):
        for setting in settings:
            rates[json.dumps(setting)].append(rate(setting)["samples_per_s"])
    best = json.loads(max(rates, key=lambda one: median(rates[one])))
    duels = [(rate(best), rate(AUTO)) for _ in range(asked.duels)]
    return {
        "peer": peer,
        "pipeline": pipeline,
        "grid": rates,
        "best": best,
        "best_samples_per_s": median(hand["samples_per_s"] for hand, _ in duels),
        "tuned_samples_per_s": median(tuned["samples_per_s"] for _, tuned in duels),
        "share_of_best": median(tuned["samples_per_s"] / hand["samples_per_s"] for hand, tuned in duels),
        "runs": [tuned for _, tuned in duels],
    }


def runs_of(peer: str, pipeline: str, asked: argparse.Namespace) -> int:
    """How many processes."""
    return len(grid(peer, pipeline)) * asked.rounds + 2 * asked.duels


def prepare(asked: argparse.Namespace, console: Console) -> list[str]:
    """Makes what is missing; the peers that can run."""
    if {"decode", "consumer", "mixed"} & set(asked.pipelines):
        environments.ensure("data")
        bench_data.make(data_folder(), [])
    if asked.no_peers:
        return ["penstock"]
    if reason := environments.ensure("tfdata"):
        console.print(f"tfdata: {reason}")
        return ["penstock"]
    return ["penstock", "tfdata"]


def store_for(pipeline: str) -> Any:
    """The store that a pipeline reads, if it does."""
    if pipeline != "s3":
        return nullcontext()
    s3.write("packed-mds", work_folder() / "s3")
    return s3_store.store(work_folder() / "s3")


def measured(asked: argparse.Namespace, console: Console) -> list[Line]:
    """All pipelines and peers, in turn."""
    peers = prepare(asked, console)
    turns = [(pipeline, peer) for pipeline in asked.pipelines for peer in peers if (pipeline, peer) != ("s3", "tfdata")]
    found: list[Line] = []
    columns = (TextColumn("[bold]{task.description:<60}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=sum(runs_of(peer, pipeline, asked) for pipeline, peer in turns))

        def step(what: str) -> None:
            progress.update(task, description=what, advance=1)

        for pipeline, peer in turns:
            try:
                with ExitStack() as stack:
                    store = stack.enter_context(store_for(pipeline))
                    if store is not None:
                        os.environ.update(store.environment)
                        store.keep("packed-mds/")
                        store.shape(s3.LATENCY_MS, s3.MB_PER_S)
                    line = judged(peer, pipeline, asked, step)
            except (Failed, subprocess.CalledProcessError, OSError) as failure:
                console.print(f"{pipeline}, {peer}: left out, {failure}")
                continue
            found.append(line)
            console.print(f"{pipeline}, {peer}: {line['share_of_best']:.0%} of its best by hand, {line['best']}")
    return found


def show(lines: list[Line], console: Console) -> None:
    """A table for people."""
    table = Table("pipeline", "", "tuned, samples/s", "best by hand", "its setting", "tuned / best")
    for line in lines:
        rates = f"{line['tuned_samples_per_s']:,.0f}", f"{line['best_samples_per_s']:,.0f}"
        setting = ", ".join(f"{name}={value}" for name, value in line["best"].items())
        table.add_row(line["pipeline"], line["peer"], *rates, setting, f"{line['share_of_best']:.2f}")
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pipelines", type=lambda text: text.split(","), default=[*ROWS], help=",".join(ROWS))
    parser.add_argument("--rounds", type=int, default=2, help="how often the grid runs")
    parser.add_argument("--duels", type=int, default=3, help="how often the tuner runs beside the best setting")
    parser.add_argument("--warmup", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, default=4.0, help="how long the clock runs")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--json", type=Path, default=work_folder() / "tuning.json", help="where the figures go")
    asked, console = parser.parse_args(), Console(width=table_width())
    if unknown := set(asked.pipelines) - set(TITLES):
        parser.error(f"no pipeline {', '.join(sorted(unknown))}; there are {', '.join(TITLES)}")
    lines = measured(asked, console)
    show(lines, console)
    result = {"lines": lines, "cpu": cpu_model(), "cpus": CPUS, "command": sys.argv}
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    asked.json.write_text(json.dumps(result, indent=1))
    console.print(f"Figures: {asked.json}")


if __name__ == "__main__":
    main()
