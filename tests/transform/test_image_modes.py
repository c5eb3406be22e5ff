"""Decode(mode=…): pixels of every mode against Pillow and torchvision, what ops make of them, and what RGB loses."""

from __future__ import annotations

import io
import itertools
import struct
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import torchvision.transforms.v2.functional as torchvision
from PIL import Image
from torchvision import transforms as v1
from torchvision.datasets import ImageFolder
from torchvision.transforms import InterpolationMode

import penstock as ps
import penstock.torch
from penstock.core import kernels
from penstock.core.columns.spec import Field
from penstock.core.errors import DataError, PlanError, RowError
from penstock.core.limits import Limits
from penstock.torch.recognised import recognise
from penstock.transform import image
from penstock.transform.image import Decode, ImageOp, Normalize, Resize, ToDtype, ToLayout
from support import tars, tfrecords
from support.images import encoded, picture, spans
from transform.test_image_decode import FILES, SIZE, chunk, sixteen_bit

NHWC = ToLayout("NHWC")
CHANNELS = {"RGB": 3, "L": 1, "LA": 2, "RGBA": 4, "I16": 1, "P": 1}
DEPTH = np.random.default_rng(5).integers(0, 65_536, (31, 23)).astype(np.uint16)
MASK = np.random.default_rng(6).integers(0, 21, (31, 23)).astype(np.uint8)


def made(data: bytes, mode: Any, *ops: ImageOp, key: int = 1, **options: Any) -> npt.NDArray[Any]:
    """A file through a chain, channels last."""
    chain = [Decode(mode, **options), *ops, NHWC]
    kernel = image.fuse(chain, Field("bytes"), lambda: image.image_size(data, chain))
    out = np.empty((1, *kernel.field.shape), kernel.field.numpy_dtype)
    kernel(spans(data), np.arange(1), key=key, out=out, threads=1)
    return out[0]


def depth_map() -> bytes:
    return encoded(Image.fromarray(DEPTH), "PNG")


def mask(indices: npt.NDArray[np.uint8] = MASK, **options: Any) -> bytes:
    made = Image.fromarray(indices, "P")
    made.putpalette(list(np.random.default_rng(7).integers(0, 256, 768)))
    return encoded(made, "PNG", **options)


def palette_png(indices: npt.NDArray[np.uint8], bits: int, *, interlaced: bool) -> bytes:
    """A PNG with a palette, as Pillow writes none: packed, and in the seven passes of Adam7."""
    palette = bytes(range(3 << bits)) if bits < 8 else bytes(768)
    return packed_png(indices, bits, colour=3, extra=chunk(b"PLTE", palette), interlaced=interlaced)


