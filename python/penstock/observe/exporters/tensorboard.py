"""observe="tensorboard:runs/x": scalars in a folder that TensorBoard shows, without TensorBoard.

Events are tensorflow/core/util/event.proto in TFRecord frames (tensorflow/core/lib/io/record_writer.h).
"""

from __future__ import annotations

import itertools
import os
import socket
import struct
import time

import numpy as np

from penstock.core.kernels import crc32c_sums
from penstock.observe.events import Event
from penstock.observe.exporters.files import AppendedFile, local_path, usable_folder
from penstock.observe.exporters.protobuf import double, float32, nested, text, whole
from penstock.observe.exporters.protocol import Exporter
from penstock.observe.exporters.shared import Shared, SharedThing, SharingExporter
from penstock.observe.snapshot import Snapshot

_count = itertools.count()


class EventFile(SharedThing):
    """A file of events of this process, which TensorBoard finds by its name."""

    def __init__(self, folder: str) -> None:
        usable_folder("tensorboard", folder)
        host, number = socket.gethostname(), next(_count)
        name = f"events.out.tfevents.{int(time.time()):010d}.{host}.{os.getpid()}.{number}.penstock"
        self._file = AppendedFile("tensorboard", os.path.join(folder, name))
        self._file.append(framed(double(1, time.time()) + text(3, "brain.Event:2")))

    def add(self, at: float, step: int, scalars: dict[str, float]) -> None:
        """Adds scalars of one moment."""
        values = b"".join(nested(1, text(1, tag) + float32(2, value)) for tag, value in scalars.items())
        self._file.append(framed(double(1, at) + whole(2, step) + nested(5, values)))

    def end(self) -> None:
        """Closes it."""
        self._file.close()


_FILES = Shared[EventFile]()


class TensorBoard(SharingExporter[EventFile]):
    """Writes scalars over the batches that a loader has given. Of a second loader of the process, their names begin with penstock/loader_1."""

    def write(self, snapshot: Snapshot, events: list[Event]) -> None:
        """Adds the scalars of a snapshot."""
        readings = self.place.readings
        scalars = readings.charts(snapshot)
        self.place.held.add(snapshot.at, readings.batches, scalars)


def framed(content: bytes) -> bytes:
    """A TFRecord of some bytes."""
    length = struct.pack("<Q", len(content))
    return length + _masked(length) + content + _masked(content)


def _masked(content: bytes) -> bytes:
    one = np.zeros(1, np.int64), np.array([len(content)], np.int64)
    checksum = int(crc32c_sums(np.frombuffer(content, np.uint8), *one, 1)[0])
    return struct.pack("<I", ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def open_tensorboard(target: str) -> Exporter:
    """A folder of events."""
    folder = local_path("tensorboard", target, "runs/first")
    return TensorBoard(_FILES, os.path.abspath(folder), lambda: EventFile(folder))
