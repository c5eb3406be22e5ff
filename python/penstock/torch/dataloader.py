"""PyTorch's DataLoader, with batches fetched faster where PyTorch leaves it open how, and a state."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import Any, TypeVar

import torch
from torch.utils.data import DataLoader as _DataLoader
from torch.utils.data import IterableDataset

from penstock.core.arguments import is_whole
from penstock.core.errors import PlanError, StateError
from penstock.core.messages import quoted
from penstock.torch.fetching import FetchChoice, TunedIterator
from penstock.torch.position import EpochPosition, InProcesses, InThisProcess

_T = TypeVar("_T")
_VERSION = 1


class DataLoader(_DataLoader[_T]):  # type: ignore[misc]  # mypy does not look into PyTorch
    """As torch.utils.data.DataLoader, with the same arguments and the same batches, and a state.

    With num_workers=0, the default, batches of a map-style dataset are fetched here or in processes, whichever is faster; `explain()` says where, and why. Each
    batch then has random generators of its own (see docs/pytorch.md). With num_workers=4 PyTorch's own workers fetch them, and draw the numbers that they
    always did.

    `state_dict` says where the loader is in its epoch, and `load_state_dict` continues there, without fetching what came before.

    Args:
        dataset: as of PyTorch's.
        *arguments: as of PyTorch's.
        tune: False leaves all to PyTorch. Default: True.
        **options: as of PyTorch's.

    Raises:
        PlanError: for `observe=`, which is of `penstock.Loader`.

    Example:
        import torch
        from torch.utils.data import TensorDataset

        from penstock.torch import DataLoader

        loader = DataLoader(TensorDataset(torch.arange(10)), batch_size=4, shuffle=True)
        for number, (numbers,) in enumerate(loader):
            if number == 0:
                state = loader.state_dict()
        loader.load_state_dict(state)
        len([*loader]) == 2
    """

    def __init__(self, dataset: Any, *arguments: Any, tune: bool = True, **options: Any) -> None:
        if "observe" in options:
            raise PlanError(
                "DataLoader: observe= is for penstock.Loader, which reads a plan; explain() says what this loader does"
            )
        super().__init__(dataset, *arguments, **options)
        self.tune = tune
        self.choice = FetchChoice()
        self._position = EpochPosition()
        self._resumed: Mapping[str, Any] | None = None
        self._skip = 0  # batches at the beginning of the iteration that is being made

    @property
    def _is_iterable(self) -> bool:
        return isinstance(self.dataset, IterableDataset)

    @property
    def _index_sampler(self) -> Any:
        sampler = super()._index_sampler
        return _After(sampler, self._skip) if getattr(self, "_skip", 0) else sampler

    def _get_iterator(self) -> Any:
        if self.num_workers:
            self.check_worker_number_rationality()
            return InProcesses(self)
        return TunedIterator(self, self._skip) if self.tune and not self._is_iterable else InThisProcess(self)

    def __iter__(self) -> Any:
        state, self._resumed = self._resumed, None
        position = self._position = EpochPosition()
        if state is not None:
            return self._resume(state, position)
        position.generator, position.sampler = _text_of(self._generator), self._state_of_sampler()
        found = super().__iter__()
        if self.num_workers == 0:  # else the sampler has drawn already
            found._sampler_iter = _noted(found._sampler_iter, self._generator, position)  # noqa: SLF001  # PyTorch's
        found.position = position
        return found

    @property
    def _most_batches(self) -> int | None:
        """Batches of an epoch; None where nobody knows."""
        try:
            return None if self._is_iterable else len(super()._index_sampler)
        except TypeError:  # a sampler without a length
            return None

    @property
    def _generator(self) -> torch.Generator:
        return self.generator if self.generator is not None else torch.default_generator

    # State

    def state_dict(self) -> dict[str, Any]:
        """How many batches of the epoch were taken, and the generator as the epoch began with it.

        Returns:
            Plain JSON, but for the state of a dataset or sampler that has one.
        """
        if self._resumed is not None:
            return dict(self._resumed)
        position = self._position
        batches = 0 if position.batches == self._most_batches else position.batches  # then the next epoch is due
        state: dict[str, Any] = {"version": _VERSION, "batches": batches}
        if batches:
            state |= {"generator": position.generator, "sampler": position.sampler}
            state |= {"drawn": position.drawn} if position.drawn else {}
        elif self.generator is not None:
            state["generator"] = _text_of(self.generator)
        if self.num_workers == 0 and _has_state(self.dataset):
            state["dataset"] = self.dataset.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next iteration continues where the state was taken, with the batches that would have come.

        Args:
            state: what `state_dict` returned.

        Raises:
            StateError: for what is no state of this loader.
        """
        batches = state.get("batches") if isinstance(state, Mapping) else None
        if batches is None or not is_whole(batches) or batches < 0 or state["version"] != _VERSION:
            raise StateError(f"DataLoader: {quoted(state)} is no state of it; pass what state_dict() returned")
        if self._most_batches is not None and batches > self._most_batches:
            raise StateError(
                f"DataLoader: the state was taken after {batches:,} batches, and an epoch has {self._most_batches:,}; the dataset or the batch size is another one"
            )
        if "dataset" in state:
            self.dataset.load_state_dict(state["dataset"])
        if not batches and self.generator is not None and "generator" in state:
            self.generator.set_state(_state_of(state["generator"]))
        self._iterator = None
        self._resumed = state if batches else None
        self._position = EpochPosition()

    def _resume(self, state: Mapping[str, Any], position: EpochPosition) -> Any:
        here = self._generator.get_state()
        skipped = state["batches"]
        try:
            self._generator.set_state(_state_of(state["generator"]))
            if state["sampler"] is not None:
                self._stateful_sampler.load_state_dict(state["sampler"])
            position.generator, position.sampler = state["generator"], state["sampler"]
            position.drawn = state.get("drawn", "")
            self._skip = 0 if self._is_iterable else skipped
            found = super().__iter__()
            if position.drawn:
                self._generator.set_state(_state_of(position.drawn))
            found._sampler_iter = _begun(found._sampler_iter)  # noqa: SLF001  # PyTorch's, which has no other way in
        finally:
            self._skip = 0
            if self.generator is None:
                self._generator.set_state(here)  # the training draws from it
        if self._is_iterable and "dataset" not in state:
            for _ in range(skipped):
                next(found, None)
        position.batches, found.position = skipped, position
        return found

    @property
    def _stateful_sampler(self) -> Any:
        return next((one for one in (self.batch_sampler, self.sampler) if _has_state(one)), None)

    def _state_of_sampler(self) -> Any:
        sampler = self._stateful_sampler
        return None if sampler is None else sampler.state_dict()

    def explain(self) -> str:
        """Where batches are fetched, and why."""
        if isinstance(self.dataset, IterableDataset):
            return "PyTorch iterates over the dataset: it is iterable, so that only its own code knows what comes next"
        if self.num_workers:
            return f"PyTorch's {self.num_workers} workers fetch batches; with num_workers=0 Penstock chooses"
        if not self.tune:
            return "PyTorch fetches batches in this process, since tune=False"
        if self.choice.native is not None:
            return f"batches are made by a native plan: {self.choice.why}"
        where = "in this process" if self.choice.workers is None else "in other processes"
        return f"batches are fetched {where}: {self.choice.why}"


class _After:
    """What a sampler gives after its first `skip` batches."""

    def __init__(self, sampler: Any, skip: int) -> None:
        self._sampler, self._skip = sampler, skip

    def __iter__(self) -> Iterator[Any]:
        yield from islice(self._sampler, self._skip, None)

    def __len__(self) -> int:
        return len(self._sampler)


def _begun(indices: Iterator[Any]) -> Iterator[Any]:
    """The same, after it drew what it draws at first."""
    return chain([*islice(indices, 1)], indices)


def _noted(indices: Iterator[Any], generator: torch.Generator, position: EpochPosition) -> Iterator[Any]:
    """The same; notes the generator as the sampler begins to draw, which others may have drawn from since the epoch began."""
    position.drawn = _text_of(generator)
    yield from indices


def _has_state(thing: Any) -> bool:
    return hasattr(thing, "state_dict") and hasattr(thing, "load_state_dict")


def _text_of(generator: Any) -> str:
    if not isinstance(generator, torch.Generator):
        return ""  # PyTorch's error comes
    return base64.b64encode(generator.get_state().numpy().tobytes()).decode()


def _state_of(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.uint8)
