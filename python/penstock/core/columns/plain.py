"""Arrow's plain columns and NumPy's, one as the other, without a copy.

`pyarrow.array(…)` and `to_numpy` do it as well, but the first call of either imports pandas wherever that is installed, which takes longer than opening a
folder. What `read` and the first batch need goes this way.
"""

from __future__ import annotations

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


def as_indices(ids: Ids) -> pa.Int64Array:
    """Numbers for Arrow's `take`."""
    ids = np.ascontiguousarray(ids, dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), len(ids), [None, pa.py_buffer(ids)])
