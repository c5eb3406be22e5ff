"""A recipe on one row, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.columns.rows import spans_to_arrow
from penstock.core.columns.spec import Spans, Spec
from penstock.core.errors import DataError, PlanError, RowError
from penstock.core.messages import quoted
from penstock.core.names import did_you_mean
from penstock.transform.table.lane import Lane
from penstock.transform.table.missing import DropMissing
from penstock.transform.table.op import ColumnOp
from penstock.transform.table.program import Output, compiled

Chains = Mapping[str, tuple[ColumnOp, ...]]


class RowServer:
    """A fitted recipe's native program, for one row at a time."""

    def __init__(self, recipe: Any) -> None:
        chains: Chains = dict(recipe.chains)
        made = compiled(recipe.working_chains, dict(recipe.fields), recipe.into)
        self._inputs, self._outputs, self._program = made.inputs, made.outputs, made.program
        self._complete = [name for name, ops in chains.items() if any(isinstance(op, DropMissing) for op in ops)]
        self._is_one = {one.name: one.field.shape == () for one in made.outputs}

    @property
    def feature_names(self) -> list[str]:
        """A name for every number."""
        return [feature for one in self._outputs for feature in one.features]

    @property
    def spec(self) -> Spec:
        """The columns that come out."""
        return {one.name: one.field for one in self._outputs}

    def __call__(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """What becomes of a row."""
        for name in self._complete:
            if (value := self._value(row, name)) is None or value != value:  # noqa: PLR0124  # NaN
                raise DataError(
                    f"apply: column {quoted(name)} is missing, and DropMissing leaves such rows out; serve none of them"
                )
        values = []
        for one in self._inputs:
            value = self._value(row, one.name)
            if one.kind == "string" and (value is None or value != value):  # noqa: PLR0124  # NaN
                value = one.fill
            elif one.kind == "int64" and value is not None and type(value) is not int:
                value = _whole(value)
            values.append(value)
        arrays = self._made(values)
        return {
            one.name: self._text(row, one) if one.array is None else self._of(one, arrays[one.array])
            for one in self._outputs
        }

    def _made(self, values: list[Any]) -> list[Any]:
        if self._program is None:
            return []
        try:
            found: list[Any] = self._program.one(values)
        except RowError as error:
            raise DataError(f"apply: {error.found}; {error.do}") from None
        except ValueError as error:
            place, _, found_ = str(error).partition(" ")
            one = self._inputs[int(place)] if place.isdigit() else None
            if one is None:
                raise
            wanted = {"string": "text", "int64": "a whole number of 64 bits"}.get(one.kind, "a number")
            value = values[int(place)]
            is_date = hasattr(value, "isoformat") or isinstance(value, np.datetime64)
            hint = ", of a date what the file counts since 1970" if is_date else ""
            raise DataError(
                f"apply: column {quoted(one.name)} is {quoted(value)}, where {wanted} belongs ({found_}); pass what the column held in training{hint}"
            ) from None
        return found

    def _of(self, output: Output, numbers: Any) -> Any:
        return numbers[0] if self._is_one[output.name] else numbers

    def _text(self, row: Mapping[str, Any], output: Output) -> Any:
        value = self._value(row, output.input.name)
        if value is None:
            return output.input.fill
        if not isinstance(value, str):
            raise DataError(
                f"apply: column {quoted(output.input.name)} is {quoted(value)}, where text belongs; pass what the column held in training"
            )
        return value

    def _value(self, row: Mapping[str, Any], name: str) -> Any:
        try:
            value = row[name]
        except (KeyError, TypeError, IndexError):
            if not isinstance(row, Mapping):
                raise PlanError(
                    f"apply({type(row).__name__}): pass a row as values by column: {{{quoted(name)}: …}}"
                ) from None
            raise PlanError(
                f"apply: no column {quoted(name)}; the row has {', '.join(map(str, row)) or 'none'}{did_you_mean(name, [*map(str, row)])}; pass None where its value is missing"
            ) from None
        return None if type(value).__name__ == "NAType" else value  # pandas.NA, which compares with nothing


def _whole(value: Any) -> Any:
    """A value of a column of whole numbers: NaN is missing, and 3.0 is 3; others as they are."""
    if isinstance(value, (float, np.floating)):
        return None if value != value else int(value) if value.is_integer() else value  # noqa: PLR0124  # NaN
    return bool(value) if isinstance(value, np.bool_) else value


def undone(chains: Chains, fields: Spec, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Columns as they were before chains, as far as these can be undone."""
    if not isinstance(columns, Mapping):
        raise PlanError(
            f"inverse({type(columns).__name__}): pass arrays by column: {{{quoted(next(iter(chains)))}: …}}; those of a matrix are its columns, by feature_names"
        )
    found = dict[str, Any]()
    for name, column in columns.items():
        if name not in chains or name not in fields:
            continue
        ops, lanes = chains[name], [chains[name][0].begin(name, fields)]
        for op in ops:
            lanes.append(op.after(lanes[-1]))
        values = _made_values(name, column, lanes[-1])
        values = values.astype(np.float64) if values.dtype.kind == "f" and values.ndim == 1 else values
        for op, lane in zip(reversed(ops), reversed(lanes[:-1]), strict=True):
            values = op.undo(values, lane)
        found[name] = values
    if not found:
        raise PlanError(
            f"inverse: none of the columns {', '.join(map(str, columns))} is one that the recipe makes of itself: {', '.join(chains)}"
        )
    return found


def _made_values(name: str, column: Any, lane: Lane) -> Any:
    """A column as the recipe made it; PlanError for one that it never makes."""
    values = np.asarray(column)
    if lane.kind == "text":
        return values
    shape = (lane.width,) if lane.kind == "vector" else ()
    if values.dtype.kind not in "biuf" or values.ndim != 1 + len(shape) or values.shape[1:] != shape:
        raise PlanError(
            f"inverse: column {quoted(name)} is {values.dtype} of shape {values.shape}, and the recipe makes {lane.field} of each row; pass an array of such rows"
        )
    return values


def is_there(column: Any) -> npt.NDArray[np.bool_]:
    """Which rows of a column are not missing."""
    if isinstance(column, Spans):
        column = spans_to_arrow(column)
    if isinstance(column, pa.Array):
        is_float = pa.types.is_floating(column.type)
        return np.asarray(pc.invert(pc.is_null(column, nan_is_null=is_float)).to_numpy(zero_copy_only=False))
    return ~np.isnan(column) if column.dtype.kind == "f" else np.ones(len(column), dtype=np.bool_)
