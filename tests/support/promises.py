"""The promises, written once; every source, order and transform is run through them (see test_contracts.py).

Each function takes a dataset that ends with `batch`, and fails with what was found instead of what was promised.
"""

from __future__ import annotations

import gc
import json
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps
from penstock.order.lanes import divisors
from penstock.plan.nodes import Batch as BatchNode
from support.seams import lowered_of
from support.tries import TRIES

Batch = Mapping[str, Any]


# Comparing


def assert_same(found: Batch, wanted: Batch, where: str = "") -> None:
    """Two batches are the same bit for bit: names, order of names, types, values."""
    assert list(found) == list(wanted), where
    for name in wanted:
        assert _bits(found[name]) == _bits(wanted[name]), f"{where}: column {name!r}\n{found[name]}\n{wanted[name]}"


def _bits(column: Any) -> tuple[Any, ...]:
    if isinstance(column, pa.Array):
        return str(column.type), column.to_pylist()
    column = np.asarray(column)
    return column.dtype.str, column.shape, column.tobytes()


def join(parts: Sequence[Batch]) -> dict[str, Any]:
    """The ranks' batches in rank order as one."""
    return {name: _joined([part[name] for part in parts]) for name in parts[0]}


def _joined(columns: list[Any]) -> Any:
    return pa.concat_arrays(columns) if isinstance(columns[0], pa.Array) else np.concatenate(columns)


def keep(batch: Batch) -> dict[str, Any]:
    """A copy, so that a batch whose memory were used again too early would be seen."""
    return {name: column if isinstance(column, pa.Array) else np.array(column) for name, column in batch.items()}


def walk(loader: ps.Loader, steps: int) -> Iterator[dict[str, Any]]:
    """The next `steps` batches, over the ends of epochs."""
    while steps > 0:
        for batch in loader:
            yield keep(batch)
            steps -= 1
            if steps == 0:
                return


def batch_node(dataset: ps.Dataset) -> BatchNode:
    return next(node for node in dataset.nodes if isinstance(node, BatchNode))


def worlds(dataset: ps.Dataset) -> list[int]:
    """The numbers of ranks that the plan allows, up to 8; the two largest up to 4 unless tests are long. Each must either work or be refused when the loader is made."""
    with ps.Loader(dataset, rank=0, world_size=1) as loader:
        order = lowered_of(loader).order
    most = 8 if TRIES >= 1_000 else 4
    found = [world for world in divisors(order.ranks_divide) if world <= most and _allows(dataset, world)]
    return found if TRIES >= 1_000 else found[-2:]


def _allows(dataset: ps.Dataset, world: int) -> bool:
    try:
        ps.Loader(dataset, rank=0, world_size=world)
    except ps.PlanError as error:
        assert "the last global batch has" in str(error)  # noqa: PT017
        return False
    return True


# The promises


def resume_is_exact(dataset: ps.Dataset, epochs: int = 2) -> None:
    """The state before every step, of those at the edges of epochs unless tests are long, brings back that step and all that follow."""
    states: list[str] = []
    batches: list[dict[str, Any]] = []
    with ps.Loader(dataset) as loader:
        for epoch in range(epochs):
            assert loader.epoch == epoch
            passing = iter(loader)
            for step in range(len(loader)):
                assert (loader.epoch, loader.step) == (epoch, step)
                states.append(json.dumps(loader.state_dict()))
                batches.append(keep(next(passing)))
            assert next(passing, None) is None
    assert max(len(state.encode()) for state in states) < 4096
    assert len({tuple(json.loads(state)) for state in states}) == 1, "the keys of the state change"
    assert len(set(states)) == len(states), "two steps have one state"
    half = len(states) // 2
    edges = {0, 1, half - 1, half, half + 1, len(states) - 1}
    for number, state in enumerate(states):
        if TRIES < 1_000 and number not in edges:
            continue
        with ps.Loader(dataset) as loader:
            loader.load_state_dict(json.loads(state))
            assert json.dumps(loader.state_dict()) == state
            rest = batches[number:]
            for place, batch in enumerate(walk(loader, len(rest))):
                assert_same(batch, rest[place], f"restored before step {number}, {place} steps later")


