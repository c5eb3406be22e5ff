"""Errors on their way from another process: with their type and attributes, and with the traceback that they had there."""

from __future__ import annotations

import traceback
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from penstock.core.functions.tracebacks import users_part
from penstock.processes.functions import dumps
from penstock.processes.link import plain_dumps, unpickled


@dataclass(frozen=True, kw_only=True)
class Raised:
    """An error. pickled: None where it cannot be; then shown says what it was. trace: its traceback."""

    pickled: bytes | None
    shown: str
    trace: str


class ThereError(Exception):
    """The cause of an error that was raised in another process: the traceback that it had there."""

    def __str__(self) -> str:
        return f"in {self.args[1]}:\n\n{self.args[0]}"


def raised(error: BaseException) -> Raised:
    """An error as it is sent."""
    error.__traceback__ = users_part(error)
    trace = "".join(traceback.format_exception(error)).rstrip("\n")
    return Raised(pickled=_pickled(error), shown=_shown(error), trace=trace)


def error_of(told: Raised, where: str) -> BaseException:
    """The error that was sent. where: "a process of workers='process'"."""
    error: BaseException | None = None
    if told.pickled is not None:
        with suppress(Exception):
            error = unpickled(told.pickled)
    if error is None:
        error = RuntimeError(f"{told.shown} (an error that cannot be pickled)")
    error.__cause__ = ThereError(told.trace, where)
    return error


def _pickled(error: BaseException) -> bytes | None:
    """An error as it can be unpickled elsewhere; None where it cannot."""
    attempts: Any = (plain_dumps, dumps)
    for attempt in attempts:
        with suppress(Exception):
            made: bytes = attempt(error)
            if type(unpickled(made)).__name__ == type(error).__name__:
                return made
    return None


def _shown(error: BaseException) -> str:
    with suppress(Exception):
        return repr(error)
    return type(error).__qualname__
