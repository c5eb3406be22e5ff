"""FiveCrop and TenCrop are torchvision v2's, pixel by pixel, in an axis of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torchvision.transforms import v2

import penstock as ps
from penstock.core.columns.spec import Field
from penstock.core.errors import DataError, PlanError, RowError
from penstock.transform import image as I  # noqa: N812
from support.images import encoded, picture, spans

NORMALIZE = I.Normalize(I.IMAGENET)
BOTH = [
    (I.FiveCrop((9, 12)), v2.FiveCrop((9, 12))),
    (I.TenCrop((9, 12)), v2.TenCrop((9, 12))),
    (I.TenCrop((9, 12), vertical_flip=True), v2.TenCrop((9, 12), vertical_flip=True)),
]


def noise(*shape: int) -> Any:
    return np.random.default_rng(shape).integers(0, 256, shape, dtype=np.uint8)


def run(ops: list[Any], rows: Any, threads: int = 1) -> Any:
    kernel = I.fuse(ops, Field(str(rows.dtype), rows.shape[1:]), lambda: (1, 1))
    out = np.empty((len(rows), *kernel.field.shape), kernel.field.numpy_dtype)
    kernel(rows, np.arange(len(rows)), key=1, out=out, threads=threads)
    return out


def by_torchvision(transform: Any, rows: Any) -> Any:
    tensors = torch.from_numpy(np.ascontiguousarray(np.moveaxis(rows, -1, 1)))
    return np.stack([np.stack(transform(one)) for one in tensors])


@pytest.mark.parametrize(("ours", "theirs"), BOTH, ids=lambda one: repr(one).split("\n")[0])
@pytest.mark.parametrize("size", [(9, 12), (10, 13), (17, 33), (64, 12), (224, 223)])
def test_crops_are_torchvisions(ours: Any, theirs: Any, size: tuple[int, int]) -> None:
    rows = noise(3, *size, 3)
    wanted = by_torchvision(theirs, rows)
    assert np.array_equal(run([ours], rows), wanted)
    assert np.array_equal(run([ours, I.ToLayout("NHWC")], rows, threads=4), np.moveaxis(wanted, 2, -1))


@pytest.mark.parametrize(("channels", "dtype"), [(1, "uint8"), (2, "uint8"), (4, "uint8"), (1, "uint16")])
def test_every_mode_goes_along(channels: int, dtype: str) -> None:
    rows = np.random.default_rng(1).integers(0, 256, (2, 20, 21, channels)).astype(dtype) * (
        257 if dtype == "uint16" else 1
    )
    assert np.array_equal(run([I.TenCrop(9)], rows), by_torchvision(v2.TenCrop(9), rows.astype(np.int32)))


@pytest.mark.parametrize("size", [1, (1, 5)])
def test_of_a_row_of_pixels(size: Any) -> None:
    rows = noise(2, 1, 9, 3)
    assert np.array_equal(run([I.TenCrop(size)], rows), by_torchvision(v2.TenCrop(size), rows))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_numbers_follow_as_behind_any_image(layout: Any) -> None:
    rows = noise(2, 30, 40, 3)
    ops = [I.Resize((20, 24)), I.RandomHorizontalFlip(), NORMALIZE, I.ToDtype("float16"), I.ToLayout(layout)]
    crops = run([*ops[:2], I.FiveCrop(12), *ops[2:]], rows)
    whole = run(ops, rows)
    whole = whole if layout == "NHWC" else np.moveaxis(whole, 1, -1)
    found = crops if layout == "NHWC" else np.moveaxis(crops, 2, -1)
    tops, lefts = (0, 0, 8, 8, 4), (0, 12, 0, 12, 6)
    for place, (top, left) in enumerate(zip(tops, lefts, strict=True)):
        assert np.array_equal(found[:, place], whole[:, top : top + 12, left : left + 12])


def test_of_files_on_any_threads_and_ranks(photos: Path) -> None:
    chain = [I.Decode(), I.Resize((40, 40)), I.RandomInvert(), I.TenCrop(32), NORMALIZE]
    plan = ps.read(photos, columns=["image"]).transform(image=chain).batch(4)
    whole = [batch["image"] for batch in ps.Loader(plan, cpus=1)]
    assert whole[0].shape == (4, 10, 3, 32, 32)
    assert all(np.array_equal(one, batch["image"]) for one, batch in zip(whole, ps.Loader(plan, cpus=4), strict=True))
    ranks = [[batch["image"] for batch in ps.Loader(plan, rank=rank, world_size=2)] for rank in range(2)]
    assert all(np.array_equal(one, np.concatenate(both)) for one, *both in zip(whole, *ranks, strict=True))


def test_a_view_and_a_cache_hold_them(photos: Path) -> None:
    chains = {"image": [I.Decode(), I.Resize((20, 20))], "crops": I.From("image", [I.Resize((20, 20)), I.FiveCrop(10)])}
    made = ps.read(photos, columns=["image"]).transform(**chains)
    (plain,), (cached,) = (
        [batch["crops"] for batch in ps.Loader(one.batch(4, steps=1))] for one in (made, made.cache())
    )
    assert plain.shape == (4, 5, 3, 10, 10)
    assert np.array_equal(plain, cached)


@pytest.mark.parametrize(
    "ops",
    [
        [I.FiveCrop(4), I.RandomHorizontalFlip()],
        [I.FiveCrop(4), I.RandomInvert()],
        [I.FiveCrop(4), I.FiveCrop(2)],
        [I.TenCrop(4), NORMALIZE, I.RandomErasing()],
        [NORMALIZE, I.TenCrop(4)],
        [I.RandomApply([I.FiveCrop(4)])],
        [I.FiveCrop(4), I.RandomApply([I.RandomInvert()])],
    ],
)
def test_what_does_not_go_with_them_is_refused(ops: list[Any]) -> None:
    with pytest.raises(PlanError):
        run(ops, noise(1, 8, 8, 3))


@pytest.mark.parametrize("size", [0, -1, (2, 3, 4), "8", 1.5, None])
def test_sizes_that_are_none(size: Any) -> None:
    for kind in (I.FiveCrop, I.TenCrop):
        with pytest.raises(PlanError):
            kind(size)


def test_images_that_are_too_small_are_told() -> None:
    data = encoded(picture(20, 30), "PNG")
    kernel = I.fuse([I.Decode(), I.FiveCrop(24)], Field("bytes"), lambda: (20, 30))
    with pytest.raises(RowError, match="of which crops of 24 × 24 were to be taken"):
        kernel(spans(data), np.arange(1), key=1, out=np.empty((1, 5, 3, 24, 24), np.uint8), threads=1)
    with pytest.raises(DataError, match="resize images before"):
        ps.from_arrays({"x": noise(2, 20, 30, 3)}).transform(x=I.FiveCrop(24)).head(1)
