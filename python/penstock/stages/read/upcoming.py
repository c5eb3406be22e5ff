"""Inverts the order: when each block is used next. Numbers in, numbers out; nothing runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core.columns.spec import Ids
from penstock.order.steps.batches import BatchOrder, Last
from penstock.order.steps.cursor import Work

#: Epochs that are looked at: this one and those after it. With ranks on several machines, a block may come here in a later one only.
_EPOCHS = 8


class Upcoming:
    """Where reading stands, and in how many seconds each byte of a source is read next by the ranks of this machine.

    manifest, first_id: the source's (see `source.manifest.Manifest`), and the id of its first row. share: the places [first, last) of
    every global batch that this machine's ranks take.
    """

    def __init__(self, order: BatchOrder, manifest: Any, share: tuple[int, int], first_id: int = 0) -> None:
        self._order, self._manifest, self._share, self._first_id = order, manifest, share, first_id
        self.position = Work(0, 0, 0)
        self._began_at, self._steps = time.monotonic(), 0
        self.step_s = 1.0

    def follow(self, works: Iterator[Work]) -> Iterator[Work]:
        """The same work; what is drawn is what is being read."""
        self._began_at, self._steps = time.monotonic(), 0
        for work in works:
            if self._steps:
                self.step_s = max(1e-6, (time.monotonic() - self._began_at) / self._steps)
            self._steps += work.steps
            self.position = work
            yield work

    @property
    def epoch_s(self) -> float:
        """Seconds that an epoch takes, by what was read so far."""
        return self._order.steps_per_epoch * self.step_s

    def __call__(self, shard: Ids, offset: Ids) -> npt.NDArray[np.float64]:
        """Seconds until byte `offset` of a shard is read next after what is being read now; infinite for not within some epochs."""
        return self.steps(self._samples(shard, offset)) * self.step_s

    def steps(self, samples: Ids) -> npt.NDArray[np.float64]:
        """Steps from the last that is being read to the next one that needs a sample's block."""
        order, now = self._order, self.position
        last = now.step + max(now.steps, 1) - 1
        all_steps = order.full_steps if order.last is Last.DROP else order.steps_per_epoch
        found = np.full(len(samples), np.inf)
        left = np.arange(len(samples))
        for later in range(_EPOCHS):
            begin = 0 if later else last + 1
            step = order.next_uses(now.epoch + later, self._share, samples[left] + self._first_id, begin)
            comes = (step >= begin) & (step < all_steps)
            found[left[comes]] = step[comes] + later * order.steps_per_epoch - last
            left = left[~comes]
        return found

    def _samples(self, shard: Ids, offset: Ids) -> Ids:
        """The samples in which bytes lie; for rows in columns, those at the same share of their shard."""
        manifest = self._manifest
        if manifest.one_record_each:
            return shard
        first: Ids = manifest.first_sample[shard]
        rows: Ids = manifest.first_sample[shard + 1] - first
        if manifest.offset is None or manifest.scattered:
            share = offset / np.maximum(manifest.stored.sizes[shard], 1)
            place = np.minimum((share * rows).astype(np.int64), np.maximum(rows - 1, 0))
            return np.asarray(first + place)
        found = np.empty(len(shard), dtype=np.int64)
        for one in np.flatnonzero(np.bincount(shard)).tolist():
            begin, end = manifest.first_sample[one : one + 2].tolist()
            mine = np.flatnonzero(shard == one)
            place = np.searchsorted(manifest.offset[begin:end], offset[mine], side="right") - 1
            found[mine] = begin + np.clip(place, 0, max(end - begin - 1, 0))
        return found
