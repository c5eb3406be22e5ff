"""Values that stand for what is missing, as a column holds them."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.core.columns.spec import Field
from penstock.core.errors import PlanError
from penstock.core.messages import quoted


def held_number(field: Field, number: Any) -> Any:
    """A number, or several, as NumPy has them in the field's dtype, float32 for bfloat16; None if it does not hold it: 1.5 in int64, 300 in int8, 1e39 in float32.

    Floats are rounded: held_number(Field("float32"), 0.1) == np.float32(0.1).
    """
    dtype = np.dtype(np.float32) if field.dtype == "bfloat16" else field.numpy_dtype
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            held = np.array(number).astype(dtype)
        if dtype.kind in "biu":
            is_held = held.tolist() == np.array(number).tolist()
        else:
            is_held = dtype.kind not in "fc" or bool(np.all(~np.isinf(held) | np.isinf(number)))
    except (ValueError, OverflowError, TypeError):
        return None
    return held[()] if is_held and not isinstance(number, (bytes, str)) else None


def check_default(field: Field, default: Any, where: str = "") -> None:
    """PlanError for a default that a column does not hold. where: what the message begins with."""
    is_text = field.dtype in ("bytes", "string")
    if not isinstance(default, (bytes, str)) if is_text else held_number(field, default) is None:
        raise PlanError(f"{where}default {quoted(default)} is no {field.dtype}")
