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
from penstock.core.draw_keys import DrawKeys
from penstock.core.errors import DataError
from penstock.core.functions.event_loop import check_not_in_loop, finished, finished_all, is_async
from penstock.core.functions.global_generators import Calls, Seed, SeededCalls
from penstock.core.functions.held_generators import HeldGenerators
from penstock.core.functions.openmp import one_thread_here
from penstock.transform.function_text import called
from penstock.transform.repeat_check import Repeats
from penstock.transform.row_generator import RowGenerator


def name_of(function: Callable[..., Any]) -> str:
    """The function's name, for messages."""
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def wants_generator(function: Callable[..., Any]) -> bool:
    """Whether the function has a parameter `rng`, for which it receives its own generator."""
    try:
        return "rng" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


_BY_ROWS = (
    "What a batch draws depends on its rows, and another number of ranks has others together. A parameter `rng` draws for each row (see "
    "`penstock.RowGenerator`) and runs on all threads; map_rows seeds for each row; workers='auto' uses processes where they are faster."
)


class BatchFunction:
    """Calls a function with a whole batch: dict of arrays in, dict of arrays out.

    A parameter `rng` receives a `RowGenerator`. If the function draws from global generators, they are seeded for the batch, by its first row.
    calls: how it is called then; None on the threads of this process, where its first rows are made twice (`Repeats`). text: how it gets text (see
    `transform.function_text`).
    """

    instead = _BY_ROWS

    def __init__(self, function: Callable[..., Any], verb: str = "map", calls: Calls | None = None) -> None:
        self.function, self.name = function, name_of(function)
        self.verb, self.text = verb, "arrow"
        self._generator, self.is_async = wants_generator(function), is_async(function)
        self._held, self._is_repeated = HeldGenerators(function), calls is None
        self.repeats = self._new_repeats(None)
        self._calls = calls or SeededCalls(
            f"{verb} {self.name}",
            function,
            self.instead,
        )

    @property
    def draws(self) -> bool:
        """Whether the function draws random numbers, as far as is known here."""
        return self._generator or self.draws_unasked

    @property
    def draws_unasked(self) -> bool:
        """Whether it draws from generators that it was not given."""
        return bool(self._held) or bool(getattr(self._calls, "draws", False))

    def _new_repeats(self, tell: Callable[[str], None] | None) -> Repeats:
        by_rows = isinstance(self, RowFunction)
        return Repeats(self.function, f"{self.verb} {self.name}", by_rows=by_rows, tell=tell)

    def repeat_next(self, tell: Callable[[str], None]) -> None:
        """The next rows are made twice, here as well. tell: gets what is wrong with them."""
        self.repeats, self._is_repeated = self._new_repeats(tell), True

    def __call__(self, columns: Mapping[str, Any], keys: DrawKeys) -> Any:
        """What the function returned."""
        if self.is_async:
            check_not_in_loop()
        if is_of_run():
            one_thread_here()
        return self.repeats.call(self._run, columns, keys) if self._is_repeated else self._run(columns, keys)

    def _run(self, columns: Mapping[str, Any], keys: DrawKeys) -> Any:
        make = self._held.around(partial(self._all, columns, keys))
        return self._calls.run(make, make, rows=len(keys))

    def _all(self, columns: Mapping[str, Any], keys: DrawKeys, seed: Seed | None = None) -> Any:
        if seed is not None:
            seed(_word(keys.stage, int(keys.rows[0]) if len(keys) else 0))
        where = f"{self.verb}({self.name})"

        def call(values: dict[str, Any]) -> Any:
            return finished(
                self.function(values, **({"rng": RowGenerator(keys, where, values)} if self._generator else {}))
            )

        return called(call, columns, self.text, where)


class RowFunction(BatchFunction):
    """Calls a function row by row: dict of values in, dict of values out. Random numbers are keyed by the row's sample id.

    finds_all: whether the other rows are tried as well where it raises DataError for one.
    """

    finds_all = False
    instead = "A function with a parameter `rng`, a seeded NumPy generator, runs on all threads; workers='auto' uses processes where they are faster."

    def _all(self, columns: Mapping[str, Any], keys: DrawKeys, seed: Seed | None = None) -> list[Any]:
        if self.is_async and seed is None:
            return self._together(columns, keys)
        made, bad = list[Any](), list[DataError]()
        for row, sample in enumerate(keys.rows.tolist()):
            values = _values(columns, row)
            try:
                made.append(
                    _ragged_lists(finished(self._call(dict(values), _word(keys.stage, sample), seed)), values, columns)
                )
            except DataError as error:
                error.row = row
                bad.append(error)
                if not self.finds_all:
                    break
        return _good(made, bad)

    def _call(self, values: dict[str, Any], word: int, seed: Seed | None) -> Any:
        if seed is not None:
            seed(word)
        if not self._generator:
            return self.function(values)
        return self.function(values, rng=np.random.Generator(np.random.Philox(key=word)))

    def _together(self, columns: Mapping[str, Any], keys: DrawKeys) -> list[Any]:
        """The rows of an async function, of which many are awaited at once."""
        bad = list[DataError]()

        async def one(row: int, sample: int) -> Any:
            values = _values(columns, row)
            try:
                return _ragged_lists(await self._call(dict(values), _word(keys.stage, sample), None), values, columns)
            except DataError as error:
                error.row = row
                if not self.finds_all:
                    raise
                bad.append(error)

        made = finished_all([partial(one, row, sample) for row, sample in enumerate(keys.rows.tolist())])
        return _good(made, sorted(bad, key=lambda error: error.row or 0))


def _word(stage: int, row: int) -> int:
    """What a row's generators are seeded with."""
    return kernels.mix([stage, row % 2**64])  # a row that is drawn again has any int64


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
