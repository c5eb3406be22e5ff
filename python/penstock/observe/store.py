"""The figures of a store, and which of its limits was reached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.core.files.traffic import Traffic
from penstock.observe.figure_groups import StorageFigures

#: A smaller request is mostly waiting.
_SMALL_BYTES = 256 << 10
#: With less than this share of the possible requests in flight, the loader requested too little.
FEW = 0.5


def store_figures(traffic: Traffic, elapsed_s: float, file_bytes: float) -> StorageFigures:
    """For `Loader.stats()["storage"]`; `file_bytes` is the mean size of the dataset's files."""
    over = max(elapsed_s, 1e-9)
    answers = sum(traffic.latency)
    looked_up = traffic.cache_hits + traffic.cache_misses
    return StorageFigures(
        requests=traffic.requests,
        retries=traffic.retries,
        hedges=traffic.hedges,
        bytes=traffic.bytes,
        bytes_per_s=traffic.bytes / over,
        bytes_per_request=traffic.bytes / max(1, answers),
        in_flight=traffic.seconds / over,
        in_flight_limit=traffic.most_in_flight,
        latency_p50_s=traffic.latency_s(0.50),
        latency_p95_s=traffic.latency_s(0.95),
        latency_p99_s=traffic.latency_s(0.99),
        file_bytes=file_bytes,
        cache_hits=traffic.cache_hits,
        cache_misses=traffic.cache_misses,
        cache_bytes=traffic.cache_bytes,
        cache_damaged=traffic.cache_damaged,
        cache_hit_rate=traffic.cache_hits / max(1, looked_up),
    )


def judge_store(figures: Mapping[str, Any], *, is_tuned: bool = False) -> str:
    """Which limit of the store was reached, and what to do about it; "" without requests.

    is_tuned: as much was read ahead as helped, so that large requests, few as they are, fill the line.
    """
    if not figures["requests"]:
        return ""
    rate = f"{figures['bytes_per_s'] / 1e6:,.0f} MB/s"
    size = figures["bytes_per_request"]
    flight = f"{figures['in_flight']:.0f} of {figures['in_flight_limit']} possible requests in flight"
    if figures["in_flight"] < FEW * figures["in_flight_limit"] and not (is_tuned and size >= _SMALL_BYTES):
        return (
            f"too few requests are in flight: {flight}, {rate}; prefetch more with a larger batch, prefetch= or memory=, "
            f"or shuffle by blocks instead of mode='global'"
        )
    if size < _SMALL_BYTES and figures["file_bytes"] < _SMALL_BYTES:
        return (
            f"there are too many small files: a request reads {size / 1e3:,.0f} KB and takes "
            f"{1000 * figures['latency_p50_s']:,.0f} ms, {rate}; combine them into larger ones (tar, TFRecord, MDS, Parquet)"
        )
    if size < _SMALL_BYTES:
        return (
            f"requests are small: one reads {size / 1e3:,.0f} KB and takes {1000 * figures['latency_p50_s']:,.0f} ms, {rate}; "
            f"read neighbouring rows together with shuffle(mode='block') or larger block_rows"
        )
    return (
        f"the line to the store is saturated: {rate} with {flight}; cache the data on the local disk, move closer to "
        f"the store, or compress the data"
    )
