"""What the cluster's workloads say beside their rates: our sides beside one another, as neighbours in time."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any, NamedTuple

Run = Mapping[str, Any]

#: Processes of Ray that are there whether or not anything is made.
RAYS_OWN = ("raylet", "gcs_server")


def rate(run: Run) -> float:
    """Samples a second."""
    return float(run["samples_per_s"])


def cpu_here(run: Run) -> float:
    """CPU time of the trainer's process for 1,000 samples."""
    return float(run["cpu_s_per_1000_by_process"]["here"])


def cpu_of_work(run: Run) -> float:
    """CPU time for 1,000 samples without that of Ray's own processes."""
    by_process = run["cpu_s_per_1000_by_process"]
    return float(sum(took for name, took in by_process.items() if name not in RAYS_OWN))


def cpu_of_both(run: Run) -> float:
    """The same for 1,000 samples of each of two trainings."""
    return 2 * cpu_of_work(run)


class Figure(NamedTuple):
    """A ratio of two of our sides, and what it should be."""

    what: str
    of: Callable[[Run], float]
    side: str
    beside: str
    aim: str
    of_beside: Callable[[Run], float] | None = None


FIGURES = (
    Figure("rate of one actor beside one CPU here", rate, "1 actor", "here, 1 CPU", "0.9 or more"),
    Figure("rate of all actors beside as many processes that send nothing", rate, "actors", "processes", "0.9 or more"),
    Figure("CPU time at the trainer beside batches made here", cpu_here, "actors", "here, 1 CPU", "0.2 or less"),
    Figure(
        "CPU time of two trainings beside one",
        cpu_of_both,
        "actors, 2 trainings",
        "actors",
        "1.15 or less",
        cpu_of_work,
    ),
)


def lines(report: Mapping[str, Any]) -> list[str]:
    """A line a figure: the median of all rounds, the least and the most."""
    sides = {(row["workload"], _kind(row["variant"])): row["runs"] for row in report["rows"] if row["ours"]}
    found = []
    for workload in dict.fromkeys(workload for workload, _ in sides if workload.startswith("cluster-")):
        for figure in FIGURES:
            pairs = zip(sides.get((workload, figure.side), ()), sides.get((workload, figure.beside), ()), strict=False)
            ratios = [figure.of(run) / (figure.of_beside or figure.of)(beside) for run, beside in pairs]
            if ratios:
                spread = f"{min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} pairs of runs"
                found.append(f"{workload}: {figure.what}: {median(ratios):.2f} ({spread}; aim: {figure.aim})")
    return found


def _kind(variant: str) -> str:
    """A side's name without how many actors or processes it has, which is as many as there are CPUs for."""
    return re.sub(r"^\d+ (?=actors|processes)", "", variant)