def animated(data: bytes, *, is_apart: bool) -> bytes:
    """A PNG with two frames of nothing behind its image, which is the first frame unless it stands apart."""
    width, height, bits = struct.unpack(">IIB", data[16:25])
    begin, end = data.index(b"IDAT") - 4, data.index(b"IEND") - 4
    nothing = zlib.compress(bytes((1 + width * bits // 8) * height))
    numbers = itertools.count()

    def frame(image: bytes) -> bytes:
        control = chunk(b"fcTL", struct.pack(">IIIIIHHBB", next(numbers), width, height, 0, 0, 1, 9, 0, 0))
        return control + (image or chunk(b"fdAT", struct.pack(">I", next(numbers)) + nothing))

    image = data[begin:end] if is_apart else frame(data[begin:end])
    count = chunk(b"acTL", struct.pack(">II", 2 if is_apart else 3, 0))
    return b"".join([data[:begin], count, image, frame(b""), frame(b""), data[end:]])


def packed_png(
    numbers: npt.NDArray[np.uint8], bits: int, *, colour: int = 0, extra: bytes = b"", interlaced: bool = False
) -> bytes:
    """A PNG of one number a pixel, of 1 to 8 bits: grey unless `colour` says otherwise."""
    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    rows = b""
    for x, y, dx, dy in passes if interlaced else [(0, 0, 1, 1)]:
        for row in numbers[y::dy, x::dx]:
            if len(row):
                spread = (row[:, None] >> np.arange(bits - 1, -1, -1)) & 1
                rows += b"\0" + np.packbits(spread.astype(np.uint8)).tobytes()
    height, width = numbers.shape
    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, int(interlaced))
    chunks = chunk(b"IHDR", header), extra, chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")
    return b"".join([b"\x89PNG\r\n\x1a\n", *chunks])


class TestPixels:
    @pytest.mark.parametrize("mode", ["RGB", "L", "LA", "RGBA"])
    @pytest.mark.parametrize("name", [name for name in FILES if "16" not in name])
    def test_every_file_is_what_pillow_converts_it_to(self, name: str, mode: str) -> None:
        data, tolerance = FILES[name]
        expected = np.asarray(Image.open(io.BytesIO(data)).convert(mode)).reshape(*SIZE[::-1], -1).astype(int)
        got = made(data, mode)
        assert got.dtype == np.uint8
        if mode in ("LA", "RGBA"):
            assert np.array_equal(got[..., -1], expected[..., -1])
            got, expected = (pixels * (expected[..., -1:] > 0) for pixels in (got, expected))
        assert np.abs(got.astype(int) - expected).max() <= tolerance

    def test_luma_of_16_bit_files_is_that_of_their_rgb(self) -> None:
        for kind in ("L", "LA", "RGB", "RGBA"):
            data = sixteen_bit(kind)
            rgb = Image.fromarray(made(data, "RGB"))
            assert np.array_equal(made(data, "L")[..., 0], np.asarray(rgb.convert("L"))), kind

    def test_a_depth_map_keeps_all_its_values(self) -> None:
        got = made(depth_map(), "I16")
        assert got.dtype == np.uint16
        assert np.array_equal(got[..., 0], DEPTH)

    def test_8_bits_keep_their_numbers_as_16(self) -> None:
        grey = picture(*SIZE, mode="L")
        for kind in ("PNG", "JPEG", "BMP"):
            data = encoded(grey, kind)
            assert np.array_equal(made(data, "I16"), made(data, "L")), kind

    def test_colours_of_16_bits_become_their_luma(self) -> None:
        values = np.random.default_rng(1).integers(0, 65_536, (29, 37, 3)).astype(">u2")
        values.reshape(29, -1)[:, ::3] //= 256
        red, green, blue = values.astype(np.int64).transpose(2, 0, 1)
        luma = (19_595 * red + 38_470 * green + 7_471 * blue + 0x8000) >> 16
        assert np.array_equal(made(sixteen_bit("RGB"), "I16")[..., 0], luma)

    def test_a_mask_keeps_its_indices(self) -> None:
        got = made(mask(), "P")
        assert got.dtype == np.uint8
        assert np.array_equal(got[..., 0], MASK)
        assert np.array_equal(made(mask(transparency=3), "P")[..., 0], MASK)

    @pytest.mark.parametrize("interlaced", [False, True])
    @pytest.mark.parametrize("bits", [1, 2, 4, 8])
    @pytest.mark.parametrize("width", [1, 5, 16, 23])
    def test_packed_and_interlaced_masks(self, bits: int, interlaced: bool, width: int) -> None:
        indices = np.random.default_rng(bits).integers(0, 1 << bits, (11, width)).astype(np.uint8)
        assert np.array_equal(made(palette_png(indices, bits, interlaced=interlaced), "P")[..., 0], indices)

    @pytest.mark.parametrize("interlaced", [False, True])
    @pytest.mark.parametrize("bits", [1, 2, 4])
    @pytest.mark.parametrize("width", [1, 5, 23])
    def test_packed_grey_is_scaled_to_8_bits_as_pillow_does(self, bits: int, interlaced: bool, width: int) -> None:
        numbers = np.random.default_rng(bits).integers(0, 1 << bits, (11, width)).astype(np.uint8)
        data = packed_png(numbers, bits, interlaced=interlaced)
        scaled = numbers * (255 // ((1 << bits) - 1))
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(data)).convert("L")), scaled)
        assert kernels.image_mode(data) == "L"
        for mode in ("L", "I16", "RGB"):
            got = made(data, mode)
            assert got.dtype == (np.uint16 if mode == "I16" else np.uint8)
            assert np.array_equal(got, scaled[..., None].repeat(CHANNELS[mode], 2)), mode

    @pytest.mark.parametrize("is_apart", [False, True])
    @pytest.mark.parametrize("mode", list(CHANNELS))
    def test_of_an_animated_png_the_first_frame(self, mode: str, is_apart: bool) -> None:
        first = depth_map() if mode == "I16" else mask()
        data = animated(first, is_apart=is_apart)
        assert getattr(Image.open(io.BytesIO(data)), "is_animated", False)
        assert np.array_equal(made(data, mode), made(first, mode))

    @pytest.mark.parametrize("colours", [2, 3, 13, 200])
    @pytest.mark.parametrize("kind", ["PNG", "GIF", "BMP"])
    def test_indices_are_those_that_pillow_reads(self, kind: str, colours: int) -> None:
        data = encoded(picture(*SIZE).quantize(colours), kind)
        opened = Image.open(io.BytesIO(data))
        assert opened.mode == "P"
        assert np.array_equal(made(data, "P")[..., 0], np.asarray(opened))

    def test_a_small_gif_frame_lies_among_the_transparent_index(self) -> None:
        whole = encoded(picture(10, 8).quantize(9), "GIF", transparency=5)
        at = whole.index(b",\0\0\0\0\x0a\0\x08\0")
        data = whole[:6] + struct.pack("<HH", 14, 12) + whole[10 : at + 1] + struct.pack("<HH", 3, 2) + whole[at + 5 :]
        opened = Image.open(io.BytesIO(data))
        assert opened.size == (14, 12)
        assert np.array_equal(made(data, "P")[..., 0], np.asarray(opened))

    def test_a_bilevel_bmp_gives_its_indices(self) -> None:
        bilevel = picture(*SIZE, mode="L").convert("1")
        assert np.array_equal(made(encoded(bilevel, "BMP"), "P")[..., 0], np.asarray(bilevel).astype(np.uint8))

    @pytest.mark.parametrize("orientation", range(1, 9))
    @pytest.mark.parametrize("mode", list(CHANNELS))
    def test_exif_turns_every_mode(self, mode: str, orientation: int) -> None:
        exif = Image.Exif()
        exif[0x0112] = orientation
        source = (
            Image.fromarray(DEPTH) if mode == "I16" else picture(*SIZE).quantize(9) if mode == "P" else picture(*SIZE)
        )
        plain = made(encoded(source, "PNG"), mode)
        turn: list[Callable[[Any], Any]] = [
            lambda a: a,
            lambda a: a[:, ::-1],
            lambda a: a[::-1, ::-1],
            lambda a: a[::-1],
            lambda a: a.transpose(1, 0, 2),
            lambda a: a.transpose(1, 0, 2)[:, ::-1],
            lambda a: a[::-1, ::-1].transpose(1, 0, 2),
            lambda a: a.transpose(1, 0, 2)[::-1],
        ]
        got = made(encoded(source, "PNG", exif=exif), mode, apply_exif=True)
        assert np.array_equal(got, turn[orientation - 1](plain))


