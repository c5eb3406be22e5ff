"""What the report says of `cache()`: what is kept, or where it would pay."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.observe.snapshot import Snapshot


def cache_lines(stats: Snapshot) -> list[str]:
    """A line a cache: what it holds, and where rows came from."""
    return [
        f"cache {one['where']}: {one['rows']:,} rows, {one['size_bytes'] / 1e6:,.1f} MB; {one['hits']:,} rows came out of it, {one['made']:,} were made"
        for one in stats.get("cache", ())
    ]


def cache_advice(stats: Snapshot, cacheable: Sequence[tuple[str, Sequence[str]]], rows: int) -> list[str]:
    """Where a cache would take away what limits the loader, and how many bytes it would keep.

    cacheable: which dataset could be kept ("" for all rows), and the stages, in order, whose rows are the same in every epoch then.
    """
    of, stages = next(((of, stages) for of, stages in cacheable if stats["bottleneck"] in stages), ("", ()))
    last = next((stage for stage in stats["stages"] if stages and stage["name"] == stages[-1]), None)
    if last is None or not last["samples_per_s"]:
        return []
    later = f"from the second epoch on {stats['bottleneck']!r} would have nothing to do"
    if of:
        return [f"cache() behind {stages[-1]!r}, in {of}, would keep its rows; {later}"]
    row_bytes = last["bytes_per_s"] / last["samples_per_s"]
    held = f"{rows:,} rows of {row_bytes:,.0f} bytes, {rows * row_bytes / 1e9:,.2f} GB in all"
    return [f"cache() behind {stages[-1]!r} would keep {held}; {later}"]
