"""The processes of a loader, and calls of functions in them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from penstock.core.cancel import LOOK_S, check
from penstock.core.columns.spec import Columns
from penstock.core.draw_keys import DrawKeys
from penstock.core.errors import DataError
from penstock.processes.auto import CallAuto, FunctionChoice
from penstock.processes.calls import CallRequest, DiffersAgain, SentFunction
from penstock.processes.functions import pickled_function
from penstock.processes.link import sendable
from penstock.processes.raised import Raised, error_of
from penstock.processes.wire import EndedError
from penstock.processes.worker import WorkerProcess
from penstock.stages.call import FunctionCalls, Rows
from penstock.stages.calls_together import calls_together
from penstock.transform.function import BatchFunction, RowFunction
from penstock.transform.repeat_check import Repeats

#: An item is given to so many processes before it is an error that they end over it.
_TRIES = 2
#: Items that a process has at most: the one that it works on, and the next one.
ITEMS = 2


class Pool:
    """At most `most` processes, each started when an item comes and none is free. Nothing of it is locked while a function runs.

    Each has up to two items: while an answer is taken from it, it works on the next one.
    """

    def __init__(self, most: int) -> None:
        self.most, self._numbers = most, count()
        self.choices = dict[str, FunctionChoice]()  # by "map(augment)"
        self._autos = list[CallAuto]()
        self._begin()

    def _begin(self) -> None:
        self._owner = os.getpid()
        self._changed = threading.Condition()
        self._processes = list[WorkerProcess]()  # the one that got an item last is the last
        self._starting = 0

    @property
    def at_once(self) -> int:
        """Items that may be with processes."""
        return ITEMS * self.most

    def function(self, function: BatchFunction, verb: str, *, polite: bool = False) -> CallInProcess:
        """Calls of a user's function in these processes; PlanError if it cannot be sent to them. polite: nobody waits for their start."""
        sent = SentFunction(
            pickled=pickled_function(function.function, f"{verb}({function.name})"),
            by_rows=isinstance(function, RowFunction),
            verb=verb,
            name=function.name,
            finds_all=isinstance(function, RowFunction) and function.finds_all,
            text=function.text,
            polite=polite,
        )
        return CallInProcess(self, sent, next(self._numbers), function.repeats)

    def either(self, function: BatchFunction, verb: str, here: FunctionCalls) -> CallAuto:
        """Calls of it here or in these processes, whichever is faster. here: those on threads."""
        name = f"{verb}({function.name})"
        choice = self.choices.setdefault(name, FunctionChoice(name))
        ways = (here, lambda: self.function(function, verb, polite=True), self.close)
        self._autos.append(CallAuto(*ways, self.most, choice, lambda: function.draws_unasked))
        return self._autos[-1]

    def ask(self, message: Callable[[WorkerProcess], Any], *, polite: bool = False) -> Any:
        """The answer of some process to a message. EndedError, which says by what, if that ends instead; it is ended unless all goes well."""
        if self._owner != os.getpid():  # a fork: the processes, and whoever held the lock, are another's
            self._begin()
        process = self._enter(polite=polite)
        try:
            return process.ask(lambda: message(process))
        except EndedError as ended:
            self._forget(process)
            ended.ending = process.end()
            raise
        except BaseException:
            self._forget(process)
            process.end()
            raise
        finally:
            with self._changed:
                process.items -= 1
                is_over = not process.items and process not in self._processes
                self._changed.notify()
            if is_over:
                process.close()

    def _enter(self, *, polite: bool) -> WorkerProcess:
        """A process that an item may be given to, where this one counts from now on."""
        with self._changed:
            while True:
                if (found := self._free()) is not None:
                    found.items += 1
                    self._processes.remove(found)
                    self._processes.append(found)
                    return found
                if len(self._processes) + self._starting < self.most:
                    self._starting += 1
                    break
                self._changed.wait(LOOK_S)
                check()
        started = None
        try:
            started = WorkerProcess(polite=polite)
            started.items = 1
        finally:
            with self._changed:
                self._starting -= 1
                if started is not None:
                    self._processes.append(started)
                self._changed.notify_all()
        return started

    def _free(self) -> WorkerProcess | None:
        """The process without an item that had one last, since its caches are warm; once there are enough, the one that works longest with room for one."""
        for process in [one for one in reversed(self._processes) if not one.items]:
            if process.is_running:
                return process
            self._processes.remove(process)
            process.close()
        if len(self._processes) < self.most:
            return None
        return next((process for process in self._processes if process.items < ITEMS), None)

    def _forget(self, process: WorkerProcess) -> None:
        with self._changed:
            if process in self._processes:
                self._processes.remove(process)

    def rest(self) -> None:
        """Returns when nothing is tried any more; processes stay for the next pass."""
        for auto in self._autos:
            auto.wait()

    def close(self) -> None:
        """Ends the processes that are free, and the others when they are; later calls start new ones."""
        if self._owner != os.getpid():
            return
        self.rest()
        with self._changed:
            free = [process for process in self._processes if not process.items]
            self._processes.clear()
        _close_all(free)


