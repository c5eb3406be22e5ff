"""Long native calls with progress reports, which Ctrl-C ends."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Protocol, TypeVar

from penstock.core.files.byte_ranges import Progress

_T = TypeVar("_T")

#: Seconds between two reports of progress.
_TICK_S = 0.1
#: Scanning less than this takes a millisecond or two.
BRIEF_BYTES = 1 << 20


class WatchedWork(Protocol):
    """The progress of a call, and a way to stop it."""

    @property
    def done(self) -> int:
        """Bytes done so far."""

    def stop(self) -> None:
        """Make the call end early, with KeyboardInterrupt."""


_W = TypeVar("_W", bound=WatchedWork)


def watched(work: _W, call: Callable[[_W], _T], progress: Progress | None, total: int, *, brief: bool = False) -> _T:
    """The result of call(work), which runs in another thread so that it can report progress and Ctrl-C ends it.

    brief: a call of a few milliseconds runs in the calling thread, since starting another takes as long.
    """
    if brief:
        made = call(work)
        if progress is not None:
            progress(total, total)
        return made
    with ThreadPoolExecutor(1, thread_name_prefix="penstock-index") as threads:
        future = threads.submit(call, work)
        try:
            while wait([future], timeout=_TICK_S).not_done:
                if progress is not None:
                    progress(min(work.done, total), total)
        except BaseException:
            work.stop()
            raise
    if progress is not None and future.exception() is None:
        progress(total, total)
    return future.result()
