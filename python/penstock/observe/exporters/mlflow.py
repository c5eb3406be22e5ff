"""observe="mlflow": a loader's figures as metrics of the active MLflow run; "mlflow:RUN_ID" names one."""

from __future__ import annotations

import importlib
from typing import Any

from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.observe.events import Event
from penstock.observe.exporters.protocol import Exporter
from penstock.observe.exporters.shared import SharedThing, SharingExporter
from penstock.observe.exporters.users_run import RUNS, imported, no_run
from penstock.observe.snapshot import Snapshot

#: Metrics that one request may have.
_MOST_METRICS = 1000


class MlflowRun(SharingExporter[SharedThing]):
    """Logs into a run by its id, since what is active is known in the user's thread only."""

    def __init__(self, mlflow: Any, run_id: str) -> None:
        super().__init__(RUNS, f"mlflow {run_id}", SharedThing)
        self._run_id, self._client, self._metric = run_id, mlflow.MlflowClient(), mlflow.entities.Metric

    def write(self, snapshot: Snapshot, events: list[Event]) -> None:
        """Adds the figures at the batches that were taken so far."""
        readings = self.place.readings
        scalars, at_ms = readings.charts(snapshot), int(snapshot.at * 1000)
        metrics = [self._metric(name, value, at_ms, readings.batches) for name, value in scalars.items()]
        for first in range(0, len(metrics), _MOST_METRICS):
            self._client.log_batch(self._run_id, metrics[first : first + _MOST_METRICS])


def open_mlflow(target: str) -> Exporter:
    """The run that is active in this thread, or that the target names."""
    mlflow: Any = imported("mlflow", "mlflow")
    if target:
        mlflow = mlflow or importlib.import_module("mlflow")
        try:
            run = mlflow.get_run(target)
        except Exception as error:
            raise PlanError(
                f"observe={quoted(f'mlflow:{target}')}: {error}; name a run of the store that MLFLOW_TRACKING_URI says"
            ) from error
        return MlflowRun(mlflow, run.info.run_id)
    run = mlflow.active_run() if mlflow is not None else None
    if run is None:
        raise no_run("mlflow", "mlflow.start_run()")
    return MlflowRun(mlflow, run.info.run_id)
