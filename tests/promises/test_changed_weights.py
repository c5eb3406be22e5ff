"""Weights that change, by a schedule or by hand in mid-run: exact counts, ranks, resuming, what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.core.columns.spec import Bytes, Ids
from penstock.core.files.shards import Shards
from penstock.storage.fetch.plan import plan as plan_requests
from promises.test_composed import three
from support import promises
from support.cases import MemoryStorage
from support.tries import tries

pytestmark = pytest.mark.slow

SCHEDULE = {0: [8, 1, 1], 4: [1, 8, 1], 11: [2, 3, 5]}


def plan(weights: Any = None, rows: int = 48, *, shuffle: bool = True) -> ps.Dataset:
    """Three datasets, by their first numbers."""
    some = [ps.from_arrays({"x": np.arange(count) + 1000 * number}) for number, count in enumerate((50, 90, 70))]
    mixed = ps.mix(some, weights=weights or SCHEDULE[0], rows=rows)
    return (mixed.shuffle(seed=3) if shuffle else mixed).batch(12, lanes=4)


def counts(batch: dict[str, Any]) -> list[int]:
    return np.bincount(batch["x"] // 1000, minlength=3).tolist()


def taken(loader: ps.Loader[dict[str, Any]], steps: int) -> list[list[int]]:
    return [batch["x"].tolist() for batch in promises.walk(loader, steps)]


def test_each_step_has_its_weights() -> None:
    """Counted over epochs, which have four steps here; within two rows of what is asked."""
    with ps.Loader(plan(SCHEDULE), rank=0, world_size=1) as loader:
        found = [counts(batch) for batch in promises.walk(loader, 20)]
    for step, some in enumerate(found):
        weights = np.array(SCHEDULE[max(begin for begin in SCHEDULE if begin <= step)])
        assert np.abs(np.array(some) - 12 * weights / weights.sum()).max() < 2
    assert found[0][0] > 8 < found[5][1]


def test_datasets_go_on_where_they_were() -> None:
    with ps.Loader(plan(SCHEDULE), rank=0, world_size=1) as loader:
        rows = np.concatenate(taken(loader, 40))
    for number, size in enumerate((50, 90, 70)):
        mine = rows[rows // 1000 == number]
        whole = len(mine) // size
        assert whole
        # Lanes come to their next round at different steps.
        assert max(np.bincount(mine - 1000 * number)) <= whole + 2
        assert min(np.bincount(mine - 1000 * number, minlength=size)) >= whole - 1


PLANS: dict[str, Callable[[Path], ps.Dataset]] = {
    "memory": lambda _: plan(SCHEDULE),
    "natural": lambda _: plan(SCHEDULE, shuffle=False),
    "repeated": lambda _: ps.mix([ps.from_arrays({"x": np.arange(n)}) for n in (30, 40)], weights={0: [3, 1], 5: [1, 3]}, rows=24).shuffle(seed=1).repeat(2).batch(12, lanes=4),
    "files": lambda folder: ps.mix(three(folder), weights={0: [5, 2, 1], 2: [1, 1, 6], 9: [1, 1, 1]}, rows=48, source="of").shuffle(seed=1, block_rows=3).batch(12, lanes=4),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANS)
def test_resume(name: str, tmp_path: Path) -> None:
    promises.resume_is_exact(PLANS[name](tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANS)
def test_elastic(name: str, tmp_path: Path) -> None:
    promises.ranks_make_one_batch(PLANS[name](tmp_path))


@settings(max_examples=tries(60), deadline=None)
@given(
    changes=st.dictionaries(st.integers(0, 18), st.tuples(*[st.integers(1, 9)] * 3), max_size=3),
    saved=st.integers(0, 18),
    worlds=st.tuples(*[st.sampled_from([1, 2, 3, 4, 6])] * 2),
)
def test_set_by_hand_is_as_scheduled(changes: dict[int, tuple[int, ...]], saved: int, worlds: tuple[int, int]) -> None:
    """On any number of ranks, saved at any step and continued on another number: as the plan with the same schedule."""
    schedule = {0: SCHEDULE[0]} | {step: [*changes[step]] for step in sorted(changes)}
    with ps.Loader(plan(schedule), rank=0, world_size=1) as loader:
        wanted = taken(loader, 20)
    before = [by_hand(rank, worlds[0], changes, 0, saved, None) for rank in range(worlds[0])]
    states = [json.dumps(state) for _, state in before]
    assert len({*states}) == 1
    after = [by_hand(rank, worlds[1], changes, saved, 20, json.loads(states[0])) for rank in range(worlds[1])]
    steps = [*joined([steps for steps, _ in before]), *joined([steps for steps, _ in after])]
    assert steps == wanted


def by_hand(
    rank: int, world: int, changes: dict[int, tuple[int, ...]], first: int, end: int, state: Any
) -> tuple[list[list[int]], dict[str, Any]]:
    """A rank's batches of steps [first, end), weights being set before their step; and the state then."""
    with ps.Loader(plan(), rank=rank, world_size=world, prefetch=3) as loader:
        if state is not None:
            loader.load_state_dict(state)
        found, step = [], first
        while step < end:
            if step in changes:
                loader.set_weights(changes[step])
            for batch in loader:
                found.append(batch["x"].tolist())
                step += 1
                if step == end:
                    break
                if step in changes:
                    loader.set_weights(changes[step])
        return found, loader.state_dict()


