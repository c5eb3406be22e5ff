"""Ranges that a tool of NVTX hears, without a GPU: a small one of C takes the place of Nsight."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from penstock.core.errors import PlanError
from penstock.observe.exporters.opening import open_exporter
from penstock.observe.torch_profiler import OTHER_RANGES, profiled

pytest.importorskip("nvtx")
LISTENER = Path(__file__).parent / "nvtx_listener.c"
READS = """
import os
import numpy as np
import penstock as ps
from penstock.observe.exporters.opening import open_exporter
exporter = open_exporter("nvtx")
data = ps.from_arrays({"x": np.arange(40)}).map(lambda batch: {"x": batch["x"] + 1}).batch(10)
with ps.Loader(data) as loader:
    assert sum(1 for _ in loader) == 4
exporter.close()
heard = os.path.getsize(os.environ["NVTX_LISTENER"])
with ps.Loader(data) as loader:
    assert sum(1 for _ in loader) == 4
assert os.path.getsize(os.environ["NVTX_LISTENER"]) == heard > 0
"""


@pytest.fixture(scope="module")
def listener(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if (compiler := shutil.which("cc")) is None:
        pytest.skip("there is no C compiler")
    made = tmp_path_factory.mktemp("nvtx") / "listener.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-Wall", "-Werror", "-o", made, LISTENER], check=True)
    return made


@pytest.mark.slow
def test_a_tool_hears_of_each_stage_in_its_thread(listener: Path, tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    environment = {"NVTX_INJECTION64_PATH": str(listener), "NVTX_LISTENER": str(heard), "PYTHONPATH": os.pathsep.join(sys.path)}  # fmt: skip
    subprocess.run([sys.executable, "-c", READS], check=True, env=os.environ | environment)
    lines = [
        line.removeprefix("push ").rsplit(" ", 1) for line in heard.read_text().splitlines() if line.startswith("push ")
    ]
    names = Counter(name.removeprefix("penstock ") for name, _ in lines)
    assert all(name.startswith("penstock ") for name, _ in lines)
    assert names["map <lambda>"] >= names["deliver"] >= 1
    assert names["next batch"] >= 1
    assert len({thread for _, thread in lines}) > 2
    pushed, popped = (
        sum(line.startswith(what) for line in heard.read_text().splitlines()) for what in ("push ", "pop ")
    )
    assert pushed == popped


def test_ranges_are_opened_while_a_loader_asks_for_them() -> None:
    assert OTHER_RANGES == []
    first, second = open_exporter("nvtx"), open_exporter("nvtx")
    assert len(OTHER_RANGES) == 1
    with pytest.raises(ZeroDivisionError), profiled("read"):
        1 / 0  # noqa: B018
    first.close()
    assert len(OTHER_RANGES) == 1
    second.close()
    assert OTHER_RANGES == []


def test_it_takes_no_target() -> None:
    with pytest.raises(PlanError, match="write 'nvtx', and run under nsys profile"):
        open_exporter("nvtx:file")
