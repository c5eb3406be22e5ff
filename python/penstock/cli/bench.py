"""penstock bench: how fast this machine reads and prepares a dataset, and what limits it."""

from __future__ import annotations

import platform
import resource
import sys
import time
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any

import psutil
import typer

from penstock.cli.console import Report, out, print_json, progress, size_text, table
from penstock.cli.opening import BatchSize, Json, Ops, Paths, open_dataset, suited_ops, usual_plan
from penstock.core.cpus import usable_cpus
from penstock.core.kernels import native_version
from penstock.loader import Loader
from penstock.observe.report import report_text

_TICK_S = 0.1


class To(StrEnum):
    """The framework that receives the batches."""

    numpy = "numpy"
    torch = "torch"


def bench(
    paths: Paths,
    ops: Annotated[Ops | None, typer.Option(help="What to do with images; default: rrc224 if there are any.")] = None,
    batch: BatchSize = 256,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long to measure, after the first batch.")] = 10.0,
    to: Annotated[To, typer.Option(help="The framework that receives the batches.")] = To.numpy,
    cpus: Annotated[int | None, typer.Option(min=1, help="Threads for kernels; default: all usable CPUs.")] = None,
    as_json: Json = False,
) -> None:
    """Measure how fast this machine reads and prepares a dataset, and name the bottleneck.

    Makes batches as fast as possible and drops them. rrc224 is the usual ImageNet augmentation: decode, random resized
    crop to 224, random flip, normalise. Measuring starts after the first batch; first_batch_s is the time until then.

    Examples:
        penstock bench data/train
        penstock bench 'data/train-*.tfrecord' --ops none --batch 1024
        penstock bench data/train --seconds 30 --to torch --json
    """
    dataset = open_dataset(paths)
    ops = suited_ops(dataset, ops)
    plan = usual_plan(dataset, ops, batch)
    cpus = cpus or usable_cpus()
    with Loader(plan, to=to.value, cpus=cpus) as loader, progress("Measuring") as report:
        figures = measure(loader, seconds, report)
    manifest = dataset.source.manifest
    figures["bytes_per_s"] = figures["samples_per_s"] * manifest.size_bytes / manifest.samples
    what = {"where": paths, "format": manifest.format, "dataset_samples": manifest.samples, "ops": ops.value}
    how = {"batch": loader.batch_size, "to": to.value, "cpus": cpus, "seconds": seconds}
    figures["run"] = what | how | {"penstock": native_version, "machine": _machine()}
    if as_json:
        print_json(figures)
    else:
        _show(figures)


def measure(loader: Loader, seconds: float, report: Report) -> dict[str, Any]:
    """Figures of a loader that runs for `seconds` after its first batch, over as many epochs as that takes."""
    requested_at = time.perf_counter()
    batches = _endless(loader)
    next(batches)
    began_at, cpu_s = time.perf_counter(), _cpu_s()
    first_batch_s = began_at - requested_at
    samples, elapsed_s, reported_s = 0, 0.0, 0.0
    while elapsed_s < seconds:
        samples += _rows(next(batches))
        elapsed_s = time.perf_counter() - began_at
        if elapsed_s > reported_s + _TICK_S:
            rate = f"{samples / elapsed_s:,.0f} samples/s"
            report(int(1000 * min(elapsed_s, seconds)), int(1000 * seconds), rate)
            reported_s = elapsed_s
    stats = loader.stats()
    return {
        "samples_per_s": samples / elapsed_s,
        "bytes_per_s": 0.0,
        "cpu_s_per_1000": 1000 * (_cpu_s() - cpu_s) / samples,
        "first_batch_s": first_batch_s,
        "peak_memory_bytes": _peak_memory_bytes(),
        "samples": samples,
        "elapsed_s": elapsed_s,
        "verdict": stats["verdict"],
        "bottleneck": stats["bottleneck"],
        "waited": stats["waited"],
        "stages": [one.as_dict() for one in stats.stages],
    }


def _endless(loader: Loader) -> Iterator[dict[str, Any]]:
    while True:
        yield from loader


def _rows(batch: dict[str, Any]) -> int:
    return len(next(iter(batch.values())))


def _cpu_s() -> float:
    times = psutil.Process().cpu_times()
    return float(times.user + times.system)


def _peak_memory_bytes() -> int:
    """Peak memory of this process."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _machine() -> dict[str, Any]:
    memory = psutil.virtual_memory().total
    return {"processor": platform.machine(), "system": platform.system(), "cpus": usable_cpus(), "memory_bytes": memory}


def _show(figures: dict[str, Any]) -> None:
    run = figures["run"]
    out.print(
        f"[bold]{figures['samples_per_s']:,.0f} samples/s[/] ({run['ops']}, batch {run['batch']}, to {run['to']}, "
        f"{run['cpus']} CPUs)\n",
        soft_wrap=True,
    )
    shown = table("", ">")
    shown.add_row("encoded bytes", f"{size_text(figures['bytes_per_s'])}/s")
    shown.add_row("CPU time for 1,000 samples", f"{1000 * figures['cpu_s_per_1000']:.3g} ms")
    shown.add_row("first batch after", f"{figures['first_batch_s']:.3f} s")
    shown.add_row("peak memory of the process", size_text(figures["peak_memory_bytes"]))
    shown.show_header = False
    out.print(shown, "")
    out.print(report_text(figures), soft_wrap=True, markup=False)
