"""JPEG bytes by many encoders, for make_jpegs.py: OpenCV, Pillow, ImageMagick, cjpeg, Guetzli, mozjpeg, imagecodecs (12 bits, lossless)."""

from __future__ import annotations

import io
import shutil
import subprocess
import tempfile
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

SAMPLINGS = {"444": 0x111111, "422": 0x211111, "420": 0x221111, "440": 0x121111, "411": 0x411111}
MOZJPEG = Path(__file__).resolve().parent / "mozjpeg" / "Cargo.toml"


def encode_opencv(image: np.ndarray, quality: int, sampling: str, restart: int, *, optimize: bool = False) -> bytes:
    """JPEG bytes by OpenCV, which knows all sampling factors and restart intervals."""
    flags = [cv2.IMWRITE_JPEG_QUALITY, quality, cv2.IMWRITE_JPEG_RST_INTERVAL, restart]
    flags += [cv2.IMWRITE_JPEG_OPTIMIZE, int(optimize)]
    if image.ndim == 3:
        flags += [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, SAMPLINGS[sampling]]
        image = image[:, :, ::-1]
    ok, data = cv2.imencode(".jpg", image, flags)
    assert ok
    return data.tobytes()


def encode_pillow(image: np.ndarray, **options: object) -> bytes:
    """JPEG bytes by Pillow."""
    out = io.BytesIO()
    Image.fromarray(image).save(out, "JPEG", **options)
    return out.getvalue()


def encode_separate_scans(image: np.ndarray, quality: int, factor: int) -> bytes:
    """A baseline file with one scan per component, put together from three grey files; chroma is 1/factor in size."""
    height, width = image.shape[:2]
    small = (-(-width // factor), -(-height // factor))
    planes = Image.fromarray(image).convert("YCbCr").split()
    parts = [planes[0], *(plane.resize(small) for plane in planes[1:])]
    grey = [encode_pillow(np.asarray(part), quality=quality) for part in parts]

    def segment(data: bytes, marker: int) -> bytes:
        at = data.index(bytes([0xFF, marker]))
        return data[at : at + 2 + int.from_bytes(data[at + 2 : at + 4])]

    tables, pos = b"", 2  # The quantisation and Huffman segments, which are the same in all three.
    while grey[0][pos + 1] != 0xDA:
        size = 2 + int.from_bytes(grey[0][pos + 2 : pos + 4])
        tables += grey[0][pos : pos + size] if grey[0][pos + 1] in (0xDB, 0xC4) else b""
        pos += size
    components = bytes([3, 1, factor * 0x11, 0, 2, 0x11, 0, 3, 0x11, 0])
    frame = b"\xff\xc0\x00\x11\x08" + height.to_bytes(2) + width.to_bytes(2) + components
    scans = b""
    for number, data in enumerate(grey, start=1):
        start = segment(data, 0xDA)
        coded = data[data.index(start) + len(start) : -2]
        scans += b"\xff\xda\x00\x08\x01" + bytes([number]) + b"\x00\x00\x3f\x00" + coded
    return b"\xff\xd8" + tables + frame + scans + b"\xff\xd9"


def encode_magick(image: np.ndarray, *options: str) -> bytes:
    """JPEG bytes by ImageMagick."""
    program = next(filter(None, map(shutil.which, ("magick", "convert-im6.q16", "convert"))))
    return encode_program(image, [program, "ppm:-", "-strip", *options, "jpeg:-"])


def encode_cjpeg(image: np.ndarray, *options: str, scans: str = "") -> bytes:
    """JPEG bytes by libjpeg-turbo's own program; `scans` as its file of scans: "0;1 2;"."""
    with tempfile.NamedTemporaryFile("w", suffix=".scans") as file:
        file.write(scans)
        file.flush()
        return encode_program(image, ["cjpeg", *options, *(["-scans", file.name] if scans else [])])


def encode_program(image: np.ndarray, command: list[str]) -> bytes:
    """What a program makes of a picture on its standard input."""
    source = f"P6 {image.shape[1]} {image.shape[0]} 255\n".encode() + image.tobytes()
    return subprocess.run(command, input=source, capture_output=True, check=True).stdout


def encode_guetzli(image: np.ndarray, quality: int) -> bytes:
    """JPEG bytes by Guetzli."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.png", Path(folder) / "out.jpg"
        Image.fromarray(image).save(source)
        subprocess.run(["guetzli", "--quality", str(quality), source, target], check=True)
        return target.read_bytes()


def encode_mozjpeg(image: np.ndarray, quality: int, sampling: str, kind: str) -> bytes:
    """JPEG bytes by mozjpeg itself (built by Cargo): kind is "baseline" or "progressive"."""
    run = ["cargo", "run", "--quiet", "--release", "--locked", "--manifest-path", str(MOZJPEG), "--"]
    return encode_program(image, [*run, str(quality), sampling, kind])


def encode_12_bit(image: np.ndarray, quality: int) -> bytes:
    """A file of 12 bits a sample by libjpeg-turbo 3."""
    import imagecodecs

    return bytes(imagecodecs.jpeg8_encode(image.astype(np.uint16) << 4, level=quality, bitspersample=12))


def encode_lossless(image: np.ndarray) -> bytes:
    """A lossless file (process 14) of one component."""
    import imagecodecs

    return bytes(imagecodecs.ljpeg_encode(image))


def with_frame(data: bytes, *, marker: int | None = None, precision: int | None = None) -> bytes:
    """A baseline file whose frame claims another kind of coding or another precision."""
    at = data.index(b"\xff\xc0\x00\x11\x08")
    kind, bits = marker or data[at + 1], precision or data[at + 4]
    return data[: at + 1] + bytes([kind]) + data[at + 2 : at + 4] + bytes([bits]) + data[at + 5 :]
