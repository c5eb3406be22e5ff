"""How far to run ahead."""

from __future__ import annotations

from penstock.runtime.tune import Depth


def feed(depth: Depth, items: int, waited_s: float, queued: int) -> list[int]:
    return [depth.after_wait(waited_s, queued) for _ in range(items)]


def test_jitter_deepens_within_memory() -> None:
    depth = Depth(most=5)
    for _ in range(10):
        feed(depth, 8, 0.01, 0)
        feed(depth, 8, 0.0, depth.out)
    assert depth.out == 5


def test_a_slow_pipeline_gains_nothing_by_depth() -> None:
    depth = Depth()
    assert set(feed(depth, 200, 0.01, 0)) == {2}


def test_calm_makes_it_shallow_again() -> None:
    depth = Depth(out=6)
    found = feed(depth, 2_000, 0.0, 6)
    assert found == sorted(found, reverse=True)
    assert depth.out == 2


def test_what_is_fixed_stays() -> None:
    depth = Depth(out=3, fixed=True)
    assert set(feed(depth, 100, 1.0, 3)) == {3}
