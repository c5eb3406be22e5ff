"""Single steps, made at once in the calling thread: `loader.batch_at` and `loader.draws`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from penstock.core.columns.spec import Ids
from penstock.loader.share import RankShare
from penstock.order.steps.cursor import Work

#: The place of the stage that delivers.
_DELIVERS = -1


class SingleSteps:
    """Makes single steps in the calling thread, one at a time, by stages of its own; these are made when first needed."""

    def __init__(self) -> None:
        self._share: RankShare | None = None
        self._lock = threading.RLock()

    def make(
        self, share_of: Callable[[tuple[int, int]], RankShare], ranks: tuple[int, int], epoch: int, step: int
    ) -> dict[str, Any]:
        """What is delivered of a step, for (rank, world size). share_of: makes their share, where there is none yet."""
        delivered: dict[str, Any] = self._made(share_of, ranks, Work(epoch, step, 1), None).columns
        return delivered

    def drawn(
        self, share_of: Callable[[tuple[int, int]], RankShare], ranks: tuple[int, int], epoch: int, step: int
    ) -> dict[str, Any]:
        """What ops draw in a step, by column, op and parameter: arrays of a number a row of the step, NaN for rows that draw none."""
        told: list[tuple[Ids | None, Mapping[str, Any]]] = []
        rows = self._made(share_of, ranks, Work(epoch, step, 1, drawn=told), _DELIVERS).rows
        found: dict[str, Any] = {}
        for at, columns in told:
            for column, op, name, drawn in _each(columns):
                of_op = found.setdefault(column, {}).setdefault(op, {})
                if np.ndim(drawn) == 0:
                    of_op[name] = drawn
                else:
                    of_op.setdefault(name, np.full(rows, np.nan))[slice(None) if at is None else at] = drawn
        of_batch: dict[str, Any] = found.pop("", {})
        return found | of_batch

    def _made(
        self, share_of: Callable[[tuple[int, int]], RankShare], ranks: tuple[int, int], work: Work, until: int | None
    ) -> Any:
        with self._lock:
            share = self._share
            if share is None or share.ranks != ranks:
                share = share_of(ranks)
            self._share = None  # stages in which something failed are not used again
            made: Any = work
            for stage in share.lowered.stages[:until]:
                made = stage.work(made)
            if made.share is not None:
                share.lowered.budget.release(made.share)
            self._share = share
        return made

    def clear(self) -> None:
        """Releases the stages, and the blocks that they hold; does not wait for a step that a store holds up."""
        share, self._share = self._share, None
        if share is not None:
            share.lowered.workers.close()


def _each(columns: Mapping[str, Any]) -> Iterator[tuple[str, str, str, Any]]:
    for column, ops in columns.items():
        for op, parameters in ops.items():
            for name, drawn in parameters.items():
                yield column, op, name, drawn
