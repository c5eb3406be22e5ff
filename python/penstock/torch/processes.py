"""The processes that fetch batches of a dataset, as the training process sees them."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any

from penstock.core.cpus import usable_cpus
from penstock.core.errors import ProcessError
from penstock.processes.process import Process, Purpose
from penstock.processes.raised import Raised, error_of
from penstock.processes.wire import EndedError

_FETCHES = Purpose(module="penstock.torch.child", option="DataLoader", otherwise="pass tune=False")
#: Batches that a process has at most: the one that it works on, and the next one.
BATCHES = 2


class FailedThereError(Exception):
    """What fetching a batch raised in another process."""


class Worker:
    """One process. Asked by one thread at a time; it answers in order. Its start leaves the CPU to the training, which goes on meanwhile.

    is_over: nobody waits for it any more; what waits then ends it.
    """

    def __init__(self, dataset: bytes, is_over: threading.Event) -> None:
        self._process = Process(_FETCHES, partial(_check, is_over), polite=True)
        self.asked = 0
        self.take(dataset)

    def _send(self, message: Any) -> None:
        try:
            self._process.link.send(message)
        except EndedError:
            raise self._ended() from None

    def _receive(self) -> Any:
        self.asked -= 1
        try:
            return self._process.link.receive()
        except EndedError:
            raise self._ended() from None

    def take(self, dataset: bytes) -> None:
        """Batches that are asked for from now on are of this dataset: pickled arguments of a fetcher."""
        self._send(dataset)

    def ask(self, seed: int, index: Any) -> None:
        """Asks for a batch."""
        self._send((seed, index))
        self.asked += 1

    def answer(self) -> Any:
        """The batch that was asked for first. FailedThereError if fetching it failed, ProcessError if the process ended."""
        answer = self._receive()
        if isinstance(answer, Raised):
            error = error_of(answer, "a process that fetches batches")
            raise FailedThereError(f"{type(error).__name__}: {error}") from error
        return answer

    def drop_answers(self) -> None:
        """Releases batches that nobody wants any more."""
        while self.asked:
            self._receive()

    def _ended(self) -> ProcessError:
        return ProcessError(
            f"DataLoader: a process that fetched batches ended, by {self._process.end()}. It may have run out of memory, or a library crashed; "
            f"DataLoader(…, tune=False) fetches them in this process"
        )

    def kill(self) -> None:
        """Ends the process at once, whatever it does."""
        self._process.kill()

    def close(self) -> None:
        """Ends the process, and waits for it."""
        self._process.close()


class Workers:
    """Processes that start in the background, and are there for one iterator at a time."""

    def __init__(self, count: int) -> None:
        self.count, self._owner = count, os.getpid()
        self.running = list[Worker]()
        self.user: Any = None  # the iterator whose batches they fetch, weakly
        self._starting: threading.Thread | None = None
        self._wrong: str | None = None
        self._is_over = threading.Event()
        self._finalizer = weakref.finalize(self, _end, self.running, self._is_over)

    def begin(self, dataset: bytes, batch: tuple[int, Any], expected: bytes) -> None:
        """Starts them with a dataset; each fetches a batch that is compared with its digest."""
        self._wrong = None
        self._starting = threading.Thread(
            target=_start_all,
            args=(self.running, self._is_over, self.count, dataset, batch, expected, weakref.ref(self)),
            name="penstock-torch-start",
            daemon=True,
        )
        self._starting.start()

    @property
    def is_starting(self) -> bool:
        """Whether they are on their way."""
        return self._starting is not None and self._starting.is_alive()

    @property
    def wrong(self) -> str | None:
        """Why they cannot be used, once that is known; "" if they can."""
        if self.is_starting:
            return None
        return self._wrong

    def tell(self, wrong: str) -> None:
        """What came of starting them."""
        self._wrong = wrong

    @property
    def is_of_fork(self) -> bool:
        """Whether they belong to the process that this one is a fork of."""
        return self._owner != os.getpid()

    def close(self) -> None:
        """Ends all."""
        self._is_over.set()
        if self._starting is not None and self._starting is not threading.current_thread():
            _kill_all(self.running)
            self._starting.join()
        _close_all(self.running)


def _start_all(
    running: list[Worker],
    is_over: threading.Event,
    count: int,
    dataset: bytes,
    batch: tuple[int, Any],
    expected: bytes,
    workers: weakref.ref[Workers],
) -> None:
    from penstock.torch.tensors import digest_of

    wrong = ""
    try:
        at_once = max(1, usable_cpus() - 1)  # the training needs a CPU meanwhile
        while len(running) < count and not wrong:
            begun = [Worker(dataset, is_over) for _ in range(min(at_once, count - len(running)))]
            running.extend(begun)
            for worker in begun:
                worker.ask(*batch)
            if any(digest_of(worker.answer()) != expected for worker in begun):
                wrong = "another process makes another batch of the same samples"
    except FailedThereError as error:
        wrong = f"it fails in another process ({error})"
    except BaseException as error:
        wrong = f"it fails in another process ({type(error).__name__}: {error})"
    if wrong:
        _close_all(running)
    if (mine := workers()) is not None:
        mine.tell(wrong)
    else:
        _close_all(running)


def _check(is_over: threading.Event) -> None:
    if is_over.is_set():
        raise EndedError


def _end(running: list[Worker], is_over: threading.Event) -> None:
    is_over.set()
    _close_all(running)


def _kill_all(running: Sequence[Worker]) -> None:
    for worker in [*running]:
        worker.kill()


def _close_all(running: list[Worker]) -> None:
    _kill_all(running)
    for worker in [*running]:
        worker.close()
    running.clear()


__all__ = ["BATCHES", "FailedThereError", "Worker", "Workers"]
