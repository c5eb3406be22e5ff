"""The image kernel against Pillow, NumPy and torchvision's documented sampling."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from PIL import Image

from penstock.core.columns.spec import Field, Spans
from penstock.core.errors import PlanError, RowError
from penstock.core.limits import Limits
from penstock.transform import image
from penstock.transform.image import (
    IMAGENET,
    CenterCrop,
    Decode,
    ImageKernel,
    Normalize,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomVerticalFlip,
    Resize,
    ToDtype,
    ToLayout,
)
from support.images import as_pillow, encoded, picture, spans

BYTES = Field("bytes")
NHWC = ToLayout("NHWC")


def never() -> tuple[int, int]:
    raise AssertionError("the size of the first picture was asked for")


def run(kernel: ImageKernel, column: object, rows: int, *, key: int = 1, threads: int = 2) -> npt.NDArray[np.generic]:
    out = np.empty((rows, *kernel.field.shape), kernel.field.numpy_dtype)
    kernel(column, np.arange(rows), key=key, out=out, threads=threads)
    return out


def dense(ops: list[image.ImageOp], pixels: npt.NDArray[np.uint8], *, key: int = 1) -> npt.NDArray[np.generic]:
    kernel = image.fuse(ops, Field("uint8", pixels.shape[1:]), never)
    return run(kernel, pixels, len(pixels), key=key)


def decoded(data: bytes, **options: bool) -> npt.NDArray[np.generic]:
    ops = [Decode(**options), NHWC]
    return run(image.fuse(ops, BYTES, lambda: image.image_size(data, ops)), spans(data), 1)[0]


def differ(one: npt.NDArray[np.generic], other: npt.NDArray[np.generic]) -> int:
    return int(np.abs(one.astype(np.int64) - other.astype(np.int64)).max())


def resized(source: Image.Image, size: tuple[int, int], pillow: int) -> npt.NDArray[np.uint8]:
    """Pillow's resize, columns first: since version 13 it begins with the rows where they become far fewer."""
    columns = source.resize((size[1], source.height), Image.Resampling(pillow))
    return np.asarray(columns.resize(size[::-1], Image.Resampling(pillow)))


class TestResize:
    FILTERS = (("nearest", 0, 0), ("bilinear", 2, 1), ("bicubic", 3, 0))
    SIZES = ((224, 224), (100, 333), (700, 900), (13, 17), (400, 224), (1, 1), (401, 499))

    @pytest.mark.parametrize(("name", "pillow", "tolerance"), FILTERS)
    @pytest.mark.parametrize("size", SIZES)
    def test_equals_pillow(self, name: str, pillow: int, tolerance: int, size: tuple[int, int]) -> None:
        source = picture(500, 400)
        got = dense([Resize(size, name), NHWC], np.asarray(source)[None])[0]
        assert differ(got, resized(source, size, pillow)) <= tolerance

    @pytest.mark.parametrize(("name", "pillow", "tolerance"), FILTERS)
    def test_hard_edges_equal_pillow(self, name: str, pillow: int, tolerance: int) -> None:
        random = np.random.default_rng(3)
        source = (random.integers(0, 2, (97, 131, 3)) * 255).astype(np.uint8)
        for size in itertools.product((31, 97, 96, 180, 7), (131, 250, 64, 3)):
            expected = resized(Image.fromarray(source), size, pillow)
            assert differ(dense([Resize(size, name), NHWC], source[None])[0], expected) <= tolerance

    @pytest.mark.parametrize(
        ("size", "max_size", "before", "after"),
        [
            (256, None, (400, 500), (256, 320)),
            (256, None, (500, 400), (320, 256)),
            (100, 120, (400, 500), (96, 120)),
            (224, None, (333, 500), (224, 336)),
            ((10, 20), None, (333, 500), (10, 20)),
            ([64], None, (100, 100), (64, 64)),
        ],
    )
    def test_sizes_are_torchvisions(
        self, size: int, max_size: int | None, before: tuple[int, int], after: tuple[int, int]
    ) -> None:
        kernel = image.fuse([Resize(size, max_size=max_size)], Field("uint8", (*before, 3)), never)
        assert kernel.field == Field("uint8", (3, *after))

    def test_without_antialias_is_plain_interpolation(self) -> None:
        source = np.asarray(picture(60, 40))
        place = np.clip((np.arange(10) + 0.5) * 4 - 0.5, 0, None)
        low = place.astype(int)
        share = (place - low)[:, None, None]
        rows = source[low] * (1 - share) + source[np.minimum(low + 1, 39)] * share
        got = dense([Resize((10, 60), antialias=False), NHWC], source[None])[0]
        assert np.abs(got.astype(float) - rows).max() <= 1

    def test_window_is_cut_from_the_resized_picture(self) -> None:
        source = np.asarray(picture(211, 307))
        whole = dense([Resize(128), NHWC], source[None])[0]
        top, left = round((whole.shape[0] - 112) / 2), round((whole.shape[1] - 112) / 2)
        window = dense([Resize(128), CenterCrop(112), NHWC], source[None])[0]
        assert np.array_equal(window, whole[top : top + 112, left : left + 112])

    def test_a_second_resize_works_on_the_first_ones_pixels(self) -> None:
        source = picture(211, 307)
        expected = resized(Image.fromarray(resized(source, (90, 100), 3)), (50, 224), 3)
        got = dense([Resize((90, 100), "bicubic"), Resize((50, 224), "bicubic"), NHWC], np.asarray(source)[None])[0]
        assert np.array_equal(got, expected)

    def test_an_intermediate_picture_stays_within_the_limit(self) -> None:
        ops = [Resize((60_000, 60_000)), Resize((8, 8))]
        with pytest.raises(ValueError, match="above the limit"):
            image.fuse(ops, Field("uint8", (4, 4, 3)), never)