class TestOps:
    @pytest.mark.parametrize("mode", list(CHANNELS))
    def test_crops_and_flips_move_pixels_as_they_are(self, mode: str) -> None:
        data = depth_map() if mode == "I16" else mask()
        whole = made(data, mode)
        ops = [image.CenterCrop((20, 30)), image.RandomHorizontalFlip(1.0), image.RandomVerticalFlip(1.0)]
        padded = np.pad(whole[6:26], ((0, 0), (3, 4), (0, 0)))
        assert np.array_equal(made(data, mode, *ops), padded[::-1, ::-1])

    @pytest.mark.parametrize("mode", list(CHANNELS))
    @pytest.mark.parametrize("size", [(40, 50), (7, 9), (31, 11), (60, 23)])
    def test_nearest_is_pillows_and_nearest_exact_torchvisions(self, mode: str, size: tuple[int, int]) -> None:
        data = depth_map() if mode == "I16" else mask()
        whole = made(data, mode)
        expected = [np.asarray(Image.fromarray(whole[..., c]).resize(size[::-1], 0)) for c in range(whole.shape[2])]
        assert np.array_equal(made(data, mode, Resize(size, "nearest")), np.stack(expected, 2))
        tensor = torch.from_numpy(whole.astype(np.int32).transpose(2, 0, 1).astype(np.float32))
        exact = torchvision.resize(tensor, list(size), InterpolationMode.NEAREST_EXACT).numpy().transpose(1, 2, 0)
        assert np.array_equal(made(data, mode, Resize(size, "nearest-exact")), exact)

    def test_nearest_exact_is_torchvisions_at_many_sizes(self) -> None:
        pixels = np.arange(97, dtype=np.uint8)[None, :, None].repeat(2, 0)
        for width in range(1, 300, 7):
            kernel = image.fuse([Resize((2, width), "nearest-exact"), NHWC], Field("uint8", (2, 97, 1)), lambda: (0, 0))
            out = np.empty((1, *kernel.field.shape), np.uint8)
            kernel(pixels[None], np.arange(1), key=1, out=out, threads=1)
            tensor = torch.from_numpy(pixels.transpose(2, 0, 1))
            expected = torchvision.resize(tensor, [2, width], InterpolationMode.NEAREST_EXACT).numpy()
            assert np.array_equal(out[0].transpose(2, 0, 1), expected), width

    @pytest.mark.parametrize("mode", ["L", "LA", "RGBA"])
    @pytest.mark.parametrize("filter", ["bilinear", "bicubic"])
    def test_every_channel_is_resized_as_grey_is(self, mode: str, filter: Any) -> None:
        alpha = picture(*SIZE, mode="RGBA")
        alpha.putalpha(picture(*SIZE, seed=2, mode="L"))
        data = encoded(alpha, "PNG")
        whole, got = made(data, mode), made(data, mode, Resize((40, 20), filter))
        for channel in range(CHANNELS[mode]):
            alone = encoded(Image.fromarray(whole[..., channel]), "PNG")
            assert np.array_equal(got[..., channel], made(alone, "RGB", Resize((40, 20), filter))[..., 0])

    @pytest.mark.parametrize("size", [(40, 50), (7, 9), (31, 11), (60, 23)])
    @pytest.mark.parametrize(("filter", "pillow"), [("bilinear", 2), ("bicubic", 3)])
    def test_depth_is_resized_as_pillow_does_16_bits(self, filter: Any, pillow: int, size: tuple[int, int]) -> None:
        source = Image.fromarray(DEPTH)
        columns = source.resize((size[1], source.height), Image.Resampling(pillow))
        expected = np.asarray(columns.resize(size[::-1], Image.Resampling(pillow))).astype(int)
        got = made(depth_map(), "I16", Resize(size, filter)).astype(int)[..., 0]
        assert np.abs(got - expected).max() <= 1
        flips = [image.RandomHorizontalFlip(1.0), image.RandomVerticalFlip(1.0)]
        flipped = made(depth_map(), "I16", *flips, Resize(size, filter), *flips).astype(int)[..., 0]
        assert np.abs(flipped - expected).max() <= 1

    def test_a_part_of_a_depth_map_is_that_of_the_whole(self) -> None:
        whole = made(depth_map(), "I16", Resize((40, 50)))
        part = made(depth_map(), "I16", Resize((40, 50)), image.CenterCrop((20, 30)))
        assert np.array_equal(part, whole[10:30, 10:40])
        again = made(depth_map(), "I16", Resize((40, 50)), Resize((9, 8)))
        assert np.array_equal(again, made(encoded(Image.fromarray(whole[..., 0]), "PNG"), "I16", Resize((9, 8))))

    def test_numbers_of_16_bits(self) -> None:
        for dtype in ("float32", "float16"):
            got = made(depth_map(), "I16", ToDtype(dtype, scale=True))[..., 0]
            assert np.allclose(got, DEPTH / 65_535, atol=1e-7 if dtype == "float32" else 1e-3)
        assert np.array_equal(made(depth_map(), "I16", ToDtype("float32"))[..., 0], DEPTH.astype(np.float32))
        normal = made(depth_map(), "I16", Normalize(0.5, 0.25))[..., 0]
        assert np.allclose(normal, (DEPTH / 65_535 - 0.5) / 0.25, atol=1e-6)
        metres = made(depth_map(), "I16", ToDtype("float32"), Normalize(0.0, 1_000.0))[..., 0]
        assert np.allclose(metres, DEPTH / 1_000, rtol=1e-6)
        same = made(depth_map(), "I16", ToDtype("float32", scale=True), ToDtype("uint16", scale=True))
        assert np.array_equal(same[..., 0], DEPTH)

    @pytest.mark.parametrize("mode", ["L", "LA", "RGBA"])
    @pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
    def test_means_by_channel(self, mode: Any, layout: Any) -> None:
        data, channels = encoded(picture(*SIZE, mode="RGBA"), "PNG"), CHANNELS[mode]
        means, stds = (0.1, 0.2, 0.3, 0.4)[:channels], (0.5, 0.6, 0.7, 0.8)[:channels]
        ops = [Decode(mode), Normalize(means, stds), ToLayout(layout)]
        kernel = image.fuse(ops, Field("bytes"), lambda: SIZE[::-1])
        out = np.empty((1, *kernel.field.shape), np.float32)
        kernel(spans(data), np.arange(1), key=1, out=out, threads=1)
        got = out[0] if layout == "NHWC" else out[0].transpose(1, 2, 0)
        assert np.allclose(got, (made(data, mode) / 255 - means) / stds, atol=1e-6)

    @pytest.mark.parametrize(
        ("ops", "hint"),
        [
            ([Decode("P"), Resize(8)], 'interpolation="nearest"'),
            ([Decode("P"), image.RandomResizedCrop(8)], 'interpolation="nearest"'),
            ([Decode("P"), Normalize(0.5, 0.5)], "no mean"),
            ([Decode("P"), image.RandomGrayscale()], "leave it out"),
            ([Decode("I16"), image.RandomGrayscale()], "leave it out"),
            ([Decode("RGBA"), image.RandomGrayscale()], "leave it out"),
            ([Decode("L"), Normalize(image.IMAGENET)], "1 channels"),
            ([Decode("RGBA"), Normalize(image.IMAGENET)], "4 channels"),
            ([Decode("I16"), ToDtype("uint8")], 'Decode\\(mode="L"\\)'),
            ([Decode("L"), ToDtype("uint16")], 'Decode\\(mode="I16"\\)'),
            ([Decode("I16"), ToDtype("float32"), Resize(8)], "put it before"),
        ],
    )
    def test_ops_that_make_no_sense_are_refused_before_anything_runs(self, ops: list[ImageOp], hint: str) -> None:
        with pytest.raises(PlanError, match=hint):
            image.fuse(ops, Field("bytes"), lambda: (8, 8))

    def test_an_unknown_mode_is_refused_with_those_there_are(self) -> None:
        for mode in ("GRAY", "rgb", True, None, 3):
            with pytest.raises(PlanError, match='"I16"'):
                Decode(mode)  # type: ignore[arg-type]

    def test_the_mode_that_is_written_changes_no_plan(self) -> None:
        assert Decode() == Decode(mode="RGB")
        assert hash(Decode()) == hash(Decode("RGB"))


