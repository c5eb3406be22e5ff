"""What lies along with images stays with the host and goes where the whole chain goes, also where a device does the chain's end: the batches of the CPU, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from deliver.test_device_ops import CHAINS, FLIP, NORMALIZE, UPSIDE_DOWN, both
from support.images import encoded, picture
from support.seams import lowered_of

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

I = ps.image  # noqa: E741
ROWS, SIDE = 12, 48
ALONG = {
    "boxes": [I.Boxes(of="image", labels=("label",)), I.SanitizeBoundingBoxes()],
    "mask": I.Mask(of="image", mode="L"),
    "points": I.KeyPoints(of="image"),
}
CROP = [I.RandomIoUCrop(), I.Resize((32, 32))]


def data() -> ps.Dataset:
    random = np.random.default_rng(4)
    first = [random.uniform(0, 20, (1 + row % 3, 2)) for row in range(ROWS)]
    return ps.from_arrays(
        {
            "image": [encoded(picture(SIDE, SIDE, row), "JPEG") for row in range(ROWS)],
            "boxes": pa.array([np.concatenate([one, one + 20], axis=1).tolist() for one in first]),
            "label": pa.array([list(range(len(one))) for one in first]),
            "mask": [encoded(picture(SIDE, SIDE, row, "L"), "PNG") for row in range(ROWS)],
            "points": random.uniform(0, SIDE, (ROWS, 2, 2)),
        }
    )


@pytest.mark.parametrize("ops", [CHAINS["usual"], CHAINS["erased"], [I.Decode(), *CROP, FLIP, UPSIDE_DOWN, NORMALIZE]])
def test_batches_are_the_cpus(ops: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = both(data().shuffle(seed=3).transform(image=ops, **ALONG).batch(4), monkeypatch)
    with here, there:
        assert lowered_of(there).on_device.startswith("image: Random")
        assert lowered_of(there).on_device in there.explain()
        assert lowered_of(here).on_device == ""
        for _ in range(2):
            for one, other in zip(here, there, strict=True):
                assert one.keys() == other.keys() >= {"boxes", "mask", "points", "label"}
                for name, column in one.items():
                    assert torch.equal(column, other[name]) if torch.is_tensor(column) else column.equals(other[name])
        assert str(here.draws(0, 0)) == str(there.draws(0, 0))


def test_pixels_that_would_go_as_they_are_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but flips and numbers: the host has no chain left that boxes could follow."""
    pixels = np.random.default_rng(0).integers(0, 256, (ROWS, 7, 9, 3), np.uint8)
    points = np.random.default_rng(1).uniform(0, 7, (ROWS, 2, 2))
    plan = ps.from_arrays({"image": pixels, "points": points}).transform(
        image=[FLIP, NORMALIZE], points=I.KeyPoints(of="image")
    )
    here, there = both(plan.batch(4), monkeypatch)
    with here, there:
        assert lowered_of(there).on_device == ""
        for one, other in zip(here, there, strict=True):
            assert all(np.array_equal(one[name], other[name]) for name in one)