class TestCenterCrop:
    @pytest.mark.parametrize("size", [(20, 30), (41, 30), (20, 64), (50, 71), (37, 53), (36, 52)])
    def test_equals_torchvisions_rules(self, size: tuple[int, int]) -> None:
        source = np.asarray(picture(53, 37))
        height, width = size
        top, left = max(height - 37, 0) // 2, max(width - 53, 0) // 2
        bottom, right = (max(height - 37, 0) + 1) // 2, (max(width - 53, 0) + 1) // 2
        padded = np.pad(source, ((top, bottom), (left, right), (0, 0)))
        y, x = round((padded.shape[0] - height) / 2), round((padded.shape[1] - width) / 2)
        assert np.array_equal(dense([CenterCrop(size), NHWC], source[None])[0], padded[y : y + height, x : x + width])

    def test_padding_after_a_crop_shows_nothing_of_the_rest(self) -> None:
        source = np.full((1, 40, 40, 3), 255, np.uint8)
        got = dense([CenterCrop(10), CenterCrop(20), NHWC], source)[0]
        assert got.sum() == 10 * 10 * 3 * 255

    def test_padding_is_zero_before_normalising(self) -> None:
        got = dense([CenterCrop(8), Normalize(IMAGENET)], np.full((1, 2, 2, 3), 255, np.uint8))[0]
        assert np.allclose(got[:, 0, 0], -np.array(IMAGENET.mean) / np.array(IMAGENET.std), rtol=1e-6)


