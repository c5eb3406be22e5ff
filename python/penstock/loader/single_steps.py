"""Single steps, made at once in the calling thread: `loader.batch_at`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from penstock.loader.share import Share
from penstock.order.steps.cursor import Work


class SingleSteps:
    """Makes single steps in the calling thread, one at a time, by stages of its own; these are made when first needed."""

    def __init__(self) -> None:
        self._share: Share | None = None
        self._lock = threading.RLock()

    def make(
        self, share_of: Callable[[tuple[int, int]], Share], ranks: tuple[int, int], epoch: int, step: int
    ) -> dict[str, Any]:
        """What is delivered of a step, for (rank, world size). share_of: makes their share, where there is none yet."""
        with self._lock:
            share = self._share
            if share is None or share.ranks != ranks:
                share = share_of(ranks)
            self._share = None  # stages in which something failed are not used again
            made: Any = Work(epoch, step, 1)
            for stage in share.lowered.stages:
                made = stage.work(made)
            if made.share is not None:
                share.lowered.budget.release(made.share)
            self._share = share
        delivered: dict[str, Any] = made.columns
        return delivered

    def clear(self) -> None:
        """Releases the stages, and the blocks that they hold; does not wait for a step that a store holds up."""
        share, self._share = self._share, None
        if share is not None:
            share.lowered.workers.close()
