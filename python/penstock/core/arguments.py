"""What a user gave as an argument, whatever its type: checks that no value can break."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from penstock.core.errors import PlanError
from penstock.core.messages import quoted

#: Whole numbers of plans are below this: kernels count in 64 bits, and seeds use them all.
_END = 1 << 64


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
    """Whether a value is one of these words; arrays are rejected."""
    return isinstance(value, str) and value in choices


def check_flags(verb: str, **flags: Any) -> None:
    """PlanError for what is neither true nor false; 0, 1 and None count."""
    for name, value in flags.items():
        is_number = isinstance(value, Integral) and value in (0, 1)
        if value is not None and not is_number and not isinstance(value, (bool, np.bool_)):
            raise PlanError(f"{verb}: {name}={quoted(value)}; pass True or False")


def check_whole(verb: str, most: int = _END - 1, /, **numbers: Any) -> None:
    """PlanError for what is no whole number from 1 to `most`; None counts where a default is meant."""
    for name, value in numbers.items():
        if isinstance(value, (bool, np.bool_)) or not is_whole(value) or not 1 <= value <= most:
            raise PlanError(f"{verb}: {name}={quoted(value)}; pass a whole number from 1 to {most:,}")


def check_texts(verb: str, **texts: Any) -> None:
    """PlanError for what is no text that can be written down."""
    for name, value in texts.items():
        if not isinstance(value, str) or not is_encodable(value):
            raise PlanError(f"{verb}: {name}={quoted(value)}; pass a text")


def is_encodable(text: str) -> bool:
    """Whether a text has no half of a surrogate pair, which no encoding has."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_progress(verb: str, progress: Any) -> None:
    """PlanError for what cannot be called while rows are read."""
    if progress is not None and not callable(progress):
        raise PlanError(f"{verb}: progress={quoted(progress)}; pass a function of rows done and rows in all")


def path_of(what: str, given: Any) -> str:
    """A path as text; PlanError for anything else: path_of("ledger", "runs") == "runs"."""
    found = given
    if not isinstance(given, str) and isinstance(given, os.PathLike):
        try:
            found = os.fspath(given)
        except Exception as error:  # a class of the user's that fails
            raise PlanError(f"{what}: {type(given).__name__} gives no path ({quoted(error)}); pass a text") from error
    if not isinstance(found, str):
        also = ", which os.fsdecode makes of bytes" if isinstance(found, bytes) else ""
        raise PlanError(f"{what}: {quoted(found)} is no path; pass a text or a pathlib.Path{also}")
    if "\0" in found:
        raise PlanError(f"{what}: {quoted(found)} has a zero byte, and no path has one; remove it")
    if not found.isascii():
        try:
            os.fsencode(found)
        except UnicodeEncodeError:
            raise PlanError(f"{what}: {quoted(found)} cannot be encoded, as a path must be; pass another") from None
    return str(found)


def paths_of(what: str, given: Any) -> list[str]:
    """One path or several as texts; PlanError for anything else."""
    if isinstance(given, (str, bytes, os.PathLike)) or not isinstance(given, Iterable):
        return [path_of(what, given)]
    return [path_of(what, one) for one in given]
