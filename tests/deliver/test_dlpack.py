"""Batches by DLPack, as CuPy, Numba and RAPIDS take them: no copy, and memory that lives as long as who looks at it."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import penstock as ps

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

ROWS, COLUMNS = 512, 64


def data() -> ps.Dataset:
    ids = np.arange(ROWS * 8)
    return ps.from_arrays({"x": np.repeat(ids, COLUMNS).reshape(-1, COLUMNS).astype(np.float32)}).batch(ROWS)


@pytest.mark.parametrize("to", ["numpy", "torch"])
def test_both_ways_without_a_copy(to: str) -> None:
    for batch in ps.Loader(data(), to=to):  # type: ignore[arg-type]
        column = batch["x"]
        assert column.__dlpack_device__()[0] == 1
        as_torch, as_numpy = torch.from_dlpack(column), np.from_dlpack(column)
        address = column.data_ptr() if to == "torch" else column.ctypes.data
        assert as_torch.data_ptr() == as_numpy.ctypes.data == address


def test_memory_is_not_used_again_while_another_library_looks_at_it() -> None:
    kept = [np.from_dlpack(batch["x"]) for _ in range(3) for batch in ps.Loader(data(), to="torch", prefetch=1)]
    gc.collect()
    for number, view in enumerate(kept):
        first = number % 8 * ROWS
        assert np.array_equal(view[:, 5], np.arange(first, first + ROWS))