class TestFlips:
    @pytest.mark.parametrize(("op", "axis"), [(RandomHorizontalFlip(1), 2), (RandomVerticalFlip(1), 1)])
    def test_always(self, op: image.ImageOp, axis: int) -> None:
        source = np.asarray(picture(53, 37))[None]
        assert np.array_equal(dense([op, NHWC], source), np.flip(source, axis))
        assert np.array_equal(dense([op, op, NHWC], source), source)

    def test_before_and_after_a_resize_and_crop(self) -> None:
        source = picture(53, 37)
        mirrored = source.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        expected = np.asarray(mirrored.resize((30, 20), Image.Resampling.BICUBIC))
        for flips in ([0, 1], [0], [1], []):
            ops = [RandomHorizontalFlip(1), Resize((20, 30), "bicubic"), *[RandomVerticalFlip(1)] * len(flips)]
            turned = expected[::-1] if len(flips) % 2 else expected
            got = dense([*ops, CenterCrop((11, 14)), NHWC], np.asarray(source)[None])[0]
            assert np.array_equal(got, turned[4:15, 8:22])

    def test_padding_is_mirrored_too(self) -> None:
        source = np.asarray(picture(5, 3))[None]
        expected = np.flip(dense([CenterCrop(10), NHWC], source), 2)
        assert np.array_equal(dense([CenterCrop(10), RandomHorizontalFlip(1), NHWC], source), expected)

    def test_about_p_are_flipped(self) -> None:
        source = np.zeros((4_000, 1, 2, 1), np.uint8)
        source[:, :, 0] = 1
        flipped = dense([RandomHorizontalFlip(0.3), NHWC], source)[:, 0, 1, 0].mean()
        assert abs(flipped - 0.3) < 0.03


class TestGrayscale:
    def test_equals_pillow(self) -> None:
        source = picture(53, 37)
        grey = np.asarray(source.convert("L").convert("RGB"))
        pixels = np.asarray(source)[None]
        assert np.array_equal(dense([RandomGrayscale(1), NHWC], pixels)[0], grey)
        assert np.array_equal(dense([RandomGrayscale(0), NHWC], pixels), pixels)
        assert np.array_equal(dense([RandomGrayscale(1), RandomGrayscale(1), NHWC], pixels)[0], grey)

    def test_before_and_after_a_resize_and_crop(self) -> None:
        source = picture(53, 37)
        size, bicubic = (30, 20), Image.Resampling.BICUBIC
        before = np.asarray(source.convert("L").convert("RGB").resize(size, bicubic))
        after = np.asarray(source.resize(size, bicubic).convert("L").convert("RGB"))
        resize = Resize((20, 30), "bicubic")
        for ops, expected in (([RandomGrayscale(1), resize], before), ([resize, RandomGrayscale(1)], after)):
            got = dense([*ops, RandomVerticalFlip(1), CenterCrop((11, 40)), NHWC], np.asarray(source)[None])[0]
            assert np.array_equal(got[:, 5:35], expected[::-1][4:15])
            assert not got[:, :5].any()

    def test_one_channel_stays(self) -> None:
        source = np.asarray(picture(9, 7).convert("L"))[None, :, :, None]
        assert np.array_equal(dense([RandomGrayscale(1), NHWC], source), source)

    def test_about_p_are_grey(self) -> None:
        source = np.zeros((4_000, 1, 1, 3), np.uint8)
        source[..., 0] = 255
        assert abs((dense([RandomGrayscale(0.3), NHWC], source)[:, 0, 0, 1] > 0).mean() - 0.3) < 0.03


