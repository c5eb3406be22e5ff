"""Every format and pixel mode against Pillow; hostile and damaged data."""

from __future__ import annotations

import io
import resource
import struct
import zlib

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image, ImageFile, ImageOps

from penstock.core import kernels
from penstock.core.columns.spec import Field
from penstock.core.errors import RowError
from penstock.transform import image
from support.images import as_pillow, encoded, picture
from support.tries import some, tries

SIZE = (37, 29)


def difference(data: bytes) -> int:
    return int(np.abs(kernels.decode_image(data).astype(int) - as_pillow(data).astype(int)).max())


def sixteen_bit(mode: str) -> bytes:
    """A PNG of 16 bits a channel, as Pillow cannot write all of them."""
    channels, colour = {"L": (1, 0), "LA": (2, 4), "RGB": (3, 2), "RGBA": (4, 6)}[mode]
    values = np.random.default_rng(1).integers(0, 65_536, (SIZE[1], SIZE[0] * channels)).astype(">u2")
    values[:, ::3] //= 256
    rows = b"".join(b"\0" + row.tobytes() for row in values)

    header = struct.pack(">IIBBBBB", *SIZE, 16, colour, 0, 0, 0)
    chunks = chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")
    return b"".join([b"\x89PNG\r\n\x1a\n", *chunks])


def chunk(name: bytes, data: bytes) -> bytes:
    """A chunk of a PNG."""
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def files() -> dict[str, tuple[bytes, int]]:
    """Name -> (file, largest difference to Pillow)."""
    rgb, alpha = picture(*SIZE), picture(*SIZE, mode="RGBA")
    alpha.putalpha(picture(*SIZE, seed=2, mode="L"))
    palette, bilevel = rgb.quantize(200), picture(*SIZE, mode="L").convert("1")
    found: dict[str, tuple[bytes, int]] = {
        "jpeg": (encoded(rgb, "JPEG", quality=90), 0),
        "jpeg 4:4:4": (encoded(rgb, "JPEG", quality=90, subsampling=0), 0),
        "jpeg grey": (encoded(rgb.convert("L"), "JPEG"), 0),
        "jpeg rgb": (encoded(rgb, "JPEG", keep_rgb=True, quality=90), 0),
        "jpeg progressive": (encoded(rgb, "JPEG", progressive=True, quality=90), 6),
        "jpeg progressive 4:4:4": (encoded(rgb, "JPEG", progressive=True, quality=90, subsampling=0), 3),
        "jpeg cmyk": (encoded(rgb.convert("CMYK"), "JPEG", quality=95), 4),
        "png": (encoded(rgb, "PNG"), 0),
        "png grey": (encoded(rgb.convert("L"), "PNG"), 0),
        "png alpha": (encoded(alpha, "PNG"), 0),
        "png grey alpha": (encoded(alpha.convert("LA"), "PNG"), 0),
        "png palette": (encoded(palette, "PNG"), 0),
        "png palette 4": (encoded(rgb.quantize(13), "PNG"), 0),
        "png palette transparent": (encoded(palette, "PNG", transparency=3), 0),
        "png bilevel": (encoded(bilevel, "PNG"), 0),
        "png grey transparent": (encoded(rgb.convert("L"), "PNG", transparency=7), 0),
        "png rgb transparent": (encoded(rgb, "PNG", transparency=(1, 2, 3)), 0),
        "webp lossless": (encoded(rgb, "WEBP", lossless=True), 0),
        "webp lossless alpha": (encoded(alpha, "WEBP", lossless=True, exact=True), 0),
        "webp": (encoded(rgb, "WEBP", quality=80), 2),
        "webp alpha": (encoded(alpha, "WEBP", quality=80), 2),
        "bmp": (encoded(rgb, "BMP"), 0),
        "bmp grey": (encoded(rgb.convert("L"), "BMP"), 0),
        "bmp palette": (encoded(palette, "BMP"), 0),
        "bmp bilevel": (encoded(bilevel, "BMP"), 0),
        "bmp alpha": (encoded(alpha, "BMP"), 0),
        "gif": (encoded(palette, "GIF"), 0),
        "gif transparent": (encoded(palette, "GIF", transparency=3), 0),
        "gif animated": (
            encoded(palette, "GIF", save_all=True, append_images=[picture(*SIZE, seed=4).quantize(90)]),
            0,
        ),
    }
    return found | {f"png 16 {mode}": (sixteen_bit(mode), 0) for mode in ("L", "LA", "RGB", "RGBA")}


FILES = files()


@pytest.mark.parametrize("name", FILES)
def test_equals_pillow(name: str) -> None:
    data, tolerance = FILES[name]
    assert difference(data) <= tolerance


