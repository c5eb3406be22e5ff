"""Stages that give rows by what the data says keep every promise: exact through ranks and resuming, from a state of some numbers a lane."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.lower import lanes as lower
from support.lane_runs import run
from support.promises import assert_same, keep
from support.seams import lowered_of
from support.tries import tries

Rows = Mapping[str, Any]
SIZE, STEPS = 24, 10


def numbers(count: int, first: int = 0) -> ps.Dataset:
    return ps.from_arrays({"x": np.arange(first, first + count)})


def odd(batch: Rows) -> Any:
    return batch["x"] % 2 == 1


def third(batch: Rows) -> Any:
    return batch["x"] % 3 == 0


def doubled(batch: Rows) -> dict[str, Any]:
    """Twice each, but for some at the end, by the first: what comes out depends on which rows are together."""
    return {"x": np.repeat(batch["x"], 2)[: 2 * len(batch["x"]) - int(batch["x"][0]) % 5]}


def words(batch: Rows) -> dict[str, Any]:
    """As many rows of text and of lists as the number's last digit says."""
    found = [(f"{number}.{part}", list(range(part))) for number in batch["x"].tolist() for part in range(number % 4)]
    texts, lists = [text for text, _ in found], [part for _, part in found]
    return {"text": pa.array(texts, pa.large_string()), "list": pa.array(lists, pa.large_list(pa.int32()))}


def noisy(row: Rows, rng: np.random.Generator) -> dict[str, Any]:
    return {**row, "noise": rng.random()}


def texts(rows: int) -> ps.Dataset:
    """Rows of tokens of many lengths, each token once in all the data, and labels beside them."""
    lengths = np.random.default_rng(0).integers(0, 40, rows)
    tokens = [list(range(100 * row, 100 * row + length)) for row, length in enumerate(lengths.tolist())]
    labels = [[-token for token in some] for some in tokens]
    columns = {
        "tokens": pa.array(tokens, pa.large_list(pa.int32())),
        "labels": pa.array(labels, pa.large_list(pa.int64())),
    }
    return ps.from_arrays({**columns, "x": np.arange(rows)})


PLANS: dict[str, Callable[[], ps.Dataset]] = {
    "filter": lambda: numbers(500).shuffle(seed=1).filter(odd),
    "flat_map": lambda: numbers(200).shuffle(seed=2, block_rows=4).flat_map(doubled, rows=7),
    "text": lambda: numbers(200).shuffle(seed=2).flat_map(words, rows=3),
    "one after another": lambda: numbers(500).shuffle(seed=3).filter(odd).map(lambda batch: {"x": batch["x"] * 3}).flat_map(doubled, rows=5).filter(third),
    "in a mix": lambda: ps.mix([numbers(500).shuffle(seed=4).filter(odd), numbers(70, 5000).shuffle(seed=5)], weights=[3, 1]),
    "above a mix of so many rows": lambda: ps.mix([numbers(500).shuffle(seed=4).filter(odd), numbers(70, 5001).shuffle(seed=5)], weights=[3, 1], rows=48).filter(third),
    "above a mix": lambda: ps.mix([numbers(500), numbers(70, 5001)], weights=[1, 2]).shuffle(seed=6).filter(third),
    "mixes in mixes": lambda: ps.mix([ps.mix([numbers(99).shuffle(seed=7).filter(odd), numbers(88, 300)]).flat_map(doubled, rows=4), numbers(70, 500).shuffle(seed=8).filter(third)], weights=[1, 2]).filter(lambda batch: batch["x"] % 7 > 0),
    "packed": lambda: texts(900).shuffle(seed=1).filter(third).pack(["tokens", "labels"], length=32, window=10, padding_value={"labels": -100}),
    "joined and cut": lambda: texts(900).shuffle(seed=1).pack("tokens", length=32, strategy="concat"),
    "joined of joined": lambda: ps.mix([texts(900).shuffle(seed=1).pack("tokens", length=50, strategy="concat"), texts(300).shuffle(seed=2).filter(odd).pack("tokens", length=50, window=3)]),
    "repeated, cut": lambda: ps.concat([numbers(100), numbers(90, 100)]).skip(7).every(2).shuffle(seed=9).repeat(3).filter(lambda batch: batch["x"] % 5 > 1),
}  # fmt: skip


