"""What trainers find where a DataLoader has samplers: the epoch can be set, sizes be asked, and nothing be drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Never, Protocol

from penstock.core.errors import ProcessError


class SetEpoch(Protocol):
    """Sets a loader's epoch."""

    def __call__(self, epoch: int, *, keep_later: bool) -> None:
        """The next pass is this epoch; a loaded position in it, or where asked for in a later one, stays."""


@dataclass(frozen=True)
class Sampler:
    """`loader.sampler`, of which Lightning calls `set_epoch` before every pass."""

    _set_epoch: SetEpoch

    def set_epoch(self, epoch: int) -> None:
        """As the loader's, but a loaded position in a later epoch stays too: a trainer counts its own epochs.

        Lightning goes several times through the shorter ones of several loaders in one epoch of its own.
        """
        self._set_epoch(epoch, keep_later=True)

    def __iter__(self) -> Iterator[Never]:
        raise _undrawn("sampler")


@dataclass(frozen=True)
class BatchSampler:
    """`loader.batch_sampler`; `batch_size` is of this rank."""

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
