"""What `Loader(convert=…)` asks of each column, and which columns can have it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.columns.spec import Field, field_of_type
from penstock.core.errors import DataError, PlanError
from penstock.core.messages import quoted

LIST, NESTED, CHANNELS_LAST = "list", "nested", "channels_last"
_FORMS = (LIST, NESTED, CHANNELS_LAST)
_DTYPES = ("bool", "float16", "float32", "float64", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))  # fmt: skip
_NUMBERS = "biuf"


def conversions(convert: Any, to: str) -> dict[str, str]:
    """By column, "list", "nested", "channels_last" or a dtype's name; PlanError for anything else."""
    if not isinstance(convert, Mapping) or not all(isinstance(name, str) for name in convert):
        raise PlanError(f"convert={quoted(convert)}; pass a dict by column, for example {{'label': 'int64'}}")
    return {name: _conversion(name, wanted, to) for name, wanted in convert.items()}


def _conversion(name: str, wanted: Any, to: str) -> str:
    found = _name_of(wanted)
    if found in (NESTED, CHANNELS_LAST) and to != "torch":
        raise PlanError(f"convert={{{name!r}: {found!r}}}: PyTorch alone has it; write to='torch'")
    if found not in _FORMS and found not in _DTYPES:
        close = difflib.get_close_matches(found, (*_FORMS, *_DTYPES), n=1)
        raise PlanError(
            f"convert={{{name!r}: {quoted(wanted)}}}; choose 'list', 'nested', 'channels_last' or a dtype such as 'int64'"
            f"{f'; did you mean {close[0]!r}?' if close else ''}"
        )
    return found


def _name_of(wanted: Any) -> str:
    """The name of a dtype, NumPy's or PyTorch's, or the text itself."""
    if isinstance(wanted, str):
        return wanted
    if isinstance(wanted, np.dtype) or (isinstance(wanted, type) and issubclass(wanted, np.generic | bool)):
        return np.dtype(wanted).name
    return str(wanted).removeprefix("torch.") if type(wanted).__module__ == "torch" else quoted(wanted)


def check_names(wanted: Iterable[str], columns: Iterable[str]) -> None:
    """PlanError for a column that there is not."""
    columns = tuple(columns)
    for name in wanted:
        if name not in columns:
            close = difflib.get_close_matches(name, columns, n=1)
            raise PlanError(
                f"convert={{{name!r}: …}}: the batch has the columns {', '.join(map(repr, columns)) or 'none'}"
                f"{f'; did you mean {close[0]!r}?' if close else ''}"
            )


def check_fits(name: str, wanted: str, field: Field, to: str) -> None:
    """PlanError for a column that cannot be converted as is wanted."""
    if why := _misfit(wanted, field, to):
        raise PlanError(f"convert={{{name!r}: {wanted!r}}}: the column is {field}; {why}")


def _misfit(wanted: str, field: Field, to: str) -> str:
    ragged = field.dtype not in ("bytes", "string") and not field.is_fixed
    if wanted in (LIST, NESTED):
        if field.is_fixed:
            return "its rows have one shape, and a batch of it is one array already"
        if ragged and (field.shape[0] is not None or None in field.shape[1:] or field.dtype == "bool"):
            return "only numbers that vary along the first axis can be converted"
        if ragged and to == "jax":
            return "lists of arrays are for to='numpy' and to='torch'; make it dense with pad(…)"
        return "" if ragged or wanted == LIST else "a nested tensor holds numbers; for text and bytes write 'list'"
    if not field.is_fixed:
        return "text, bytes and ragged columns have no other dtype; for these write 'list'"
    if wanted == CHANNELS_LAST:
        return _misfit_of_image(field.shape)
    before, after = np.dtype(field.numpy_dtype), np.dtype(wanted)
    if field.dtype == "bfloat16" or before.kind not in _NUMBERS:
        return "use a map for its dtype"
    if before.kind == "f" and not np.can_cast(before, after):
        return f"{wanted} cannot hold all of these numbers; use a map where rounding is meant"
    return ""


def _misfit_of_image(shape: tuple[int | None, ...]) -> str:
    if len(shape) != 3:
        return "images are (height, width, channels)"
    if shape[0] in (1, 3) and shape[2] not in (1, 3):
        return "its channels come first, and would have to be copied; let its ops end with ps.image.ToLayout('NHWC')"
    return ""


def field_of(column: Any) -> Field | None:
    """The field of a column as it came, where the plan did not say; None for what has none."""
    if isinstance(column, pa.Array):
        return field_of_type(column.type)
    if not hasattr(column, "dtype"):
        return None
    return Field(str(column.dtype).removeprefix("torch."), tuple(column.shape[1:]))


def cast(name: str, column: npt.NDArray[Any], dtype: str) -> npt.NDArray[Any]:
    """The column in another dtype, itself if it has it; DataError for numbers that the dtype does not have."""
    made = column.astype(dtype, copy=False)
    rounds = (
        made.dtype.kind == "f" and column.dtype.kind in "iu" and column.dtype.itemsize == 8
    )  # NumPy calls that safe
    if np.can_cast(column.dtype, made.dtype) and not rounds:
        return made
    with np.errstate(invalid="ignore"):
        # uint64 and int64 wrap into each other and back: the sign tells them apart.
        changed = (made.astype(column.dtype) != column) | ((made < 0) != (column < 0))
    if changed.any():
        first = column[changed][0]
        raise DataError(
            f"convert={{{name!r}: {dtype!r}}}: {dtype} has no {first}, which a row holds; choose a wider dtype"
        )
    return made