@pytest.fixture(params=PLANS)
def plan(request: pytest.FixtureRequest) -> ps.Dataset:
    return PLANS[request.param]().batch(SIZE, steps=STEPS)


@pytest.mark.slow
def test_any_number_of_ranks_and_any_restart(plan: ps.Dataset) -> None:
    whole, _ = run(plan)
    assert len(whole) == 2 * STEPS
    for ranks in (2, 6, 3, 8, 24)[: tries(5, at_least=2)]:
        for step, (found, wanted) in enumerate(zip(run(plan, ranks)[0], whole, strict=True)):
            assert_same(found, wanted, f"{ranks} ranks, step {step}")
    restarts = [(1, 1, 2), (2, 3, 3), (3, STEPS - 1, 1), (4, STEPS, 8), (2, STEPS + 1, 4), (6, 17, 2)]
    for ranks, steps, others in restarts[: tries(len(restarts), at_least=2)]:
        _, state = run(plan, ranks, steps=steps)
        found, _ = run(plan, others, state=state)
        for step, (here, wanted) in enumerate(zip(found, whole[steps:], strict=False), steps):
            assert_same(here, wanted, f"from {ranks} to {others} ranks after {steps} steps, step {step}")
        assert len(found) >= len(whole) - steps


@pytest.mark.slow
def test_a_restart_in_short() -> None:
    plan = PLANS["one after another"]().batch(SIZE, steps=STEPS)
    whole, _ = run(plan, epochs=1)
    _, state = run(plan, 2, steps=4)
    found, _ = run(plan, 3, state=state, epochs=1)
    for here, wanted in zip(found, whole[4:], strict=True):
        assert_same(here, wanted)


def lanes_of(base: ps.Dataset, lane: int, epochs: int) -> Iterator[int]:
    """A lane's rows of in-memory numbers, epoch after epoch, by the order alone."""
    with ps.Loader(base.batch(SIZE)) as loader:
        order = lowered_of(loader).order.rows
    for epoch in range(epochs):
        yield from order.ids(epoch, lane, 0, int(order.lane_rows()[lane])).tolist()


def test_a_filter_is_what_the_order_says_without_the_others() -> None:
    base = numbers(500).shuffle(seed=1)
    whole, _ = run(base.filter(odd).batch(SIZE, steps=STEPS))
    lanes = [[row for row in lanes_of(base, lane, 4) if row % 2][: 2 * STEPS] for lane in range(SIZE)]
    for step, batch in enumerate(whole):
        assert batch["x"].tolist() == [lane[step] for lane in lanes]


