"""What a user gave as an argument, whatever its type: checks that no value can break."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence, Sized
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
#: No option is nested deeper.
_DEEPEST = 8
#: Datasets have millions of files; a generator without an end gives more.
_MOST_PATHS = 1 << 23


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
    found = []
    for one in given:
        found.append(path_of(what, one))
        if len(found) > _MOST_PATHS and not isinstance(given, Sized):
            raise PlanError(f"{what}: more than {_MOST_PATHS:,} paths; pass a list that ends")
    return found


def as_option(what: str, given: Any, depth: int = 0) -> Any:
    """An option's value, iterables as lists; PlanError for what no message can show: without an end, too large, too deep."""
    if isinstance(given, Iterable) and not isinstance(given, Sized):
        return as_option(what, list(as_tuple(what, given)), depth)
    if isinstance(given, Integral):
        is_odd = not is_whole(given)
    elif isinstance(given, Sized):
        is_odd = length_of(given) > _MOST_PATHS or depth > _DEEPEST
    else:
        is_odd = quoted(given) == f"<{type(given).__name__}>"
    if is_odd:
        raise PlanError(
            f"{what}={quoted(given)}: no option takes this; pass a value of the kind that docs/formats.md names"
        )
    if isinstance(given, Iterable) and not isinstance(given, (str, bytes)):
        for one in (*given, *given.values()) if isinstance(given, Mapping) else given:
            as_option(what, one, depth + 1)
    return list(given) if isinstance(given, np.ndarray) and not depth else given


def length_of(given: Sized) -> int:
    """The length of a list, also where it is more than Python counts."""
    try:
        return len(given)
    except OverflowError:
        return _END


def as_tuple(where: str, given: Iterable[Any]) -> tuple[Any, ...]:
    """The entries of an iterable; PlanError where it has no end in sight."""
    found = tuple(islice(given, _MOST + 1))
    if len(found) > _MOST:
        raise PlanError(f"{where}: more than {_MOST:,} entries; pass a list that ends")
    return found