class TestErrors:
    @pytest.mark.parametrize(
        ("data", "found"),
        [
            (encoded(picture(9, 9, mode="L"), "PNG"), "a grey PNG image, which has no palette"),
            (encoded(picture(9, 9), "PNG"), "an RGB PNG image"),
            (encoded(picture(9, 9), "JPEG"), "an RGB JPEG image"),
            (encoded(picture(9, 9), "BMP"), "an RGB BMP image"),
            (depth_map(), "a 16-bit grey PNG image"),
        ],
    )
    def test_what_has_no_palette_is_named(self, data: bytes, found: str) -> None:
        with pytest.raises(RowError, match=found) as error:
            made(data, "P")
        assert 'mode="L"' in str(error.value)

    @pytest.mark.parametrize("kind", ["PNG", "GIF", "BMP"])
    def test_a_cut_mask_is_an_error_or_whole(self, kind: str) -> None:
        data = encoded(picture(19, 13).quantize(14), kind)
        whole = made(data, "P")
        for length in range(len(data)):
            try:
                got = made(data[:length], "P")
            except (RowError, ValueError):
                continue
            assert length > len(data) - 20 and np.array_equal(got, whole), length  # noqa: PT018

    @pytest.mark.parametrize("mode", list(CHANNELS))
    def test_limits_hold(self, mode: Any) -> None:
        for data in (mask(), encoded(picture(23, 31).quantize(9), "GIF"), encoded(picture(23, 31).quantize(9), "BMP")):
            for limits in (Limits(pixels=23 * 31 - 1), Limits(image_bytes=23 * 31 - 1)):
                kernel = image.fuse([Decode(mode)], Field("bytes"), lambda: (31, 23), limits=limits)
                out = np.empty((1, *kernel.field.shape), kernel.field.numpy_dtype)
                with pytest.raises(RowError, match="limit"):
                    kernel(spans(data), np.arange(1), key=1, out=out, threads=1)


