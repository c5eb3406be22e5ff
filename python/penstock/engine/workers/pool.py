"""The processes of a loader, and calls of functions in them."""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count

from penstock.core.cancel import LOOK_S, check, work_for
from penstock.core.errors import DataError
from penstock.core.spec import Columns, Ids
from penstock.engine.call import Rows
from penstock.engine.workers.child import Failed, Request, Sent
from penstock.engine.workers.functions import pickled_function
from penstock.engine.workers.link import EndedError, sendable, unpickled
from penstock.engine.workers.process import WorkerProcess
from penstock.transform.function import BatchFunction, RowFunction

#: An item is given to so many processes before it is an error that they end over it.
_TRIES = 2


class WorkerError(Exception):
    """The traceback of an error that a function raised in another process."""

    def __str__(self) -> str:
        return f"in a process of workers='process':\n\n{self.args[0]}"


class Pool:
    """At most `most` processes, each started when an item comes and none is free. Nothing of it is locked while a function runs."""

    def __init__(self, most: int) -> None:
        self.most, self._numbers = most, count()
        self._begin()

    def _begin(self) -> None:
        self._owner = os.getpid()
        self._room = threading.Semaphore(self.most)
        self._free = deque[WorkerProcess]()
        self._closings = 0
        self._finalizer = weakref.finalize(self, _end_all, self._free)

    def function(self, function: BatchFunction, verb: str) -> CallInProcess:
        """Calls of a user's function in these processes; PlanError if it cannot be sent to them."""
        sent = Sent(
            pickled=pickled_function(function.function, f"{verb}({function.name})"),
            by_rows=isinstance(function, RowFunction),
            verb=verb,
            name=function.name,
            finds_all=isinstance(function, RowFunction) and function.finds_all,
        )
        return CallInProcess(self, sent, next(self._numbers))

    @contextmanager
    def process(self) -> Iterator[WorkerProcess]:
        """A process that nobody else uses; it is ended unless all goes well."""
        if self._owner != os.getpid():  # a fork: the processes, and whoever held the lock, are another's
            self._finalizer.detach()
            self._begin()
        room, closings = self._room, self._closings
        while not room.acquire(timeout=LOOK_S):
            check()
        try:
            process = self._taken() or WorkerProcess()
            try:
                yield process
            except EndedError as ended:
                ended.ending = process.end()
                raise
            except BaseException:
                process.kill()
                process.end()
                raise
            self._free.append(process)
            if closings != self._closings:
                self.close()
        finally:
            room.release()

    def _taken(self) -> WorkerProcess | None:
        """The free process that was used last, since its caches are warm; not one that was ended meanwhile."""
        while True:
            try:
                process = self._free.pop()
            except IndexError:
                return None
            if process.is_running:
                return process
            process.end()

    def close(self) -> None:
        """Ends the processes that are free, and the others when they are; later calls start new ones."""
        self._closings += 1
        if self._owner == os.getpid():
            _end_all(self._free)


def _end_all(processes: deque[WorkerProcess]) -> None:
    taken = list[WorkerProcess]()
    while processes:
        taken.append(processes.pop())
    for process in taken:
        process.kill()
    for process in taken:
        process.end()


class CallInProcess:
    """Calls a function in a process of the pool; an item whose process ends is given to another one, once."""

    def __init__(self, pool: Pool, sent: Sent, number: int) -> None:
        self._pool, self._sent, self._number = pool, sent, number

    def __call__(self, columns: Columns, keys: Ids, key: int) -> Columns:
        """What the function returned, or raises what it raised. DataError if processes end over this item."""
        columns, endings = sendable(columns), list[str]()
        for _ in range(_TRIES):
            try:
                with self._pool.process() as process:
                    answer = self._ask(process, columns, keys, key)
                return _result(answer)
            except EndedError as ended:
                endings.append(ended.ending)
        raise DataError(
            f"{self._where}: the process that ran it ended over this batch of {len(keys):,} rows, and another one over the same: by "
            f"{' and by '.join(endings)}. {_advice(endings)}"
        )

    def many(self, calls: Sequence[Rows]) -> list[Columns]:
        """Several at once, by as many threads as there are processes."""
        if len(calls) < 2 or self._pool.most < 2:
            return [self(*one) for one in calls]
        made, failed = dict[int, Columns](), dict[int, BaseException]()
        left, stop = deque(range(len(calls))), threading.Event()

        def work() -> None:
            work_for(stop)
            while left:
                try:
                    number = left.popleft()
                except IndexError:
                    return
                try:
                    made[number] = self(*calls[number])
                except BaseException as error:
                    failed[number] = error
                    left.clear()  # all before it are being made

        # No ThreadPoolExecutor: the interpreter waits for its threads before it closes what runs.
        count = min(len(calls), self._pool.most)
        threads = [threading.Thread(target=work, name=f"penstock-call-{one}", daemon=True) for one in range(count)]
        _run(threads, stop)
        if failed:
            raise failed[min(failed)]
        return [made[number] for number in range(len(calls))]

    def _ask(self, process: WorkerProcess, columns: Columns, keys: Ids, key: int) -> Columns | Failed:
        number = self._number
        sent = None if number in process.functions else self._sent
        answer: Columns | Failed = process.ask(Request(number=number, sent=sent, columns=columns, keys=keys, key=key))
        if not isinstance(answer, Failed):
            process.functions.add(number)
        return answer

    @property
    def _where(self) -> str:
        return f"{self._sent.verb}({self._sent.name})"


def _run(threads: Sequence[threading.Thread], stop: threading.Event) -> None:
    """Runs threads to their end; when this one's work is cancelled, theirs is."""
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


def _result(answer: Columns | Failed) -> Columns:
    if not isinstance(answer, Failed):
        return answer
    error = _error_of(answer)
    error.__cause__ = WorkerError(answer.trace)
    raise error


def _error_of(failed: Failed) -> BaseException:
    if failed.pickled is not None:
        with suppress(Exception):
            error: BaseException = unpickled(failed.pickled)
            return error
    return RuntimeError(f"{failed.shown} (an error that cannot be pickled)")


def _advice(endings: Sequence[str]) -> str:
    """What to do about a process that ended."""
    if any("SIGKILL" in ending for ending in endings):
        return "The system may have run out of memory: take smaller batches, or fewer processes with Loader(cpus=…)"
    if any("signal" in ending for ending in endings):
        return "A library that the function calls may have crashed: call it with this batch, made by the plan without the function, to find out where"
    return "The function, or a library that it calls, ended its process: let it raise an error in place of os._exit"
