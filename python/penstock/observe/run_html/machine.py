"""Storage, caches, memory, CPUs, GPUs, and what else there is to say."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from penstock.observe.history import History, number_in
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
        get = partial(number_in, store)
        lines += [
            (
                "requests",
                f"{get('requests'):,.0f}, {get('bytes') / 1e6:,.1f} MB at {get('bytes_per_s') / 1e6:,.1f} MB/s",
            ),
            ("a request reads", bytes_words(get("bytes_per_request"))),
            ("in flight", f"{get('in_flight'):.1f} of {get('in_flight_limit'):,.0f}"),
            (
                "made again",
                f"{get('retries'):,.0f} after errors and when throttled, {get('hedges'):,.0f} beside slow ones",
            ),
        ]
        if get("cache_hits") + get("cache_misses"):
            lines.append(
                (
                    "cache",
                    f"{get('cache_hits'):,.0f} hits, {get('cache_misses'):,.0f} misses ({get('cache_hit_rate'):.1%}), {get('cache_bytes') / 1e6:,.1f} MB not downloaded",
                )
            )
    lines += [
        (f"rows kept in {cut(str(one.get('where', '')))}", _kept(one))
        for one in now.cache[:_FEW]
        if isinstance(one, Mapping)
    ]
    return f"<h2>Storage and caches</h2>{pairs(lines)}" if lines else ""


def _kept(one: Mapping[str, Any]) -> str:
    get = partial(number_in, one)
    return f"{get('rows'):,.0f} rows, {get('size_bytes') / 1e6:,.1f} MB; {get('hits'):,.0f} came out of it, {get('made'):,.0f} were made"


def machine_part(told: History) -> str:
    """Memory, CPUs and GPUs, last and over time."""
    now, points = told.now, told.all_points()
    lines = []
    if now.memory:
        held, most, budget = (number_in(now.memory, f"{name}_bytes") for name in ("held", "most", "budget"))
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
                number_in(now.memory, "budget_bytes"),
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
    if count := number_in(now.errors, "samples"):
        lines.append(("bad samples", f"{count:,.0f}, met {number_in(now.errors, 'met'):,.0f} times"))
    if now.stalls:
        lines.append(("stalls", f"{now.stalls:,}, of which the log (logger 'penstock') says what each stage did"))
    if decoded := ", ".join(
        f"{number_in(now.decoders, name):,.0f} {name}"
        for name in list(now.decoders)[:_FEW]
        if number_in(now.decoders, name)
    ):
        lines.append(("images decoded", decoded))
    values = now.tuning.get("values")
    if isinstance(values, Mapping) and values:
        lines.append(
            (
                "tuned",
                ", ".join(
                    f"{cut(str(name))} {one.get('value')}{' (fixed)' if one.get('fixed') else ''}"
                    for name, one in list(values.items())[:_FEW]
                    if isinstance(one, Mapping)
                ),
            )
        )
    lines += [
        (cut(str(one.get("function", ""))), f"{one.get('workers', '')}: {one.get('why', '')}"[:300])
        for one in now.functions[:_FEW]
        if isinstance(one, Mapping)
    ]
    return f"<h2>Besides</h2>{pairs(lines)}" if lines else ""
