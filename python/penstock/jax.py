"""JAX: an iterator like Grain's, and checkpoints of where a loader stands, with Orbax.

loader = ps.Loader(dataset, to="jax", device=NamedSharding(mesh, PartitionSpec("data")))
batches = penstock.jax.DatasetIterator(loader)
for step in range(1000):
    state = train_step(state, next(batches))

manager.save(step, args=ocp.args.Composite(model=ocp.args.StandardSave(state), data=penstock.jax.CheckpointSave(batches)))
manager.restore(step, args=ocp.args.Composite(model=ocp.args.StandardRestore(state), data=penstock.jax.CheckpointRestore(batches)))
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

from penstock.core.errors import PlanError, StateError
from penstock.core.installing import pip_install
from penstock.loader import Loader

try:
    _orbax: Any = importlib.import_module("orbax.checkpoint")
except ImportError:
    raise PlanError(
        f"penstock.jax: JAX or Orbax is not installed; run {pip_install('jax', 'orbax-checkpoint')}"
    ) from None

__all__ = ["CheckpointHandler", "CheckpointRestore", "CheckpointSave", "DatasetIterator"]


class DatasetIterator:
    """Batches of a loader, epoch after epoch.

    Args:
        loader: a `penstock.Loader`; with to="jax" its batches are JAX's arrays.
        epochs: where it ends. Default: never.

    Example:
        import penstock.jax

        batches = penstock.jax.DatasetIterator(ps.Loader(data.batch(4), to="jax"))
        [len(next(batches)["x"]) for _ in range(4)] == [4, 4, 2, 4]
        state = batches.get_state()
        batches.set_state(state)
    """

    def __init__(self, loader: Loader[Any], *, epochs: int | None = None) -> None:
        self.loader, self._epochs = loader, epochs
        self._pass: Iterator[Any] | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        while self._pass is not None or self._epochs is None or self.loader.epoch < self._epochs:
            if self._pass is None:
                self._pass = iter(self.loader)
            for batch in self._pass:
                return batch
            self._pass = None
        raise StopIteration

    def get_state(self) -> dict[str, Any]:
        """Where it stands: the loader's `state_dict`.

        Returns:
            Plain JSON.
        """
        return self.loader.state_dict()

    def set_state(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Continues where the state was taken: the loader's `load_state_dict`.

        Args:
            state: what `get_state` returned, or a list of what it returned on all processes.

        Raises:
            StateError: for a state of other data or another plan.
        """
        self._pass = None
        self.loader.load_state_dict(state)


class CheckpointHandler(_orbax.CheckpointHandler):  # type: ignore[misc]  # untyped
    """Saves where a loader stands; each process writes a file of its own, and any number of processes restores from them.

    Example:
        from pathlib import Path

        import orbax.checkpoint as ocp

        import penstock.jax

        loader = ps.Loader(data.batch(4))
        with ocp.Checkpointer(penstock.jax.CheckpointHandler()) as checkpointer:
            checkpointer.save(Path("position").absolute(), args=penstock.jax.CheckpointSave(loader))
            checkpointer.restore(Path("position").absolute(), args=penstock.jax.CheckpointRestore(loader))
    """

    def save(self, directory: Any, item: Any = None, args: CheckpointSave | None = None) -> None:
        """Writes this process's state into the directory, which Orbax makes.

        Args:
            directory: of this item of the checkpoint.
            item: a `Loader` or a `DatasetIterator`, without `args`.
            args: what holds it.
        """
        index, count = _process()
        state = _loader(item if args is None else args.item).state_dict()
        Path(directory, f"process_{index}-of-{count}.json").write_text(json.dumps(state, indent=1))

    def restore(self, directory: Any, item: Any = None, args: CheckpointRestore | None = None) -> Any:
        """Loads the states of all processes.

        Args:
            directory: of this item of the checkpoint.
            item: the `Loader` or `DatasetIterator` that continues there, without `args`.
            args: what holds it.

        Returns:
            The loader, or the iterator.

        Raises:
            StateError: where the states of some processes are missing, or belong to other data or another plan.
        """
        item = item if args is None else args.item
        files = sorted(Path(directory).glob("process_*-of-*.json"))
        if not files or len(files) != int(files[0].stem.rpartition("-")[2]):
            raise StateError(
                f"{directory}: {len(files)} files of states, which is not one for each process that saved; was the checkpoint copied in part?"
            )
        states = [*{text: json.loads(text) for text in (file.read_text() for file in files)}.values()]
        if isinstance(item, DatasetIterator):
            item.set_state(states)
        else:
            _loader(item).load_state_dict(states)
        return item


@_orbax.args.register_with_handler(CheckpointHandler, for_save=True)
@dataclass
class CheckpointSave(_orbax.args.CheckpointArgs):  # type: ignore[misc]
    """For `CheckpointManager.save`.

    Args:
        item: a `Loader` or a `DatasetIterator`.

    Example:
        import penstock.jax

        args = penstock.jax.CheckpointSave(ps.Loader(data.batch(4)))
    """

    item: Loader[Any] | DatasetIterator


@_orbax.args.register_with_handler(CheckpointHandler, for_restore=True)
@dataclass
class CheckpointRestore(_orbax.args.CheckpointArgs):  # type: ignore[misc]
    """For `CheckpointManager.restore`.

    Args:
        item: the `Loader` or `DatasetIterator` that continues there.

    Example:
        import penstock.jax

        args = penstock.jax.CheckpointRestore(ps.Loader(data.batch(4)))
    """

    item: Loader[Any] | DatasetIterator


def _loader(item: Any) -> Loader[Any]:
    if isinstance(item, DatasetIterator):
        return item.loader
    if not isinstance(item, Loader):
        raise PlanError(
            f"penstock.jax: a checkpoint of {type(item).__name__}; pass a penstock.Loader or a DatasetIterator"
        )
    return item


def _process() -> tuple[int, int]:
    multihost = importlib.import_module("penstock.deliver.jax")
    return cast("tuple[int, int]", multihost.process())
