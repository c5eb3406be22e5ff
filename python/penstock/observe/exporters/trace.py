"""observe="trace:run.json": every stage's work and every wait on a timeline, for ui.perfetto.dev and chrome://tracing (Trace Event Format).

Times count from `baseTimeNanoseconds`, as in traces of torch.profiler; `penstock trace merge` joins both. The file is complete JSON after each
write. One that has become large, or is there from a run before, is kept as "run.before.json", so that the end of a long run is always there.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from contextlib import suppress

from penstock.core.errors import PlanError
from penstock.observe.events import Event
from penstock.observe.exporters.clock import since_1970_ns
from penstock.observe.exporters.figures import stages_of
from penstock.observe.exporters.files import cannot_be_written, local_path, open_file, write_all
from penstock.observe.exporters.protocol import Exporter
from penstock.observe.exporters.shared import Shared, SharedThing, SharingExporter
from penstock.observe.snapshot import Snapshot

#: How torch.profiler rounds the time from which it counts down: a quarter of a year.
_QUARTER_S = 7_889_238
#: Another process is shown, which holds our threads: of its own number PyTorch's trace has threads, whose slices ours must not cross.
_OURS = 1_000_000_000
#: A file that is larger is put aside.
_LARGE_BYTES = 64 << 20
#: So much is added at once.
_PIECE_BYTES = 64 << 10
#: What a trace of ours begins with.
_BEGINNING = b'{"writtenBy": "penstock", '
_END = b"\n]}\n"


class TraceFile(SharedThing):
    """A trace of this process's loaders."""

    def __init__(self, path: str, large_bytes: int = _LARGE_BYTES) -> None:
        self._path, self._large_bytes = path, large_bytes
        self._base_ns = int(time.time()) // _QUARTER_S * _QUARTER_S * 1_000_000_000
        self._to_base_ns = since_1970_ns() - self._base_ns
        self._pid = _OURS + os.getpid()
        self._as_json: dict[str, str] = {}
        self._lock = threading.Lock()
        self._handle = self._open()

    def _open(self) -> int:
        handle = open_file("trace", self._path, append=False)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise PlanError(
                f"observe='trace': {self._path} is written by another process; each needs a file of its own, as 'trace:run-{{rank}}.json'"
            ) from None
        except OSError:  # a file system without locks
            pass
        if found := os.pread(handle, len(_BEGINNING), 0):
            os.close(handle)
            if found != _BEGINNING:
                raise PlanError(
                    f"observe='trace': {self._path} holds something else; name a file that is not there, or one that observe='trace:FILE' wrote"
                )
            self._put_aside()
            return self._open()
        head = {"displayTimeUnit": "ms", "baseTimeNanoseconds": self._base_ns}
        begin = _BEGINNING + json.dumps(head)[1:-1].encode() + b', "traceEvents": [\n'
        process = {"ph": "M", "name": "process_name", "pid": self._pid, "args": {"name": f"penstock ({os.getpid()})"}}
        begin += json.dumps(process).encode()
        try:
            write_all(handle, begin + _END, 0)
        except OSError:
            os.close(handle)
            raise
        self._end, self._threads = len(begin), dict[int, str]()
        return handle

    def add(self, snapshot: Snapshot, events: list[Event], number: int) -> None:
        """Adds what happened, and the figures of now."""
        with self._lock:
            if self._end > self._large_bytes:
                self._begin_anew()
            entries = [text for one in events for text in self._event(one, number)] + self._counters(snapshot, number)
            piece, size = [], 0
            for entry in entries:
                piece.append(entry)
                size += len(entry)
                if size > _PIECE_BYTES:
                    self._put(piece)
                    piece, size = [], 0
            self._put(piece)

    def _put(self, entries: list[str]) -> None:
        """Replaces the end of the file by some entries and the end; what the disk has no room for is taken back."""
        if not entries:
            return
        more = "".join(f",\n{entry}" for entry in entries).encode()
        try:
            write_all(self._handle, more + _END, self._end)
        except OSError:
            with suppress(OSError):
                write_all(self._handle, _END, self._end)
                os.ftruncate(self._handle, self._end + len(_END))
            raise
        self._end += len(more)

    def _begin_anew(self) -> None:
        self._put_aside()
        handle = self._handle
        self._handle = self._open()
        os.close(handle)

    def _put_aside(self) -> None:
        root, ending = os.path.splitext(self._path)
        try:
            os.replace(self._path, f"{root}.before{ending}")
        except OSError as error:
            raise cannot_be_written("trace", self._path, error) from error

    def _event(self, event: Event, number: int) -> list[str]:
        """A slice, after the name of its thread if this is its first. Written by hand, since there may be thousands a second."""
        found = []
        if event.thread not in self._threads:
            self._threads[event.thread] = name = "training" if event.what in ("wait", "step") else event.what
            args = {"name": name}
            entry = {"ph": "M", "name": "thread_name", "pid": self._pid, "tid": event.thread, "args": args}
            found.append(json.dumps(entry))
        begin_us = (event.begin_ns + self._to_base_ns) / 1000
        took_us = max(0, event.end_ns - event.begin_ns) / 1000
        what, kind = (self._as_json.get(text) or self._noted(text) for text in (event.what, event.kind))
        item = f'"epoch": {event.epoch}, "first_step": {event.first_step}, "steps": {event.steps}'
        made = f'"samples": {event.samples}, "bytes": {event.size_bytes}, "kind": {kind}, "loader": {number}'
        found.append(
            f'{{"ph": "X", "name": {what}, "pid": {self._pid}, "tid": {event.thread}, "ts": {begin_us:.3f}, "dur": {took_us:.3f}, '
            f'"args": {{{item}, {made}}}}}'
        )
        return found

    def _noted(self, text: str) -> str:
        """A stage's name as JSON, kept: there are few."""
        self._as_json[text] = found = json.dumps(text)
        return found

    def _counters(self, snapshot: Snapshot, number: int) -> list[str]:
        at = (time.perf_counter_ns() + self._to_base_ns) / 1000
        of = f" of loader {number}" if number else ""
        queues = {name: stage.queue_depth for name, stage in stages_of(snapshot)}
        held = snapshot.memory.held_bytes
        shown = {"samples/s": {"samples/s": snapshot.samples_per_s}, "queues": queues, "memory": {"bytes": held}}
        return [
            json.dumps({"ph": "C", "name": f"penstock: {name}{of}", "pid": self._pid, "ts": at, "args": args})
            for name, args in shown.items()
            if args
        ]

    def end(self) -> None:
        """Closes it."""
        os.close(self._handle)


_FILES = Shared[TraceFile]()


class Trace(SharingExporter[TraceFile]):
    """Writes events into a file that all loaders of the process share."""

    def write(self, snapshot: Snapshot, events: list[Event]) -> None:
        """Adds them."""
        self.place.held.add(snapshot, events, self.place.number)


def open_trace(target: str) -> Exporter:
    """A file that is begun anew."""
    path = local_path("trace", target, "run.json")
    return Trace(_FILES, os.path.abspath(path), lambda: TraceFile(path))
