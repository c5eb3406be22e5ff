"""What a Loader writes to its ledger: a file for each rank and start, records appended as steps are taken.

A step is recorded before the consumer has it. Where small steps are made together, those of `_TOGETHER_S` are written at once, and `flush`
writes what is left: `state_dict` calls it. So a killed process loses at most the records of the steps that it took so shortly before, and none of
a step that a saved state counts as done.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from penstock.core.arguments import path_of
from penstock.core.columns.spec import Ids
from penstock.core.errors import PlanError, StorageError
from penstock.core.messages import quoted
from penstock.observe.ledger.format import (
    MAGIC,
    SUFFIX,
    Buffer,
    EpochSize,
    LedgerHeader,
    Mark,
    RecordKind,
    StepsHead,
    TakenSteps,
    frame,
)

_TOGETHER_S = 0.02


@dataclass(frozen=True, kw_only=True)
class StepRows:
    """Rows of neighbouring steps that are about to be taken: see `format.TakenSteps`. size: of their epoch, where that ends with its data and it is known now how."""

    epoch: int
    step: int
    steps: int
    at: int
    ids: Ids
    draws: Ids | None = None
    valid: Ids | None = None
    size: EpochSize | None = None

    def record(self, first: int, last: int) -> list[Buffer]:
        """The record of the steps numbered [first, last) of these."""
        rows = len(self.ids) // self.steps
        head = StepsHead(
            epoch=self.epoch, step=self.step + first, steps=last - first, at=self.at, rows=rows, time_ns=time.time_ns()
        )
        arrays = (self.ids, self.draws, self.valid)
        ids, draws, valid = (None if array is None else array[first * rows : last * rows] for array in arrays)
        assert ids is not None
        return frame(RecordKind.STEPS, *TakenSteps(head=head, ids=ids, draws=draws, valid=valid).encode())


class Ledger:
    """Records the rows that a loader's consumer takes, in a folder that any number of ranks and restarts share."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = _local(folder)
        self._file: _LedgerFile | None = None
        self._close: Callable[[], Any] = (
            int  # of the file: when there is another one, when this is collected, or at exit
        )
        self._is_loaded = False

    def load(self) -> None:
        """A state was loaded: the next pass resumes from it."""
        self.flush()
        self._is_loaded = True

    def begin(self, header: LedgerHeader, epoch: int, step: int) -> None:
        """A pass begins at a position. Another share of the plan than before gets another file."""
        self.flush()
        if self._file is None or not self._file.serves(header):
            self._open(header)
        assert self._file is not None
        if self._is_loaded or self._file.next != (epoch, step):
            self._file.mark(epoch, step, is_loaded=self._is_loaded)
        self._is_loaded = False

    def recording(self, rows: StepRows, take: Callable[[], Any]) -> Callable[[], Any]:
        """`take`, which is called once a step, with the step recorded before."""
        file, steps, taken, clock = self._file, rows.steps, 0, time.monotonic
        assert file is not None  # a pass has begun
        file.expect(rows)

        def record_and_take() -> Any:
            nonlocal taken
            file.taken = taken = taken + 1
            if taken == steps or clock() >= file.write_at:
                file.flush()
            return take()

        return record_and_take

    def end_epoch(self, size: EpochSize) -> None:
        """All steps of an epoch that ended with its data were taken."""
        if self._file is not None:
            self._file.end_epoch(size)

    def flush(self) -> None:
        """Writes what was taken and is not in the file."""
        if self._file is not None:
            self._file.flush()

    def _open(self, header: LedgerHeader) -> None:
        self._close()
        self._file = _LedgerFile(self._folder, header)
        self._close = weakref.finalize(self, self._file.close)