def joined(ranks: list[list[list[int]]]) -> Iterator[list[int]]:
    for parts in zip(*ranks, strict=True):
        yield [number for part in parts for number in part]


class Planned(MemoryStorage):
    """Counts the requests to a store that what is read would be, and their bytes."""

    requests = size_bytes = 0

    def read(self, shards: Shards, shard: Ids, offset: Ids, length: Ids, out: Bytes, at: Ids) -> None:
        super().read(shards, shard, offset, length, out, at)
        requests = plan_requests(shard, offset, length, at)
        self.requests += len(requests)
        self.size_bytes += int(requests.length.sum())


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("schedule", [{0: [8, 1, 1]}, {0: [8, 1, 1], 40: [1, 8, 1], 130: [2, 3, 5]}])
def test_requests_are_simulated(schedule: Any, world: int) -> None:
    """As many as a run makes, while the weights change within an epoch and in a later one."""
    epochs, lines = 3, "".join(json.dumps({"x": 10_000 + row}) + "\n" for row in range(900))
    storages = [Planned({f"data/{part}.jsonl": lines.encode()}) for part in range(3)]
    some = [ps.read("data/", format="jsonl", storage=storage) for storage in storages]
    mixed = ps.mix(some, weights=schedule, rows=1200).shuffle(seed=1, block_rows=5).batch(12, lanes=6)
    simulated = mixed.simulate(world_size=world, epochs=epochs)
    before = [(storage.requests, storage.size_bytes) for storage in storages]
    for rank in range(world):
        with ps.Loader(mixed, rank=rank, world_size=world, epochs=epochs) as loader:
            assert len(loader) == simulated.steps_per_epoch
            for _ in promises.walk(loader, epochs * len(loader)):
                pass
    made = np.sum([(storage.requests, storage.size_bytes) for storage in storages], axis=0) - np.sum(before, axis=0)
    assert [sum(node.requests for node in simulated.nodes), sum(node.bytes for node in simulated.nodes)] == [*made]


