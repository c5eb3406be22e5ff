"""What explain says of a mix: weights, the turns that stand for them, and rows of each dataset."""

from __future__ import annotations

import numpy as np

import penstock as ps


def of(count: int) -> ps.Dataset:
    return ps.from_arrays({"x": np.arange(count)})


def test_a_mix_in_a_few_lines() -> None:
    assert (
        "Mix of 2 datasets: an epoch has about 143 rows, and ends with the first dataset that has no row left\n"
        "  dataset 0: weight 0.7, 7 of 10 rows; an epoch takes about 100 rows of its 100\n"
        "  dataset 1: weight 0.3, 3 of 10 rows; an epoch takes about 43 rows of its 60"
    ) in ps.mix([of(100), of(60)], weights=[0.7, 0.3]).explain()
    assert "and ends when every dataset had all its rows" in ps.mix([of(9), of(5)], stop="all_exhausted").explain()


def test_what_it_says_is_what_comes() -> None:
    data = [ps.from_arrays({"x": np.full(count, number)}) for number, count in enumerate((40, 90))]
    plan = ps.mix(data, weights=[1, 3], rows=64).shuffle(seed=1).batch(16, lanes=1)
    assert "an epoch has 64 rows, and goes on where the one before ended" in plan.explain()
    for number, rows in enumerate((16, 48)):
        assert f"an epoch takes {rows} rows of its {(40, 90)[number]}" in plan.explain()
    with ps.Loader(plan, rank=0, world_size=1) as loader:
        assert np.bincount(np.concatenate([batch["x"] for batch in loader])).tolist() == [16, 48]


def test_many_datasets_and_changes_are_short() -> None:
    text = ps.mix([of(30) for _ in range(100)], weights={0: [1] * 100, 50: [1] * 99 + [2]}, rows=128).explain()
    mix = text[text.index("Mix of 100") :].splitlines()
    assert len(mix) == 10
    assert mix[1] == "  dataset 0: weight 1, 1 of 100 rows (before step 50); an epoch takes 2 rows of its 30"
    assert mix[8] == "  … and 93 more"
    few = "1, 1, 1, 1, 1, 1, 1, 1, …"
    assert mix[9] == f"  from step 50 on: weights {few} ({few} of 101 rows)"