def _close_all(processes: list[WorkerProcess]) -> None:
    for process in processes:
        process.kill()
    for process in processes:
        process.close()
    processes.clear()


class CallInProcess:
    """Calls a function in a process of the pool; an item whose process ends is given to another one, once."""

    def __init__(self, pool: Pool, sent: SentFunction, number: int, repeats: Repeats) -> None:
        self._pool, self._sent, self._number, self._repeats = pool, sent, number, repeats

    def __call__(self, columns: Columns, keys: DrawKeys) -> Columns:
        """What the function returned, or raises what it raised. DataError if processes end over this item."""
        is_again = self._repeats.take(keys)
        try:
            made = self._made(columns, keys, is_again=is_again)
        except BaseException:
            if is_again:
                self._repeats.leave()
            raise
        if isinstance(made, DiffersAgain):
            self._repeats.warn(made.what)
            return made.made
        if is_again:
            self._repeats.remember()
        return made

    def _made(self, columns: Columns, keys: DrawKeys, *, is_again: bool) -> Columns | DiffersAgain:
        columns, endings = sendable(columns), list[str]()
        while len(endings) < _TRIES:
            try:
                return _result(
                    self._pool.ask(
                        lambda process: self._request(process, columns, keys, is_again), polite=self._sent.polite
                    )
                )
            except EndedError as ended:
                if ended.is_first:
                    endings.append(ended.ending)
        raise DataError(
            f"{self._where}: the process that ran it ended over this batch of {len(keys):,} rows, and another one over the same: by "
            f"{' and by '.join(endings)}. {_advice(endings)}"
        )

    def many(self, calls: Sequence[Rows]) -> list[Columns]:
        """Several at once, by as many threads as items may be with processes."""
        return calls_together(lambda one: self(*one), calls, self._pool.at_once)

    def _request(self, process: WorkerProcess, columns: Columns, keys: DrawKeys, is_again: bool) -> CallRequest:
        sent = None if self._number in process.functions else self._sent
        process.functions.add(self._number)
        return self._number, sent, columns, keys, is_again

    @property
    def _where(self) -> str:
        return f"{self._sent.verb}({self._sent.name})"


def _result(answer: Columns | DiffersAgain | Raised) -> Columns | DiffersAgain:
    if not isinstance(answer, Raised):
        return answer
    raise error_of(answer, "a process of workers='process'")


def _advice(endings: Sequence[str]) -> str:
    """What to do about a process that ended."""
    if any("SIGKILL" in ending for ending in endings):
        return "The system may have run out of memory: take smaller batches, or fewer processes with Loader(cpus=…)"
    if any("signal" in ending for ending in endings):
        return "A library that the function calls may have crashed: call it with this batch, made by the plan without the function, to find out where"
    return "The function, or a library that it calls, ended its process: let it raise an error in place of os._exit"
