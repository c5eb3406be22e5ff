"""One image decoded, for functions that begin with a file's bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.columns.spec import Field
from penstock.core.errors import DataError, RowError
from penstock.core.images.encoded import image_mode
from penstock.transform.image.decode import Decode
from penstock.transform.image.kernel import as_first_is, fuse, image_size
from penstock.transform.image.numbers import ToLayout


def decoded(data: bytes, decode: Decode) -> npt.NDArray[Any]:
    """Pixels of shape (height, width, channels), those that the native chain begins with; DataError for a damaged file."""
    try:
        ops = as_first_is((decode, ToLayout("NHWC")), lambda: image_mode(data))
        kernel = fuse(ops, Field("bytes"), lambda: image_size(data, ops))
        out: npt.NDArray[Any] = np.empty((1, *(axis or 0 for axis in kernel.field.shape)), kernel.field.numpy_dtype)
        kernel(pa.array([data], pa.large_binary()), np.zeros(1, np.int64), key=0, out=out, threads=1)
    except RowError as error:
        raise DataError("; ".join(filter(None, (error.found, error.do)))) from None
    except ValueError as error:
        raise DataError(str(error)) from None
    pixels: npt.NDArray[Any] = out[0]
    return pixels
