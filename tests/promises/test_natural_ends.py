"""An epoch of a plan with lane stages ends where the data ends: each row once, in the same global batches on any number of ranks, from any state on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.core.cancel import StoppedError
from support.promises import assert_same, join, keep
from support.seams import lowered_of
from support.tries import tries

Rows = Mapping[str, Any]
Lanes = list[list[int]]
SIZE, LANES, LENGTH = 24, 6, 16


def numbers(count: int, first: int = 0) -> ps.Dataset:
    return ps.from_arrays({"x": np.arange(first, first + count)})


def odd(batch: Rows) -> Any:
    return batch["x"] % 2 == 1


def third(batch: Rows) -> Any:
    return batch["x"] % 3 == 0


def early(batch: Rows) -> Any:
    return batch["x"] < 60


def none(batch: Rows) -> Any:
    return batch["x"] < 0


def doubled(batch: Rows) -> dict[str, Any]:
    """Twice each, but for some at the end, by the first: what comes out depends on which rows are together."""
    return {"x": np.repeat(batch["x"], 2)[: 2 * len(batch["x"]) - int(batch["x"][0]) % 5]}


def tripled(batch: Rows) -> dict[str, Any]:
    return {"x": batch["x"] * 3}


def texts(rows: int) -> ps.Dataset:
    """Rows of tokens of many lengths, each token once in all the data."""
    lengths = np.random.default_rng(0).integers(0, 40, rows).tolist()
    tokens = [list(range(100 * row, 100 * row + length)) for row, length in enumerate(lengths)]
    return ps.from_arrays({"tokens": pa.array(tokens, pa.large_list(pa.int32())), "x": np.arange(rows)})


# What lanes give, in plain Python


def parts(rows: Sequence[int], size: int) -> list[list[int]]:
    return [[*rows[first : first + size]] for first in range(0, len(rows), size)]


def kept(says: Callable[[Rows], Any]) -> Callable[[list[int]], list[int]]:
    return lambda rows: [row for row in rows if says({"x": row})]


def by_sevens(rows: list[int]) -> list[int]:
    return [int(number) for group in parts(rows, 7) for number in doubled({"x": np.array(group)})["x"]]


#: The plan, what it begins with, and what becomes of a lane's rows.
PLANS: dict[str, tuple[ps.Dataset, Callable[[ps.Dataset], ps.Dataset], Callable[[list[int]], list[int]]]] = {
    "filter": (numbers(500).shuffle(seed=1), lambda base: base.filter(odd), kept(odd)),
    "not shuffled": (numbers(300), lambda base: base.filter(third), kept(third)),
    "lanes without a row": (numbers(240).shuffle(seed=1), lambda base: base.filter(early), kept(early)),
    "fewer rows than lanes": (numbers(4), lambda base: base.filter(odd), kept(odd)),
    "flat_map": (numbers(200).shuffle(seed=2, block_rows=4), lambda base: base.flat_map(doubled, rows=7), by_sevens),
    "one after another": (numbers(500).shuffle(seed=3), lambda base: base.filter(odd).map(tripled).flat_map(doubled, rows=7).filter(third), lambda rows: kept(third)(by_sevens([3 * row for row in kept(odd)(rows)]))),
    "over a mix and a concat": (ps.mix([ps.concat([numbers(99), numbers(77, 1000)]), numbers(70, 5001)], weights=[2, 1]), lambda base: base.filter(third), kept(third)),
    "repeated": (numbers(90).skip(3).repeat(2).shuffle(seed=5), lambda base: base.filter(odd), kept(odd)),
    "everything": (numbers(331), lambda base: base.filter(lambda batch: batch["x"] >= 0), list),
}  # fmt: skip


@pytest.fixture(params=PLANS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def plan_of(name: str, **batch: Any) -> ps.Dataset:
    base, stage, _ = PLANS[name]
    return stage(base).batch(SIZE, **{"lanes": LANES, **batch})


def lanes_by_hand(name: str, epoch: int, lanes: int = LANES) -> Lanes:
    """What each lane gives in an epoch, by the order of its input alone."""
    base, _, gives = PLANS[name]
    with ps.Loader(base.batch(SIZE, lanes=lanes, pad=True)) as loader:
        order = lowered_of(loader).order.rows
        values = {
            row: x
            for step, batch in enumerate(loader)
            for row, x in zip(loader.sample_ids(0, step).tolist(), batch["x"].tolist(), strict=True)
        }
    rows = [order.ids(epoch, lane, 0, int(order.lane_rows()[lane])).tolist() for lane in range(lanes)]
    return [gives([values[row] for row in lane]) for lane in rows]


def steps_by_hand(lanes: Lanes, last: str) -> list[list[int]]:
    """Equal parts while all lanes have rows, then what is left, lane after lane."""
    part = SIZE // len(lanes)
    even = min(map(len, lanes)) // part
    steps = [[*chain.from_iterable(lane[step * part : (step + 1) * part] for lane in lanes)] for step in range(even)]
    steps += parts([*chain.from_iterable(lane[even * part :] for lane in lanes)], SIZE)
    if steps and len(steps[-1]) < SIZE and last == "drop_last":
        steps.pop()
    if steps and last in ("pad", "wrap"):
        steps[-1] = (steps[-1] * SIZE)[:SIZE]
    return steps


def passes(
    plan: ps.Dataset, ranks: int = 1, *, state: Any = None, steps: int | None = None, epochs: int = 1
) -> tuple[list[list[dict[str, Any]]], Any]:
    """The global batches of each epoch that so many ranks make together, and the state after `steps` of them, or after all."""
    loaders = [ps.Loader(plan, rank=rank, world_size=ranks) for rank in range(ranks)]
    for loader in loaders:
        if state is not None:
            loader.load_state_dict(state)
    found: list[list[dict[str, Any]]] = [[] for _ in range(epochs)]
    for epoch in found:
        its = [iter(loader) for loader in loaders]
        while sum(map(len, found)) != steps:
            batches = [keep(batch) for it in its if (batch := next(it, None)) is not None]
            if not batches:
                break
            assert len(batches) == ranks, "ranks have other numbers of steps"
            epoch.append(join(batches))
    states = [json.loads(json.dumps(loader.state_dict())) for loader in loaders]
    for loader in loaders:
        loader.close()
    return found, ps.merge_states(states)


LASTS = ["", "drop_last", "pad", "wrap"]


def last_of(last: str) -> dict[str, bool]:
    return {last: True} if last else {}


@pytest.mark.parametrize("last", LASTS)
@pytest.mark.filterwarnings("ignore:epoch .* has no batch")
def test_one_rank_takes_each_row_once_and_ends(name: str, last: str) -> None:
    found, _ = passes(plan_of(name, **last_of(last)), epochs=2)
    for epoch, batches in enumerate(found):
        assert [batch["x"].tolist() for batch in batches] == steps_by_hand(lanes_by_hand(name, epoch), last)


def test_padding_is_said(name: str) -> None:
    (batches,), _ = passes(plan_of(name, pad=True))
    real = [batch["x"][batch["valid"]].tolist() for batch in batches]
    assert real == steps_by_hand(lanes_by_hand(name, 0), "")


@pytest.mark.slow
def test_any_state_resumes_on_one_rank(name: str) -> None:
    plan = plan_of(name)
    (first, second), _ = passes(plan, epochs=2)
    whole = [*first, *second]
    for steps in range(0, len(whole), 1 + len(whole) // tries(30, at_least=7)):
        begun, state = passes(plan, steps=steps, epochs=2)
        epoch = 0 if steps < len(first) else 1
        found, _ = passes(plan, state=state, epochs=2 - epoch if steps else 2)
        rest = [*chain.from_iterable(begun), *chain.from_iterable(found)]
        for step, (here, wanted) in enumerate(zip(rest, whole, strict=True)):
            assert_same(here, wanted, f"state after {steps} steps, step {step}")


def test_any_epoch_is_one_by_itself(name: str) -> None:
    plan = plan_of(name)
    found, _ = passes(plan, epochs=3)
    with ps.Loader(plan) as loader:
        loader.set_epoch(2)
        assert [batch["x"].tolist() for batch in loader] == [batch["x"].tolist() for batch in found[2]]
        loader.set_epoch(0)
        assert [batch["x"].tolist() for batch in loader] == [batch["x"].tolist() for batch in found[0]]


def test_a_pass_that_is_left_early_is_over() -> None:
    plan = plan_of("filter")
    (_, second), _ = passes(plan, epochs=2)
    with ps.Loader(plan) as loader:
        next(iter(loader))
        assert [batch["x"].tolist() for batch in loader] == [batch["x"].tolist() for batch in second]


def test_how_many_steps_are_known_afterwards() -> None:
    with ps.Loader(numbers(300).filter(odd).batch(SIZE)) as loader:
        with pytest.raises(TypeError, match="ends where the data does"):
            len(loader)
        assert len(list(loader)) == 7
        assert loader.epoch == 1


def test_a_predicate_that_lets_nothing_through_is_an_empty_epoch() -> None:
    with ps.Loader(numbers(300).filter(none).batch(SIZE)) as loader:
        with pytest.warns(UserWarning, match=r"epoch 0 has no batch: filter\(none\) gave no row"):
            assert not list(loader)
        with pytest.warns(UserWarning, match="epoch 1 has no batch"):
            assert not list(loader)


def test_an_error_behind_the_last_row_is_raised() -> None:
    """What fails in rows that a filter would have left out is no shorter epoch."""

    def fails(batch: Rows) -> Any:
        if (batch["x"] >= 295).any():
            raise ValueError("no such number")
        return batch["x"] < 48

    with ps.Loader(numbers(300).filter(fails).batch(SIZE, lanes=1)) as loader:
        batches = iter(loader)
        for _ in range(2):
            next(batches)
        with pytest.raises(ValueError, match="no such number"):
            next(batches)


# Packing


def packed(rows: int = 900, **how: Any) -> ps.Dataset:
    return texts(rows).shuffle(seed=1).pack("tokens", length=LENGTH, **how)


HOWS = [{"strategy": "best_fit", "window": 10}, {"strategy": "best_fit"}, {"strategy": "concat"}]


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("filtered", [False, True])
def test_packing_loses_no_token(how: dict[str, Any], *, filtered: bool) -> None:
    base = texts(400).shuffle(seed=1)
    plan = (base.filter(third) if filtered else base).pack("tokens", length=LENGTH, **how).batch(SIZE)
    wanted = [
        100 * row + token for row, text in enumerate(texts_of(400)) for token in text if not filtered or row % 3 == 0
    ]
    found, _ = passes(plan, epochs=2)
    for batches in found:
        tokens = np.concatenate([batch["tokens"][batch["segment_ids"] > 0] for batch in batches])
        assert sorted(tokens.tolist()) == wanted


def texts_of(rows: int) -> list[range]:
    return [range(length) for length in np.random.default_rng(0).integers(0, 40, rows).tolist()]


@pytest.mark.slow
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("last", LASTS)
def test_packing_of_known_lengths_counts_itself(how: dict[str, Any], last: str) -> None:
    plan = packed(**how).batch(SIZE, lanes=8, **last_of(last))
    whole, _ = passes(plan, epochs=2)
    for ranks in (2, 3, 12)[: tries(3, at_least=2)]:
        with ps.Loader(plan, rank=1, world_size=ranks) as loader:
            assert len(loader) == len(whole[0])
            loader.set_epoch(1)
            assert len(loader) == len(whole[1])
        found, _ = passes(plan, ranks, epochs=2)
        for here, wanted in zip(chain(*found), chain(*whole), strict=True):
            assert_same(here, wanted, f"{ranks} ranks")


@pytest.mark.slow
@pytest.mark.parametrize("how", HOWS)
def test_packing_resumes_on_any_ranks(how: dict[str, Any]) -> None:
    plan = packed(200, **how).batch(SIZE, lanes=8, wrap=True)
    (first, second), _ = passes(plan, epochs=2)
    whole = [*first, *second]
    worlds = [(1, 4), (4, 3), (12, 1), (3, 8), (2, 2)]
    for steps in range(1, len(whole), 1 + len(whole) // tries(30)):
        before, after = worlds[steps % len(worlds)]
        begun, state = passes(plan, before, steps=steps, epochs=2)
        found, _ = passes(plan, after, state=state, epochs=2 if steps < len(first) else 1)
        rest = [*chain.from_iterable(begun), *chain.from_iterable(found)]
        for step, (here, wanted) in enumerate(zip(rest, whole, strict=True)):
            assert_same(here, wanted, f"from {before} to {after} ranks after {steps} steps, step {step}")


def test_several_ranks_refuse_what_is_not_counted() -> None:
    loader = ps.Loader(numbers(300).filter(odd).batch(SIZE), rank=0, world_size=2)
    with pytest.raises(ps.PlanError, match="must know before it begins"):
        next(iter(loader))
    loader.close()


# Counted ahead

WORLDS = [2, 3, 12, 4, 24]


def on_ranks(world: int) -> dict[str, bool]:
    """A last batch that is too short for so many ranks is filled up."""
    return {"wrap": True} if world > 1 else {}


def test_counting_says_how_many_rows_there_are(name: str) -> None:
    assert plan_of(name).count_rows(epochs=2) == [sum(map(len, lanes_by_hand(name, epoch))) for epoch in range(2)]


@pytest.mark.parametrize("last", ["drop_last", "pad", pytest.param("wrap", marks=pytest.mark.long)])
@pytest.mark.filterwarnings("ignore:epoch .* has no batch")
def test_counted_plans_are_the_same_on_any_ranks(name: str, last: str) -> None:
    plan = plan_of(name, **last_of(last))
    plan.count_rows(epochs=2)
    whole, _ = passes(plan, epochs=2)
    for ranks in WORLDS[: tries(5, at_least=2)]:
        found, _ = passes(plan, ranks, epochs=2)
        assert [len(epoch) for epoch in found] == [len(epoch) for epoch in whole], f"{ranks} ranks"
        for here, wanted in zip(chain(*found), chain(*whole), strict=True):
            assert_same(here, wanted, f"{ranks} ranks")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:epoch .* has no batch")
def test_counted_plans_resume_on_any_ranks(name: str) -> None:
    plan = plan_of(name, wrap=True)
    plan.count_rows(epochs=2)
    (first, second), _ = passes(plan, epochs=2)
    whole = [*first, *second]
    worlds = [(1, 4), (4, 3), (12, 1), (3, 8), (2, 24)]
    for steps in range(1, len(whole), 1 + len(whole) // tries(30, at_least=3)):
        before, after = worlds[steps % len(worlds)]
        begun, state = passes(plan, before, steps=steps, epochs=2)
        found, _ = passes(plan, after, state=state, epochs=2 if steps < len(first) else 1)
        rest = [*chain.from_iterable(begun), *chain.from_iterable(found)]
        for step, (here, wanted) in enumerate(zip(rest, whole, strict=True)):
            assert_same(here, wanted, f"from {before} to {after} ranks after {steps} steps, step {step}")


@pytest.mark.slow
def test_packing_of_filtered_rows_is_counted_and_resumes() -> None:
    plan = (
        texts(500)
        .shuffle(seed=1)
        .filter(third)
        .pack("tokens", length=LENGTH, strategy="concat")
        .batch(SIZE, lanes=8, pad=True)
    )
    plan.count_rows()
    (whole,), _ = passes(plan)
    for before, after in ((2, 4), (4, 3), (3, 1)):
        for steps in range(1, len(whole), 1 + len(whole) // tries(30)):
            begun, state = passes(plan, before, steps=steps)
            found, _ = passes(plan, after, state=state)
            for here, wanted in zip([*begun[0], *found[0]], whole, strict=True):
                assert_same(here, wanted, f"from {before} to {after} ranks after {steps} steps")


def test_what_is_counted_is_known_to_every_loader_of_the_plan() -> None:
    plan = numbers(301).filter(odd).batch(SIZE)
    assert plan.count_rows() == [150]
    with ps.Loader(plan) as loader:
        assert len(loader) == 7
        loader.set_epoch(5)
        assert len(loader) == 7, "nothing shuffles"
    with ps.Loader(numbers(302).filter(odd).batch(SIZE)) as loader, pytest.raises(TypeError):
        len(loader)


#: What `chosen` looks at, which its code does not show.
OUTSIDE = "PENSTOCK_TEST_OUTSIDE"


def chosen(batch: Rows) -> Any:
    """The rows that a number from outside divides; it notes how many it was asked of."""
    modulus, rows, most = map(int, os.environ[OUTSIDE].split())
    rows += len(batch["x"])
    os.environ[OUTSIDE] = f"{modulus} {rows} {most}"
    if rows > most:
        raise KeyboardInterrupt
    return batch["x"] % modulus == 0


def outside(monkeypatch: pytest.MonkeyPatch, modulus: int, most: int = 1 << 40) -> None:
    monkeypatch.setenv(OUTSIDE, f"{modulus} 0 {most}")


def asked() -> int:
    return int(os.environ[OUTSIDE].split()[1])


def test_nothing_is_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    outside(monkeypatch, 5)
    plan = numbers(5_000).filter(chosen).batch(SIZE)
    assert plan.count_rows(epochs=3) == [1_000] * 3
    once = asked()
    assert 5_000 <= once < 6_000, "the first rows are made twice, to compare"
    assert plan.count_rows() == [1_000]
    assert asked() == once
    assert plan.count_rows(again=True) == [1_000]
    assert asked() >= once + 5_000


def test_data_that_grows_is_counted_anew(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"

    def plan(rows: int) -> ps.Dataset:
        file.write_text("".join(f'{{"x": {row}}}\n' for row in range(rows)))
        return ps.read(file).filter(odd).batch(SIZE, wrap=True)

    assert plan(100).count_rows() == [50]
    grown = plan(200)
    with ps.Loader(grown, rank=0, world_size=2) as loader, pytest.raises(ps.PlanError, match="count_rows"):
        next(iter(loader))
    assert grown.count_rows() == [100]
    with ps.Loader(grown, rank=0, world_size=2) as loader:
        assert len(list(loader)) == 5


def test_a_pass_on_one_rank_counts_for_others(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("".join(f'{{"x": {row}}}\n' for row in range(500)))
    plan = ps.read(tmp_path).shuffle(seed=0).filter(odd).batch(SIZE, wrap=True)
    (whole,), _ = passes(plan)
    (found,), _ = passes(plan, 4)
    for here, wanted in zip(found, whole, strict=True):
        assert_same(here, wanted)


def test_whoever_asks_more_of_lanes_that_failed_hears_why() -> None:
    """Two threads do: one takes rows while the run's first stage goes on with lanes of other ranks, and either error may be the one that is heard."""

    def failing(batch: Rows) -> Any:
        raise ps.DataError("not these rows")

    first = np.zeros(SIZE, np.int64)
    with ps.Loader(numbers(480).filter(failing).batch(SIZE)) as loader:
        feed: Any = lowered_of(loader).lanes.feeds[0]
        feed.begin({})
        with pytest.raises(ps.DataError, match="not these rows"):
            feed.take(np.arange(SIZE), first, None)
        with pytest.raises(ps.DataError, match="not these rows"):
            feed._restart(first, first)
        feed.close()
        with pytest.raises(StoppedError):
            feed._restart(first, first)