def folder(tmp_path: Path, **files: bytes) -> ps.Dataset:
    """A dataset of files, one batch of all of them."""
    (tmp_path / "files").mkdir()
    for name, data in files.items():
        (tmp_path / "files" / f"{name}.png").write_bytes(data)
    return ps.read(tmp_path / "files", columns=["image"])


def loaded(dataset: ps.Dataset, *ops: ImageOp, **options: Any) -> npt.NDArray[Any]:
    """The images of a dataset, in its order."""
    loader = ps.Loader(dataset.transform(image=list(ops)).batch(1), **options)
    return np.concatenate([np.asarray(batch["image"]) for batch in loader])


class TestUnchanged:
    @pytest.mark.parametrize(
        ("data", "shape", "dtype"),
        [
            (encoded(picture(9, 8, mode="L"), "PNG"), (1, 8, 9), "uint8"),
            (encoded(picture(9, 8, mode="L"), "PNG", transparency=3), (2, 8, 9), "uint8"),
            (encoded(picture(9, 8), "PNG"), (3, 8, 9), "uint8"),
            (encoded(picture(9, 8, mode="RGBA"), "PNG"), (4, 8, 9), "uint8"),
            (encoded(picture(9, 8).quantize(5), "PNG"), (1, 8, 9), "uint8"),
            (depth_map(), (1, 31, 23), "uint16"),
        ],
    )
    def test_is_what_the_first_image_is(self, tmp_path: Path, data: bytes, shape: tuple[int, ...], dtype: str) -> None:
        images = loaded(folder(tmp_path, a=data, b=data), Decode("unchanged"))
        assert (images.shape, str(images.dtype)) == ((2, *shape), dtype)

    def test_another_kind_is_an_error_with_its_file(self, tmp_path: Path) -> None:
        grey, colours = (encoded(picture(9, 8, mode=mode), "PNG") for mode in ("L", "RGB"))
        with pytest.raises(DataError, match=r'b\.png.*an RGB PNG image, in a column whose first image is "L"'):
            loaded(folder(tmp_path, a=grey, b=colours), Decode("unchanged"))

    def test_what_no_mode_holds_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"a\.png.*16-bit colours, which no mode holds"):
            loaded(folder(tmp_path, a=sixteen_bit("RGB")), Decode("unchanged"))

    def test_ops_are_checked_against_the_first_image(self, tmp_path: Path) -> None:
        with pytest.raises(PlanError, match="nearest"):
            loaded(folder(tmp_path, a=mask()), Decode("unchanged"), Resize((8, 8)))


