"""Weights & Biases, MLflow and Trackio: what they have of a run, read by themselves. `make exporters` installs them in an environment of their own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.core.errors import PlanError
from penstock.observe.exporters.opening import open_exporter

TRACKERS = ("wandb", "mlflow", "trackio")
BEGIN = """
import json, sys, threading
from penstock.core.errors import PlanError
from penstock.observe.exporters.opening import open_exporter
from support.snapshots import a_snapshot

def in_its_thread(exporter, **more):
    thread = threading.Thread(target=exporter.write, args=(a_snapshot(**more), []))
    thread.start()
    thread.join()

def records(data):  # LevelDB's log format, behind 7 bytes: blocks of 32 KiB, of pieces with checksum, length and kind (whole, first, middle, last)
    at, held = 7, b""
    while at + 7 <= len(data):
        if (room := 32768 - at % 32768) < 7:
            at += room
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        if kind not in (1, 2, 3, 4):
            return
        held, at = held + data[at + 7 : at + 7 + length], at + 7 + length
        if kind in (1, 4):
            yield held
            held = b""
"""


@pytest.mark.parametrize("name", [one for one in TRACKERS if importlib.util.find_spec(one) is None])
def test_one_that_is_missing(name: str) -> None:
    with pytest.raises(PlanError, match=rf"{name} is missing; install it: pip install {name}"):
        open_exporter(name)


def run(tracker: str, code: str, folder: Path, **environment: str) -> None:
    if importlib.util.find_spec(tracker) is None:
        pytest.skip(f"{tracker} is not installed; `make exporters` runs these tests beside it")
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", BEGIN + code], capture_output=True, text=True, cwd=folder, env=os.environ | paths | environment, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_wandb_has_them_beside_the_steps_of_the_training(tmp_path: Path) -> None:
    code = """
import wandb
try:
    open_exporter("wandb")
except PlanError as error:
    assert "no run is active; call wandb.init() before the loader is made" in str(error), error
run = wandb.init(mode="offline", project="p", dir=".")
exporter = open_exporter("wandb")
for step in range(1, 4):
    in_its_thread(exporter, batches=step * 10)
    in_its_thread(exporter, batches=step * 10 + 1)
    run.log({"loss": 1 / step})
in_its_thread(exporter, batches=99)
exporter.close()
run.finish()

import time
from pathlib import Path
from wandb.proto import wandb_internal_pb2
for _ in range(100):  # what writes the file is a process of W&B's, which finish() does not wait for
    found = [wandb_internal_pb2.Record.FromString(data) for data in records(next(Path("wandb").glob("offline-run-*/*.wandb")).read_bytes())]
    rows = [
        {(one.key or "/".join(one.nested_key)): json.loads(one.value_json) for one in record.history.item}
        for record in found
        if record.WhichOneof("record_type") == "history"
    ]
    if len(rows) == 4:
        break
    time.sleep(0.2)
assert [row["_step"] for row in rows] == [0, 1, 2, 3], rows
assert [row.get("loss") for row in rows] == [1, 1 / 2, 1 / 3, None], rows
assert [row["penstock/batch"] for row in rows] == [11, 21, 31, 99], rows
assert rows[0]["penstock/samples_per_second"] == 2560
assert rows[0]["penstock/stage_busy_ratio/transform 2"] == 0.5
"""
    run("wandb", code, tmp_path, WANDB_SILENT="true", WANDB_MODE="offline")


@pytest.mark.slow
def test_mlflow_has_them_in_the_run_that_is_active(tmp_path: Path) -> None:
    code = """
import mlflow
mlflow.set_tracking_uri("sqlite:///runs.db")
try:
    open_exporter("mlflow")
except PlanError as error:
    assert "no run is active; call mlflow.start_run() before the loader is made" in str(error), error
with mlflow.start_run() as run:
    exporter = open_exporter("mlflow")
    second = open_exporter("mlflow:" + run.info.run_id)
    for batches in (10, 20):
        in_its_thread(exporter, batches=batches)
    in_its_thread(second, batches=5)
    exporter.close()
    second.close()
try:
    open_exporter("mlflow:nothing")
except PlanError as error:
    assert "name a run of the store that MLFLOW_TRACKING_URI says" in str(error), error
client = mlflow.MlflowClient()
found = client.get_metric_history(run.info.run_id, "penstock/samples_per_second")
assert [(one.step, one.value) for one in found] == [(10, 2560), (20, 2560)], found
assert client.get_metric_history(run.info.run_id, "penstock/stage_busy_ratio/map _lambda_")[0].value == 0.5
assert client.get_metric_history(run.info.run_id, "penstock/loader_1/batches_total")[0].value == 5
"""
    run("mlflow", code, tmp_path)


@pytest.mark.slow
def test_trackio_has_them_in_the_run_that_is_active(tmp_path: Path) -> None:
    code = """
import trackio
try:
    open_exporter("trackio")
except PlanError as error:
    assert "no run is active; call trackio.init() before the loader is made" in str(error), error
run = trackio.init(project="p", name="r")
exporter = open_exporter("trackio")
in_its_thread(exporter, batches=1)
for step in range(1, 4):
    trackio.log({"loss": 1 / step})
    in_its_thread(exporter, batches=step * 10)
    in_its_thread(exporter, batches=step * 10 + 1)
exporter.close()
trackio.finish()
from trackio.sqlite_storage import SQLiteStorage
rows = SQLiteStorage.get_logs("p", "r")
ours = [row for row in rows if "penstock/batch" in row]
assert [(row["step"], row["penstock/batch"]) for row in ours] == [(0, 10), (0, 11), (1, 20), (1, 21), (2, 30), (2, 31)], rows
assert ours[0]["penstock/samples_per_second"] == 2560
assert [(row["step"], row["loss"]) for row in rows if "loss" in row] == [(0, 1), (1, 1 / 2), (2, 1 / 3)]
"""
    run("trackio", code, tmp_path, TRACKIO_DIR=str(tmp_path))


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_no_target_is_taken(name: str) -> None:
    with pytest.raises(PlanError, match=rf"{name}:mine.*takes no target"):
        open_exporter(f"{name}:mine")
