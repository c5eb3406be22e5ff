"""Runs users' coroutines: one event loop of the process, in a thread of its own, which lasts as long as the process.

It outlives loaders, so that a client that a function opened, and that belongs to its loop, works in the next pass. Whoever waits for coroutines cancels
them when their run is stopped.
"""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.core.cancel import LOOK_S, check
from penstock.core.errors import PlanError
from penstock.core.warnings import warn

if TYPE_CHECKING:  # it takes long to import, and few data sets have async functions
    import asyncio

_T = TypeVar("_T")

#: Calls of users' functions that are awaited at once.
AT_ONCE = 64
#: What was cancelled is waited for so long.
_PATIENCE_S = 5.0

_lock = threading.Lock()
_here: _Loop | None = None


def is_async(function: Any) -> bool:
    """Whether calls of it are to be awaited: an `async def`, a partial of one, an object with an async `__call__`."""
    while isinstance(function, partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def finished(made: Any) -> Any:
    """What a function returned; if that is to be awaited, its result."""
    if isinstance(made, dict) or not inspect.isawaitable(made):
        return made
    try:
        return _loop().run(_awaited(made))
    finally:
        if inspect.iscoroutine(made) and inspect.getcoroutinestate(made) == inspect.CORO_CREATED:
            made.close()  # it was never awaited, and Python would warn of that


def finished_all(calls: Sequence[Callable[[], Awaitable[_T]]]) -> list[_T]:
    """The results of calls, in order; up to 64 are awaited at once. The error of the first that fails; those behind it are cancelled."""
    loop = _loop()
    return loop.run(_in_order(calls, loop.room))


async def _awaited(made: Awaitable[_T]) -> _T:
    return await made


async def _in_order(calls: Sequence[Callable[[], Awaitable[_T]]], room: asyncio.Semaphore) -> list[_T]:
    import asyncio

    async def one(call: Callable[[], Awaitable[_T]]) -> _T | _Failed:
        async with room:
            try:
                return await call()
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # SystemExit would end the loop
                return _Failed(error)

    tasks, made = [asyncio.ensure_future(one(call)) for call in calls], list[_T]()
    try:
        for task in tasks:
            result = await task
            if isinstance(result, _Failed):
                raise result.error
            made.append(result)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return made


class _Failed:
    def __init__(self, error: BaseException) -> None:
        self.error = error


class _Call(Generic[_T]):
    """A coroutine on its way. ended: set when it is done."""

    def __init__(self, coroutine: Coroutine[Any, Any, _T]) -> None:
        self.ended = threading.Event()
        self._coroutine = coroutine
        self._task: asyncio.Future[None] | None = None
        self._made: list[_T] = []
        self._error: BaseException | None = None

    def begin(self) -> None:
        """Begins it, in the loop's thread."""
        import asyncio

        self._task = asyncio.ensure_future(self._run())
        self._task.add_done_callback(self._end)

    def cancel(self) -> None:
        """Cancels it, in the loop's thread."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            self._made.append(await self._coroutine)
        except BaseException as error:
            self._error = error

    def _end(self, _: asyncio.Future[None]) -> None:
        self._coroutine.close()  # one that was cancelled before it began
        self.ended.set()

    def result(self) -> _T:
        """What it returned, or raises what it raised."""
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None
        return self._made[0]


class _Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        import asyncio

        self.process, self.is_blocked = os.getpid(), False
        self.room = asyncio.Semaphore(AT_ONCE)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="penstock-async", daemon=True)
        self._thread.start()

    @property
    def is_here(self) -> bool:
        """Whether this is its thread."""
        return threading.current_thread() is self._thread

    def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """The coroutine's result. StoppedError if this thread's work is cancelled, and it is."""
        call = _Call(coroutine)
        self._loop.call_soon_threadsafe(call.begin, context=copy_context())
        try:
            while not call.ended.wait(LOOK_S):
                check()
        except BaseException:
            self._loop.call_soon_threadsafe(call.cancel)
            if not call.ended.wait(_PATIENCE_S):
                self._leave(call)
            raise
        return call.result()

    def _leave(self, call: _Call[Any]) -> None:
        self.is_blocked = True  # others get another loop
        warn(
            f"penstock: an async function did not stop within {_PATIENCE_S:g} s; it must await what takes long, and not block"
        )


def check_not_in_loop() -> None:
    """PlanError on the loop's own thread, which cannot wait for itself."""
    if _here is not None and _here.is_here and _here.process == os.getpid():
        raise PlanError(
            "an async function waits for another one: a loader within an async function blocks the loop; call asyncio.to_thread, and await that"
        )


def _loop() -> _Loop:
    global _here
    check_not_in_loop()
    with _lock:
        if _here is None or _here.process != os.getpid() or _here.is_blocked:
            _here = _Loop()
        return _here