class TestLoss:
    """With the default mode, an image that loses something is a warning, once."""

    @pytest.mark.parametrize(
        ("data", "say"),
        [
            (depth_map(), 'mode="I16"'),
            (sixteen_bit("LA"), 'mode="I16"'),
            (sixteen_bit("RGB"), "upper 8"),
            (mask(), 'mode="P"'),
            (encoded(Image.merge("RGBA", [picture(9, 9, mode="L")] * 4), "PNG"), 'mode="RGBA"'),
            (encoded(Image.merge("RGBA", [picture(9, 9, mode="L")] * 4), "WEBP", lossless=True), 'mode="RGBA"'),
        ],
    )
    def test_names_the_file_and_the_mode(self, tmp_path: Path, data: bytes, say: str) -> None:
        plain = encoded(Image.open(io.BytesIO(data)).convert("RGB"), "PNG")
        dataset = folder(tmp_path, a=plain, b=data, c=data)
        loader = ps.Loader(dataset.transform(image=Decode()).batch(1))
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            passes = [list(loader) for _ in range(2)]
        assert [len(warned), *map(len, passes)] == [1, 3, 3]
        message = str(warned[0].message)
        assert "b.png" in message and say in message and 'mode="RGB"' in message  # noqa: PT018

    @pytest.mark.slow
    def test_comes_from_another_process_too(self, tmp_path: Path) -> None:
        with pytest.warns(UserWarning, match=r'a\.png.*mode="P"'):
            loaded(folder(tmp_path, a=mask()), Decode(), isolation="process")
        with pytest.raises(UserWarning, match=r'a\.png.*mode="P"'):  # as an error
            loaded(ps.read(tmp_path / "files", columns=["image"]), Decode(), isolation="process")

    def test_nothing_lost_and_nothing_meant_is_no_warning(self, tmp_path: Path) -> None:
        opaque = picture(23, 31, mode="RGBA")
        files = {"a": encoded(opaque, "PNG"), "b": encoded(picture(23, 31, mode="L"), "PNG")}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            loaded(folder(tmp_path, **files), Decode())
            (tmp_path / "files" / "c.png").write_bytes(mask())
            loaded(ps.read(tmp_path / "files", columns=["image"]), Decode(mode="RGB"))
            loaded(ps.read(tmp_path / "files", columns=["image"]), Decode(mode="L"))

    def test_is_one_beside_that_of_a_bad_row(self, tmp_path: Path) -> None:
        dataset = folder(tmp_path, a=mask(), b=encoded(picture(23, 31), "PNG"), c=mask(), d=mask()[:-60], e=mask())
        for mode, expected in (("P", ["no palette"]), ("RGB", ["damaged"]), (None, ["damaged", 'mode="P"'])):
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                images = loaded(dataset, Decode() if mode is None else Decode(mode), on_error="substitute")
            assert len(images) == 5
            found = sorted(str(each.message) for each in warned)
            assert len(found) == len(expected), found
            assert all(any(part in text for text in found) for part in expected), found

    def test_as_an_error_comes_from_next_in_every_pass(self, tmp_path: Path) -> None:
        plain = encoded(picture(23, 31), "PNG")
        dataset = folder(tmp_path, a=plain, b=mask(), c=mask()).transform(image=Decode()).batch(1)
        with ps.Loader(dataset) as loader:
            for _ in range(2):
                batches = iter(loader)
                next(batches)
                with pytest.raises(UserWarning, match=r'b\.png.*mode="P"') as error:
                    next(batches)
                assert error.type is UserWarning

    def test_names_the_column_that_loses_something(self, tmp_path: Path) -> None:
        (tmp_path / "a.png").write_bytes(mask())
        dataset = ps.read(tmp_path, columns={"photo": "image", "classes": "image", "grey": "image"})
        dataset = dataset.transform(photo=Decode(mode="RGB"), classes=Decode(), grey=Decode("L"))
        with pytest.warns(UserWarning, match="column 'classes'") as warned:
            list(ps.Loader(dataset.batch(1)))
        assert len(warned) == 1

    def test_of_recognised_datasets_is_none_since_their_loaders_convert(self, tmp_path: Path) -> None:
        files = [mask(), encoded(Image.merge("RGBA", [picture(23, 31, mode="L")] * 4), "PNG")]
        for number, data in enumerate(files * 2):
            (tmp_path / "some").mkdir(exist_ok=True)
            (tmp_path / "some" / f"{number}.png").write_bytes(data)
        images = ImageFolder(str(tmp_path), v1.Compose([v1.CenterCrop(20), v1.PILToTensor()]))
        assert recognise(images) is not None
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = [batch[0] for batch in penstock.torch.DataLoader(images, batch_size=2)]
        assert torch.equal(torch.cat(found), torch.stack([image for image, _ in images]))


