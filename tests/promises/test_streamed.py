"""Sources that can only be read in one order: shuffled in windows, filtered, packed and mixed, exact through ranks and resuming."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from support import promises as contracts
from support.lane_runs import run
from support.promises import assert_same
from support.seams import lowered_of
from support.tries import tries

ROWS, SIZE, STEPS = 300, 24, 15

#: The rows that were drawn, in turn.
drawn: deque[int] = deque()


def drawing(start: int = 0) -> Iterator[dict[str, Any]]:
    for number in range(start, ROWS):
        drawn.append(number)
        yield {"x": number}


def stream(window: int | None = None) -> ps.Dataset:
    """Numbers that are drawn, without any way to begin in their midst."""
    made = ps.from_iterable(lambda: drawing(), samples=ROWS, spool=False, name="numbers")  # noqa: PLW0108
    return made.shuffle(seed=1, window=window) if window else made


def some(batch: Any) -> Any:
    """Of five rows two, so that no lane of the natural order has none."""
    return batch["x"] % 5 > 2


def doubled(batch: Any) -> dict[str, Any]:
    return {"x": np.repeat(batch["x"], 2)[: 2 * len(batch["x"]) - int(batch["x"][0]) % 5]}


def tokens(batch: Any) -> dict[str, Any]:
    return {"tokens": pa.array([[x] * (x % 9 + 1) for x in batch["x"].tolist()], pa.large_list(pa.int64()))}


PLANS: dict[str, Callable[[], ps.Dataset]] = {
    "shuffled": lambda: stream(window=100),
    "filtered": lambda: stream().filter(some),
    "shuffled, filtered": lambda: stream(window=60).filter(some),
    "shuffled, several times as many": lambda: stream(window=100).flat_map(doubled, rows=5),
    "packed": lambda: stream(window=50).map(tokens).pack("tokens", length=16, window=10),
    "cut": lambda: stream().skip(70).take(300).shuffle(seed=3, window=40).filter(some),
    "repeated": lambda: stream(window=80).repeat(2).filter(some),
    "mixed": lambda: ps.mix(
        [stream(window=100), ps.from_arrays({"x": np.arange(1000, 1090)}).shuffle(seed=2)], weights=[3, 1]
    ),
    "mixed of filtered": lambda: ps.mix([stream(window=100).filter(some), stream(window=30)], weights=[1, 2]),
    "joined": lambda: ps.concat([stream(), ps.from_arrays({"x": np.arange(1000, 1090)})]).shuffle(seed=2, window=90),
    "in pairs": lambda: ps.zip([ps.from_arrays({"y": np.arange(ROWS)}), stream()]).shuffle(seed=5, window=70),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANS)
def test_any_number_of_ranks_and_any_restart(name: str) -> None:
    def plan() -> ps.Dataset:
        return PLANS[name]().batch(SIZE, steps=STEPS)

    whole, _ = run(plan)
    assert len(whole) == 2 * STEPS
    for ranks in (2, 6, 3, 8, 24)[: tries(5, at_least=2)]:
        for step, (found, wanted) in enumerate(zip(run(plan, ranks)[0], whole, strict=True)):
            assert_same(found, wanted, f"{ranks} ranks, step {step}")
    restarts = [(1, 1, 2), (2, STEPS + 2, 3), (3, STEPS - 1, 1), (4, STEPS, 8), (6, 17, 2)]
    for ranks, steps, others in restarts[: tries(len(restarts), at_least=2)]:
        _, state = run(plan, ranks, steps=steps)
        found, _ = run(plan, others, state=state)
        for step, (here, wanted) in enumerate(zip(found, whole[steps:], strict=False), steps):
            assert_same(here, wanted, f"from {ranks} to {others} ranks after {steps} steps, step {step}")
        assert len(found) >= len(whole) - steps


@pytest.mark.slow
@pytest.mark.parametrize("last", [{}, {"pad": True}, {"wrap": True}, {"drop_last": True}])
def test_shuffled_streams_keep_the_promises(last: dict[str, bool]) -> None:
    dataset = stream(window=100).batch(16, **last)
    contracts.resume_is_exact(dataset)
    contracts.ranks_make_one_batch(dataset)
    contracts.ranks_share_every_epoch(dataset, "x")
    contracts.any_step_can_be_made(dataset)
    contracts.epochs_differ_and_seeds_repeat(dataset, shuffled=True)


def test_a_pass_draws_each_row_once_ascending_and_no_more_than_a_window_ahead() -> None:
    def slowly() -> Iterator[dict[str, Any]]:
        time.sleep(0.05)  # of what is slow, steps are not made together
        yield from drawing()

    made = ps.from_iterable(slowly, samples=ROWS, spool=False).shuffle(seed=1, window=100)
    plan, ahead, taken = made.batch(10, lanes=10), [], 0
    drawn.clear()
    with ps.Loader(plan, prefetch=1, cpus=1) as loader:
        for epoch in range(2):
            found = []
            for batch in loader:
                found += batch["x"].tolist()
                taken += len(batch["x"])
                ahead.append(len(drawn) - taken)
            assert sorted(found) == [*range(ROWS)], f"epoch {epoch}"
            assert np.abs(np.array(found) - np.arange(ROWS)).mean() > 10, "rows are mixed"
    assert [*drawn][: 2 * ROWS - 1] == [*range(1, ROWS), *range(ROWS)], "row 0 was drawn to learn the columns"
    assert max(ahead[:40]) <= 100 + 64 + 4 * 10, "a window, a piece, and the batches on their way"


def test_filtered_lanes_are_at_different_places_and_the_stream_is_read_once() -> None:
    def late(batch: Any) -> Any:
        return (batch["x"] % 10 > 3) | (batch["x"] > 200)

    plan = stream().filter(late).batch(10, lanes=10, steps=9)
    drawn.clear()
    with ps.Loader(plan, prefetch=1, cpus=1) as loader:
        found = [number for batch in loader for number in batch["x"].tolist()]
    assert [*drawn][: ROWS - 1] == [*range(1, ROWS)]
    assert len({*found}) == len(found)


@pytest.mark.slow
def test_what_other_ranks_read_is_not_held() -> None:
    """Also where no lane stands at the same row as another. What is made ahead of a slow loop is held, and is less than half of what others get in so many steps."""
    with ps.Loader(stream(window=60).filter(some).batch(SIZE, steps=4000), rank=1, world_size=4) as loader:
        held = [loader.stats()["memory"]["held_bytes"] for _ in loader]
        others = 3 * 4000 * loader.batch_size * 8  # bytes of one column, of the rows that came out alone
    assert max(held) < others / 2


def test_each_pass_of_a_pipe_is_mixed(tmp_path: Path) -> None:
    for epoch in range(2):
        os.mkfifo(tmp_path / f"train_{epoch}")

    def write() -> None:
        for epoch in range(2):
            text = "".join(f"{epoch} {number}\n" for number in range(300))
            (tmp_path / f"train_{epoch}").write_text(text)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    pipe = ps.read_stream(str(tmp_path / "train_{epoch}"), format="text", samples=300)
    with ps.Loader(pipe.shuffle(seed=1, window=64).batch(20)) as loader:
        for epoch in range(2):
            found = [text for batch in loader for text in batch["text"].to_pylist()]
            wanted = [f"{epoch} {number}" for number in range(300)]
            assert found != wanted
            assert sorted(found) == sorted(wanted)
    writer.join(5)


def test_a_function_that_can_begin_anywhere_begins_near_the_step() -> None:
    def numbers(start: int = 0) -> Iterator[int]:
        for number in range(start, 200_000):
            drawn.append(number)
            yield number

    dataset = ps.from_iterable(numbers, samples=200_000, spool=False).shuffle(seed=0, window=1000).batch(16)
    with ps.Loader(dataset) as loader:
        wanted = loader.batch_at(0, 10_000)["data"].tolist()
    state = {**ps.Loader(dataset).state_dict(), "step": 10_000}
    drawn.clear()
    with ps.Loader(dataset, prefetch=1) as loader:
        loader.load_state_dict(state)
        assert next(iter(loader))["data"].tolist() == wanted
    assert 158_000 < drawn[0] <= 160_000


def test_the_order_says_how_many_rows_are_mixed() -> None:
    with ps.Loader(stream(window=100).batch(10, lanes=10)) as loader:
        shape = lowered_of(loader).order.rows.shape
    assert shape.is_shuffled
    assert shape.block_rows * shape.window_blocks * shape.lanes == 100


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: stream().shuffle(mode="global"), r"shuffle: mode='global', and this source can only be read in one order; mix its rows within a window, shuffle\(seed=…, window=10000\)"),
        (lambda: stream().shuffle(block_rows=4), r"shuffle: block_rows=4, and this source can only be read in one order"),
        (lambda: ps.from_arrays({"x": [1, 2]}).shuffle(window=10), r"shuffle: window=10 is for sources that can only be read in one order; .* leave it out"),
        (lambda: stream().shuffle(window=0), r"shuffle: window=0; it must be at least 1"),
        (lambda: stream().shuffle(window=2.5), r"shuffle: window=2\.5; it must be at least 1, and a whole number"),
        (lambda: stream().sample(10), r"sample: .*one order"),
        (lambda: stream().batch_bucketed(4, by=np.arange(ROWS), boundaries=[7]), r"can only be read in one order"),
    ],
)  # fmt: skip
def test_what_cannot_be_says_so(make: Callable[[], ps.Dataset], message: str) -> None:
    with pytest.raises(ps.PlanError, match=message):
        make()
