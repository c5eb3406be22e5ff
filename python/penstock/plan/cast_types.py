"""The types that values can be cast to, by the names that users know."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.core.names import did_you_mean

_NUMBERS = ("bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)), "float16", "float32", "float64")  # fmt: skip
_NAMES = (*_NUMBERS, "string", "bytes")
_PYTHON = {bool: "bool", int: "int64", float: "float64", str: "string", bytes: "bytes"}


def cast_type(verb: str, given: Any) -> str:
    """The name of a type: cast_type("cast", float) == "float64". PlanError for one that there is not."""
    found = _PYTHON.get(given) if isinstance(given, type) else None
    if found is None and isinstance(given, str):
        found = {"str": "string", "int": "int64", "float": "float64"}.get(given, given)
    if found is None:
        try:
            found = np.dtype(given).name
        except TypeError:
            found = ""
    if found not in _NAMES:
        hint = did_you_mean(given, _NAMES) if isinstance(given, str) else ""
        raise PlanError(f"{verb}: no type {quoted(given)}; there are {', '.join(_NAMES)}{hint}")
    return found