@pytest.mark.parametrize("name", FILES)
def test_header_is_read(name: str) -> None:
    width, height, kind = kernels.image_info(FILES[name][0])
    assert (width, height) == SIZE
    assert kind.lower() == name.split(maxsplit=1)[0]


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_exif_orientation(kind: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(picture(*SIZE), kind, exif=exif, **({"lossless": True} if kind == "WEBP" else {}))
    turned = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB"))
    assert np.array_equal(kernels.decode_image(data, apply_exif=True), turned)
    assert np.array_equal(kernels.decode_image(data), as_pillow(data))
    width, height, _ = kernels.image_info(data, apply_exif=True)
    assert (height, width) == turned.shape[:2]


@pytest.mark.parametrize("name", FILES)
def test_truncation_at_every_byte_is_an_error_or_harmless(name: str) -> None:
    data, _ = FILES[name]
    whole = kernels.decode_image(data)
    for size in some(range(len(data))):
        try:
            got = kernels.decode_image(data[:size])
        except ValueError as error:
            assert ";" in str(error)  # noqa: PT017
        else:
            # Only what follows the picture may be missing without harm.
            assert np.array_equal(got, whole), size


@pytest.mark.parametrize("name", FILES)
def test_damage_anywhere_is_an_error_or_another_picture(name: str) -> None:
    data, _ = FILES[name]
    random = np.random.default_rng(0)
    told = 0
    for _ in range(tries(1_500, at_least=150)):
        bad = bytearray(data)
        for place in random.integers(0, len(data), random.integers(1, 4)):
            bad[place] = random.integers(0, 256)
        try:
            assert kernels.decode_image(bytes(bad), limits=(1 << 20, 1 << 30, 1_100)).shape[2] == 3
        except ValueError as error:
            assert len(str(error)) > 20, f"an error that says little: {error}"  # noqa: PT017
            told += 1
    assert told


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "an empty file"),
        (b"<!DOCTYPE html><html>", "markup"),
        (b"II*\0aaaa", "TIFF"),
        (b"version https://git-lfs.github.com/spec/v1", "Git LFS"),
        (b"\0\0\0\x1cftypavif", "AVIF"),
        (b"\xff\xd8\xff", "JPEG header cut short"),
        (b"\xff\xd8\xff\xc9\0\x0b\x08\0\x10\0\x10\x01\x01\x11\0", "arithmetic"),
        (b"\xff\xd8\xff\xc0\0\x0b\x0c\0\x10\0\x10\x01\x01\x11\0", "12 bits"),
        (b"\xff\xd8\xff\xc0\0\x0b\x08\0\0\0\0\x01\x01\x11\0", "0 × 0"),
        (
            b"\xff\xd8\xff\xc0\0\x0b\x08\xff\xff\xff\xff\x01\x01\x11\0",
            "65535 × 65535 = 4294836225 pixels, above the limit",
        ),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\x7f\xff\xff\xff\x7f\xff\xff\xff\x08\2\0\0\0", "above the limit"),
        (b"GIF89a\xff\xff\xff\xff\0\0\0", "above the limit"),
        (b"BM" + bytes(12) + struct.pack("<Iii", 40, -5, 5) + bytes(28), "BMP header"),
        (b"BM" + bytes(12) + struct.pack("<Iii", 40, 2**31 - 1, -(2**31)) + bytes(28), "above the limit"),
        (b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + b"\xff" * 6, "above the limit"),
    ],
)
def test_hostile_headers(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kernels.decode_image(data)


def test_a_gif_frame_much_larger_than_its_screen_gets_no_memory() -> None:
    data = bytearray(FILES["gif"][0])
    frame = data.index(b"\x2c\0\0\0\0" + struct.pack("<HH", *SIZE))
    data[frame + 5 : frame + 9] = b"\xff\xff\xff\xff"
    with pytest.raises(ValueError, match=r"GIF.*[Ll]imit"):
        kernels.decode_image(bytes(data))


@pytest.mark.slow
def test_a_packed_colour_profile_gets_no_memory() -> None:
    packer = zlib.compressobj(9)
    profile = b"".join([*(packer.compress(bytes(1 << 20)) for _ in range(1 << 9)), packer.flush()])
    data = FILES["png"][0]
    after_header = 33
    bomb = data[:after_header] + chunk(b"iCCP", b"a\0\0" + profile) + data[after_header:]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert np.array_equal(kernels.decode_image(bomb), kernels.decode_image(data))
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < 192 << 20


def test_a_lossy_webp_without_its_last_bytes_is_an_error() -> None:
    data = encoded(picture(80, 64), "WEBP", quality=80)
    for missing in (
        1,
        2,
        3,
    ):  # without a check, the first decodes to the same pixels and the others to slightly different ones
        with pytest.raises(ValueError, match="cut short"):
            kernels.decode_image(data[:-missing])


def test_a_cut_jpeg_is_an_error_or_what_pillow_makes_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = io.BytesIO()
    Image.fromarray(np.random.default_rng(3).integers(0, 256, (64, 96, 3), dtype=np.uint8)).save(whole, "JPEG")
    cut = whole.getvalue()[: len(whole.getvalue()) * 2 // 3]
    column = pa.array([cut], pa.large_binary())
    samples, out = np.zeros(1, dtype=np.int64), np.empty((1, 64, 96, 3), dtype=np.uint8)

    def decode(op: image.Decode) -> None:
        kernel = image.fuse([op, image.ToLayout("NHWC")], Field("bytes"), lambda: (64, 96))
        kernel(column, samples, key=0, out=out, threads=1)

    with pytest.raises(RowError, match="JPEG"):
        decode(image.Decode())
    decode(image.Decode(allow_truncated=True))
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    np.testing.assert_array_equal(out[0], np.asarray(Image.open(io.BytesIO(cut)).convert("RGB")))


@pytest.mark.parametrize("bytes_left", [1, 2, 3, 767])
def test_a_palette_whose_last_colour_is_cut_is_damage(bytes_left: int) -> None:
    """A decoder's panic until it was looked at; a palette that is only short makes what is beyond it black."""
    made = io.BytesIO()
    Image.fromarray(np.arange(256, dtype=np.uint8).reshape(16, 16)).convert("P").save(made, "PNG")
    whole = made.getvalue()
    at = whole.index(b"PLTE") - 4
    end = at + 12 + int.from_bytes(whole[at : at + 4], "big")
    data = whole[:at] + chunk(b"PLTE", whole[at + 8 : at + 8 + bytes_left]) + whole[end:]
    if bytes_left % 3:
        with pytest.raises(ValueError, match=f"a palette of {bytes_left} bytes"):
            kernels.decode_image(data)
    else:
        kernels.decode_image(data)
