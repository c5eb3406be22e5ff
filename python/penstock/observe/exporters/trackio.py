"""observe="trackio": a loader's figures in the run of Trackio that is active."""

from __future__ import annotations

import sys
from typing import Any

from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.observe.events import Event
from penstock.observe.exporters.protocol import Exporter
from penstock.observe.exporters.shared import SharedThing, SharingExporter
from penstock.observe.exporters.users_run import RUNS, imported, no_run
from penstock.observe.snapshot import Snapshot


class TrackioRun(SharingExporter[SharedThing]):
    """Logs into a run. It is taken when the loader is made, since Trackio knows it in the user's thread only."""

    def __init__(self, run: Any) -> None:
        super().__init__(RUNS, f"trackio {id(run)}", SharedThing)
        self._run = run

    def write(self, snapshot: Snapshot, events: list[Event]) -> None:
        """Adds the figures to the step that the training logged last: one of their own would move the training's. Before its first, there is none."""
        readings = self.place.readings
        scalars = readings.charts(snapshot)
        if next_step := self._run._next_step:  # noqa: SLF001  # no other way to ask
            self._run.log({**scalars, "penstock/batch": readings.batches}, step=next_step - 1)


def open_trackio(target: str) -> Exporter:
    """The active run."""
    if target:
        raise PlanError(
            f"observe={quoted(f'trackio:{target}')}: it logs into the active run, and takes no target; write 'trackio', and name project and run in trackio.init()"
        )
    trackio = imported("trackio", "trackio")
    run = None if trackio is None else sys.modules["trackio.context_vars"].current_run.get()
    if run is None:
        raise no_run("trackio", "trackio.init()")
    return TrackioRun(run)