@pytest.mark.parametrize("modulus", [3, 1])
def test_other_rows_than_were_counted_are_an_error_with_both_numbers(
    modulus: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside(monkeypatch, 2)
    rows = 480 * modulus
    plan = numbers(rows).filter(chosen).batch(SIZE, lanes=1)
    assert plan.count_rows() == [rows // 2]
    outside(monkeypatch, modulus)
    for rank in range(2):
        with ps.Loader(plan, rank=rank, world_size=2) as loader:
            words = rf"lane 0 gave {rows // modulus} rows in epoch 0, and {rows // 2} when they were counted"
            with pytest.raises(ps.DataError, match=words):
                list(loader)
    assert plan.count_rows(again=True) == [rows // modulus]


@pytest.mark.slow
def test_counting_that_was_interrupted_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    outside(monkeypatch, 2, most=150_000)
    plan = numbers(200_000).shuffle(seed=0).filter(chosen).batch(1_000, lanes=4)
    with pytest.raises(KeyboardInterrupt):
        plan.count_rows()
    outside(monkeypatch, 2)
    assert plan.count_rows() == [100_000]
    assert 0 < asked() < 180_000
    (whole,), _ = passes(plan)
    assert sum(len(batch["x"]) for batch in whole) == 100_000
    (found,), _ = passes(plan, 2)
    for here, wanted in zip(found, whole, strict=True):
        assert_same(here, wanted)


COUNT = """
import os, time
import numpy as np
import penstock as ps
from penstock.tools import count_lanes

count_lanes.KEEP_S = 0.1
rows = 0


def slow(batch):
    global rows
    rows += len(batch["x"])
    if rows > int(os.environ["MOST"]):
        os._exit(9)
    time.sleep(0.0005 * len(batch["x"]))
    return batch["x"] % 2 == 0


plan = ps.from_arrays({"x": np.arange(3_000)}).shuffle(seed=0).filter(slow).batch(12, lanes=4)
print(plan.count_rows()[0], rows)
"""


def test_a_slow_count_that_was_killed_goes_on(tmp_path: Path) -> None:
    script = tmp_path / "count.py"  # a file, so that the function's source tells that it is the same
    script.write_text(COUNT)
    killed, again = (
        subprocess.run(
            [sys.executable, script], check=False, text=True, stdout=subprocess.PIPE, env=os.environ | {"MOST": most}
        )
        for most in ("2000", "4000")
    )
    assert (killed.returncode, again.returncode) == (9, 0)
    found, rows = (int(word) for word in again.stdout.split())
    assert found == 1_500
    assert rows < 2_500, "a third at least was known"


def test_what_cannot_be_counted_says_why() -> None:
    with pytest.raises(ps.PlanError, match=r"data\.batch\(256\)\.count_rows"):
        numbers(10).filter(odd).count_rows()
    once = ps.from_iterable(iter([{"x": 1}, {"x": 2}]), samples=2, spool=False).filter(odd).batch(2)
    with pytest.raises(ps.PlanError, match="come once"):
        once.count_rows()
    assert numbers(10).batch(4).count_rows(epochs=2) == [10, 10]
    assert numbers(10).filter(odd).batch(4, steps=3).count_rows() == [12]


def test_draws_differ_from_epoch_to_epoch() -> None:
    def drawn(batch: Rows, rng: Any) -> Any:
        return rng.random() < 0.5

    plan = numbers(400).filter(drawn).batch(SIZE, lanes=4, wrap=True)
    counted = plan.count_rows(epochs=2)
    assert counted[0] != counted[1]
    found, _ = passes(plan, 3, epochs=2)
    whole, _ = passes(plan, epochs=2)
    for here, wanted in zip(chain(*found), chain(*whole), strict=True):
        assert_same(here, wanted)


def test_groups_of_no_row_at_a_lanes_end() -> None:
    """Lanes of which the stage below gave a whole number of groups end with one of no row."""

    def some(batch: Rows) -> dict[str, Any]:
        return {"x": np.concatenate([batch["x"], batch["x"][:1]])}

    plan = numbers(64).shuffle(seed=3).filter(odd).flat_map(some, rows=2).batch(8, lanes=8, wrap=True)
    (batches,), _ = passes(plan)
    assert {int(x) for batch in batches for x in batch["x"]} == {*range(1, 64, 2)}
    assert plan.count_rows()[0] == sum(len(rows) + -(-len(rows) // 2) for rows in filtered_lanes(64, 8))


def filtered_lanes(rows: int, lanes: int) -> Lanes:
    with ps.Loader(numbers(rows).shuffle(seed=3).batch(8, lanes=lanes)) as loader:
        order = lowered_of(loader).order.rows
    return [
        [row for row in order.ids(0, lane, 0, int(order.lane_rows()[lane])).tolist() if row % 2]
        for lane in range(lanes)
    ]


def logged(batch: Rows) -> Any:
    """The odd rows; how many it was asked of is added to a file, which its code does not name."""
    with Path(os.environ[OUTSIDE]).open("a") as file:
        file.write(f"{len(batch['x'])}\n")
    return batch["x"] % 2 == 1


def test_ranks_take_what_is_left_without_running_lanes_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "asked"
    monkeypatch.setenv(OUTSIDE, str(log))
    plan = numbers(40_000).shuffle(seed=0, block_rows=8).filter(logged).batch(400, lanes=40, wrap=True)
    plan.count_rows()
    log.write_text("")
    found, _ = passes(plan, 4)
    assert len(found[0]) == 50
    once = 40_000 + 4 * 1_000  # each rank compares its first rows
    assert sum(map(int, log.read_text().split())) < 1.3 * once


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_ranks_share_a_lane(ranks: int) -> None:
    plan = numbers(700).shuffle(seed=2).filter(third).batch(SIZE, lanes=1, wrap=True)
    plan.count_rows()
    (whole,), _ = passes(plan)
    (found,), _ = passes(plan, ranks)
    for here, wanted in zip(found, whole, strict=True):
        assert_same(here, wanted)


def test_bad_rows_are_left_out_of_epochs_that_end() -> None:
    def some_fail(row: Rows) -> Rows:
        if row["x"] % 7 == 0:
            raise ps.DataError("a seventh row")
        return row

    plan = numbers(500).map_rows(some_fail).filter(odd).batch(SIZE)
    wanted = sorted(number for number in range(500) if number % 2 and number % 7)
    with ps.Loader(plan, on_error="skip") as loader:
        with pytest.warns(UserWarning, match="bad sample"):
            first = [batch["x"] for batch in loader]
        second = [batch["x"] for batch in loader]
    assert [sorted(np.concatenate(one).tolist()) for one in (first, second)] == [wanted] * 2


def test_a_state_that_was_changed_is_refused() -> None:
    plan = plan_of("not shuffled")
    _, state = passes(plan, steps=4)
    assert state["ends"]
    for ends in ({"0": -1}, {"99": 3}, [1], {"a": 1}, {"0": "7"}):
        with ps.Loader(plan) as loader, pytest.raises(ps.StateError, match="it was changed"):
            loader.load_state_dict({**state, "ends": ends})
    with ps.Loader(plan) as loader:
        loader.load_state_dict({**state, "ends": {**state["ends"], "0": state["ends"]["0"] + 1}})
        with pytest.raises(ps.DataError, match="when they were counted"):
            list(loader)


def test_explain_says_where_an_epoch_ends() -> None:
    words = numbers(100).filter(odd).batch(10).explain()
    assert "as many steps an epoch as the data gives" in words
    assert "an epoch ends where filter(odd) has given all of its rows" in words
    assert "steps in the first epoch" in packed(100).batch(SIZE).explain()
