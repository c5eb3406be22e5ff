"""What only a GPU can show: real copies, streams, events and kernels. `make gpu` runs the same, without pytest; elsewhere they are skipped."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
sys.path.append(str(Path(__file__).parents[2] / "benches"))
from gpu_checks import CHECKS  # noqa: E402  # which lies there
from gpu_device import Cuda  # noqa: E402

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS.keys())
@pytest.mark.filterwarnings("default")
def test_it_holds(check: Any) -> None:
    check(Cuda())


def test_cupy_takes_a_batch_without_a_copy() -> None:
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    x = np.repeat(np.arange(256), 100).reshape(256, 100).astype(np.float32)
    with ps.Loader(ps.from_arrays({"x": x}).batch(64), to="torch", device="cuda") as loader:
        batch = next(iter(loader))
        view = cupy.from_dlpack(batch["x"])
        assert view.data.ptr == batch["x"].data_ptr()
        assert float(view[:, 0].sum()) == sum(range(64))