def test_what_is_simulated_follows_the_weights(tmp_path: Path) -> None:
    """Files of two sizes, a row each: an epoch's bytes say how many there are of each."""
    sizes = (1_000, 9_000)
    for size in sizes:
        (tmp_path / str(size)).mkdir()
        for number in range(60):
            (tmp_path / str(size) / f"{number}.jpg").write_bytes(b"\xff\xd8\xff".ljust(size))
    some = [ps.read(tmp_path / str(size)) for size in sizes]
    mixed = ps.mix(some, weights={0: [3, 1], 5: [1, 3]}, rows=40).shuffle(seed=1).batch(8, lanes=4)
    first, second = mixed.simulate(epochs=2).nodes
    assert (first.requests, first.bytes) == (40, 30 * sizes[0] + 10 * sizes[1])
    assert (second.requests, second.bytes) == (40, 10 * sizes[0] + 30 * sizes[1])


def test_batches_made_ahead_are_made_again() -> None:
    """Also those of the item that is half delivered."""
    with ps.Loader(plan(), rank=0, world_size=1) as loader:
        batches = iter(loader)
        assert counts(next(batches))[0] > 8
        loader.set_weights([1, 1, 8])
        assert counts(next(batches))[2] > 8
        assert loader.sample_ids(0, 1).tolist() != ps.Loader(plan(), rank=0, world_size=1).sample_ids(0, 1).tolist()
        batch = next(batches)
        assert loader.batch_at(0, 2)["x"].tolist() == batch["x"].tolist()


def test_what_was_set_takes_the_place_of_the_schedule() -> None:
    with ps.Loader(plan(SCHEDULE), rank=0, world_size=1) as loader:
        first = taken(loader, 2)
        loader.load_state_dict(loader.state_dict())
        loader.set_weights([1, 1, 8])
        later = [counts(batch) for batch in promises.walk(loader, 14)]
    assert len(first) == 2
    assert all(some[2] > 8 for some in later)


def test_what_was_set_later_is_forgotten_further_back() -> None:
    with ps.Loader(plan(), rank=0, world_size=1) as loader:
        wanted = taken(loader, 4)
        start = loader.state_dict()
        loader.set_weights([1, 1, 8])
        changed = taken(loader, 4)
        assert "weights" in loader.state_dict()
        assert loader.state_dict()["weights"] == [[[4, [1, 1, 8]]]]
        loader.load_state_dict(start)
        assert "weights" not in loader.state_dict()
        assert taken(loader, 4) != changed
        loader.set_epoch(0)
        assert taken(loader, 4) == wanted
        loader.set_epoch(0)
        loader.set_weights([1, 8, 1])
        loader.set_epoch(2)
        loader.set_weights([8, 1, 1])
        loader.set_epoch(1)
        loader.set_weights(np.array([1, 1, 1]))
        assert loader.state_dict()["weights"] == [[[0, [1, 8, 1]], [4, [1, 1, 1]]]]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([[[0, [1, 1]]]], r"the state has the weights .* \(state: 2 weights for 3 datasets"),
        ([[[5, [1, 1, 1]], [3, [1, 1, 1]]]], r"weights from step 3 on follow those from step 5"),
        ([[[0, [1, 1, 0]]]], r"weights\[2\]=0"),
        ([], r"which do not fit the plan's mixes"),
        ([7], r"which do not fit the plan's mixes"),
        ("x", r"which do not fit the plan's mixes"),
    ],
)
def test_a_state_that_was_changed(weights: Any, message: str) -> None:
    with ps.Loader(plan(), rank=0, world_size=1) as loader, pytest.raises(ps.StateError, match=message):
        loader.load_state_dict({**loader.state_dict(), "weights": weights})


def of(count: int) -> ps.Dataset:
    return ps.from_arrays({"x": np.arange(count)})


