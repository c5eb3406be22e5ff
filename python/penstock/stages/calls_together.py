"""Several calls at once, by threads that wait for what others do."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from penstock.core.cancel import LOOK_S, carried, check, work_for

_T = TypeVar("_T")
_R = TypeVar("_R")


def calls_together(function: Callable[[_T], _R], given: Sequence[_T], most: int) -> list[_R]:
    """The results of a function, in order, from at most `most` threads; the error of the first that fails.

    When this thread's work is cancelled, theirs is.
    """
    if len(given) < 2 or most < 2:
        return [function(one) for one in given]
    made, failed = dict[int, _R](), dict[int, BaseException]()
    left, stop = deque(range(len(given))), threading.Event()

    def work() -> None:
        work_for(stop)
        while left:
            try:
                number = left.popleft()
            except IndexError:
                return
            try:
                made[number] = function(given[number])
            except BaseException as error:
                failed[number] = error
                left.clear()  # all before it are being made

    # No ThreadPoolExecutor: the interpreter waits for its threads before it closes what runs.
    threads = [
        threading.Thread(target=carried(work), name=f"penstock-call-{number}", daemon=True)
        for number in range(min(len(given), most))
    ]
    _run(threads, stop)
    if failed:
        raise failed[min(failed)]
    return [made[number] for number in range(len(given))]


def _run(threads: Sequence[threading.Thread], stop: threading.Event) -> None:
    """Runs threads to their end."""
    begun = list[threading.Thread]()
    try:
        for thread in threads:
            thread.start()
            begun.append(thread)
        for thread in threads:
            while thread.is_alive():
                thread.join(LOOK_S)
                check()
    finally:
        stop.set()
        for thread in begun:
            thread.join()
