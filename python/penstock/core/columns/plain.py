"""Arrow's plain columns and NumPy's, one as the other, without a copy.

`pyarrow.array(…)` and `to_numpy` do it as well, but the first call of either imports pandas wherever that is installed, which takes longer than opening a
folder. What `read` and the first batch need goes this way.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.columns.spec import Ids


def flags_of(column: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    """A column of booleans without nulls: flags_of(pc.greater(pa.array([1, 5]), 2)) is [False, True]."""
    bits = np.frombuffer(column.buffers()[1] or b"", dtype=np.uint8)
    end = column.offset + len(column)
    return np.unpackbits(bits, count=end, bitorder="little")[column.offset :].view(np.bool_)


def numbers_of(column: pa.Array) -> npt.NDArray[Any]:
    """A column of numbers without nulls."""
    numbers = np.frombuffer(column.buffers()[1] or b"", dtype=column.type.to_pandas_dtype())
    return numbers[column.offset : column.offset + len(column)]


def as_numbers(values: npt.NDArray[Any]) -> pa.Array:
    """Numbers as a column without nulls."""
    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def array_imports_pandas() -> bool:
    """Whether the next `pyarrow.array` would import pandas, 0.2 s of CPU time."""
    return "pandas" not in sys.modules and find_spec("pandas") is not None


def as_texts(texts: Sequence[str]) -> pa.StringArray | None:
    """Texts as the column that `pyarrow.array` makes of them, byte by byte; None for lone surrogates, and for more than one such column can hold."""
    try:
        encoded = [text.encode() for text in texts]
    except UnicodeEncodeError:
        return None
    edges = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    if edges[-1] >= 1 << 31:
        return None
    buffers = pa.py_buffer(edges.astype(np.int32)), pa.py_buffer(b"".join(encoded))
    return pa.StringArray.from_buffers(len(encoded), *buffers)


def as_indices(ids: Ids) -> pa.Int64Array:
    """Numbers for Arrow's `take`."""
    return as_numbers(np.asarray(ids, dtype=np.int64))
