"""Exporters of loaders that run: what is written is what the loader says, and whatever breaks, every batch comes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.observe import reporter
from penstock.observe.run_file import each_snapshot
from servers.free_port import free_port

ROWS = ps.from_arrays({"x": np.arange(640)}).batch(10)


def took(loader: ps.Loader) -> int:
    return sum(int(batch["x"].sum()) for batch in loader)


def test_files_hold_what_the_loader_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter, "_ENDS_S", 60.0)  # a loaded machine gives nothing up
    names = [f"jsonl:{tmp_path}/run.jsonl", f"trace:{tmp_path}/run.json", f"tensorboard:{tmp_path}/tb", f"xprof:{tmp_path}/logs", f"emf:{tmp_path}/emf.log", f"prometheus:{tmp_path}/x.prom"]  # fmt: skip
    with ps.Loader(ROWS, observe=names) as loader:
        for _ in range(2):
            assert took(loader) == 640 * 639 // 2
        stats = loader.stats()
    last = list(each_snapshot(tmp_path / "run.jsonl"))[-1]
    assert last["batches"] == stats.batches == 128
    assert last["samples"] >= 1280
    assert {one["state"] for one in last["exporters"].values()} == {"running"}
    assert last["loader"]["pid"] == os.getpid()
    slices = [one for one in json.loads((tmp_path / "run.json").read_text())["traceEvents"] if one["ph"] == "X"]
    assert {"wait", "step", "deliver"} <= {one["name"] for one in slices}
    assert sum(one["args"]["steps"] for one in slices if one["name"] == "deliver") >= 64
    assert f'penstock_batches_total{{loader="0",rank="0"}} {stats.batches}.0' in (tmp_path / "x.prom").read_text()
    assert len((tmp_path / "emf.log").read_text().splitlines()) > 3
    assert list(tmp_path.glob("tb/events.out.tfevents.*"))
    assert list(tmp_path.glob("logs/plugins/profile/*/*.xplane.pb"))


def test_what_cannot_be_is_said_when_the_loader_is_made(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(ps.PlanError, match="cannot be served"):
            ps.Loader(ROWS, observe=[f"prometheus:{other.getsockname()[1]}"])
    (tmp_path / "file").touch()
    with pytest.raises(ps.PlanError, match="name a place on this machine that can be written"):
        ps.Loader(ROWS, observe=[f"tensorboard:{tmp_path}/file"])
    with pytest.raises(ps.PlanError, match="did you mean 'jsonl'"):
        ps.Loader(ROWS, observe=["json:run"])


def test_training_and_validation_share_a_port(tmp_path: Path) -> None:
    port = free_port()
    name = f"prometheus:{port}"
    with ps.Loader(ROWS, observe=[name]) as train, ps.Loader(ROWS, observe=[name]) as validation:
        assert took(train) == took(validation)
        assert took(train) > 0
        answers = [urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30).status for _ in range(3)]
    assert answers == [200] * 3
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30)


FULL = """
import resource, signal, sys
import numpy as np
import penstock as ps
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
data = ps.from_arrays({"x": np.arange(640)}).batch(10)
with ps.Loader(data, observe=sys.argv[1:]) as loader:
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
    for _ in range(4):
        assert sum(int(batch["x"].sum()) for batch in loader) == 640 * 639 // 2
    figures = loader.stats().exporters
print(sorted({(name.split(":")[0], one["failures"] > 0) for name, one in figures.items()}))
"""


@pytest.mark.slow
def test_a_disk_that_is_full_costs_figures_and_no_batch(tmp_path: Path) -> None:
    """A limit of the size of files stands for the disk."""
    names = [f"jsonl:{tmp_path}/run.jsonl", f"trace:{tmp_path}/run.json", f"tensorboard:{tmp_path}/tb", f"emf:{tmp_path}/emf.log"]  # fmt: skip
    paths = {"PYTHONPATH": os.pathsep.join(sys.path), "XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", FULL, *names], capture_output=True, text=True, env=os.environ | paths, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(list(each_snapshot(tmp_path / "run.jsonl"))) <= 1
    json.loads((tmp_path / "run.json").read_text())


def test_one_that_raises_and_one_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another package's exporters, which the loader does not wait for but at its end, and there not for long."""
    go_on = threading.Event()

    class Raises:
        def write(self, snapshot: object, events: object) -> None:
            raise RuntimeError("no more room")

        def close(self) -> None:
            raise RuntimeError("neither")

    class Hangs(Raises):
        def write(self, snapshot: object, events: object) -> None:
            go_on.wait(60)

    try:
        with ps.Loader(ROWS, observe=[Raises(), Hangs()]) as loader:
            for _ in range(3):
                assert took(loader) == 640 * 639 // 2
        assert all(one["written"] == 0 for one in loader.stats().exporters.values())
    finally:
        go_on.set()