@pytest.mark.parametrize("kind", ["tfrecord", "parquet", "tar"])
def test_modes_of_images_in_records(tmp_path: Path, kind: str) -> None:
    files = [mask(), mask(MASK[::-1].copy()), encoded(Image.fromarray(MASK, "P").quantize(21), "GIF")]
    if kind == "tfrecord":
        tfrecords.write(tmp_path / "a.tfrecord", [tfrecords.example(image=tfrecords.texts(data)) for data in files])
    elif kind == "parquet":
        pq.write_table(pa.table({"image": files}), tmp_path / "a.parquet")
    else:
        tars.write(tmp_path / "a.tar", [(f"{number}.image", data) for number, data in enumerate(files)])
    dataset = ps.read(tmp_path, columns={"image": ps.Column(feature="image", dtype="bytes")})
    for mode in ("L", "P"):
        expected = np.stack([made(data, mode) for data in files]).transpose(0, 3, 1, 2)
        assert np.array_equal(loaded(dataset, Decode(mode)), expected), mode


def test_a_mask_behind_a_cache_is_not_averaged_either(tmp_path: Path) -> None:
    kept = folder(tmp_path, a=mask()).transform(image=Decode("P")).cache()
    with pytest.raises(PlanError, match="nearest"):
        ps.Loader(kept.transform(image=Resize((8, 8))).batch(1))
    images = next(iter(ps.Loader(kept.transform(image=Resize((62, 46), "nearest")).batch(1))))["image"]
    assert np.array_equal(np.asarray(images)[0, 0], MASK.repeat(2, 0).repeat(2, 1))


