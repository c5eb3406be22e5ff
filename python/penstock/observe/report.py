"""A report for people: the verdict, then a line a stage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def report_text(stats: Mapping[str, Any]) -> str:
    """The figures of `Loader.stats()` as text."""
    lines = [str(stats["verdict"]), "", _summary(stats), "", _HEAD]
    rows = [_row(stage) for stage in stats["stages"]]
    return "\n".join(lines + rows + _memory(stats) + _store(stats) + _decoders(stats))


_HEAD = f"{'stage':<22}{'samples/s':>12}{'MB/s':>9}{'busy':>7}{'input':>7}{'output':>8}{'queue':>7}{'threads':>9}"


def _summary(stats: Mapping[str, Any]) -> str:
    made = f"{stats['samples']:,} samples in {stats['elapsed_s']:.1f} s: {stats['samples_per_s']:,.0f} samples/s"
    return f"{made}; first batch after {stats['first_batch_s']:.3f} s; waited for data {stats['waited']:.1%}"


def _row(stage: Mapping[str, Any]) -> str:
    rates = f"{stage['name'][:21]:<22}{stage['samples_per_s']:>12,.0f}{stage['bytes_per_s'] / 1e6:>9,.1f}"
    times = f"{stage['busy']:>7.0%}{stage['waiting_for_input']:>7.0%}{stage['waiting_for_output']:>8.0%}"
    return f"{rates}{times}{stage['queue_depth']:>7}{stage['threads']:>9}"


def _memory(stats: Mapping[str, Any]) -> list[str]:
    told = stats.get("memory")
    if not told or not told["budget_bytes"]:
        return []
    held, most, budget = (told[f"{name}_bytes"] / 1e6 for name in ("held", "most", "budget"))
    return ["", f"memory: {held:,.1f} MB held, at most {most:,.1f} MB, of {budget:,.1f} MB"]


def _store(stats: Mapping[str, Any]) -> list[str]:
    told = stats.get("storage")
    if not told:
        return []
    again = f"{told['retries']:,} made again after an error, {told['hedges']:,} made twice because they were late"
    times = ", ".join(f"{1000 * told[f'latency_p{share}_s']:,.0f} ms (p{share})" for share in (50, 95, 99))
    asked = f"{told['requests']:,} requests, {told['bytes'] / 1e6:,.1f} MB at {told['bytes_per_s'] / 1e6:,.1f} MB/s"
    flight = f"{told['in_flight']:.1f} in flight of {told['in_flight_limit']}"
    lines = ["", f"storage: {asked}, {flight}", f"  {again}; answers took up to {times}"]
    if told["cache_hits"] + told["cache_misses"]:
        lines.append(
            f"  cache: {told['cache_hits']:,} hits, {told['cache_misses']:,} misses ({told['cache_hit_rate']:.1%}), "
            f"{told['cache_bytes'] / 1e6:,.1f} MB not fetched"
        )
    if told["cache_damaged"]:
        lines.append(f"  cache: {told['cache_damaged']:,} pieces had changed on the disk and were fetched again")
    return lines


_DECODED = {
    "jpeg": "by our JPEG decoder",
    "jpeg_entry_points": "by it from entry points",
    "jpeg_other": "JPEGs of another kind",
    "other": "of other formats",
}


def _decoders(stats: Mapping[str, Any]) -> list[str]:
    shown = [f"{count:,} {_DECODED[name]}" for name, count in stats.get("decoders", {}).items() if count]
    return ["", "pictures decoded: " + ", ".join(shown)] if shown else []
