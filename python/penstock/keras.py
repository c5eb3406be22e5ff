"""Keras 3 with any of its back ends: the batches of a loader as a `keras.utils.PyDataset`.

with ps.Loader(train) as loader:
    model.fit(penstock.keras.PyDataset(loader, lambda batch: (batch["image"], batch["label"])), epochs=3)
"""

from __future__ import annotations

import gc
import importlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from penstock.core.errors import DataError, PlanError, StateError
from penstock.core.installing import pip_install
from penstock.core.messages import quoted
from penstock.loader import Loader

try:
    _keras: Any = importlib.import_module("keras")
    _Base: Any = _keras.utils.PyDataset
except ImportError as error:
    raise PlanError(
        f"penstock.keras: Keras 3 or its back end is not installed ({error}); run {pip_install('keras')} and install JAX, PyTorch or TensorFlow"
    ) from None
except AttributeError:
    raise PlanError(f"penstock.keras: Keras is older than 3; run {pip_install('--upgrade', 'keras')}") from None

__all__ = ["PyDataset"]


class PyDataset(_Base):  # type: ignore[misc]
    """A loader's batches for `fit`, `evaluate` and `predict`, with the back ends JAX, PyTorch and TensorFlow: each epoch is one pass, in the loader's order.

    Keras may look at the first batches before it trains; they come again in the pass. It counts steps once for a `fit`: after `load_state_dict` within an epoch,
    the rest of that epoch is a `fit` of its own, else this raises StateError. A pass that `fit` did not finish is begun again by the next `fit`, unless the
    loader was moved by `set_epoch` or `load_state_dict`.

    Args:
        loader: a `penstock.Loader`.
        select: what the model gets of a batch, a dict of arrays by column name: inputs, `(inputs, targets)` or `(inputs, targets, sample_weights)`. Default:
            the dict.

    Raises:
        PlanError: for what is no loader.
        DataError: while Keras iterates, for a batch that has no arrays.
        StateError: while Keras iterates, where it counts other steps than a pass has.

    Example:
        import penstock.keras

        batches = penstock.keras.PyDataset(ps.Loader(data.batch(4)), lambda batch: (batch["x"], batch["label"]))
        len(batches) == 3
    """

    def __init__(self, loader: Loader[Any], select: Callable[[Any], Any] | None = None) -> None:
        if not isinstance(loader, Loader):
            raise PlanError(f"PyDataset: {quoted(loader)} is no loader; pass a penstock.Loader")
        super().__init__()  # one worker, which is the caller's thread: the loader has threads of its own
        self._loader, self._select, self._lock = loader, select, threading.Lock()
        self._progress = loader._rank.progress  # noqa: SLF001  # says whether the loader was moved
        self._batches: Iterator[Any] = iter(())
        self._first: dict[str, Any] | None = None  # the state at which an unfinished pass began
        self._length = self._left = 0
        self._is_new = True  # the next batch is the first of a pass
        self._in_epoch = False  # between on_epoch_begin and on_epoch_end
        self._counted = 0  # the steps that this `fit` counts in each epoch

    @property
    def num_batches(self) -> int:
        """How many batches the pass has. Keras asks whenever it begins to iterate, so the next batch is the first one."""
        if self._is_unfinished():
            gc.collect()  # ends an iterator that Keras left, whose thread with TensorFlow's back end takes batches ahead
        with self._lock:
            self._is_new, steps = True, self._steps()
            gets_ready = self._in_epoch and self._first is None  # for the next epoch, and counts as before
            self._counted = self._counted if gets_ready else steps
            return steps

    def __len__(self) -> int:
        with self._lock:
            return self._steps()

    def __iter__(self) -> Iterator[Any]:
        return (self[number] for number in range(self.num_batches))

    def __getitem__(self, index: int) -> Any:
        """The next batch of the pass, whichever index is asked for: `fit` asks in random order, and the loader has shuffled already."""
        with self._lock:
            if self._is_new:
                self._begin()
            if not self._left:
                raise IndexError(f"PyDataset: batch {index} was asked for, and the pass has {self._length}")
            batch = next(self._batches)
            batch = dict(batch) if isinstance(batch, dict) else batch  # Keras takes no other mappings
            self._left -= 1
            if not self._left:
                next(self._batches, None)  # ends the pass
                self._first = None
        chosen = batch if self._select is None else self._select(batch)
        _check(chosen)
        return chosen

    def on_epoch_begin(self) -> None:
        """Called by Keras. StateError where it counts other steps than the pass has."""
        with self._lock:
            steps, was_broken_off = self._steps(), self._in_epoch  # by an error, which ended that fit
            if not was_broken_off and self._counted != steps:
                raise StateError(
                    f"PyDataset: this fit began within an epoch and counts {self._counted} steps for each of its epochs, the next has {steps}; fit the rest of "
                    "the epoch alone (epochs=initial_epoch + 1), and then the other epochs"
                )
            self._counted, self._in_epoch = steps, True

    def on_epoch_end(self) -> None:
        """Called by Keras."""
        with self._lock:
            self._in_epoch = False

    def _is_unfinished(self) -> bool:
        """Whether the next pass begins where the last one did."""
        return self._first is not None and not self._progress.untouched

    def _steps(self) -> int:
        if self._is_unfinished():
            return self._length
        return len(self._loader) - (0 if self._progress.is_broken_off else self._loader.step)

    def _begin(self) -> None:
        if self._is_unfinished():
            self._loader.load_state_dict(self._first)  # type: ignore[arg-type]
        elif self._progress.is_broken_off:
            self._loader.set_epoch(self._loader.epoch + 1)
        self._first = self._loader.state_dict()
        self._length = self._left = len(self._loader) - self._loader.step
        self._batches, self._is_new = iter(self._loader), False


def _check(batch: Any) -> None:
    for path, part in _keras.tree.flatten_with_path(batch):
        if part is not None and (isinstance(part, pa.Array) or not hasattr(part, "shape")):
            raise DataError(
                f"PyDataset: {'/'.join(map(str, path)) or 'the batch'} is {type(part).__name__}, which Keras does not take; give it arrays by select=, such as "
                'lambda batch: (batch["image"], batch["label"]), and pad or encode text and ragged columns'
            )