@pytest.mark.parametrize("mode", ["P", "unchanged"])
def test_indices_are_known_behind_a_cache_and_joins(tmp_path: Path, mode: Any) -> None:
    data = folder(tmp_path, a=mask(), b=mask())
    kept = data.transform(image=Decode(mode)).cache()
    parts = [data.transform(image=[Decode(mode), NHWC]) for _ in range(2)]
    photos = data.select("image").transform(image=Decode("RGB"))
    zipped = ps.zip(
        [photos, ps.read(tmp_path / "files", columns={"classes": "image"}).transform(classes=Decode(mode)).cache()]
    )
    list(ps.Loader(kept.batch(1)))  # what is kept is none the less known
    for plan in (kept, kept.shuffle(seed=1).take(1), ps.concat(parts), ps.mix(parts, weights=[1, 1])):
        with pytest.raises(PlanError, match="nearest"):
            ps.Loader(plan.transform(image=Resize((8, 8))).batch(1))
        assert len(loaded(plan, Resize((8, 8), "nearest"))) <= 4
    with pytest.raises(PlanError, match="nearest"):
        ps.Loader(zipped.transform(classes=Resize((8, 8))).batch(1))


def test_what_comes_out_of_a_function_is_unchanged_too(tmp_path: Path) -> None:
    data = folder(tmp_path, a=mask(), b=mask())
    kept = data.map_rows(lambda row: {"image": row["image"]}).transform(image=Decode("unchanged")).cache()
    assert loaded(kept, image.CenterCrop((8, 8))).shape == (2, 1, 8, 8)
    with pytest.raises(PlanError, match="nearest"):
        ps.Loader(kept.transform(image=Resize((8, 8))).batch(1))
    made = data.map_rows(lambda row: {"made": row["image"]})
    for ops in (Decode("unchanged"), Decode("L")):
        with pytest.raises(PlanError, match="'made' comes out of a function"):
            list(ps.Loader(made.transform(made=ops).batch(1)))
    sized = made.transform(made=[Decode("P"), image.CenterCrop(8)]).batch(2)
    assert next(iter(ps.Loader(sized)))["made"].shape == (2, 1, 8, 8)


def test_grey_behind_a_cache_is_averaged(tmp_path: Path) -> None:
    kept = folder(tmp_path, a=encoded(picture(23, 31, mode="L"), "PNG")).transform(image=Decode("unchanged")).cache()
    assert loaded(kept, Resize((8, 8))).shape == (1, 1, 8, 8)


def test_depth_behind_a_cache_goes_on_as_16_bits(tmp_path: Path) -> None:
    kept = folder(tmp_path, a=depth_map()).transform(image=Decode("I16")).cache()
    loader = ps.Loader(kept.transform(image=[image.RandomHorizontalFlip(1.0), ToDtype("float32")]).batch(1), to="torch")
    assert np.array_equal(next(iter(loader))["image"][0, 0].numpy(), DEPTH[:, ::-1].astype(np.float32))


def test_depth_reaches_torch_as_uint16(tmp_path: Path) -> None:
    dataset = folder(tmp_path, a=depth_map()).transform(image=Decode("I16"))
    batch = next(iter(ps.Loader(dataset.batch(1), to="torch")))["image"]
    assert batch.dtype == torch.uint16
    assert np.array_equal(batch.numpy()[0, 0], DEPTH)
