"""observe="wandb": a loader's figures in the run of Weights & Biases that is active. They come with the step that the training logs next, and make none of their own."""

from __future__ import annotations

from typing import Any

from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.observe.events import Event
from penstock.observe.exporters.protocol import Exporter
from penstock.observe.exporters.shared import SharedThing, SharingExporter
from penstock.observe.exporters.users_run import RUNS, imported, no_run
from penstock.observe.snapshot import Snapshot


class WandbRun(SharingExporter[SharedThing]):
    """Logs into a run."""

    def __init__(self, run: Any) -> None:
        super().__init__(RUNS, f"wandb {run.id}", SharedThing)
        self._run = run

    def write(self, snapshot: Snapshot, events: list[Event]) -> None:
        """Adds the figures to the step that is made up now: a step of their own would move the training's."""
        readings = self.place.readings
        scalars = readings.charts(snapshot)
        self._run.log({**scalars, "penstock/batch": readings.batches}, commit=False)


def open_wandb(target: str) -> Exporter:
    """The active run."""
    if target:
        raise PlanError(
            f"observe={quoted(f'wandb:{target}')}: it logs into the active run, and takes no target; write 'wandb', and name project and run in wandb.init()"
        )
    run = getattr(imported("wandb", "wandb"), "run", None)
    if run is None:
        raise no_run("wandb", "wandb.init()")
    return WandbRun(run)
