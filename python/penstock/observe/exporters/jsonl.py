"""observe="jsonl:run.jsonl": a line a snapshot, which `penstock report run.jsonl` shows. Several loaders and ranks may write one file."""

from __future__ import annotations

import os

from penstock.core.errors import PlanError
from penstock.observe.events import Event
from penstock.observe.exporters.files import AppendedFile, local_path
from penstock.observe.exporters.protocol import Exporter
from penstock.observe.run_file import BEGINNING, run_line
from penstock.observe.snapshot import Snapshot

#: A line is searched for its beginning in pieces of so many bytes.
_PIECE = 1 << 16


class JsonLines:
    """Adds to a file. What was cut off in it when a process was killed is removed first."""

    def __init__(self, path: str) -> None:
        self._file = AppendedFile("jsonl", path)
        try:
            with self._file.locked() as handle:
                _make_whole(handle, path)
        except BaseException:
            self._file.close()
            raise

    def write(self, snapshot: Snapshot, events: list[Event]) -> None:
        """Adds a line."""
        self._file.append(run_line(snapshot))

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def _make_whole(handle: int, path: str) -> None:
    """Cuts off what follows the last line break. PlanError if the file is none of ours."""
    size = os.fstat(handle).st_size
    begins = os.pread(handle, len(BEGINNING), 0)
    if begins != BEGINNING[: len(begins)]:
        raise PlanError(
            f"observe='jsonl': {path} holds something else; name a file that is not there, or one that observe='jsonl:FILE' wrote"
        )
    end = size
    while end > 0:
        start = max(0, end - _PIECE)
        if (found := os.pread(handle, end - start, start).rfind(b"\n")) >= 0:
            end = start + found + 1
            break
        end = start
    if end < size:
        os.ftruncate(handle, end)


def open_jsonl(target: str) -> Exporter:
    """A file that is written as snapshots come."""
    return JsonLines(local_path("jsonl", target, "run.jsonl"))
