"""Whether anybody still wants what a thread works for: a run's threads carry its flag, and whoever waits for long looks at it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")
_R = TypeVar("_R")

#: How often a flag is looked at while something else is waited for.
LOOK_S = 0.1

_flag: ContextVar[threading.Event | None] = ContextVar("penstock_stop", default=None)


class StoppedError(Exception):
    """Nobody wants the answer any more."""


def work_for(flag: threading.Event) -> None:
    """From now on this thread works for somebody who sets `flag` when nothing is wanted any more."""
    _flag.set(flag)


def is_stopped() -> bool:
    """Whether whoever this thread works for wants nothing any more."""
    return stop_flag().is_set()


def stop_flag() -> threading.Event:
    """What is set once whoever this thread works for wants nothing any more, for others to look at; nobody's if it is nobody."""
    return _flag.get() or threading.Event()


def in_threads(function: Callable[[_T], _R], given: Sequence[_T], *, most: int, name: str) -> list[_R]:
    """The function of everything given, in its order, from at most so many threads; after Ctrl-C they wait for no store."""
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
    """The function for other threads, working for whom this thread works for."""
    context = copy_context()

    def call(*arguments: _P.args, **named: _P.kwargs) -> _T:
        return context.copy().run(function, *arguments, **named)

    return call
