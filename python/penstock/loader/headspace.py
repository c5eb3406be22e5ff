"""How much a training would gain from faster data: its loop runs on batches that are there already."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic

from penstock.core.errors import PlanError, ProcessError
from penstock.loader.options import BatchT

#: Batches that are repeated: several, so that no cache of the processor holds all of what it would not in training.
_KEPT = 4
#: Steps before the clock runs, with data and without: kernels are compiled, memory is taken.
_WARM = 3


@dataclass(frozen=True, kw_only=True)
class Room:
    """What was measured: seconds of a step with data and without, and the rate without the waits by the rate with them."""

    with_data_s: float
    without_data_s: float
    gain: float

    def __str__(self) -> str:
        more = max(0.0, self.gain - 1)
        return f"at most {more:.0%} to gain from faster data: a step takes {1000 * self.with_data_s:,.3g} ms with data, and {1000 * self.without_data_s:,.3g} ms without"


class Headspace(Generic[BatchT]):
    """Iterate as over the loader, and do in each step what training does: first `steps` real batches come, then some of these again."""

    def __init__(self, loader: Iterable[BatchT], steps: int) -> None:
        self._loader, self._steps = loader, steps
        self._room: Room | None = None

    def __iter__(self) -> Iterator[BatchT]:
        self._room, kept = None, list[BatchT]()
        seconds = [0.0, 0.0]
        batches = self._real()
        for number in range(_WARM + self._steps):
            if number == _WARM:
                began_at = time.perf_counter()
            batch = next(batches)
            if len(kept) < _KEPT:
                kept.append(batch)
            yield batch
            del batch
        seconds[0] = time.perf_counter() - began_at
        batches.close()  # so that nothing is made while the step is alone
        for number in range(_WARM + self._steps):
            if number == _WARM:
                began_at = time.perf_counter()
            yield kept[number % len(kept)]
        seconds[1] = time.perf_counter() - began_at
        with_s, without_s = (each / self._steps for each in seconds)
        self._room = Room(with_data_s=with_s, without_data_s=without_s, gain=with_s / max(1e-12, without_s))

    def _real(self) -> Generator[BatchT]:
        while True:
            count = 0
            for batch in self._loader:
                count += 1
                yield batch
                del batch
            if not count:
                raise PlanError("headspace: the loader has no batch")

    @property
    def room(self) -> Room:
        """What was found; ProcessError before the loop has ended by itself."""
        if self._room is None:
            raise ProcessError("headspace: the loop has not ended yet; let `for batch in headspace` go on to its end")
        return self._room

    @property
    def gain(self) -> float:
        """The rate without waiting for data by the rate with it: 1.13 for 13 % more."""
        return self.room.gain

    def __str__(self) -> str:
        return "headspace: not measured yet" if self._room is None else str(self._room)
