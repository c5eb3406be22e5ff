"""Batches of a map-style dataset where PyTorch would fetch them one by one in the training process (num_workers=0)."""

from __future__ import annotations

import resource
import time
import weakref
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch.utils.data import default_collate
from torch.utils.data._utils.pin_memory import pin_memory

from penstock.core.cpus import usable_cpus
from penstock.core.errors import ProcessError
from penstock.core.messages import quoted
from penstock.core.warnings import warn
from penstock.processes.functions import culprits, dumps
from penstock.torch.position import InThisProcess
from penstock.torch.processes import BATCHES, FailedThereError, Worker, Workers
from penstock.torch.recognised import Recognised, recognise
from penstock.torch.seeds import seed_of, seeded
from penstock.torch.tensors import digest_of

if TYPE_CHECKING:
    from penstock.torch.dataloader import DataLoader

#: Batches that take less are fetched here: what a process costs is not worth it.
_WORTH_S = 0.002
#: A loader that spent less on fetching here starts none: each takes seconds of CPU and hundreds of megabytes, and may be used for less.
_SOON_S = 10.0
#: Processes at most; of samples that wait for something else more than there are CPUs.
_MOST, _MOST_WAITING = 16, 8
#: Larger datasets, and those that take longer to pickle, stay here.
_MOST_BYTES, _MOST_PICKLE_S = 256 << 20, 1.0
#: So many batches of processes, after as many that are not counted, show whether these are faster; in one epoch or in several.
_MEASURED = 8


class FetchChoice:
    """How a DataLoader fetches batches, and why. It lives as long as the loader, and what was found in one epoch holds in the next."""

    def __init__(self) -> None:
        self.why = "nothing was fetched yet"
        self.is_settled = False  # here, for good
        self.draws = False
        self.batch_s = self.here_s = 0.0  # the shortest, and the usual time of a batch in this process
        self.spent_s = 0.0  # on all of them
        self.is_looked_at = False  # whether the dataset could be fetched from elsewhere
        self.waited_s = list[float]()  # for batches of processes
        self.waits = False  # for something else than a CPU
        self.pickled = b""
        self.workers: Workers | None = None
        self.native: Recognised | None = None
        self.native_user: Any = None  # the iterator that has it, weakly
        self.is_other = False  # no dataset that is recognised

    def __reduce__(self) -> Any:
        """A copy of a loader finds out for itself."""
        return FetchChoice, ()

    def stay(self, why: str) -> None:
        """Batches are fetched in this process from now on."""
        self.is_settled, self.why, self.pickled = True, why, b""
        self.close()

    def close(self) -> None:
        """Ends the processes."""
        if self.workers is not None and not self.workers.is_of_fork:
            self.workers.close()
        self.workers = None
        if self.native is not None:
            self.native.close()