class TestRandomResizedCrop:
    """A picture whose pixels are their own places shows which part was taken."""

    def parts(self, width: int, height: int, rows: int, **options: object) -> npt.NDArray[np.float64]:
        places = np.stack(np.broadcast_arrays(np.arange(width), np.arange(height)[:, None], 0), -1).astype(np.uint8)
        size = 32
        ops = [RandomResizedCrop(size, interpolation="nearest", **options), NHWC]
        got = dense(ops, np.broadcast_to(places, (rows, *places.shape)).copy()).astype(float)
        x, y = got[:, 0, :, 0], got[:, :, 0, 1]
        step = size / (size - 1)
        across, down = (x[:, -1] - x[:, 0]) * step, (y[:, -1] - y[:, 0]) * step
        return np.stack([x[:, 0] - across / size / 2, y[:, 0] - down / size / 2, across, down], -1)

    @pytest.mark.slow
    def test_areas_and_ratios_follow_the_documented_distribution(self) -> None:
        x, y, width, height = self.parts(250, 200, 4_000).T
        share, ratio = width * height / (250 * 200), width / height
        assert x.min() >= -1 and y.min() >= -1 and (x + width).max() <= 252 and (y + height).max() <= 202  # noqa: PT018
        assert share.min() > 0.06 and ratio.min() > 0.7 and ratio.max() < 1.42  # noqa: PT018
        expected = reference_parts(250, 200, 4_000)
        for quantile in (0.1, 0.25, 0.5, 0.75, 0.9):
            for got, wanted in zip((x, y, width, height), expected, strict=True):
                assert abs(np.quantile(got, quantile) - np.quantile(wanted, quantile)) < 10

    def test_falls_back_to_the_middle(self) -> None:
        x, y, width, height = self.parts(250, 10, 50, scale=(1, 1)).T
        assert np.allclose([x.mean(), y.mean()], [(250 - 13) // 2, 0], atol=1)
        assert np.allclose([width.mean(), height.mean()], [13, 10], atol=1)

    def test_is_decided_by_key_and_sample_id_alone(self) -> None:
        source = spans(*[encoded(picture(60, 50, seed), "JPEG") for seed in range(12)])
        kernel = image.fuse([Decode(), RandomResizedCrop(16), RandomHorizontalFlip()], BYTES, never)
        one = run(kernel, source, 12, threads=1)
        assert np.array_equal(one, run(kernel, source, 12, threads=3))
        assert not np.array_equal(one, run(kernel, source, 12, key=2))
        part = np.empty_like(one[:5])
        kernel(
            Spans(source.buffers, *(c[4:9] for c in (source.which, source.offset, source.length))),
            np.arange(4, 9),
            key=1,
            out=part,
            threads=2,
        )
        assert np.array_equal(part, one[4:9])


def reference_parts(width: int, height: int, rows: int) -> list[npt.NDArray[np.float64]]:
    """torchvision's `RandomResizedCrop.make_params`, in NumPy."""
    random = np.random.default_rng(5)
    parts = []
    for _ in range(rows):
        for _ in range(10):
            area = width * height * random.uniform(0.08, 1)
            aspect = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
            w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if 0 < w <= width and 0 < h <= height:
                parts.append((random.integers(0, width - w + 1), random.integers(0, height - h + 1), w, h))
                break
    return list(np.array(parts, float).T)


class TestNumbers:
    PIXELS = np.asarray(picture(37, 29))[None]

    def test_normalize_scales_bytes_first(self) -> None:
        x = self.PIXELS.astype(np.float64) / 255
        expected = ((x - IMAGENET.mean) / IMAGENET.std).transpose(0, 3, 1, 2)
        assert np.allclose(dense([Normalize(IMAGENET)], self.PIXELS), expected, rtol=0, atol=1e-6)

    @pytest.mark.parametrize("scale", [False, True])
    def test_to_dtype(self, scale: bool) -> None:
        x = self.PIXELS.astype(np.float32) * np.float32(1 / 255 if scale else 1)
        for dtype, kind in (("float32", np.float32), ("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16)):
            got = dense([ToDtype(dtype, scale), NHWC], self.PIXELS)
            got = got.view(kind) if dtype == "bfloat16" else got
            assert np.array_equal(got, x.astype(kind))

    def test_chains_of_numbers_compose(self) -> None:
        mean, std = (0.5,) * 3, (0.25,) * 3
        x = self.PIXELS.astype(np.float64)
        scaled = dense([ToDtype("float32", scale=True), Normalize(mean, std), NHWC], self.PIXELS)
        raw = dense([ToDtype("float32"), Normalize(mean, std), NHWC], self.PIXELS)
        half = dense([Normalize(mean, std), ToDtype("float16"), NHWC], self.PIXELS)
        assert np.allclose(scaled, (x / 255 - 0.5) / 0.25, atol=1e-5)
        assert np.allclose(raw, (x - 0.5) / 0.25, atol=1e-3)
        assert half.dtype == np.float16 and np.allclose(half, (x / 255 - 0.5) / 0.25, atol=2e-3)  # noqa: PT018
        back = dense([ToDtype("float32", scale=True), ToDtype("uint8", scale=True), NHWC], self.PIXELS)
        assert np.array_equal(back, self.PIXELS)

    @pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "bfloat16"])
    def test_layouts_hold_the_same_numbers(self, dtype: str) -> None:
        nhwc = dense([ToDtype(dtype, scale=True), NHWC], self.PIXELS)
        assert np.array_equal(nhwc.transpose(0, 3, 1, 2), dense([ToDtype(dtype, scale=True)], self.PIXELS))

    def test_one_channel(self) -> None:
        grey = self.PIXELS[..., :1].copy()
        got = dense([Resize((29, 37)), Normalize((0.5,), (0.5,))], grey)
        assert got.shape == (1, 1, 29, 37)
        assert np.allclose(got[0, 0], grey[0, :, :, 0] / 127.5 - 1, atol=1e-6)


class TestPlan:
    def test_ops_are_plain_values(self) -> None:
        ops = [
            Decode(),
            RandomResizedCrop(224),
            Resize([1, 2]),
            CenterCrop(3),
            Normalize(IMAGENET),
            ToDtype(np.float16),
        ]
        described = json.loads(json.dumps([dataclasses.asdict(op) for op in ops]))
        assert described[1]["size"] == [224, 224] and described[5]["dtype"] == "float16"  # noqa: PT018
        assert Normalize(IMAGENET) == Normalize(IMAGENET.mean, IMAGENET.std)
        assert hash(Resize([1, 2])) == hash(Resize((1, 2)))

    @pytest.mark.parametrize(
        ("ops", "source", "hint"),
        [
            ([Normalize(IMAGENET)], BYTES, r"begin the chain with Decode\(\)"),
            ([], BYTES, r"begin the chain with Decode\(\)"),
            ([Decode(), Decode()], BYTES, "put it first"),
            ([Decode()], Field("uint8", (4, 4, 3)), "only for bytes"),
            ([Decode(), Normalize(IMAGENET), CenterCrop(3)], BYTES, "put it before"),
            ([Decode(), ToDtype("float32"), RandomHorizontalFlip()], BYTES, "put it before"),
            ([Decode(), Normalize(IMAGENET), ToDtype("uint8")], BYTES, "leave it out"),
            ([Normalize(IMAGENET)], Field("uint8", (4, 4, 1)), "1 channels"),
            ([Resize(3)], Field("float32", (4, 4, 3)), "give bytes, or uint8"),
            ([Resize(3)], Field("uint8", (3, 4, 4)), "move the channels"),
            ([Decode(), "Resize"], BYTES, r"map\(\)"),
        ],
    )
    def test_wrong_chains_are_refused_at_once(self, ops: list[image.ImageOp], source: Field, hint: str) -> None:
        with pytest.raises(PlanError, match=hint):
            image.fuse(ops, source, never)

    @pytest.mark.parametrize(
        "make",
        [
            lambda: RandomResizedCrop(0),
            lambda: RandomResizedCrop((1, 2, 3)),
            lambda: RandomResizedCrop(224, scale=(1, 0.5)),
            lambda: RandomResizedCrop(224, scale=0.5),  # type: ignore[arg-type]
            lambda: RandomResizedCrop(224, interpolation="lanczos"),
            lambda: Resize(100, max_size=100),
            lambda: Resize((100, 100), max_size=200),
            lambda: Resize(-1),
            lambda: CenterCrop(1.5),
            lambda: RandomHorizontalFlip(1.5),
            lambda: Normalize((0.5,)),
            lambda: Normalize((0.5,) * 5, (0.5,) * 5),
            lambda: Normalize((0.5, 0.5), (0.5,) * 3),
            lambda: Normalize((0.5,), (0.0,)),
            lambda: ToDtype("int64"),
            lambda: ToLayout("CHWN"),
        ],
    )
    def test_wrong_arguments_are_refused_at_once(self, make: object) -> None:
        with pytest.raises(PlanError, match="give"):
            make()

    def test_sizes_of_numpy_are_plain_numbers(self) -> None:
        assert Resize(np.int64(9), max_size=20) == Resize(9, max_size=20)  # type: ignore[arg-type]
        assert repr(CenterCrop([np.int32(4), 5])) == "CenterCrop(size=(4, 5))"  # type: ignore[arg-type]

    def test_size_follows_from_the_first_picture_where_nothing_fixes_it(self) -> None:
        data, other = encoded(picture(50, 40), "PNG"), encoded(picture(40, 50), "PNG")
        kernel = image.fuse([Decode(), Resize(20)], BYTES, lambda: image.image_size(data, []))
        assert kernel.field == Field("uint8", (3, 20, 25))
        with pytest.raises(
            RowError, match=r"40 × 50 pixels.*becomes 20 × 25.*batch of 25 × 20.*RandomResizedCrop"
        ) as caught:
            run(kernel, spans(data, data, other), 3)
        assert caught.value.row == 2


class TestColumns:
    def test_arrow_and_spans_give_the_same(self) -> None:
        records = [encoded(picture(30, 20, seed), "PNG") for seed in range(5)]
        kernel = image.fuse([Decode(), CenterCrop(16), NHWC], BYTES, never)
        expected = run(kernel, spans(*records), 5)
        for kind in (pa.binary(), pa.large_binary()):
            column = pa.array([b"before", *records], kind).slice(1)
            assert np.array_equal(run(kernel, column, 5), expected)
        with pytest.raises(RowError, match="null"):
            run(kernel, pa.array([records[0], None]), 2)

    def test_lowest_bad_row_is_reported(self) -> None:
        good = encoded(picture(30, 20), "JPEG")
        kernel = image.fuse([Decode(), CenterCrop(16)], BYTES, never)
        records = [good] * 40
        for row in (7, 23, 39):
            records[row] = b"damaged"
        for _ in range(5):
            with pytest.raises(RowError) as caught:
                run(kernel, spans(*records), 40, threads=3)
            assert caught.value.row == 7

    def test_all_bad_rows_are_named_and_the_others_made(self) -> None:
        kernel = image.fuse([Decode(), CenterCrop(16)], BYTES, never)
        good = [encoded(picture(30, 20, seed=row), "JPEG") for row in range(40)]
        wanted = run(kernel, spans(*good), 40)
        bad = [b"damaged" if row in (7, 23, 39) else record for row, record in enumerate(good)]
        out = np.empty_like(wanted)
        with pytest.raises(RowError) as caught:
            kernel(spans(*bad), np.arange(40), key=0, out=out, threads=3, every_row=True)
        assert [error.row for error in caught.value.every] == [7, 23, 39]
        assert caught.value.row == 7
        others = [row for row in range(40) if row not in (7, 23, 39)]
        assert (out[others] == wanted[others]).all()

    def test_output_must_fit(self) -> None:
        kernel = image.fuse([Decode(), CenterCrop(16)], BYTES, never)
        data = spans(encoded(picture(30, 20), "PNG"))
        for out in (np.empty((2, 3, 16, 16), np.uint8), np.empty((1, 3, 16, 16), np.float32)):
            with pytest.raises(ValueError, match="a row"):
                kernel(data, np.arange(1), key=0, out=out, threads=1)
        with pytest.raises(ValueError, match="contiguous"):
            kernel(data, np.arange(1), key=0, out=np.empty((16, 16, 3, 1), np.uint8).T, threads=1)
        assert run(kernel, spans(), 0).shape == (0, 3, 16, 16)


class TestLimits:
    def test_pictures_above_the_limit(self) -> None:
        kernel = image.fuse([Decode(), CenterCrop(4)], BYTES, never, limits=Limits(pixels=99))
        with pytest.raises(RowError, match="limit of 99"):
            run(kernel, spans(encoded(picture(10, 10), "PNG")), 1)


def test_decoded_equals_pillow() -> None:
    data = encoded(picture(61, 43), "JPEG", quality=92)
    assert np.array_equal(decoded(data), as_pillow(data))
