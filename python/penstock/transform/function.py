"""Users' own Python functions as transforms."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from penstock import kernels
from penstock.spec import Ids


def name_of(function: Callable[..., Any]) -> str:
    """The function's name for messages."""
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def wants_generator(function: Callable[..., Any]) -> bool:
    """Whether the function has a parameter `rng`, for which it gets a generator of its own."""
    try:
        return "rng" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


class BatchFunction:
    """Calls a function with a whole batch: dict of arrays in, dict of arrays out.

    A function with a parameter `rng` gets a NumPy generator keyed by (key, first sample id), the same whatever the threads
    and ranks that deliver these samples together.
    """

    def __init__(self, function: Callable[..., Mapping[str, Any]]) -> None:
        self.function, self.name = function, name_of(function)
        self._generator = wants_generator(function)

    def __call__(self, columns: Mapping[str, Any], samples: Ids, key: int) -> Any:
        """What the function returned."""
        if not self._generator:
            return self.function(dict(columns))
        return self.function(dict(columns), rng=_generator(key, int(samples[0])))


class RowFunction(BatchFunction):
    """Calls a function row by row: dict of values in, dict of values out; `rng` is keyed by the row's sample id."""

    def __call__(self, columns: Mapping[str, Any], samples: Ids, key: int) -> list[Any]:
        """What the function returned for each row."""
        return [self._row(columns, row, int(sample), key) for row, sample in enumerate(samples)]

    def _row(self, columns: Mapping[str, Any], row: int, sample: int, key: int) -> Any:
        values = {name: _value(column, row) for name, column in columns.items()}
        if not self._generator:
            return self.function(values)
        return self.function(values, rng=_generator(key, sample))


def _value(column: Any, row: int) -> Any:
    return column[row].as_py() if isinstance(column, pa.Array) else column[row]


def _generator(key: int, sample: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=kernels.mix([key, sample])))
