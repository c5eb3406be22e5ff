"""The figure for how well a shuffle mixes: what is known of global and useless shuffles, and that better windows have better figures."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.order.quality import ShuffleQuality, quality_of
from support.orders import order_of

ROWS = 200_000


def quality(samples: int = ROWS, **sizes: Any) -> ShuffleQuality:
    return quality_of(order_of(**{"samples": samples, "batch_size": 256, "lanes": 64, "seed": 1, **sizes}), samples)


def drawn(classes: int, rows: int, count: int) -> float:
    """Classes among rows drawn at random, by drawing them."""
    rng = np.random.default_rng(0)
    return float(
        np.mean([len(np.unique(rng.choice(rows, count, replace=False) * classes // rows)) for _ in range(200)])
    )


def test_a_global_shuffle_is_one() -> None:
    found = quality(block_rows=1)
    assert found.score == 1.0
    assert found.open_rows == ROWS
    assert found.classes_seen == pytest.approx(found.classes_seen_global, rel=0.02)
    assert found.adjacent == pytest.approx(found.adjacent_global, abs=0.001)


@pytest.mark.parametrize(("samples", "batch"), [(200_000, 256), (900, 512), (5_000, 64), (64, 64)])
def test_what_a_global_shuffle_would_have(samples: int, batch: int) -> None:
    found = quality(samples, batch_size=batch)
    assert found.classes_seen_global == pytest.approx(drawn(found.classes, samples, found.stretch), rel=0.02)


def test_larger_windows_mix_better() -> None:
    found = [quality(block_rows=20, window_blocks=window) for window in (1, 2, 4, 16)]
    for figure in ("score", "classes_seen", "open_rows"):
        figures = [getattr(one, figure) for one in found]
        assert figures == sorted(figures), figure
        assert figures[0] < 0.7 * figures[-1], figure
    adjacent = [one.adjacent for one in found]
    assert adjacent == sorted(adjacent, reverse=True)
    assert found[0].adjacent > 0.9, "windows of one block: nearly every row follows one of the same block"
    assert 64 * 2 * 20 <= found[1].open_rows <= 64 * 2 * 25, "blocks are stretched by up to a quarter"


def test_more_lanes_mix_better() -> None:
    scores = [quality(block_rows=50, lanes=lanes).score for lanes in (4, 16, 64)]
    assert scores == sorted(scores)
    assert scores[0] < scores[-1] / 4


def test_the_score_is_the_share_that_mixes_alike() -> None:
    """A batch of a global shuffle over that share of sorted data has as many classes."""
    found = quality(block_rows=20, window_blocks=2)
    rows = round(found.score * ROWS)
    alike = drawn(round(found.score * found.classes), rows, found.stretch)
    assert found.classes_seen == pytest.approx(alike, rel=0.1)


def test_what_is_left_out_does_not_count() -> None:
    """Of every tenth row, all are mixed; of a concat, too."""
    data = ps.from_arrays({"x": np.arange(20_000)})
    for plan in (data.every(10), data.take(2_000), ps.concat([data.take(900), data.skip(19_000)])):
        assert "over 100% of the rows" in plan.shuffle(seed=1, mode="global").batch(64).explain()


@pytest.mark.parametrize("stop", ["first_exhausted", "all_exhausted"])
def test_a_mix_has_a_figure(stop: Any) -> None:
    """Beside what its weights make of it by chance."""
    data = [ps.from_arrays({"x": np.arange(20_000)}) for _ in range(2)]
    plan = ps.mix(data, weights=[4, 1], stop=stop)
    assert "over 100% of the rows" in plan.shuffle(seed=1, mode="global").batch(64).explain()
    worse = plan.shuffle(seed=1, block_rows=500, window_blocks=1).batch(64, lanes=4).simulate().shuffle
    assert worse is not None
    assert worse.score < 0.3


def test_natural_orders_have_none() -> None:
    plan = ps.from_arrays({"x": np.arange(2_000)}).batch(64)
    assert "mixes like" not in plan.explain()
    assert plan.simulate().shuffle is None


@pytest.mark.parametrize("samples", [1, 2, 3, 7, 63])
@pytest.mark.parametrize("batch", [1, 2, 64])
def test_few_rows(samples: int, batch: int) -> None:
    found = quality(samples, batch_size=batch, lanes=1)
    assert 0 < found.score <= 1
    assert str(found)


def test_it_costs_little_however_many_rows_there_are() -> None:
    quality()
    began_s = time.thread_time()  # threads of earlier tests may be at work
    assert quality(10**9, block_rows=1000).rows == 10**9
    assert time.thread_time() - began_s < 1
