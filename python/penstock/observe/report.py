"""A report for people: the verdict, then a line a stage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def report_text(stats: Mapping[str, Any]) -> str:
    """The figures of `Loader.stats()` as text."""
    lines = [str(stats["verdict"]), "", _summary(stats), "", _HEAD]
    return "\n".join(lines + [_row(stage) for stage in stats["stages"]] + _decoders(stats))


_HEAD = f"{'stage':<22}{'samples/s':>12}{'MB/s':>9}{'busy':>7}{'input':>7}{'output':>8}{'queue':>7}{'threads':>9}"


def _summary(stats: Mapping[str, Any]) -> str:
    made = f"{stats['samples']:,} samples in {stats['elapsed_s']:.1f} s: {stats['samples_per_s']:,.0f} samples/s"
    return f"{made}; first batch after {stats['first_batch_s']:.3f} s; waited for data {stats['waited']:.1%}"


def _row(stage: Mapping[str, Any]) -> str:
    rates = f"{stage['name'][:21]:<22}{stage['samples_per_s']:>12,.0f}{stage['bytes_per_s'] / 1e6:>9,.1f}"
    times = f"{stage['busy']:>7.0%}{stage['waiting_for_input']:>7.0%}{stage['waiting_for_output']:>8.0%}"
    return f"{rates}{times}{stage['queue_depth']:>7}{stage['threads']:>9}"


_DECODED = {
    "jpeg": "by our JPEG decoder",
    "jpeg_entry_points": "by it from entry points",
    "jpeg_other": "JPEGs of another kind",
    "other": "of other formats",
}


def _decoders(stats: Mapping[str, Any]) -> list[str]:
    shown = [f"{count:,} {_DECODED[name]}" for name, count in stats.get("decoders", {}).items() if count]
    return ["", "pictures decoded: " + ", ".join(shown)] if shown else []