class TunedIterator(InThisProcess):
    """One epoch. Every batch has a seed of its own, so that it is the same wherever it is fetched."""

    _mine: Workers | None = None

    def __init__(self, loader: DataLoader[Any], first_batch: int) -> None:
        super().__init__(loader)
        self._choice, self._number, self._first = loader.choice, first_batch, first_batch
        self._native = self._recognised()
        self._native_batches: Iterator[Any] | None = None
        self._asked = deque[tuple[Worker, int, Any]]()  # whom a batch is awaited of, its seed and indices; in order
        self._held: BaseException | None = None  # what the sampler raised
        self._leaves = ""  # why processes are not used any more
        if self._native is None and self._choice.workers is not None:
            self._check_still()

    def _next_data(self) -> Any:
        made = self._made() if self._native is None else self._made_natively(self._native)
        return pin_memory(made, self._pin_memory_device) if self._pin_memory else made

    # By a native plan

    def _recognised(self) -> Recognised | None:
        """The dataset, if it is one that Penstock reads itself; for this iterator alone."""
        choice = self._choice
        if not self._auto_collation or self._collate_fn is not default_collate:
            return None
        if choice.native_user is not None and choice.native_user() is not None:
            return recognise(self._dataset)
        if choice.native is None and not choice.is_other:
            choice.native = recognise(self._dataset)
            choice.is_other = choice.native is None
        if choice.native is not None:
            choice.native_user = weakref.ref(self)
            choice.why = choice.native.explain()
        return choice.native

    def _made_natively(self, native: Recognised) -> Any:
        if self._native_batches is None:
            if native.is_random:
                self._note_draws()
            self._native_batches = native.batches(self._sampler_iter, seed=self._base_seed, first_batch=self._first)
        return next(self._native_batches)

    # Anywhere

    def _made(self) -> Any:
        if self._mine is None and not self._choice.is_settled:
            self._take_workers()
        if self._mine is None:
            return self._fetched_here(self._next_index())
        return self._fetched_there(self._mine)

    # In this process

    def _fetched_here(self, index: Any) -> Any:
        choice, number = self._choice, self._number
        self._number += 1
        if choice.is_settled and not choice.draws and choice.batch_s < _WORTH_S:
            return self._dataset_fetcher.fetch(index)  # just as PyTorch does
        seed, watched = seed_of(self._base_seed, number), number - self._first < 3
        is_due = not choice.is_looked_at or choice.spent_s >= _SOON_S
        probe = not choice.is_settled and choice.workers is None and number > self._first and is_due
        pickled = self._pickled() if probe else b""
        began_at, began_cpu, before = time.perf_counter(), time.thread_time(), _switches()
        with seeded(seed, looks=watched) as drawn:
            made = self._dataset_fetcher.fetch(index)
        took_s, cpu_s = time.perf_counter() - began_at, time.thread_time() - began_cpu
        choice.spent_s += took_s
        choice.here_s = (
            took_s if number - self._first < 2 else 0.7 * choice.here_s + 0.3 * took_s
        )  # what is first used is loaded
        if number == self._first or not choice.batch_s or took_s < choice.batch_s:
            waits, preempted = (now - then for now, then in zip(_switches(), before, strict=True))
            choice.batch_s, choice.waits = took_s, cpu_s < took_s / 2 and waits > 4 * preempted
        if drawn.any and not choice.draws:
            self._note_draws()
        if probe and not choice.is_settled:
            self._try_processes(pickled, (seed, index), made)
        return made

    def _note_draws(self) -> None:
        self._choice.draws = True
        warn(
            f"penstock: DataLoader: {type(self._dataset).__qualname__} draws random numbers. Each batch has generators of its own, seeded from PyTorch's "
            f"seed of the epoch, so that batches are the same wherever they are fetched, and the training's random numbers go on as if "
            f"none had been drawn. DataLoader(…, tune=False) draws the numbers that PyTorch's own DataLoader would"
        )

    def _pickled(self) -> bytes:
        """The dataset for another process; empty where it stays here, which is noted."""
        choice = self._choice
        if usable_cpus() < 2:
            choice.stay("one CPU may be used")
        elif choice.batch_s < _WORTH_S:
            choice.stay(f"a batch takes {choice.batch_s * 1e3:.2g} ms, which other processes could not shorten")
        else:
            began_at = time.perf_counter()
            try:
                pickled = dumps((self._dataset, self._auto_collation, self._collate_fn, self._drop_last))
            except Exception as error:
                culprit = next(culprits(self._dataset), None)
                held = f"{quoted(culprit[0])} of " if culprit is not None else ""
                choice.stay(f"{held}the dataset cannot be sent to another process ({type(error).__name__}: {error})")
                return b""
            if len(pickled) > _MOST_BYTES or time.perf_counter() - began_at > _MOST_PICKLE_S:
                choice.stay(f"the dataset is large ({len(pickled):,} bytes), and every process would hold a copy")
                return b""
            return pickled
        return b""

    def _try_processes(self, before: bytes, batch: tuple[int, Any], made: Any) -> None:
        """Starts processes if fetching a batch left the dataset as it was; they are used once they make the same batch."""
        choice = self._choice
        if self._pickled() != before:
            if not choice.is_settled:
                choice.stay(
                    "samples that are fetched change the dataset, and its copies in other processes would not know"
                )
            return
        try:
            expected = digest_of(made)
        except Exception as error:
            choice.stay(f"batches cannot be sent from another process ({type(error).__name__}: {error})")
            return
        choice.is_looked_at = True
        if choice.spent_s < _SOON_S:
            choice.why = f"other processes are started once batches took {_SOON_S:g} s to fetch"
            return
        choice.workers = Workers(min(_MOST, max(usable_cpus(), _MOST_WAITING if choice.waits else 0)))
        choice.pickled, choice.why = before, "other processes are starting"
        choice.workers.begin(before, batch, expected)

    # In processes

    def _check_still(self) -> None:
        """Before an epoch: the processes get the dataset as it is now."""
        choice, workers = self._choice, self._choice.workers
        assert workers is not None
        if workers.is_of_fork:
            choice.workers, choice.why = None, "nothing was fetched yet"
        elif workers.wrong == "" and (workers.user is None or workers.user() is None):
            pickled = self._pickled()
            if pickled and pickled != choice.pickled:
                for worker in workers.running:
                    worker.drop_answers()
                    worker.take(pickled)
                choice.pickled = pickled

    def _take_workers(self) -> None:
        """Has the processes for itself, if they are ready and no other iterator has."""
        workers = self._choice.workers
        if workers is None or workers.is_of_fork or (wrong := workers.wrong) is None:
            return
        if wrong:
            self._choice.stay(wrong)
        elif workers.user is None or workers.user() is None:
            workers.user, self._mine = weakref.ref(self), workers
            self._choice.why = (
                f"{workers.count} processes, since a batch takes {self._choice.batch_s * 1e3:.2g} ms in this one"
            )
            for worker in workers.running:
                worker.drop_answers()

    def _fetched_there(self, workers: Workers) -> Any:
        try:
            self._ask_for_more(workers)
            if not self._asked:
                return self._end_of_work(workers)
            worker, seed, index = self._asked.popleft()
            asked_at = time.perf_counter()
            try:
                made = worker.answer()
            except FailedThereError as error:
                return self._fetched_again(seed, index, error)
        except (KeyboardInterrupt, SystemExit, ProcessError):  # what is on its way is lost
            self._mine = None
            self._choice.close()
            raise
        self._measure(time.perf_counter() - asked_at)
        return made

    def _fetched_again(self, seed: int, index: Any, failed: FailedThereError) -> Any:
        """A batch that failed there fails here as well, with the dataset's own error; or processes are no place for the dataset."""
        with seeded(seed, looks=False):
            made = self._dataset_fetcher.fetch(index)
        self._leaves = f"a batch failed in another process, and not in this one ({failed})"
        return made

    def _ask_for_more(self, workers: Workers) -> None:
        while self._held is None and not self._leaves and len(self._asked) < BATCHES * workers.count:
            try:
                index = self._next_index()
            except (StopIteration, Exception) as error:
                self._held = error  # in its place, after what was asked before
                return
            worker = min(workers.running, key=lambda one: one.asked)
            seed = seed_of(self._base_seed, self._number)
            worker.ask(seed, index)
            self._asked.append((worker, seed, index))
            self._number += 1

    def _end_of_work(self, workers: Workers) -> Any:
        """Nothing is on its way: the epoch is over, the sampler failed, or batches are fetched here again."""
        workers.user, self._mine = None, None
        if self._leaves:
            self._choice.stay(self._leaves)
        if self._held is not None:
            held, self._held = self._held, None
            raise held
        return self._made()

    def _measure(self, waited_s: float) -> None:
        """Finds out whether processes are slower: a batch is waited for longer than this process takes to make one."""
        waited = self._choice.waited_s
        waited.append(waited_s)
        if len(waited) >= 2 * _MEASURED:
            if sum(waited[_MEASURED:]) / _MEASURED > self._choice.here_s:
                self._leaves = (
                    "other processes were measured, and batches are waited for longer than this one takes to make them"
                )
            del waited[_MEASURED:]

    def __del__(self) -> None:
        if self._mine is not None:
            self._mine.user = None


def _switches() -> tuple[int, int]:
    """How often this thread waited, and how often another one took its CPU."""
    usage = resource.getrusage(getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF))
    return usage.ru_nvcsw, usage.ru_nivcsw
