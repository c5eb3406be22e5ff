"""What a user gave as an argument, whatever its type: checks that no value can break."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from numbers import Integral
from typing import Any

import numpy as np

from penstock.core.errors import PlanError
from penstock.core.quoted import quoted

#: Whole numbers of plans are below this: kernels count in 64 bits, and seeds use them all.
_END = 1 << 64
#: So many entries of a list are more than anybody writes; an iterable without an end has more.
_MOST = 1 << 20


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number of Python's or NumPy's, of at most 64 bits."""
    return isinstance(value, Integral) and -_END < int(value) < _END


def hold_as_int(node: Any, *names: str) -> None:
    """Makes Python's numbers of a frozen description's: what is counted in NumPy's int8 overflows at 128."""
    for name in names:
        value = getattr(node, name)
        if value is not None and type(value) is not int:
            object.__setattr__(node, name, int(value))


def is_one_of(value: Any, choices: Sequence[str]) -> bool:
    """Whether a value is one of these words; an array, which has no truth, is none."""
    return isinstance(value, str) and value in choices


def check_flags(verb: str, **flags: Any) -> None:
    """PlanError for what is neither true nor false; 0, 1 and None count."""
    for name, value in flags.items():
        is_number = isinstance(value, Integral) and value in (0, 1)
        if value is not None and not is_number and not isinstance(value, (bool, np.bool_)):
            raise PlanError(f"{verb}: {name}={quoted(value)}; pass True or False")


def check_progress(verb: str, progress: Any) -> None:
    """PlanError for what cannot be called while rows are read."""
    if progress is not None and not callable(progress):
        raise PlanError(f"{verb}: progress={quoted(progress)}; pass a function of rows done and rows in all")


def as_tuple(where: str, given: Iterable[Any]) -> tuple[Any, ...]:
    """The entries of an iterable; PlanError where it has no end in sight."""
    found = tuple(islice(given, _MOST + 1))
    if len(found) > _MOST:
        raise PlanError(f"{where}: more than {_MOST:,} entries; pass a list that ends")
    return found
