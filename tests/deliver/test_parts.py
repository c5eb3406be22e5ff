"""Batches that were made together are apart in the consumer's hands."""

from __future__ import annotations

import time

import numpy as np
import pytest

import penstock as ps
from penstock.runtime.slots import Slots
from support.seams import lowered_of

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


def data() -> ps.Dataset:
    return ps.from_arrays({"x": np.arange(4096.0).reshape(512, 8), "text": [str(i) for i in range(512)]})


@pytest.mark.parametrize("to", ["numpy", "torch"])
@pytest.mark.parametrize("batch_size", [8, 512])
def test_parts_are_the_rows_in_order(to: str, batch_size: int) -> None:
    batches = list(ps.Loader(data().batch(batch_size), to=to))
    assert len(batches) == 512 // batch_size
    assert np.array_equal(np.concatenate([batch["x"] for batch in batches]), np.arange(4096.0).reshape(512, 8))
    assert [text for batch in batches for text in batch["text"].to_pylist()] == [str(i) for i in range(512)]


@pytest.mark.parametrize("to", ["numpy", "torch"])
@pytest.mark.parametrize("batch_size", [8, 512])
def test_a_batch_that_is_dropped_is_gone_at_once(to: str, batch_size: int) -> None:
    """The last batch of those that were made together was the last to keep their memory."""
    with ps.Loader(data().batch(batch_size), to=to, epochs=1) as loader:
        batches = iter(loader)
        for _ in range(512 // batch_size):
            batch = next(batches)
        ring = lowered_of(loader).slots[0]
        ring._take_back()
        assert len(ring._lent) >= 1
        del batch
        assert eventually_free(ring)
        batches.close()


def eventually_free(ring: Slots) -> bool:
    """The thread that made a batch lets go of it a moment after it was handed over."""
    end = time.monotonic() + 60
    while ring._lent and time.monotonic() < end:
        ring._take_back()
    return not ring._lent


def test_a_change_in_place_is_of_one_batch_alone() -> None:
    with ps.Loader(data().batch(8), to="torch") as loader:
        batches = iter(loader)
        first, second = next(batches)["x"], next(batches)["x"]
        batches.close()
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
    weight = torch.ones(8, dtype=first.dtype, requires_grad=True)
    loss = (first * weight).sum()
    second.mul_(2)
    loss.backward()  # autograd kept `first`, which nobody changed
    assert torch.equal(weight.grad, first.sum(0))
