"""Lane stages begin cheaply: before the first batch they read what it needs, and no lane runs into its next epoch to fill a window."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from support.lane_runs import run
from support.promises import assert_same
from support.seams import lowered_of

Rows = Mapping[str, Any]
#: With these, how many rows are read before the first batch does not depend on which thread is faster.
ALONE: dict[str, Any] = {"cpus": 1, "prefetch": 1}


def numbers(count: int) -> ps.Dataset:
    return ps.from_arrays({"x": np.arange(count)})


def texts(count: int) -> ps.Dataset:
    tokens = [[row] * (1 + row % 90) for row in range(count)]
    return ps.from_arrays({"x": pa.array(tokens, pa.large_list(pa.int64()))})


def grouped(batch: Rows) -> dict[str, Any]:
    """The rows, and the first of those that came together."""
    return {"x": batch["x"], "first": np.full(len(batch["x"]), batch["x"][0]), "together": np.full(len(batch["x"]), len(batch["x"]))}  # fmt: skip


def even(batch: Rows) -> Any:
    return batch["x"] % 2 == 0


def every(batch: Rows) -> Any:
    return np.ones(len(batch["x"]), dtype=bool)


#: Plans, made with a function that is called with all rows, and how many of these may be read before the first batch.
STARTS: dict[str, tuple[Callable[[Callable[[Rows], Rows]], ps.Dataset], int]] = {
    "short lanes are packed once": (lambda seen: texts(3_000).shuffle(seed=0).map(seen).pack("x", length=128).batch(16, steps=40), 3_000),
    "a window of long lanes": (lambda seen: texts(9_000).shuffle(seed=0).map(seen).pack("x", length=128, window=100).batch(16, steps=40), 1_600),
    "joined and cut": (lambda seen: texts(9_000).shuffle(seed=0).map(seen).pack("x", length=128, strategy="concat").batch(16, steps=40), 800),
    "sixteen videos": (lambda seen: numbers(16).shuffle(seed=0).flat_map(lambda batch: dict(seen(batch))).batch(4, steps=40), 16),
    "clips of many videos": (lambda seen: numbers(9_000).shuffle(seed=0).flat_map(lambda batch: dict(seen(batch))).batch(4, steps=40), 64),
    "a filter": (lambda seen: numbers(9_000).shuffle(seed=0).map(seen).filter(even).batch(4, steps=40), 100),
    "a filter of a large batch": (lambda seen: numbers(90_000).shuffle(seed=0).map(seen).filter(even).batch(256, steps=40), 2_500),
    "a filter before short lanes": (lambda seen: texts(3_000).shuffle(seed=0).map(seen).filter(every).pack("x", length=128).batch(16, steps=40), 6_000),
    "in a mix": (lambda seen: ps.mix([texts(3_000).shuffle(seed=0).map(seen).pack("x", length=128), texts(900).pack("x", length=128)]).batch(16, steps=40), 3_000),
}  # fmt: skip


@pytest.mark.parametrize("options", [ALONE, {}], ids=["alone", "as by default"])
@pytest.mark.parametrize("name", STARTS)
def test_the_first_batch_reads_what_it_needs(name: str, options: dict[str, Any]) -> None:
    make, most = STARTS[name]
    rows: list[int] = []

    def seen(batch: Rows) -> Rows:
        rows.append(len(batch["x"]))
        return batch

    with ps.Loader(make(seen), rank=0, world_size=1, **options) as loader:
        passes = iter(loader)
        next(passes)
        assert sum(rows) - rows[0] <= (most if options else 2 * most)  # a function's first rows are made twice
        begun = sum(rows)
        for _ in zip(range(30), passes, strict=False):
            pass
        assert sum(rows) >= begun


@pytest.mark.parametrize("name", STARTS)
def test_one_rank_of_several_reads_its_own_part(name: str) -> None:
    make, most = STARTS[name]
    rows: list[int] = []

    def seen(batch: Rows) -> Rows:
        rows.append(len(batch["x"]))
        return batch

    with ps.Loader(make(seen), rank=1, world_size=4, **ALONE) as loader:
        next(iter(loader))
        assert sum(rows) <= most


# What a window holds


def lane_of(base: ps.Dataset, size: int, lane: int, epochs: int) -> Iterator[list[int]]:
    """A lane's rows of in-memory numbers in each epoch, by the order alone."""
    with ps.Loader(base.batch(size)) as loader:
        order = lowered_of(loader).order.rows
    for epoch in range(epochs):
        yield order.ids(epoch, lane, 0, int(order.lane_rows()[lane])).tolist()


def test_a_lane_that_is_shorter_than_its_window_gives_each_epoch_for_itself() -> None:
    """Also where lanes are not equally long."""
    base = numbers(100).shuffle(seed=1)
    batches, _ = run(base.flat_map(grouped, rows=16).batch(8, steps=20), epochs=2)
    for lane in range(8):
        epochs = [*lane_of(base, 8, lane, 4)]
        assert {len(rows) for rows in epochs} <= {12, 13}
        wanted = [(row, rows[0], len(rows)) for rows in epochs for row in rows]
        found = [tuple(int(batch[name][lane]) for name in ("x", "first", "together")) for batch in batches]
        assert found == wanted[: len(found)]


