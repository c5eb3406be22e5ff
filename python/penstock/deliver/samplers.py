"""What trainers find in place of a DataLoader's samplers: they set the epoch and have sizes, but draw nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Never, Protocol

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

    def __reduce__(self) -> Never:
        raise unsent()


@dataclass(frozen=True)
class BatchSampler:
    """`loader.batch_sampler`; `batch_size` is this rank's. seen_batch_indices: the sample ids of each step, which Lightning tells a prediction writer."""

    sampler: Sampler
    batch_size: int
    drop_last: bool
    _steps: int | None
    seen_batch_indices: Sequence[list[int]] = field(default=(), compare=False)

    def __len__(self) -> int:
        if self._steps is None:
            raise TypeError("len(loader.batch_sampler): how many steps the data gives is not known yet")
        return self._steps

    def __iter__(self) -> Iterator[Never]:
        raise _undrawn("batch_sampler")

    def __reduce__(self) -> Never:
        raise unsent()


@dataclass(frozen=True)
class BatchIndices(Sequence[list[int]]):
    """The sample ids of each of so many steps, worked out when they are asked for."""

    _steps: int
    _ids: Callable[[int], Any]

    def __len__(self) -> int:
        return self._steps

    def __getitem__(self, step: Any) -> Any:
        return self._ids(range(self._steps)[step]).tolist()


def batch_sampler_type() -> type[BatchSampler]:
    """The class of `loader.batch_sampler`: one from which Lightning takes the ids of a prediction's rows, where that is imported."""
    modules = (f"{name}.overrides.distributed" for name in ("pytorch_lightning", "lightning.pytorch"))
    found = (getattr(sys.modules.get(module), "_IndexBatchSamplerWrapper", None) for module in modules)
    return _with_bases(tuple(filter(None, found)))


@lru_cache
def _with_bases(bases: tuple[type, ...]) -> type[BatchSampler]:
    return type("BatchSampler", (BatchSampler, *bases), {}) if bases else BatchSampler


def unsent() -> ProcessError:
    """What whoever copies or pickles a loader, or its samplers, is told."""
    return ProcessError(
        "a Loader has threads and cannot be sent to another process or copied; make it there, with Lightning's ddp_spawn in "
        "train_dataloader() or a DataModule"
    )


def _undrawn(name: str) -> ProcessError:
    return ProcessError(
        f"Loader.{name} draws nothing: a loader makes its batches itself. To skip batches, as Accelerate's skip_first_batches does, "
        f"set the position: loader.load_state_dict({{**loader.state_dict(), 'epoch': epoch, 'step': batches}})"
    )
