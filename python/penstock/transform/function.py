"""Users' own Python functions as transforms."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core import kernels
from penstock.core.cancel import is_of_run
from penstock.core.errors import DataError
from penstock.core.event_loop import check_not_in_loop, finished, finished_all, is_async
from penstock.core.global_generators import Calls, Seed, SeededCalls
from penstock.core.openmp import one_thread_here
from penstock.core.spec import Ids
from penstock.transform.text import called


def name_of(function: Callable[..., Any]) -> str:
    """The function's name, for messages."""
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def wants_generator(function: Callable[..., Any]) -> bool:
    """Whether the function has a parameter `rng`, for which it receives its own generator."""
    try:
        return "rng" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


class BatchFunction:
    """Calls a function with a whole batch: dict of arrays in, dict of arrays out.

    A parameter `rng` receives a NumPy generator keyed by (key, first sample id), so the numbers do not depend on threads or
    ranks. If the function draws from global generators, they are seeded with the same key. calls: how it is called then; None on the
    threads of this process. text: how it gets text (see `transform.text`).
    """

    def __init__(
        self, function: Callable[..., Mapping[str, Any]], verb: str = "map", calls: Calls | None = None
    ) -> None:
        self.function, self.name = function, name_of(function)
        self.verb, self.text = verb, "arrow"
        self._generator, self.is_async = wants_generator(function), is_async(function)
        self._calls = calls or SeededCalls(
            f"{verb} {self.name}",
            function,
            "A function with a parameter `rng`, a seeded NumPy generator, runs on all threads.",
        )

    @property
    def draws(self) -> bool:
        """Whether the function draws random numbers, as far as is known here."""
        return self._generator or bool(getattr(self._calls, "draws", False))

    def __call__(self, columns: Mapping[str, Any], samples: Ids, key: int) -> Any:
        """What the function returned."""
        if self.is_async:
            check_not_in_loop()
        if is_of_run():
            one_thread_here()
        make = partial(self._all, columns, samples, key)
        return self._calls.run(make, make, rows=len(samples))

    def _all(self, columns: Mapping[str, Any], samples: Ids, key: int, seed: Seed | None = None) -> Any:
        sample = int(samples[0]) if len(samples) else 0
        return called(
            lambda values: finished(self._call(values, sample, key, seed)),
            columns,
            self.text,
            f"{self.verb}({self.name})",
        )

    def _call(self, values: dict[str, Any], sample: int, key: int, seed: Seed | None) -> Any:
        word = kernels.mix([key, sample % 2**64])  # a row that is drawn again has any int64
        if seed is not None:
            seed(word)
        if not self._generator:
            return self.function(values)
        return self.function(values, rng=np.random.Generator(np.random.Philox(key=word)))


class RowFunction(BatchFunction):
    """Calls a function row by row: dict of values in, dict of values out. Random numbers are keyed by the row's sample id.

    finds_all: whether the other rows are tried as well where it raises DataError for one.
    """

    finds_all = False

    def _all(self, columns: Mapping[str, Any], samples: Ids, key: int, seed: Seed | None = None) -> list[Any]:
        if self.is_async and seed is None:
            return self._together(columns, samples, key)
        made, bad = list[Any](), list[DataError]()
        for row, sample in enumerate(samples.tolist()):
            values = _values(columns, row)
            try:
                made.append(_ragged_lists(finished(self._call(dict(values), sample, key, seed)), values, columns))
            except DataError as error:
                error.row = row
                bad.append(error)
                if not self.finds_all:
                    break
        return _good(made, bad)

    def _together(self, columns: Mapping[str, Any], samples: Ids, key: int) -> list[Any]:
        """The rows of an async function, of which many are awaited at once."""
        bad = list[DataError]()

        async def one(row: int, sample: int) -> Any:
            values = _values(columns, row)
            try:
                return _ragged_lists(await self._call(dict(values), sample, key, None), values, columns)
            except DataError as error:
                error.row = row
                if not self.finds_all:
                    raise
                bad.append(error)

        made = finished_all([partial(one, row, sample) for row, sample in enumerate(samples.tolist())])
        return _good(made, sorted(bad, key=lambda error: error.row or 0))


def _good(made: list[Any], bad: list[DataError]) -> list[Any]:
    """What was made; the first error if there is any, with the others."""
    if bad:
        bad[0].more = bad[1:]
        raise bad[0]
    return made


def _values(columns: Mapping[str, Any], row: int) -> dict[str, Any]:
    return {name: _value(column, row) for name, column in columns.items()}


def _ragged_lists(made: Any, values: Mapping[str, Any], columns: Mapping[str, Any]) -> Any:
    """What a function returned for a row. Lists that it returns unchanged become Arrow arrays, so that a ragged column stays ragged."""
    lists = {name: value for name, value in values.items() if isinstance(value, list)}
    if not lists or not isinstance(made, Mapping):
        return made
    unchanged = [name for name, value in lists.items() if made.get(name) is value]
    return {**made, **{name: pa.array(lists[name], columns[name].type.value_type) for name in unchanged}}


def _value(column: Any, row: int) -> Any:
    return column[row].as_py() if isinstance(column, pa.Array) else column[row]