class _LedgerFile:
    """A file that is open, and the steps that are about to be taken."""

    def __init__(self, folder: str, header: LedgerHeader) -> None:
        self._header, self._file_bytes, self._pid = replace(header, started_ns=time.time_ns()), 0, os.getpid()
        self._lock = threading.Lock()  # a state may be saved in another thread than the one that takes steps
        self._rows: StepRows | None = None
        self._failed: StorageError | None = None
        self.taken = self._written = 0
        self.write_at = 0.0
        self.next: tuple[int, int] | None = None  # the position behind what was taken
        self._size: EpochSize | None = None  # the last that was written
        started = self._header.started_ns
        name = f"{started // 10**9}.{started % 10**9:09d}-rank-{header.rank:05d}-of-{header.world_size:05d}-{self._pid}"
        self._path = os.path.join(folder, f"{name}{SUFFIX}")
        try:
            os.makedirs(folder, exist_ok=True)
            self._descriptor = os.open(
                self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o644
            )
        except OSError as error:
            raise self._cannot("open", error) from error
        self._append([MAGIC, *frame(RecordKind.HEADER, self._header.encode())])

    def serves(self, header: LedgerHeader) -> bool:
        """Whether it is open, in this process, for the same share of the same plan."""
        is_mine = self._descriptor >= 0 and self._pid == os.getpid()
        return is_mine and replace(header, started_ns=self._header.started_ns) == self._header

    def mark(self, epoch: int, step: int, *, is_loaded: bool) -> None:
        """The next step is this one, whatever came before."""
        mark = Mark(epoch=epoch, step=step, time_ns=time.time_ns(), is_loaded=is_loaded)
        with self._lock:
            self._append(frame(RecordKind.MARK, mark.encode()))
            self.next = epoch, step

    def expect(self, rows: StepRows) -> None:
        """These steps are taken next."""
        self.flush()
        with self._lock:
            self._rows, self.taken, self._written = rows, 0, 0
            self._note(rows.size)

    def end_epoch(self, size: EpochSize) -> None:
        """An epoch is over; see `Ledger.end_epoch`."""
        self.flush()
        with self._lock:
            self._note(size)
            if self.next == (size.epoch, size.steps):
                self.next = size.epoch + 1, 0

    def _note(self, size: EpochSize | None) -> None:
        """Writes once what an epoch holds."""
        if size is not None and size != self._size:
            self._append(frame(RecordKind.EPOCH, size.encode()))
            self._size = size

    def flush(self) -> None:
        """Writes the steps that were taken since the last time."""
        with self._lock:
            rows, taken = self._rows, self.taken
            if rows is None or taken == self._written or self._pid != os.getpid():
                return
            self._append(rows.record(self._written, taken))
            self._written, self.write_at = taken, time.monotonic() + _TOGETHER_S
            step = rows.step + taken
            is_end = not self._header.has_ends and step == self._header.steps
            self.next = (rows.epoch + 1, 0) if is_end else (rows.epoch, step)
            if taken == rows.steps:
                self._rows = None

    def _append(self, pieces: list[Buffer]) -> None:
        """Hands all of it to the system, or leaves the file as it was."""
        if self._failed is not None:
            raise self._failed  # so no state is saved that counts a step that is not in the ledger
        size = sum(map(len, pieces))
        try:
            if os.writev(self._descriptor, pieces) < size:  # the disk is nearly full, or a signal came
                os.truncate(self._descriptor, self._file_bytes)
                _write_all(self._descriptor, b"".join(pieces))
        except OSError as error:
            os.truncate(self._descriptor, self._file_bytes)
            self._close()
            self._failed = self._cannot("write", error)
            raise self._failed from error
        self._file_bytes += size

    def _cannot(self, do: str, error: OSError) -> StorageError:
        return StorageError(
            f"{self._path}: cannot {do} the ledger ({error.strerror}); make room or choose another folder, and resume, or leave ledger= out"
        )

    def close(self) -> None:
        """Writes what is left, and closes."""
        if self._pid == os.getpid() and self._descriptor >= 0:
            self.flush()
            self._close()

    def _close(self) -> None:
        os.close(self._descriptor)
        self._descriptor = -1


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def _local(folder: str | os.PathLike[str]) -> str:
    path = path_of("ledger", folder)
    if not path or "://" in path:
        raise PlanError(
            f"ledger={quoted(path)}; a ledger is written step by step, so pass a folder of a mounted file system"
        )
    if os.path.exists(path) and not os.path.isdir(path):
        raise PlanError(
            f"ledger={quoted(path)} is a file; pass a folder, in which every rank and start has a file of its own"
        )
    return os.path.abspath(os.path.expanduser(path))
