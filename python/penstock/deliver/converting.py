"""Delivery that converts columns on their way, as `Loader(convert=…)` asks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.columns.spec import Field, field_of_type
from penstock.core.errors import PlanError
from penstock.deliver import Deliver, Take
from penstock.deliver.conversions import (
    CHANNELS_LAST,
    LIST,
    NESTED,
    cast,
    check_fits,
    check_names,
    conversions,
    field_of,
)


class PerStep(list[Any]):
    """A column of several steps as one object a step, the last step first."""


@dataclass(frozen=True)
class ConvertedRagged:
    """A ragged column whose values travel beside it, so that they are moved to the device and counted as used there as any column is.

    steps: of each step the key of its values, and for a list the offsets, for a nested tensor the least and the greatest length.
    """

    steps: list[tuple[str, Any]]


class Converting:
    """Another delivery, with some columns converted: "list", "nested", "channels_last" or a dtype by name."""

    def __init__(self, deliver: Deliver, to: str, convert: Any) -> None:
        self._deliver, self._to, self._wanted = deliver, to, conversions(convert, to)
        self.new_memory, self.copies = deliver.new_memory, deliver.copies
        self.on_device, self.thread_setup = deliver.on_device, deliver.thread_setup
        self.ranks, self.convert, self.wait = deliver.ranks, deliver.convert, deliver.wait
        self.on_host = frozenset(name for name, wanted in self._wanted.items() if wanted != CHANNELS_LAST)

    @property
    def kernel(self) -> str:
        """See `Deliver`."""
        return self._deliver.kernel

    def check(self, columns: Mapping[str, Field] | None) -> None:
        """PlanError if the columns, where they are known before the first batch, cannot be converted."""
        if columns is None:
            return
        check_names(self._wanted, columns)
        for name, wanted in self._wanted.items():
            check_fits(name, wanted, columns[name], self._to)

    def finish(self, columns: dict[str, Any], rows: int, take: Take | None = None) -> dict[str, Any]:
        """All columns of an item, converted, in a worker thread."""
        check_names(self._wanted, columns)
        columns, texts = {**columns}, {}
        for name, wanted in self._wanted.items():
            column = columns[name]
            field = field_of(column)
            if field is None:
                raise PlanError(
                    f"convert={{{name!r}: {wanted!r}}}: the column is of {type(column).__name__}, which stays as it is"
                )
            check_fits(name, wanted, field, self._to)
            if wanted not in (CHANNELS_LAST, LIST, NESTED):
                array = column if isinstance(column, np.ndarray) else column.numpy()
                columns[name] = self.convert(cast(name, array, wanted), Field(wanted, field.shape))
            elif field.shape and wanted != CHANNELS_LAST:
                columns |= self._ragged(name, column, rows)
            elif wanted != CHANNELS_LAST:
                texts[name] = _one_or_several([part.to_pylist() for part in _steps(column, rows)])
        moved = self._deliver.finish(columns, rows, take)
        # In place: it may know when the copies are done. Axes are turned last, behind what the device makes of bytes.
        moved.update(texts)
        turned = [name for name, wanted in self._wanted.items() if wanted == CHANNELS_LAST]
        moved.update({name: moved[name].permute(0, 3, 1, 2) for name in turned})
        return moved

    def _ragged(self, name: str, column: pa.Array, rows: int) -> dict[str, Any]:
        """The column's values of every step, and what tells its rows apart."""
        made: dict[str, Any] = {}
        steps: list[Any] = []
        for step, part in enumerate(_steps(column, rows)):
            numbers, offsets = _values(part)
            key = f"{name}\0{step}"
            made[key] = self.convert(numbers, field_of_type(column.type))
            if self._wanted[name] == LIST:
                steps.append((key, offsets.tolist()))
                continue
            made[f"{key}\0offsets"] = self.convert(offsets, Field("int64"))
            lengths = np.diff(offsets)  # known here, or torch would ask the device for them
            steps.append((key, (int(lengths.min()), int(lengths.max()))))
        return {**made, name: ConvertedRagged(steps)}

    def receive(self, columns: dict[str, Any]) -> dict[str, Any]:
        """All columns of an item, in the consumer's thread."""
        columns = self._deliver.receive(columns)
        if not any(isinstance(column, ConvertedRagged) for column in columns.values()):
            return columns
        made = {name: column for name, column in columns.items() if "\0" not in name}
        for name, column in made.items():
            if isinstance(column, ConvertedRagged):
                made[name] = _one_or_several([self._rows(columns, *step) for step in column.steps])
        return made

    def _rows(self, columns: dict[str, Any], key: str, known: Any) -> Any:
        values = columns[key]
        if isinstance(known, tuple):
            return self._deliver.nested(values, columns[f"{key}\0offsets"], *known)  # type: ignore[attr-defined]  # PyTorch's alone
        return [values[first:end] for first, end in itertools.pairwise(known)]

    def parts(self, column: Any, rows: int) -> Callable[[], Any]:
        """A function that returns the column's next `rows` rows at each call."""
        return column.pop if isinstance(column, PerStep) else self._deliver.parts(column, rows)


def _steps(column: pa.Array, rows: int) -> list[pa.Array]:
    return [column[first : first + rows] for first in range(0, len(column), max(rows, 1))]


def _one_or_several(steps: list[Any]) -> Any:
    return steps[0] if len(steps) == 1 else PerStep(reversed(steps))


def _values(column: pa.Array) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """The numbers of all rows, sharing the column's memory, and int64 offsets that begin at 0."""
    if column.null_count:
        raise PlanError("convert: a ragged column has rows without a value; give these one in the plan")
    offsets = column.offsets.to_numpy().astype(np.int64)
    values, shape = column.values[int(offsets[0]) : int(offsets[-1])], []
    while pa.types.is_fixed_size_list(values.type):
        shape.append(values.type.list_size)
        values = values.flatten()
    if values.null_count:
        raise PlanError("convert: a ragged column has numbers that are missing; fill them in the plan")
    kind, buffer = np.dtype(values.type.to_pandas_dtype()), values.buffers()[1]
    if buffer is None or not len(values):
        return np.empty((0, *shape), kind), offsets - offsets[0]
    numbers = np.frombuffer(buffer, kind, count=len(values), offset=values.offset * kind.itemsize)
    return numbers.reshape(-1, *shape), offsets - offsets[0]
