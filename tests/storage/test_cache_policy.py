"""What a cache keeps that is smaller than the data: never worse than never evicting, far better with several machines."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from penstock.storage.cache.policy import choose


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    """benches/cache_policy.py on less data."""
    path = Path(__file__).parents[2] / "benches" / "cache_policy.py"
    spec = importlib.util.spec_from_file_location("cache_policy", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    vars(module).update(BLOCKS=512, EPOCHS=10)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("times", [2, 4])
def test_one_machine_reads_what_fits_from_the_cache_and_writes_nothing_more(
    bench: ModuleType, times: int, tmp_path: Path
) -> None:
    blocks, places = bench.accesses(1), 512 // times
    hits, written = bench.ours(places, 1, tmp_path)
    assert hits >= bench.never_evict(blocks, places) - 0.01
    assert hits >= bench.belady(blocks, places) - 0.01
    assert hits > 3 * bench.lru(blocks, places)
    assert written < 0.02


@pytest.mark.slow
@pytest.mark.parametrize(("machines", "times"), [(2, 2), (2, 4), (4, 4)])
def test_several_machines_keep_what_each_of_them_needs_next(
    bench: ModuleType, machines: int, times: int, tmp_path: Path
) -> None:
    blocks, places = bench.accesses(machines), 512 // times
    hits, _ = bench.ours(places, machines, tmp_path)
    assert hits > 1.3 * bench.never_evict(blocks, places)
    assert hits > 0.85 * bench.belady(blocks, places)


def test_the_latest_goes_for_what_is_needed_sooner() -> None:
    held, size = np.array([9.0, 1.0, 5.0]), np.full(3, 10)
    choice = choose(held, size, np.array([2.0]), np.array([10]), excess=10, spare=0)
    assert (choice.dropped.tolist(), choice.kept.tolist(), choice.until_s) == ([0], [0], 9.0)


def test_nothing_goes_for_what_is_needed_later() -> None:
    held, size = np.array([3.0, 1.0]), np.full(2, 10)
    choice = choose(held, size, np.array([4.0, 7.0]), np.full(2, 10), excess=10, spare=0)
    assert (choice.dropped.tolist(), choice.kept.tolist()) == ([], [0])
    choice = choose(held, size, np.array([4.0, 7.0]), np.full(2, 10), excess=20, spare=5)
    assert (choice.dropped.tolist(), choice.kept.tolist()) == ([], [])


def test_with_room_enough_nothing_goes() -> None:
    held, size = np.array([3.0, 1.0]), np.full(2, 10)
    choice = choose(held, size, np.array([0.5, 9.0]), np.full(2, 10), excess=-30, spare=10)
    assert (choice.dropped.tolist(), choice.kept.tolist(), choice.until_s) == ([], [0, 1], np.inf)


def test_an_empty_cache_has_nothing_to_drop() -> None:
    none = np.empty(0)
    choice = choose(none, none.astype(np.int64), np.array([1.0]), np.array([10]), excess=5, spare=0)
    assert (choice.dropped.tolist(), choice.kept.tolist()) == ([], [])
