"""Runs ours and the peers on the same files, in turn: python benches/run.py [--workload a,b,c] [--rounds 3] [--seconds 8] [--peers tfdata,dali] [--cpus 1].

What is missing (environments, data) is made first. A round runs every side once, and ours before every third of them, so that a ratio compares neighbours in
time: machines vary by the minute. Every run is a process of its own. A ratio is taken from each pair of runs; the median of a peer's ratios is shown. A side whose timed part takes
more than a minute, a pass of it over a long table, runs in the first round alone.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import cluster
import data as bench_data
import environments
import table
from side import OURS, Failed, Line, Side, call, sides
from work import HERE, REPOSITORY, TITLES, UNITS, data_folder, table_width, work_folder, workloads

PEERS = (
    "pytorch",
    "tfdata",
    "dali",
    "albumentations",
    "ffcv",
    "spdl",
    "webdataset",
    "mosaicml",
    "litdata",
    "grain",
    "huggingface",
    "mxnet",
    "ray",
    "pandas",
    "profiling",
    "sklearn",
    "polars",
)
OURS_EVERY = 3
#: A side that took so many seconds for what is timed runs in the first round alone.
LONG_S = 60.0
#: Workloads with a bench of their own, whose sides differ in more than one pass.
OWN = {"text": "tokenise_pack", "text-clean": "clean_text"}
Lines = dict[Side, list[Line]]


def takes_part(of: list[str], peer: str) -> bool:
    """Whether a peer's file names one of these workloads: an environment takes minutes and gigabytes."""
    text = (HERE / "peers" / f"feed_{peer}.py").read_text()
    return any(f'"{workload}"' in text for workload in of)


def prepare(arguments: argparse.Namespace, skipped: list[Line]) -> list[Side]:
    """Make what is missing; every side that can run. The others go to skipped, with the reason."""
    ready = []
    authors = {bench_data.AUTHORS[workload] for workload in arguments.workload if workload in bench_data.AUTHORS}
    for peer in dict.fromkeys(
        ["data", *filter(partial(takes_part, arguments.workload), arguments.peers), *sorted(authors)]
    ):
        if reason := environments.ensure(peer):
            skipped.append({"peer": peer, "reason": reason})
        elif peer in arguments.peers:
            ready.append(peer)
    if bench_data.COPIED & set(arguments.workload):
        writers = {"tfdata", "webdataset"} | set(ready)  # ours reads what these two write
        bench_data.make(arguments.data, [peer for peer in bench_data.WRITERS if peer in writers])
    elif set(workloads("cluster")) & set(arguments.workload):
        bench_data.make(arguments.data, {"tfdata"} & set(ready))
    elif set(workloads("images")) & set(arguments.workload):
        bench_data.make(arguments.data, [])
    bench_data.make_own(arguments.data, arguments.workload)
    found: list[Side] = []
    for peer in [*([] if arguments.no_ours else [OURS]), *ready]:
        try:
            found += sides(peer, arguments.workload)
        except Failed as failure:
            skipped.append({"peer": peer, "reason": str(failure)})
    return found


def schedule(found: list[Side], rounds: int) -> Iterator[Side]:
    """What runs when: in every round, each workload's sides in turn, ours before every third of the others."""
    for _ in range(rounds):
        for workload in sorted({side.workload for side in found}):
            ours = [side for side in found if side.workload == workload and side.peer == OURS]
            peers = [side for side in found if side.workload == workload and side.peer != OURS]
            for at in range(0, max(len(peers), 1), OURS_EVERY):
                yield from ours
                yield from peers[at : at + OURS_EVERY]


