"""What an exporter is: `observe=["NAME:TARGET"]` opens the one of that name."""

from __future__ import annotations

from typing import Protocol

from penstock.observe.events import Event
from penstock.observe.snapshot import Snapshot


class Exporter(Protocol):
    """Takes a loader's snapshots, in a thread of its own: it may be slow or fail, and training never waits for it."""

    def write(self, snapshot: Snapshot, events: list[Event]) -> None:
        """The figures now, and what happened since the last call, in the order of its ends."""

    def close(self) -> None:
        """Writes what it holds; called once, after the last `write`."""