def test_flat_map_gets_the_same_rows_together_whatever_is_read_with_them() -> None:
    base = numbers(200).shuffle(seed=2, block_rows=4)
    whole, _ = run(base.flat_map(doubled, rows=7).batch(SIZE, steps=STEPS))
    for lane in range(SIZE):
        rows = list(lanes_of(base, lane, 30))
        groups = [np.array(rows[first : first + 7]) for first in range(0, len(rows) // 7 * 7, 7)]
        wanted = [number for group in groups for number in doubled({"x": group})["x"].tolist()]
        assert [int(batch["x"][lane]) for batch in whole] == wanted[: 2 * STEPS]


def test_each_row_comes_once_before_any_comes_twice() -> None:
    """Over the ends of epochs: the next one goes on where the one before ended."""
    plan = numbers(480).shuffle(seed=1).filter(odd).batch(24, steps=5)
    batches, _ = run(plan, epochs=2)
    found = np.concatenate([batch["x"] for batch in batches])
    _, times = np.unique(found, return_counts=True)
    lanes = [[row for row in lanes_of(numbers(480).shuffle(seed=1), lane, 1) if row % 2] for lane in range(24)]
    assert len(found) == 240
    assert max(times) <= -(-10 // min(map(len, lanes))), "as often as the poorest lane began again"


def test_augmentations_after_a_filter_are_the_same_on_any_ranks() -> None:
    plan = numbers(300).shuffle(seed=1).filter(odd).map_rows(noisy).batch(SIZE, steps=STEPS)
    whole, _ = run(plan, epochs=1)
    for found, wanted in zip(run(plan, 4, epochs=1)[0], whole, strict=True):
        assert_same(found, wanted)
    assert len({*np.concatenate([batch["noise"] for batch in whole]).tolist()}) == SIZE * STEPS


def test_random_numbers_above_a_stage_are_others_than_below() -> None:
    """The rows of a stage's output are numbered anew, so their numbers are those of rows below as well."""

    def below(row: Rows, rng: np.random.Generator) -> dict[str, Any]:
        return {**row, "below": rng.random()}

    def above(row: Rows, rng: np.random.Generator) -> dict[str, Any]:
        return {**row, "above": rng.random()}

    plan = numbers(300).shuffle(seed=1).map_rows(below).filter(odd).map_rows(above).filter(third).map_rows(noisy)
    batches, _ = run(plan.batch(SIZE, lanes=1, steps=STEPS), epochs=1)
    drawn = np.concatenate([batch[name] for batch in batches for name in ("below", "above", "noise")])
    assert len({*drawn.tolist()}) == 3 * SIZE * STEPS


def test_what_came_out_and_waits_counts_as_held() -> None:
    rows = ps.from_arrays({"x": np.arange(2000), "wide": np.zeros((2000, 1000), dtype=np.uint8)})
    plan = rows.shuffle(seed=1).filter(odd).filter(third).batch(SIZE, steps=20)
    with ps.Loader(plan, memory="8MB") as loader:
        next(iter(loader))
        memory = loader.stats()["memory"]
    assert memory["budget_bytes"] <= 8_000_000, "one limit for all that runs"
    assert memory["most_bytes"] > SIZE * 1000


def test_a_pass_that_is_broken_off_goes_on_in_the_next_epoch() -> None:
    plan = numbers(500).shuffle(seed=1).filter(odd).batch(SIZE, steps=STEPS)
    whole, _ = run(plan)
    loader = ps.Loader(plan)
    for step, _ in enumerate(loader):
        if step == 3:
            break
    batch = next(iter(loader))
    assert (loader.epoch, loader.step) == (1, 1)
    assert batch["x"].tolist() == whole[4]["x"].tolist(), "nothing is lost"
    loader.close()


def test_a_state_is_some_numbers_a_lane() -> None:
    plan = PLANS["mixes in mixes"]().batch(256, lanes=64, steps=STEPS)
    loader = ps.Loader(plan)
    next(iter(loader))
    assert len(json.dumps(loader.state_dict())) < 64 << 10
    loader.close()


def test_resuming_reads_no_more_than_what_is_used_in_part() -> None:
    """From far behind the beginning, a loader reads about as much as one that begins."""
    read: list[int] = []

    def noted(batch: Rows) -> Rows:
        read.append(len(batch["x"]))
        return batch

    plan = numbers(100_000).shuffle(seed=1).map(noted).filter(odd).batch(SIZE, steps=1000)
    _, state = run(plan, steps=800, epochs=1)
    begun = sum(read)
    read.clear()
    run(plan, state=state, steps=1, epochs=1)
    assert sum(read) < begun / 2
    assert begun > 800 * SIZE * 2


def test_packing_loses_no_token() -> None:
    """Of what every lane was fed, each token comes once, in order, and rows in sequences of one kind go together."""
    for strategy, exact in (("best_fit", False), ("concat", True)):
        plan = texts(900).shuffle(seed=1).pack("tokens", length=32, strategy=strategy, window=10).batch(8, steps=20)  # type: ignore[arg-type]
        batches, _ = run(plan, epochs=1)
        for lane in range(8):
            rows = [(batch["tokens"][lane], batch["segment_ids"][lane]) for batch in batches]
            found = [tokens[segments > 0] for tokens, segments in rows]
            flat = np.concatenate(found)
            if exact:
                stream = [token for row in lane_rows(texts(900).shuffle(seed=1), lane, 8) for token in row]
                assert flat.tolist() == stream[: len(flat)]
            assert len({*flat.tolist()}) == len(flat)
            for tokens, segments in rows:
                for segment in range(1, segments.max() + 1):
                    document = tokens[segments == segment]
                    assert (np.diff(document) == 1).all(), "one piece of one document"


def lane_rows(base: ps.Dataset, lane: int, size: int) -> list[list[int]]:
    with ps.Loader(base.batch(size)) as loader:
        order = lowered_of(loader).order.rows
    lengths = np.random.default_rng(0).integers(0, 40, 900).tolist()
    ids = order.ids(0, lane, 0, int(order.lane_rows()[lane])).tolist()
    return [list(range(100 * row, 100 * row + lengths[row])) for row in ids]


def test_a_row_that_is_refused_is_named() -> None:
    plan = texts(900).filter(third).pack("tokens", length=20, over_long="refuse").batch(4, steps=3)
    with pytest.raises(ps.DataError, match=r"column 'tokens' has \d+ tokens, and a sequence 20; pass a larger length="):
        run(plan)
    with pytest.raises(ps.PlanError, match="no column 'token'"):
        texts(9).pack("token", length=20)
    with pytest.raises(ps.PlanError, match="a list of numbers a row"):
        texts(9).pack("x", length=20)


# What cannot work


def test_an_epoch_needs_an_end() -> None:
    filtered = numbers(100).filter(odd)
    filtered.batch(24)  # where its data ends: see test_natural_ends
    with pytest.raises(ps.PlanError, match="steps=0"):
        filtered.batch(24, steps=0)
    with pytest.raises(ps.PlanError, match="not known in advance"):
        len(filtered)
    assert "as many samples as come" in repr(filtered)
    ps.mix([filtered, numbers(99)], rows=48).batch(24)
    with pytest.raises(ps.PlanError, match="steps=1000"):
        ps.mix([filtered, numbers(99)], stop="all_exhausted").batch(24)


def test_what_counts_rows_comes_before() -> None:
    with pytest.raises(ps.PlanError, match="write every"):
        numbers(100).filter(odd).every(2)


def test_shuffle_comes_before() -> None:
    with pytest.raises(ps.PlanError, match=r"write shuffle\(…\) before filter"):
        numbers(100).filter(odd).shuffle(seed=1)
    with pytest.raises(ps.PlanError, match="filter: must come before batch"):
        numbers(100).batch(4).filter(odd)


MASKS: dict[str, tuple[Callable[[Rows], Any], str]] = {
    "numbers": (lambda batch: batch["x"], "dtype int64"),
    "another length": (lambda batch: np.ones(3, dtype=bool), r"shape \(3,\)"),
    "one for all": (lambda batch: True, "returned True"),
    "nothing": (lambda batch: None, "returned None"),
}


@pytest.mark.parametrize("wrong", MASKS)
def test_a_mask_is_one_bool_a_row(wrong: str) -> None:
    function, found = MASKS[wrong]
    with pytest.raises(ps.PlanError, match=f"filter.*{found}.*return a mask"):
        run(numbers(100).filter(function).batch(24, steps=2))


@pytest.mark.parametrize(
    "mask", [lambda batch: (batch["x"] % 2 == 1).tolist(), lambda batch: pa.array(batch["x"] % 2 == 1)]
)
def test_a_mask_may_be_a_list_or_an_arrow_array(mask: Callable[[Rows], Any]) -> None:
    found, _ = run(numbers(500).shuffle(seed=1).filter(mask).batch(24, steps=2), epochs=1)
    wanted, _ = run(numbers(500).shuffle(seed=1).filter(odd).batch(24, steps=2), epochs=1)
    assert all((one["x"] == other["x"]).all() for one, other in zip(found, wanted, strict=True))


def test_what_is_never_true_is_said_in_bounded_time() -> None:
    with pytest.raises(ps.DataError, match=r"filter\(.*none came out, and of all [\d,]+ rows so far 0 did"):
        run(numbers(100).filter(lambda batch: batch["x"] < 0).batch(24, steps=2))


RETURNED: dict[str, tuple[Callable[[Rows], Any], str]] = {
    "no dict": (lambda batch: [1, 2], "returned list"),
    "other lengths": (lambda batch: {"x": [1, 2], "y": [1]}, "different lengths"),
    "other columns": (lambda batch: {"x" if batch["x"][0] % 2 else "y": [1]}, "the same columns"),
}


@pytest.mark.parametrize("wrong", RETURNED)
def test_flat_map_returns_columns(wrong: str) -> None:
    function, found = RETURNED[wrong]
    with pytest.raises(ps.PlanError, match=f"flat_map.*{found}"):
        run(numbers(100).shuffle(seed=0).flat_map(function, rows=1).batch(24, steps=9))


@pytest.mark.slow
def test_an_error_of_a_function_reaches_the_consumer_and_comes_again_after_a_restart() -> None:
    def fails(batch: Rows) -> Any:
        if (batch["x"] == 77).any():
            raise KeyError("row 77")
        return batch["x"] % 2 == 1

    plan = numbers(500).shuffle(seed=1).filter(lambda batch: batch["x"] > -1).filter(fails)
    loader = ps.Loader(plan.batch(4, steps=100))
    for _ in range(2):
        with pytest.raises(KeyError, match="row 77"):
            list(loader)
    loader.close()


def test_ranks_that_feed_a_shared_lane_in_other_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """How fast they are decides how many rows they read at once."""
    plan = numbers(500).filter(lambda batch: batch["x"] % 3 > 0).batch(8, lanes=1, steps=30)
    with ps.Loader(plan, rank=0, world_size=1) as loader:
        whole = [keep(batch) for batch in loader]
    states = []
    for rank, rows in enumerate((7, 50)):
        for setting in ("_FIRST_LANE_ROWS", "_MOST_LANE_ROWS"):
            monkeypatch.setattr(lower, setting, rows)
        with ps.Loader(plan, rank=rank, world_size=2) as loader:
            for _ in zip(range(10), loader, strict=False):
                pass
            states.append(loader.state_dict())
    assert states[0]["lanes"] != states[1]["lanes"]
    for parts in (states, states[::-1]):
        with ps.Loader(plan, rank=0, world_size=1) as loader:
            loader.load_state_dict(ps.merge_states(parts))
            for found, wanted in zip(loader, whole[10:], strict=True):
                assert_same(found, wanted, "resumed")


def test_parts_of_a_state() -> None:
    plan = PLANS["filter"]().batch(SIZE, steps=STEPS)
    loaders = [ps.Loader(plan, rank=rank, world_size=2) for rank in range(2)]
    passes = [iter(loader) for loader in loaders]
    for one in passes:
        next(one)
    first, second = (loader.state_dict() for loader in loaders)
    assert len(first["lanes"]) == len(second["lanes"]) == SIZE // 2
    with pytest.raises(ps.StateError, match=r"lane 12 is not among them.*merge_states"):
        loaders[1].load_state_dict(first)
    next(passes[1])
    with pytest.raises(ps.StateError, match="part 1 says step=2 and part 0 1"):
        ps.merge_states([first, loaders[1].state_dict()])
    changed = {**first, "lanes": {**first["lanes"], "0": "somewhere"}}
    with pytest.raises(ps.StateError, match="of lane 0; it was changed"):
        loaders[0].load_state_dict(changed)
    with pytest.raises(ps.StateError, match="part 1 says 'somewhere' of lane 0; it was changed"):
        ps.merge_states([first, changed])
    with pytest.raises(ps.StateError, match="pass the list"):
        ps.merge_states([])
    loaders[0].load_state_dict([second, first])
    assert loaders[0].state_dict() == first
    with pytest.raises(ps.StateError, match="pass the list"):
        loaders[0].load_state_dict([])
    assert ps.merge_states([second, first])["lanes"].keys() == {str(lane) for lane in range(SIZE)}
    for loader in loaders:
        loader.close()


def test_ranks_may_change_between_epochs_as_far_as_lanes_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a process group comes after the loader: one rank knows all lanes, and one of two only its own."""
    plan = PLANS["one after another"]().batch(SIZE, steps=STEPS)
    whole, _ = run(plan)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    with ps.Loader(plan) as loader:
        assert len(list(loader)) == STEPS
        monkeypatch.setenv("RANK", "1")
        monkeypatch.setenv("WORLD_SIZE", "2")
        found = [keep(batch) for batch in loader]
        for here, wanted in zip(found, whole[STEPS:], strict=True):
            assert here["x"].tolist() == wanted["x"][SIZE // 2 :].tolist()
        monkeypatch.setenv("RANK", "0")
        with pytest.raises(ps.StateError, match="lane 0 is not among them"):
            next(iter(loader))


@pytest.mark.parametrize(
    ("below", "message"),
    [
        (lambda: numbers(6), r"batch: 6 rows are fewer than the 8 lanes that each need one"),
        (lambda: numbers(6).flat_map(doubled), r"batch: 6 rows are fewer than the 8 lanes"),
        (lambda: ps.mix([numbers(100), numbers(3)]), r"mix: dataset 1 has 3 rows, fewer than the 8 lanes"),
        (lambda: numbers(9).skip(9), r"skip\(9\): there are 9 rows, and none is left"),
        (lambda: numbers(99).shuffle().every(2), r"every: must come before shuffle"),
    ],
)
def test_what_a_stage_cannot_read_is_said_by_batch(below: Callable[[], ps.Dataset], message: str) -> None:
    """And not by the loader, somewhere in training."""
    with pytest.raises(ps.PlanError, match=message):
        ps.mix([numbers(99), below().filter(odd)]).batch(8, steps=3)


def test_what_asks_for_any_step_is_refused() -> None:
    with ps.Loader(PLANS["filter"]().batch(SIZE, steps=STEPS)) as loader:
        for ask in (loader.batch_at, loader.sample_ids):
            with pytest.raises(ps.PlanError, match="not known in advance"):
                ask(0, 3)
        with pytest.raises(ps.PlanError, match="the next one is 0"):
            loader.set_epoch(4)
        loader.set_epoch(0)
        next(iter(loader))
        loader.set_epoch(1)


def test_what_explains_says_what_runs_in_lanes() -> None:
    plan = PLANS["one after another"]().batch(SIZE, steps=STEPS)
    assert "filter(third) (lane by lane" in plan.explain()
    with pytest.raises(
        ps.PlanError, match=r"what filter\(third\) reads in an epoch of so many steps depends on what the data says"
    ):
        plan.simulate()
    with ps.Loader(plan) as loader:
        list(loader)
        names = [stage["name"] for stage in loader.stats()["stages"]]
        assert [name for name in names if "filter" in name or "flat_map" in name] != []
        assert names.index("filter(third)") < names.index("deliver")


def test_another_function_is_another_plan() -> None:
    with ps.Loader(numbers(500).filter(odd).batch(4, steps=9)) as loader:
        state = loader.state_dict()
    with (
        ps.Loader(numbers(500).filter(third).batch(4, steps=9)) as loader,
        pytest.raises(ps.StateError, match="another plan"),
    ):
        loader.load_state_dict(state, strict=False)


def test_steps_end_an_epoch_of_any_plan() -> None:
    """Without lane stages too: the epoch goes round and round, and states are as small as ever."""
    plan = numbers(100).shuffle(seed=5).batch(24, steps=30)
    whole, _ = run(plan)
    assert len(whole) == 60
    found = np.concatenate([batch["x"] for batch in whole])
    assert min(np.unique(found, return_counts=True)[1]) >= 60 * 24 // 100 - 2
    _, state = run(plan, 2, steps=37)
    assert len(json.dumps(state)) < 1 << 10
    for here, wanted in zip(run(plan, 3, state=state)[0], whole[37:], strict=False):
        assert_same(here, wanted)
