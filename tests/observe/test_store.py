"""What limits reading from a store, from made figures."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.files.traffic import Traffic
from penstock.observe.report import report_text
from penstock.observe.store import judge_store, store_figures


def figures(*, requests: int, each: int, duration_s: float, elapsed_s: float, limit: int, file_bytes: float) -> Any:
    traffic = Traffic(most_in_flight=limit)
    for _ in range(requests):
        traffic.add(duration_s, each)
    return store_figures(traffic, elapsed_s, file_bytes)


def test_a_saturated_line_is_reported_with_its_rate() -> None:
    store = figures(requests=300, each=8 << 20, duration_s=0.8, elapsed_s=10, limit=25, file_bytes=1e9)
    assert store["in_flight"] == pytest.approx(24)
    assert judge_store(store).startswith("the line to the store is saturated: 252 MB/s with 24 of 25")
    assert "cache the data on the local disk" in judge_store(store)


def test_too_few_requests_come_with_how_to_have_more() -> None:
    store = figures(requests=300, each=8 << 20, duration_s=0.1, elapsed_s=10, limit=32, file_bytes=1e9)
    assert judge_store(store).startswith("too few requests are in flight: 3 of 32 possible requests")
    assert "prefetch=" in judge_store(store)


def test_many_small_files_are_to_be_packed() -> None:
    store = figures(requests=60_000, each=5_000, duration_s=0.04, elapsed_s=10, limit=256, file_bytes=5_000)
    assert judge_store(store).startswith(
        "there are too many small files: a request reads 5 KB and takes 45 ms, 30 MB/s; combine"
    )


def test_small_requests_to_large_files_are_to_be_joined() -> None:
    store = figures(requests=60_000, each=5_000, duration_s=0.04, elapsed_s=10, limit=256, file_bytes=1e9)
    assert judge_store(store).startswith("requests are small")
    assert "block_rows" in judge_store(store)


def test_nothing_asked_for_is_no_verdict() -> None:
    assert judge_store(store_figures(Traffic(), 1.0, 0.0)) == ""


def test_percentiles_are_at_most_a_fifth_too_high() -> None:
    traffic = Traffic()
    for milliseconds in range(1, 1001):
        traffic.add(milliseconds / 1000, 1)
    for share in (0.5, 0.95, 0.99):
        assert share <= traffic.latency_s(share) <= 1.2 * share


def test_figures_since_a_copy_are_what_came_after_it() -> None:
    traffic = Traffic()
    traffic.add(1.0, 10)
    before = traffic.copy()
    traffic.add(0.004, 5)
    since = traffic.since(before)
    assert (since.requests, since.bytes, since.latency_s(1.0)) == (1, 5, 0.004)


def test_the_report_shows_the_store_and_its_cache() -> None:
    traffic = Traffic(retries=2, hedges=1, most_in_flight=8, cache_hits=3, cache_misses=1, cache_bytes=2_000_000)
    traffic.add(0.016, 1_000_000)
    store = store_figures(traffic, 1.0, 1e6)
    stats = {"verdict": "", "samples": 1, "elapsed_s": 1.0, "samples_per_s": 1.0, "first_batch_s": 0.1, "waited": 0.0}
    text = report_text({**stats, "stages": [], "storage": store})
    assert "storage: 1 requests, 1.0 MB at 1.0 MB/s, 0.0 in flight of 8" in text
    assert "2 retries after errors, 1 hedges of slow requests; latency 16 ms (p50)" in text
    assert "cache: 3 hits, 1 misses (75.0%), 2.0 MB not downloaded" in text