def ranks_make_one_batch(dataset: ps.Dataset) -> None:
    """The ranks' batches, joined in rank order, do not depend on the number of ranks, nor on a change in mid-epoch."""
    with ps.Loader(dataset) as loader:
        steps = len(loader) + 2
        wanted = list(walk(loader, steps))
    states: dict[int, list[str]] = {}
    for world in worlds(dataset):
        states[world] = []
        for step, found in enumerate(_walk_ranks(dataset, world, None, steps, states[world])):
            assert_same(found, wanted[step], f"{world} ranks, step {step}")
    for before, after in pairwise([*states, 1]):
        for stop in {1, steps // 2} if TRIES >= 1_000 else {steps // 2}:
            state = json.loads(states[before][stop - 1])
            for step, found in enumerate(_walk_ranks(dataset, after, state, steps - stop, [])):
                assert_same(found, wanted[stop + step], f"{before} ranks, then {after} from step {stop}, step {step}")


def _loaders(dataset: ps.Dataset, world: int) -> list[ps.Loader]:
    loaders = [ps.Loader(dataset, rank=rank, world_size=world) for rank in range(world)]
    assert len({len(loader) for loader in loaders}) == 1, "ranks differ in steps"
    return loaders


def _walk_ranks(dataset: ps.Dataset, world: int, state: Any, steps: int, states: list[str]) -> Iterator[dict[str, Any]]:
    """The ranks' batches, joined; the state after each step, the same on all ranks, goes to `states`."""
    loaders = _loaders(dataset, world)
    for loader in loaders:
        if state is not None:
            loader.load_state_dict(state)
    for parts in zip(*(walk(loader, steps) for loader in loaders), strict=True):
        states.append(_state_of(loaders))
        yield join(parts)
    assert _state_of(loaders) == states[-1], "the state is another one after the pass was broken off"
    for loader in loaders:
        loader.close()


def _state_of(loaders: Sequence[ps.Loader]) -> str:
    states = {json.dumps(loader.state_dict()) for loader in loaders}
    assert len(states) == 1, "ranks differ in state"
    return states.pop()


def ranks_share_every_epoch(dataset: ps.Dataset, column: str, epochs: int = 2) -> None:
    """Every sample once an epoch, on one rank; `column` holds the sample ids, as the data itself tells them."""
    plan = batch_node(dataset)
    samples = len(dataset)
    for world in worlds(dataset):
        loaders = _loaders(dataset, world)
        for epoch in range(epochs):
            real: list[int] = []
            rows = 0
            for loader in loaders:
                for step, batch in enumerate(loader):
                    ids = np.asarray(batch[column])
                    assert ids.tolist() == loader.sample_ids(epoch, step).tolist()
                    valid = batch["valid"] if plan.pad else np.ones(len(ids), dtype=bool)
                    real += ids[valid].tolist()
                    rows += len(ids)
            check_epoch(real, rows, samples, plan)
        for loader in loaders:
            loader.close()


def check_epoch(real: Sequence[int], rows: int, samples: int, plan: BatchNode) -> None:
    """What one epoch of all ranks must hold: `real` are its ids without padding, `rows` counts all rows."""
    assert set(real) <= set(range(samples))
    if plan.drop_last:
        assert len(set(real)) == len(real) == rows == samples // plan.size * plan.size
    elif plan.wrap:
        assert set(real) == set(range(samples))
        assert rows == -(-samples // plan.size) * plan.size
    else:
        assert sorted(real) == list(range(samples))
        assert rows == (-(-samples // plan.size) * plan.size if plan.pad else samples)


def epochs_differ_and_seeds_repeat(dataset: ps.Dataset, *, shuffled: bool) -> None:
    """Another order in every epoch, the same one for the same seed, whatever the prefetch and the threads."""
    with ps.Loader(dataset) as loader:
        steps = 2 * len(loader)
        wanted = list(walk(loader, steps))
        first, second = ([loader.sample_ids(e, s).tolist() for s in range(len(loader))] for e in (0, 1))
    assert (first != second) == shuffled
    for options in ({"prefetch": 1, "cpus": 1}, {"prefetch": 7, "cpus": 3}, {"memory": 1}, {"cpus": 5}):
        with warnings.catch_warnings(), ps.Loader(dataset, **options) as loader:
            warnings.filterwarnings("ignore", message="penstock: memory=1 bytes is less than")
            for step, batch in enumerate(walk(loader, steps)):
                assert_same(batch, wanted[step], f"{options}, step {step}")


def any_step_can_be_made(dataset: ps.Dataset) -> None:
    """`batch_at` gives the batch that was delivered, before and after, and leaves the position as it is."""
    with ps.Loader(dataset) as loader:
        wanted = list(walk(loader, 2 * len(loader)))
        position = loader.epoch, loader.step
        for number in reversed(range(len(wanted))):
            epoch, step = divmod(number, len(loader))
            assert_same(loader.batch_at(epoch, step), wanted[number], f"epoch {epoch}, step {step}")
        assert (loader.epoch, loader.step) == position


def kept_batches_stay(dataset: ps.Dataset) -> None:
    """A batch that the user keeps is never written to again."""
    with ps.Loader(dataset) as loader:
        kept = []
        for _ in range(3):
            kept += [(batch, keep(batch)) for batch in loader]
        for number, (batch, copy) in enumerate(kept):
            assert_same(batch, copy, f"batch {number}")


def nothing_stays(opened: Callable[[], ps.Dataset]) -> None:
    """What a dataset holds (files, maps, leases on a cache) goes with its last name, without a search for cycles."""
    gc.collect()
    gc.disable()
    try:
        dataset = opened()
        with ps.Loader(dataset, epochs=1) as loader:
            for _ in loader:
                pass
        source = weakref.ref(dataset.source)
        del dataset, loader
        assert source() is None
    finally:
        gc.enable()