def test_a_sequence_holds_no_document_twice() -> None:
    """Of a lane that is shorter than the window of pack: every document came once before any comes again."""
    base = ps.from_arrays({"x": pa.array([[row] for row in range(96)], pa.large_list(pa.int64()))}).shuffle(seed=1)
    batches, _ = run(base.pack("x", length=12).batch(8, steps=6), epochs=1)
    for lane in range(8):
        for batch in batches:
            found = batch["x"][lane][batch["loss_mask"][lane]]
            assert sorted({*found.tolist()}) == sorted(found.tolist())
            assert len(found) == 12


def test_lanes_that_are_long_enough_are_as_they_were() -> None:
    """Groups of so many rows, over the ends of epochs."""
    base = numbers(100).shuffle(seed=1)
    batches, _ = run(base.flat_map(grouped, rows=5).batch(8, steps=20), epochs=2)
    for lane in range(8):
        rows = [row for epoch in lane_of(base, 8, lane, 5) for row in epoch]
        wanted = [(row, rows[at // 5 * 5], 5) for at, row in enumerate(rows)]
        assert [tuple(int(batch[name][lane]) for name in ("x", "first", "together")) for batch in batches] == wanted[:40]  # fmt: skip


SHORT: dict[str, Callable[[], ps.Dataset]] = {
    "flat_map": lambda: numbers(100).shuffle(seed=1).flat_map(grouped),
    "pack": lambda: texts(200).shuffle(seed=1).pack("x", length=64),
    "of a mix": lambda: ps.mix([numbers(100), numbers(50)], weights=[2, 1]).shuffle(seed=1).flat_map(grouped, rows=40),
    "of repeated rows": lambda: numbers(60).shuffle(seed=1).repeat(2).flat_map(grouped, rows=40),
    "one after another": lambda: numbers(150).shuffle(seed=1).filter(even).flat_map(grouped).filter(every),
    "in a mix": lambda: ps.mix([numbers(100).shuffle(seed=1).flat_map(grouped), numbers(80).shuffle(seed=2).flat_map(grouped, rows=3)]),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", SHORT)
def test_short_lanes_are_the_same_on_any_ranks_and_after_any_restart(name: str) -> None:
    plan = SHORT[name]().batch(12, steps=9)
    whole, _ = run(plan, epochs=2)
    for ranks in (2, 3, 4):
        for step, (found, wanted) in enumerate(zip(run(plan, ranks)[0], whole, strict=True)):
            assert_same(found, wanted, f"{ranks} ranks, step {step}")
    for ranks, steps, others in ((1, 4, 3), (4, 11, 2)):
        _, state = run(plan, ranks, steps=steps)
        found, _ = run(plan, others, state=state)
        for here, wanted in zip(found, whole[steps:], strict=False):
            assert_same(here, wanted, f"from {ranks} to {others} ranks after {steps} steps")


def test_leaving_out_bad_rows_changes_nothing_where_there_are_none() -> None:
    plan = SHORT["flat_map"]().batch(12, steps=9)
    with ps.Loader(plan) as plain, ps.Loader(plan, on_error="skip") as skipping:
        for wanted, found in zip(plain, skipping, strict=True):
            assert_same(found, wanted)


# States


def test_a_state_of_before_goes_on_as_it_began() -> None:
    """Lanes that ran over the ends of epochs to fill a window do so for ever; their states say nothing of how many rows are together."""
    base = numbers(100).shuffle(seed=1)
    plan = base.flat_map(grouped).batch(8, steps=20)
    for step in (0, 7, 16, 19):
        with ps.Loader(plan, rank=0, world_size=1) as loader:
            lanes = {str(lane): [[16 * (step // 16), step % 16, None, []]] for lane in range(8)}
            loader.load_state_dict({**loader.state_dict(), "step": step, "lanes": lanes})
            batches = [batch for _ in range(2) for batch in loader]
            saved = loader.state_dict()["lanes"]
        for lane in range(8):
            rows = [row for epoch in lane_of(base, 8, lane, 5) for row in epoch]
            wanted = [(row, rows[at // 16 * 16], 16) for at, row in enumerate(rows)]
            found = [tuple(int(batch[name][lane]) for name in ("x", "first", "together")) for batch in batches]
            assert found == wanted[step:40]
            assert saved[str(lane)][0][2] is None


def test_a_state_says_how_many_rows_of_a_short_lane_are_together() -> None:
    for rows, wanted in ((16, 12), (12, None)):
        with ps.Loader(numbers(96).flat_map(grouped, rows=rows).batch(8, steps=20)) as loader:
            next(iter(loader))
            places = loader.state_dict()["lanes"].values()
            assert {place[0][2] for place in places} == {wanted}


@pytest.mark.parametrize("wrong", [0, -1, 17, 2**70, "a", 1.5, [12]])
def test_a_state_that_was_changed_is_refused(wrong: Any) -> None:
    with ps.Loader(numbers(96).flat_map(grouped).batch(8, steps=20)) as loader:
        state = loader.state_dict()
        state["lanes"]["3"][0][2] = wrong
        with pytest.raises(ps.StateError, match="it was changed"):
            loader.load_state_dict(state)
