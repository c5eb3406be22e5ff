"""Values that no one should give to anything, and what should come of them."""

from __future__ import annotations

import datetime as dt
import decimal
import fractions
import itertools
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps

ROWS = 20


def nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


class NoText:
    """What cannot be shown in a message."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")


#: What is made anew for every call, since some of it is used up.
VALUES: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "0": lambda: 0,
    "-1": lambda: -1,
    "2^31": lambda: 2**31,
    "2^62": lambda: 2**62,
    "2^63": lambda: 2**63,
    "2^64": lambda: 2**64,
    "10^30": lambda: 10**30,
    "5,000 digits": lambda: 10**5000,
    "minus 5,000 digits": lambda: -(10**5000),
    "half": lambda: 1.5,
    "NaN": lambda: math.nan,
    "infinity": lambda: math.inf,
    "1e300": lambda: 1e300,
    "text": lambda: "text",
    "no text": lambda: "",
    "zero byte": lambda: "a\0b",
    "half a pair": lambda: "\ud800",
    "control characters": lambda: "\x1b[31m\r\n",
    "long text": lambda: "x" * 1_000_000,
    "bytes": lambda: b"x",
    "np.int8": lambda: np.int8(3),
    "np.uint64": lambda: np.uint64(2**64 - 1),
    "np.float32": lambda: np.float32(1.5),
    "np.bool": lambda: np.bool_(True),
    "np.datetime64": lambda: np.datetime64("2020-01-01"),
    "array of one": lambda: np.array([3]),
    "array of rows": lambda: np.linspace(0, 1, ROWS),
    "array of NaN": lambda: np.full(ROWS, np.nan),
    "array of objects": lambda: np.array([None, {}], dtype=object),
    "array of a terabyte": lambda: np.broadcast_to(np.int64(1), 2**40),
    "structured array": lambda: np.zeros(ROWS, dtype=[("a", "i4")]),
    "list": lambda: [1, 2],
    "ragged list": lambda: [[1], [2, 3]],
    "nested": lambda: nested(10_000),
    "list of 5,000 digits": lambda: [10**5000] * ROWS,
    "no list": list,
    "dict": lambda: {"a": 1},
    "dict of 5,000 digits": lambda: {"x": 10**5000, "y": 1},
    "dict of None": lambda: {None: None},
    "set": lambda: {1, 2},
    "complex": lambda: 1j,
    "signalling NaN": lambda: decimal.Decimal("sNaN"),
    "fraction of 5,000 digits": lambda: fractions.Fraction(10**5000, 3),
    "date": lambda: dt.date(2020, 1, 1),
    "no repr": NoText,
    "without an end": itertools.count,
    "long range": lambda: range(10**18),
    "ellipsis": lambda: ...,
    "Arrow array": lambda: pa.array([1] * ROWS),
    "Arrow nulls": lambda: pa.nulls(ROWS),
    "expression": lambda: ps.col("x"),
    "dataset": lambda: data().take(ROWS),
}


def data() -> ps.Dataset:
    return ps.from_arrays(
        {
            "id": np.arange(ROWS),
            "x": np.arange(ROWS, dtype=np.float32),
            "y": (np.arange(ROWS) % 3).astype(np.int8),
            "text": [f"t{row}" for row in range(ROWS)],
            "tokens": [[*range(row % 5 + 1)] for row in range(ROWS)],
        }
    )


def words(names: str, make: Callable[[dict[str, Any]], Any], **usual: Any) -> dict[str, Callable[[Any], Any]]:
    """A case for each name of an argument, in place of the usual one."""
    return {f"{name}=": lambda value, name=name: make({**usual, name: value}) for name in names.split()}


def outcome(call: Callable[[Any], Any], value: Any) -> str:
    """What is wrong with how a value was taken; "" if it works or is refused in our words, at once."""
    begin = time.process_time()
    try:
        made = call(value)
        if isinstance(made, ps.Dataset):
            next(iter(ps.Loader(made)), None)
    except ps.PenstockError as error:
        text = str(error)
        if not 20 < len(text) < 3_000 or "\x1b" in text:
            return f"says {text[:80]!r}"
    except Exception as error:  # what no user should see
        return f"raises {type(error).__name__}: {str(error)[:80]!r}"
    spent_s = time.process_time() - begin
    return f"takes {spent_s:.1f} s" if spent_s > 1 else ""
