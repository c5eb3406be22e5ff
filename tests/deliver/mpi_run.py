"""One process of `mpirun`: python mpi_run.py FOLDER; writes what its loader found."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

import penstock as ps
from penstock.deliver.launchers import ranks_here

with ps.Loader(ps.from_arrays({"id": np.arange(24)}).shuffle(seed=0).batch(6)) as loader:
    found = {
        "shown": repr(loader),
        "here": ranks_here(loader.rank, loader.world_size),
        "ids": [batch["id"].tolist() for batch in loader],
    }
    (Path(sys.argv[1]) / f"{loader.rank}.json").write_text(json.dumps(found))
