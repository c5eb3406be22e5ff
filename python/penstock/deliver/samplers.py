"""What trainers find in place of a DataLoader's samplers: they set the epoch and have sizes, but draw nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Never, Protocol

from penstock.core.errors import ProcessError


class SetEpoch(Protocol):
    """A function that sets a loader's epoch."""

    def __call__(self, epoch: int, *, keep_later: bool) -> None:
        """Make this the next epoch. A loaded position in it stays; with `keep_later` also one in a later epoch."""


@dataclass(frozen=True)
class Sampler:
    """`loader.sampler`; Lightning calls its `set_epoch` before every pass."""

    _set_epoch: SetEpoch

    def set_epoch(self, epoch: int) -> None:
        """Set the loader's epoch, except that a loaded position in a later epoch stays: a trainer counts its own epochs.

        In one epoch of its own, Lightning may pass several times over the shorter ones of several loaders.
        """
        self._set_epoch(epoch, keep_later=True)

    def __iter__(self) -> Iterator[Never]:
        raise _undrawn("sampler")


@dataclass(frozen=True)
class BatchSampler:
    """`loader.batch_sampler`; `batch_size` is this rank's."""

    sampler: Sampler
    batch_size: int
    drop_last: bool
    _steps: int

    def __len__(self) -> int:
        return self._steps

    def __iter__(self) -> Iterator[Never]:
        raise _undrawn("batch_sampler")


def _undrawn(name: str) -> ProcessError:
    return ProcessError(
        f"Loader.{name} draws nothing: a loader makes its batches itself. To skip batches, as Accelerate's skip_first_batches does, "
        f"set the position: loader.load_state_dict({{**loader.state_dict(), 'epoch': epoch, 'step': batches}})"
    )
