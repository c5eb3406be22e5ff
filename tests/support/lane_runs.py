"""Runs of a plan on any number of ranks, from a state on or not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import penstock as ps
from support.promises import join, keep


def run(
    plan: ps.Dataset | Callable[[], ps.Dataset],
    ranks: int = 1,
    *,
    state: Any = None,
    steps: int | None = None,
    epochs: int = 2,
) -> tuple[list[dict[str, Any]], Any]:
    """The global batches that so many ranks make together, and the state after `steps` of them, or after all. Of a function, each rank opens its own plan."""
    plans = [plan if isinstance(plan, ps.Dataset) else plan() for _ in range(ranks)]
    loaders = [ps.Loader(each, rank=rank, world_size=ranks) for rank, each in enumerate(plans)]
    for loader in loaders:
        if state is not None:
            loader.load_state_dict(state)
    passes = [chain.from_iterable(map(iter, [loader] * epochs)) for loader in loaders]
    found: list[dict[str, Any]] = []
    while len(found) != steps and (batches := [keep(batch) for batch in _one_each(passes)]):
        found.append(join(batches))
    states = [json.loads(json.dumps(loader.state_dict())) for loader in loaders]
    for loader in loaders:
        loader.close()
    return found, ps.merge_states(states)


def _one_each(passes: Sequence[Iterator[Any]]) -> list[Any]:
    return [batch for one in passes if (batch := next(one, None)) is not None]