@pytest.mark.parametrize(
    ("dataset", "weights", "mix", "message"),
    [
        (lambda: of(20), [1], 0, r"set_weights: the plan mixes no datasets"),
        (lambda: ps.mix([of(20), of(30)]), [1, 2], 0, r"set_weights: weights that change need epochs of so many rows.*write mix\(…, rows=…\)"),
        (lambda: ps.mix([of(20), of(30)], rows=16), [1, 2], 1, r"set_weights: mix=1; the plan has 1, numbered from 0, the outermost first"),
        (lambda: ps.mix([of(20), of(30)], rows=16), [1, 2], -1, r"set_weights: mix=-1"),
        (lambda: ps.mix([of(20), of(30)], rows=16), [1, 2, 3], 0, r"set_weights: 3 weights for 2 datasets; give one each"),
        (lambda: ps.mix([of(20), of(30)], rows=16), [1, -2], 0, r"set_weights: weights\[1\]=-2; a weight is a number above 0"),
        (lambda: ps.mix([of(20), of(30)], rows=16), 0.5, 0, r"set_weights: 0.5; give a list with a weight for each"),
        (lambda: ps.mix([of(20), of(30)], rows=16), {0: [1, 2]}, 0, r"set_weights: \{0: \[1, 2\]\}; give a list"),
        (lambda: ps.mix([of(20), of(30)], rows=16).take(8), [1, 2], 0, r"set_weights: the mix comes below take, which shifts its rows"),
        (lambda: ps.mix([ps.mix([of(20), of(30)], rows=16), of(30)], rows=16), [1, 2], 1, r"set_weights: the mix comes below mix, which"),
    ],
)  # fmt: skip
def test_what_cannot_be_set(dataset: Callable[[], ps.Dataset], weights: Any, mix: int, message: str) -> None:
    """And then nothing has changed."""
    with ps.Loader(dataset().batch(4, lanes=2), rank=0, world_size=1) as loader:
        before = loader.sample_ids(0, 1).tolist()
        with pytest.raises(ps.PlanError, match=message):
            loader.set_weights(weights, mix=mix)
        assert loader.sample_ids(0, 1).tolist() == before
        assert "weights" not in loader.state_dict()


def test_the_outermost_mix_is_set() -> None:
    inner = ps.mix([of(20), of(30)], weights=[1, 1])
    with ps.Loader(ps.mix([inner, of(30)], rows=16).batch(4, lanes=2), rank=0, world_size=1) as loader:
        loader.set_weights([3, 1])
        assert loader.state_dict()["weights"] == [[[0, [3, 1]]], []]
        loader.load_state_dict(loader.state_dict())


def filtered(weights: Any) -> ps.Dataset:
    some = [ps.from_arrays({"x": np.arange(count) + 1000 * number}) for number, count in enumerate((50, 90))]
    kept = [one.shuffle(seed=3).filter(lambda batch: batch["x"] % 3 > 0) for one in some]
    return ps.mix(kept, weights=weights, rows=48).batch(12, lanes=4)


def test_filtered_datasets_go_on_too() -> None:
    """Lane stages below a mix stay where they are when its weights are set, and when a state from before or after that is loaded."""
    with ps.Loader(filtered({0: [3, 1], 3: [1, 5]}), rank=0, world_size=1) as loader:
        wanted = taken(loader, 8)
    states: dict[int, str] = {}
    with ps.Loader(filtered([3, 1]), rank=0, world_size=1) as loader:
        found = [batch["x"].tolist() for _ in range(2) for batch in set_at(loader, 3, [1, 5], states)]
    assert found == wanted
    for step, state in states.items():
        with ps.Loader(filtered([3, 1]), rank=0, world_size=1) as loader:
            loader.load_state_dict(json.loads(state))
            if step < 3:
                assert taken(loader, 3 - step) == wanted[step:3]
            else:
                assert taken(loader, 8 - step) == wanted[step:]


def set_at(
    loader: ps.Loader[dict[str, Any]], step: int, weights: list[int], states: dict[int, str]
) -> Iterator[dict[str, Any]]:
    """A pass, other weights being set before a step; the states of every step."""
    for batch in loader:
        kept = promises.keep(batch)
        here = loader.epoch * len(loader) + loader.step
        if here == step:
            loader.set_weights(weights)
        states[here] = json.dumps(loader.state_dict())
        yield kept
