"""What every plan with transforms keeps, for the tests of families: one batch on any number of ranks, and one after any stop."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import penstock as ps
from support import promises

Plan = Callable[[], ps.Dataset]


def passes(plan: ps.Dataset, epochs: int = 2, **options: Any) -> list[dict[str, Any]]:
    """All batches of some epochs."""
    with ps.Loader(plan, **options) as loader:
        return [promises.keep(batch) for _ in range(epochs) for batch in loader]


def ranks_make_one_batch(plan: Plan, *worlds: int, epochs: int = 2) -> None:
    """The ranks' batches of a step are together what one rank has."""
    wanted = passes(plan(), epochs)
    for world in worlds or (2, 4):
        parts = zip(*(passes(plan(), epochs, rank=rank, world_size=world) for rank in range(world)), strict=True)
        for step, part in enumerate(parts):
            promises.assert_same(promises.join(part), wanted[step], f"{world} ranks, step {step}")


def resumes(plan: Plan, *, at_any_step: bool = True) -> None:
    """After one step, the state brings back the others. at_any_step: whether any step can be made by itself."""
    wanted = passes(plan())
    with ps.Loader(plan()) as loader:
        next(iter(loader))
        state = json.dumps(loader.state_dict())
        if at_any_step:
            promises.assert_same(promises.keep(loader.batch_at(1, 1)), wanted[len(loader) + 1])
    assert len(state) < 4096
    with ps.Loader(plan()) as loader:
        loader.load_state_dict(json.loads(state))
        for step, batch in enumerate(loader, 1):
            promises.assert_same(promises.keep(batch), wanted[step], f"step {step}")


def is_the_same_with(plan: Plan, **options: Any) -> None:
    """Options of the loader change no batch."""
    for found, wanted in zip(passes(plan(), **options), passes(plan()), strict=True):
        promises.assert_same(found, wanted, str(options))
