"""Storage, caches, memory, CPUs, GPUs, and what else there is to say."""

from __future__ import annotations

from penstock.observe.figure_groups import CacheFigures
from penstock.observe.history import History
from penstock.observe.run_html.over_time import gauges
from penstock.observe.run_html.words import cut, pairs, per_cent
from penstock.observe.run_words import bytes_words, gpu_words
from penstock.observe.snapshot import Snapshot

#: What a page shows of a kind: GPUs, caches, functions, numbers that are tuned.
_FEW = 16


def storage_part(now: Snapshot) -> str:
    """Requests to a store, and what caches held."""
    store, lines = now.storage, []
    if store:
        lines += [
            (
                "requests",
                f"{store.requests:,}, {store.bytes / 1e6:,.1f} MB at {store.bytes_per_s / 1e6:,.1f} MB/s",
            ),
            ("a request reads", bytes_words(store.bytes_per_request)),
            ("in flight", f"{store.in_flight:.1f} of {store.in_flight_limit:,}"),
            (
                "made again",
                f"{store.retries:,} after errors and when throttled, {store.hedges:,} beside slow ones",
            ),
        ]
        if store.cache_hits + store.cache_misses:
            lines.append(
                (
                    "cache",
                    f"{store.cache_hits:,} hits, {store.cache_misses:,} misses ({store.cache_hit_rate:.1%}), {store.cache_bytes / 1e6:,.1f} MB not downloaded",
                )
            )
    lines += [(f"rows kept in {cut(one.where)}", _kept(one)) for one in now.cache[:_FEW]]
    return f"<h2>Storage and caches</h2>{pairs(lines)}" if lines else ""


def _kept(one: CacheFigures) -> str:
    return f"{one.rows:,} rows, {one.size_bytes / 1e6:,.1f} MB; {one.hits:,} came out of it, {one.made:,} were made"


def machine_part(told: History) -> str:
    """Memory, CPUs and GPUs, last and over time."""
    now, points = told.now, told.all_points()
    lines = []
    if now.memory:
        held, most, budget = (now.memory[f"{name}_bytes"] for name in ("held", "most", "budget"))
        lines.append(
            (
                "memory of the loader",
                f"{bytes_words(held)} held, at most {bytes_words(most)}{f', of {bytes_words(budget)}' if budget else ''}",
            )
        )
    if now.machine.cores:
        lines.append(
            (
                "CPUs",
                f"{now.machine.cores:,} cores, {now.machine.cpu:.0%} at work, of which this process {now.machine.process_cpu:.0%}; {now.machine.io_wait:.0%} waited for disks",
            )
        )
    lines += [(f"GPU {gpu.index}, {cut(gpu.name)}", gpu_words(gpu)) for gpu in now.gpus[:_FEW]]
    if not lines:
        return ""
    drawn = []
    if len(points) > 1:
        drawn = [
            gauges(
                points,
                "memory that the loader holds",
                (("held_bytes", "held", "blue"),),
                bytes_words,
                now.memory.budget_bytes,
            ),
            gauges(
                points,
                "CPUs",
                (("cpu", "the machine", "orange"), ("process_cpu", "this process", "blue")),
                per_cent,
                1.0,
            ),
            gauges(
                points,
                "GPU: any kernel ran, and what was at work of it",
                (
                    ("kernel_time", "any kernel ran", "orange"),
                    ("sm", "SMs at work", "blue"),
                    ("tensor", "tensor cores at work", "green"),
                ),
                per_cent,
                1.0,
            ),
            gauges(points, "memory of the GPUs", (("gpu_bytes", "used", "blue"),), bytes_words),
        ]
    note = (
        "<p class=note>That a kernel ran says nothing of how much of the GPU it used: one SM of 132 is enough. SMs and tensor cores at work are counters of Hopper and later.</p>"
        if now.gpus
        else ""
    )
    return f"<h2>Memory, CPUs and GPUs</h2>{pairs(lines)}{note}{''.join(drawn)}"


def rest_part(now: Snapshot) -> str:
    """Bad samples, stalls, decoders, tuned numbers and functions."""
    lines = []
    if now.errors.samples:
        lines.append(("bad samples", f"{now.errors.samples:,}, met {now.errors.met:,} times"))
    if now.stalls:
        lines.append(("stalls", f"{now.stalls:,}, of which the log (logger 'penstock') says what each stage did"))
    if decoded := ", ".join(f"{count:,} {name}" for name, count in list(now.decoders.items())[:_FEW] if count):
        lines.append(("images decoded", decoded))
    if values := now.tuning.values:
        lines.append(
            (
                "tuned",
                ", ".join(
                    f"{cut(name)} {one.value}{' (fixed)' if one.fixed else ''}"
                    for name, one in list(values.items())[:_FEW]
                ),
            )
        )
    lines += [(cut(one.function), f"{one.workers}: {one.why}"[:300]) for one in now.functions[:_FEW]]
    return f"<h2>Besides</h2>{pairs(lines)}" if lines else ""
