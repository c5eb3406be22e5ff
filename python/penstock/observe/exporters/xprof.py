"""observe="xprof:logs": stages on a timeline in XProf, TensorBoard's profiler (`*.xplane.pb`, tsl/profiler/protobuf/xplane.proto).

A folder of a run holds a file a host, so that JAX's trace and ours are shown together where they lie in one.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections import deque
from pathlib import Path

from penstock.core.files.whole import write_whole
from penstock.observe.events import Event
from penstock.observe.exporters.clock import since_1970_ns
from penstock.observe.exporters.files import local_path, usable_folder
from penstock.observe.exporters.protobuf import nested, text, whole
from penstock.observe.exporters.protocol import Exporter
from penstock.observe.exporters.shared import Shared, SharedThing, SharingExporter
from penstock.observe.snapshot import Snapshot

#: Planes of this name reach the trace viewer (xprof: xplane_to_trace_container.cc).
_PLANE = "/device:CUSTOM:penstock"
#: Events that are kept, the newest: about 4 MB.
_MOST_EVENTS = 100_000
#: The file is replaced no more often.
_EVERY_S = 60.0
#: What an event says of its item, by number.
_STATS = ("epoch", "first_step", "steps", "samples", "bytes")


class ProfileSpace(SharedThing):
    """The newest events of this process's loaders as an XSpace."""

    def __init__(self, folder: str, most_events: int = _MOST_EVENTS) -> None:
        run = os.path.join(folder, "plugins", "profile", time.strftime("%Y_%m_%d_%H_%M_%S"))
        usable_folder("xprof", run)
        host = re.sub(r"[^\w.-]", "_", socket.gethostname())
        self.path = os.path.join(run, f"{host}.penstock-{os.getpid()}.xplane.pb")
        self._since_1970_ns, self._begin_ns = since_1970_ns(), time.perf_counter_ns()
        self._new = deque[Event](maxlen=most_events)
        self._events = deque[tuple[int, bytes]](maxlen=most_events)
        self._names: dict[str, int] = {}
        self._threads: dict[int, str] = {}
        self._lock = threading.Lock()
        self._written_at = 0.0

    def add(self, events: list[Event]) -> None:
        """Adds events, and writes the file where the last time is long ago."""
        with self._lock:
            self._new.extend(events)
            if time.monotonic() - self._written_at >= _EVERY_S:
                self._write()

    def _encoded(self, event: Event) -> bytes:
        number = self._names.setdefault(event.what, len(self._names) + 1)
        begin_ps = max(0, event.begin_ns - self._begin_ns) * 1000
        told = (event.epoch, event.first_step, event.steps, event.samples, event.size_bytes)
        stats = b"".join(nested(4, whole(1, place) + whole(4, value)) for place, value in enumerate(told, start=1))
        took_ps = max(0, event.end_ns - event.begin_ns) * 1000
        return nested(4, whole(1, number) + whole(2, begin_ps) + whole(3, took_ps) + stats)

    def _encode(self) -> None:
        """Those that came since, and are among the newest: many a loader has more events than are kept."""
        for one in self._new:
            self._threads.setdefault(one.thread, "training" if one.what in ("wait", "step") else one.what)
            self._events.append((one.thread, self._encoded(one)))
        self._new.clear()

    def _write(self) -> None:
        self._encode()
        lines: dict[int, list[bytes]] = {}
        for thread, event in self._events:
            lines.setdefault(thread, []).append(event)
        at = whole(3, self._begin_ns + self._since_1970_ns)
        plane = whole(1, 1) + text(2, _PLANE)
        for thread, events in lines.items():
            plane += nested(3, whole(1, thread) + text(2, self._threads[thread]) + at + b"".join(events))
        for name, number in self._names.items():
            plane += nested(4, whole(1, number) + nested(2, whole(1, number) + text(2, name)))
        for number, name in enumerate(_STATS, start=1):
            plane += nested(5, whole(1, number) + nested(2, whole(1, number) + text(2, name)))
        write_whole(Path(self.path), nested(1, plane) + text(4, socket.gethostname()))
        self._written_at = time.monotonic()

    def end(self) -> None:
        """Writes what is held."""
        with self._lock:
            self._write()


_SPACES = Shared[ProfileSpace]()


class XProf(SharingExporter[ProfileSpace]):
    """Gives events to the space of the process."""

    def write(self, snapshot: Snapshot, events: list[Event]) -> None:
        """Adds them."""
        self.place.held.add(events)


def open_xprof(target: str) -> Exporter:
    """A folder that TensorBoard or XProf is started with."""
    folder = local_path("xprof", target, "logs")
    return XProf(_SPACES, os.path.abspath(folder), lambda: ProfileSpace(folder))
