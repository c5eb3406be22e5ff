"""The header of .npy data, versions 1 to 3 (numpy/lib/format.py), read within bounds and without pickle."""

from __future__ import annotations

import ast
import math
import struct
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib import format as numpy_format

from penstock.core.errors import DataError

MAGIC = b"\x93NUMPY"
#: Bytes of a header at most: the limit of NumPy's own reader, and some room for many fields.
HEADER_BYTES = 1 << 16
_KEYS = {"descr", "fortran_order", "shape"}


@dataclass(frozen=True)
class NpyHeader:
    """What an array is and where its values begin. fortran: whether the first axis varies fastest."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    start: int

    @property
    def size_bytes(self) -> int:
        """Bytes of all values."""
        return self.dtype.itemsize * math.prod(self.shape)

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of the first axis."""
        return self.dtype.itemsize * math.prod(self.shape[1:])


def header_bytes(head: bytes, where: str) -> int:
    """Bytes of the whole header, from the first 12 bytes of the data."""
    version, width = head[6:7], {b"\x01": 2, b"\x02": 4, b"\x03": 4}.get(head[6:7])
    if not head.startswith(MAGIC) or width is None or len(head) < 8 + width:
        what = (
            f"version {version.hex()} of .npy"
            if head.startswith(MAGIC) and version
            else f"{head[:8].hex(' ') or 'nothing'}"
        )
        raise DataError(
            f"{where}, byte 0: {what} where the header of an array (.npy, version 1, 2 or 3) belongs; write it again"
        )
    length = int.from_bytes(head[8 : 8 + width], "little")
    if length > HEADER_BYTES:
        raise DataError(
            f"{where}, byte 8: a header of {length:,} bytes; at most {HEADER_BYTES:,} are read; is the file damaged?"
        )
    return 8 + width + length


def parse_header(head: bytes, where: str) -> NpyHeader:
    """The header in the first bytes of the data, whole; DataError for damage, and for arrays of Python objects."""
    size = header_bytes(head, where)
    if len(head) < size:
        raise DataError(
            f"{where}: ends at byte {len(head):,}, inside its header of {size:,} bytes; copy the file again"
        )
    text = head[10 if head[6] == 1 else 12 : size]
    try:
        with warnings.catch_warnings(action="ignore"):  # Python and NumPy warn of what damage makes of a header
            said = ast.literal_eval(text.decode("utf-8" if head[6] == 3 else "latin1").strip())
            if not isinstance(said, dict) or said.keys() != _KEYS:
                raise ValueError(f"it needs exactly {', '.join(sorted(_KEYS))}")
            dtype = np.dtype(numpy_format.descr_to_dtype(said["descr"]))
        shape = tuple(int(axis) for axis in said["shape"] if isinstance(axis, int) and 0 <= axis < 1 << 62)
        if not isinstance(said["shape"], tuple) or len(shape) != len(said["shape"]) or len(shape) > 64:
            raise ValueError(f"shape {said['shape']!r}")
    except (
        ValueError,
        TypeError,
        SyntaxError,
        KeyError,
        IndexError,
        MemoryError,
        RecursionError,
        struct.error,
    ) as error:
        raise DataError(f"{where}, byte 10: the header cannot be understood ({error}); write the file again") from None
    if dtype.hasobject:
        raise DataError(
            f"{where}: holds Python objects (dtype {dtype}), which are pickled; a pickle can run any code and is never "
            f"opened. Save numbers or text of a fixed width instead"
        )
    return NpyHeader(dtype, shape, bool(said["fortran_order"]) and len(shape) > 1, size)
