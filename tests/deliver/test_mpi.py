"""A real `mpirun`, of Open MPI or MPICH, where the machine has one: PATH=…/bin pytest tests/deliver/test_mpi.py."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import penstock as ps

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SCRIPT = Path(__file__).with_name("mpi_run.py")


def test_ranks_of_mpirun(tmp_path: Path) -> None:
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        pytest.skip("mpirun is not installed")
    is_open = (
        "Open MPI" in subprocess.run([mpirun, "--version"], capture_output=True, check=True, encoding="utf-8").stdout
    )
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    subprocess.run(
        [mpirun, *(["--oversubscribe"] if is_open else []), "-n", "2", sys.executable, str(SCRIPT), str(tmp_path)],
        check=True,
        capture_output=True,
        env={**os.environ, **(allowed if is_open else {})},
    )
    found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    origin = "Open MPI" if is_open else "MPICH or Intel MPI"
    dataset = ps.from_arrays({"id": np.arange(24)}).shuffle(seed=0).batch(6)
    for rank, one in enumerate(found):
        assert f"rank {rank} of 2 ({origin}): " in one["shown"]
        assert one["here"] == [0, 2]
        with ps.Loader(dataset, rank=rank, world_size=2) as loader:
            assert one["ids"] == [loader.sample_ids(0, step).tolist() for step in range(4)]