def measure(arguments: argparse.Namespace, found: list[Side], skipped: list[Line], console: Console) -> Lines:
    """Run all of it under a progress bar. A peer's line carries "ratios": our last rates on the workload over its own."""
    turns = list(schedule(found, arguments.rounds))
    lines: Lines = {side: [] for side in found}
    ours: dict[Side, Line] = {}
    columns = (TextColumn("[bold]{task.description:<44}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=len(turns))
        done: set[Side] = set()  # failed, or too long to be run again
        for side in turns:
            progress.update(task, description=f"{side.workload}  {side.peer} {side.variant}")
            if side not in done:
                try:
                    timeout_s = 90 + 4 * (arguments.seconds + arguments.warmup)
                    if side.workload.startswith("tables"):  # a pass of some peers takes minutes
                        timeout_s *= 10
                    line = call(side.command(arguments), timeout_s=timeout_s)
                except Failed as failure:
                    done.add(side)
                    skipped.append({"peer": f"{side.peer} {side.variant} ({side.workload})", "reason": str(failure)})
                else:
                    account(side, line, ours)
                    if not console.is_terminal:
                        console.print(
                            f"{side.workload}  {side.peer} {side.variant}: {line['samples_per_s']:,.0f}",
                            highlight=False,
                        )
                    lines[side].append(line)
                    write(arguments, lines, skipped)
                    if line["seconds"] > max(LONG_S, 2 * arguments.seconds):
                        done.add(side)
            progress.advance(task)
    return lines


def account(side: Side, line: Line, ours: dict[Side, Line]) -> None:
    """Remember our line, or set a peer's beside our last ones on as many samples."""
    if side.peer == OURS:
        ours[side] = line
        return
    line["ratios"] = {
        mine.variant: last["samples_per_s"] / line["samples_per_s"]
        for mine, last in ours.items()
        if mine.workload == side.workload and last["samples_in_set"] == line["samples_in_set"]
    }


def row(side: Side, lines: list[Line]) -> Line:
    """One side's figures over all rounds."""
    rates = [line["samples_per_s"] for line in lines]
    found = [line.get("ratios", {}) for line in lines]
    ratios = {variant: median(ratio[variant] for ratio in found if variant in ratio) for variant in found[0]}
    kept = {key: lines[0][key] for key in ("peer", "version", "workload", "variant", "settings", "batch", "note")}
    return kept | {
        "ours": side.peer == OURS,
        "median": median(rates),
        "best": max(rates),
        "median_of_means": median(line["samples_per_s_mean"] for line in lines),
        "cpu_s_per_1000": median(line["cpu_s_per_1000"] for line in lines),
        "first_batch_s": median(line["first_batch_s"] for line in lines),
        "peak_mb": median(line["peak_mb"] for line in lines),
        "ratios": ratios,
        "runs": lines,
    }


def report(arguments: argparse.Namespace, lines: Lines, skipped: list[Line]) -> Line:
    """Everything there is to know about this run."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    return {
        "machine": {
            "cpu": cpu_model(),
            "cpus": len(os.sched_getaffinity(0)),
            "system": platform.platform(),
            "python": platform.python_version(),
        },
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit.stdout.strip(),
        "command": shlex.join(["python", *sys.argv]),
        "rounds": arguments.rounds,
        "seconds": arguments.seconds,
        "warmup": arguments.warmup,
        "rows": [row(side, measured) for side, measured in lines.items() if measured],
        "skipped": skipped,
    }


def write(arguments: argparse.Namespace, lines: Lines, skipped: list[Line]) -> Line:
    """Keeps what there is so far: some workloads take hours."""
    result = report(arguments, lines, skipped)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(result, indent=1))
    return result


def cpu_model() -> str:
    """The processor's name."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor()
    )


def show(result: Line, console: Console) -> None:
    """One table a workload."""
    for workload, rows in table.by_workload(result).items():
        shown = Table(title=f"({workload}) {TITLES[workload]}", title_justify="left", title_style="bold")
        mine = table.our_variants(rows)
        heads = ["", "variant", UNITS[workload], "best", "CPU s / 1,000", "first batch s", "peak MB", *mine]
        for heading in heads:
            shown.add_column(heading, justify="left" if heading in {"", "variant"} else "right")
        for line in rows:
            figures = (
                f"{line['median']:,.0f}",
                f"{line['best']:,.0f}",
                f"{line['cpu_s_per_1000']:.3g}",
                f"{line['first_batch_s']:.2f}",
                f"{line['peak_mb']:,.0f}",
                *(table.ratio(line, name) for name in mine),
            )
            shown.add_row(line["peer"], line["variant"], *figures, style="bold cyan" if line["ours"] else "")
        console.print(shown)
    for line in cluster.lines(result):
        console.print(line, highlight=False)
    for skip in result["skipped"]:
        console.print(f"[yellow]skipped[/] {skip['peer']}: {skip['reason']}", highlight=False)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Run penstock and its peers on the same files, in turn.")
    parser.add_argument("--workload", type=workloads, default=sorted(TITLES), help="a,b,images")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6.0, help="how long a side is timed")
    parser.add_argument("--warmup", type=float, default=6.0, help="how long it runs before that")
    parser.add_argument(
        "--peers",
        type=lambda text: [name for name in text.split(",") if name],
        default=list(PEERS),
        help=",".join(PEERS),
    )
    parser.add_argument("--cpus", type=int, help="keep every side on so many CPUs, the first ones")
    parser.add_argument("--no-ours", action="store_true", help="the peers alone")
    parser.add_argument("--data", type=Path, default=data_folder())
    parser.add_argument("--json", type=Path, default=work_folder() / "results.json", help="where the figures go")
    arguments = parser.parse_args()
    if unknown := set(arguments.peers) - set(PEERS):
        parser.error(f"unknown peers {', '.join(sorted(unknown))}; there are {', '.join(PEERS)}")
    if arguments.cpus and not 1 <= arguments.cpus <= len(usable := sorted(os.sched_getaffinity(0))):
        parser.error(f"--cpus {arguments.cpus} on a machine with {len(usable)} usable CPUs")
    return arguments


def pin(cpus: int) -> None:
    """Keep this process and all that it starts on the first so many of its CPUs; every side sets itself up for as many as it sees."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cpus])


def main() -> int:
    """1 if no side gave figures."""
    if sys.argv[1:2] == ["--workload"] and (own := OWN.get("".join(sys.argv[2:3]))):
        del sys.argv[1:3]
        return int(import_module(own).main())
    arguments, console = parse(), Console(width=table_width())
    if arguments.cpus:
        pin(arguments.cpus)
    skipped: list[Line] = []
    found = prepare(arguments, skipped)
    lines = measure(arguments, found, skipped, console)
    result = write(arguments, lines, skipped)
    show(result, console)
    console.print(f"Figures: {arguments.json}")
    return 0 if result["rows"] else 1


if __name__ == "__main__":
    sys.exit(main())
