"""Decode(fast=True): its distance from the exact path, and that everything else about it is the same."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable
from functools import cache
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from penstock.core.columns.spec import Field
from penstock.core.errors import RowError
from penstock.transform import image
from penstock.transform.image import (
    CenterCrop,
    Decode,
    ImageOp,
    Normalize,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomVerticalFlip,
    Resize,
    ToDtype,
    ToLayout,
)
from support.images import encoded, picture, spans
from support.tries import some, tries

SAMPLINGS = {"4:4:4": 0, "4:2:2": 1, "4:2:0": 2}


@pytest.fixture(scope="module")
def photographs() -> list[Image.Image]:
    """Natural photographs of 400 to 640 pixels."""
    data = pytest.importorskip("skimage.data")
    samples = pytest.importorskip("sklearn.datasets")
    arrays = [getattr(data, name)() for name in ("astronaut", "chelsea", "coffee", "rocket")]
    arrays += [samples.load_sample_image(name) for name in ("china.jpg", "flower.jpg")]
    return [Image.fromarray(array) for array in arrays]


@pytest.fixture(scope="module")
def jpegs(photographs: list[Image.Image]) -> Callable[[int, int], list[bytes]]:
    """The photographs as files of a sampling and a quality, each encoded once."""
    return cache(
        lambda sampling, quality: [
            encoded(photograph, "JPEG", quality=quality, subsampling=sampling) for photograph in photographs
        ]
    )


def run(ops: list[ImageOp], *records: bytes, fast: bool, key: int = 1, threads: int = 2) -> npt.NDArray[Any]:
    chain: list[ImageOp] = [Decode(fast=fast), *ops]
    kernel = image.fuse(chain, Field("bytes"), lambda: image.image_size(records[0], chain))
    out = np.empty((len(records), *kernel.field.shape), kernel.field.numpy_dtype)
    kernel(spans(*records), np.arange(len(records)), key=key, out=out, threads=threads)
    return out


def distance(ops: list[ImageOp], *records: bytes) -> npt.NDArray[np.int64]:
    exact, fast = (run(ops, *records, fast=mode).astype(np.int64) for mode in (False, True))
    return cast("npt.NDArray[np.int64]", np.abs(exact - fast))


# mean, 99.9th percentile: the bounds that Decode's docstring states.
CHAINS: dict[str, tuple[list[ImageOp], float, float]] = {
    "RandomResizedCrop": ([RandomResizedCrop(224), RandomHorizontalFlip()], 0.5, 8),
    "bicubic": ([RandomResizedCrop(224, interpolation="bicubic")], 0.5, 8),
    "without antialias": ([Resize((224, 224), antialias=False)], 0.5, 8),
    "enlarged": ([Resize((700, 900))], 0.5, 8),
    "by 2": ([CenterCrop(400), Resize((200, 200))], 1.5, 20),
    "by 2, bicubic": ([CenterCrop(400), Resize((200, 200), interpolation="bicubic")], 1.5, 20),
    "by 3 to 6": ([Resize((100, 100))], 1.5, 20),
    "by 10 to 20": ([Resize((30, 30))], 1.5, 20),
}


@pytest.mark.slow
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("chain", CHAINS)
def test_error_is_within_the_stated_bounds(jpegs: Callable[[int, int], list[bytes]], chain: str, sampling: str) -> None:
    ops, mean, percentile = CHAINS[chain]
    for quality in (75, 90, 97):
        records = jpegs(SAMPLINGS[sampling], quality)
        levels = distance(
            ops, *records * (3 if chain.startswith(("Random", "bicubic")) else 1)
        )  # each draws a crop of its own
        found = float(levels.mean()), float(np.percentile(levels, 99.9))
        print(f"{chain}, {sampling}, q {quality}: mean {found[0]:.3f}, 99.9 % {found[1]:g}, most {levels.max()}")
        assert found[0] <= mean
        assert found[1] <= percentile


def test_it_is_another_path(photographs: list[Image.Image]) -> None:
    assert distance([Resize((64, 64))], encoded(photographs[0], "JPEG")).max() > 0


@pytest.mark.parametrize("sampling", [0, 1, 2])
def test_smooth_pictures_are_the_same_at_all_sizes(sampling: int) -> None:
    # A gradient has nothing for a filter to blur: any misplaced sample shows as a slope's worth of levels.
    for width, height in itertools.product((1, 2, 3, 7, 8, 15, 16, 17, 33, 67), repeat=2):
        y, x = np.mgrid[:height, :width]
        pixels = np.stack([60 + 2 * x, 70 + 2 * y, 200 - x - y], axis=2).astype(np.uint8)
        data = encoded(Image.fromarray(pixels), "JPEG", quality=100, subsampling=sampling)
        for size in ((5, 9), (24, 16)):
            assert distance([Resize(size)], data).max() <= 6, (width, height, size)


def test_regions_at_all_borders(photographs: list[Image.Image]) -> None:
    data = encoded(photographs[1], "JPEG", quality=90, subsampling=2)
    crop = RandomResizedCrop(48, scale=(0.001, 0.05), ratio=(0.3, 3))
    levels = distance([crop], *[data] * 500)
    assert levels.mean() <= 0.5
    assert np.percentile(levels, 99.9) <= 8


@pytest.mark.parametrize("flips", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_windows_and_flips_are_those_of_the_exact_path(photographs: list[Image.Image], flips: tuple[int, int]) -> None:
    record = encoded(photographs[2], "JPEG", quality=92, subsampling=2)
    turns: list[ImageOp] = [RandomHorizontalFlip(flips[0]), RandomVerticalFlip(flips[1])]
    for ops in (
        [*turns, Resize((60, 90))],
        [Resize((150, 200)), *turns, CenterCrop((100, 75))],
        [Resize(80), CenterCrop(150), *turns],
        [*turns, Resize(230), CenterCrop(224), *turns, Resize((50, 60))],
    ):
        levels = distance(ops, record)
        assert levels.mean() <= 1.5
        assert np.percentile(levels, 99.9) <= 20


def test_a_window_has_the_bits_of_the_whole(photographs: list[Image.Image]) -> None:
    record = encoded(photographs[3], "JPEG", quality=85, subsampling=2)
    whole = run([Resize((150, 201))], record, fast=True)
    part = run([Resize((150, 201)), CenterCrop((50, 31))], record, fast=True)
    np.testing.assert_array_equal(part, whole[:, :, 50:100, 85:116])


def test_numbers_and_layouts_follow_from_the_bytes(photographs: list[Image.Image]) -> None:
    records = [encoded(photograph, "JPEG") for photograph in photographs]
    plain = run([RandomResizedCrop(64)], *records, fast=True)
    floats = run([RandomResizedCrop(64), ToDtype("float32", scale=True), ToLayout("NHWC")], *records, fast=True)
    np.testing.assert_allclose(floats, plain.transpose(0, 2, 3, 1) / 255, atol=1e-6)
    normal = run([RandomResizedCrop(64), Normalize((0.5,), (0.25,))], *records, fast=True)
    np.testing.assert_allclose(normal, (plain / 255 - 0.5) / 0.25, atol=1e-5)


def test_results_do_not_depend_on_threads_or_calls(photographs: list[Image.Image]) -> None:
    records = [encoded(photograph, "JPEG") for photograph in photographs] * 3
    ops: list[ImageOp] = [RandomResizedCrop(96), RandomHorizontalFlip()]
    first = run(ops, *records, fast=True, threads=1)
    for threads in (1, 2):
        np.testing.assert_array_equal(run(ops, *records, fast=True, threads=threads), first)


@pytest.mark.parametrize(
    "record",
    [
        encoded(picture(90, 70, mode="L"), "JPEG"),
        encoded(picture(90, 70), "JPEG", progressive=True),
        encoded(picture(90, 70, mode="CMYK"), "JPEG"),
        encoded(picture(90, 70), "PNG"),
        encoded(picture(90, 70), "WEBP"),
    ],
    ids=["grey", "progressive", "CMYK", "PNG", "WebP"],
)
def test_everything_else_is_exact(record: bytes) -> None:
    assert distance([Resize((40, 50))], record).max() == 0


def test_nothing_to_resize_is_exact() -> None:
    record = encoded(picture(90, 70), "JPEG")
    assert distance([CenterCrop(40), RandomHorizontalFlip(1)], record).max() == 0
    assert distance([Resize((40, 40), interpolation="nearest")], record).max() == 0


def test_damage_is_an_error_or_another_picture() -> None:
    good = encoded(picture(70, 50), "JPEG", quality=85)
    random = np.random.default_rng(3)
    told, count = 0, tries(4_000)
    for _ in range(count):
        data = bytearray(good)
        for place in random.integers(2, len(data), 1 + int(random.integers(4))):
            data[place] = random.integers(256)
        try:
            assert run([Resize((33, 20))], bytes(data), fast=True).shape == (1, 3, 33, 20)
        except (RowError, ValueError) as error:
            assert len(str(error)) > 20, f"an error that says little: {error}"  # noqa: PT017
            told += 1
    assert 0 < told < count


def test_what_is_cut_short_is_an_error() -> None:
    buffer = io.BytesIO()
    picture(70, 50).save(buffer, "JPEG", quality=85)
    for end in some(range(2, len(buffer.getvalue()) * 9 // 10)):
        with pytest.raises((RowError, ValueError)):
            run([Resize((33, 20))], buffer.getvalue()[:end], fast=True)
