"""Cancelling: a run's threads carry its stop flag, and long waits check it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")
_R = TypeVar("_R")

#: Seconds between two checks of a flag during a wait.
LOOK_S = 0.1

_flag: ContextVar[threading.Event | None] = ContextVar("penstock_stop", default=None)


class StoppedError(Exception):
    """The run was stopped; its result is no longer needed."""


def work_for(flag: threading.Event) -> None:
    """Make `flag` this thread's stop flag: set, it cancels the thread's work."""
    _flag.set(flag)


def is_of_run() -> bool:
    """Whether this thread works for a run, and is not the user's."""
    return _flag.get() is not None


def is_stopped() -> bool:
    """Whether this thread's work was cancelled."""
    return stop_flag().is_set()


def check() -> None:
    """Raise StoppedError if this thread's work was cancelled. Long native calls do this now and then."""
    if is_stopped():
        raise StoppedError


def stop_flag() -> threading.Event:
    """The stop flag of this thread; one that is never set if it has none."""
    return _flag.get() or threading.Event()


def in_threads(function: Callable[[_T], _R], given: Sequence[_T], *, most: int, name: str) -> list[_R]:
    """The function's results for `given`, in order, from at most `most` threads. Ctrl-C cancels them."""
    flag = threading.Event()

    def call(one: _T) -> _R:
        work_for(flag)
        return function(one)

    with ThreadPoolExecutor(max(1, min(len(given), most)), thread_name_prefix=name) as threads:
        try:
            return list(threads.map(call, given))
        except BaseException:
            flag.set()
            raise


def carried(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """The function, which in any thread uses this thread's stop flag and other context."""
    context = copy_context()

    def call(*arguments: _P.args, **named: _P.kwargs) -> _T:
        return context.copy().run(function, *arguments, **named)

    return call
