"""Writes tests/golden/jxl.zip: JPEG XL files by libjxl's encoders, and the pixels that its decoder makes of them: CJXL=cjxl python tests/golden/make_jxl.py.

Needs numpy, pillow, imagecodecs (libjxl 0.11 encodes and decodes) and cjxl (Debian's libjxl-tools; 0.7 encodes). Compressed data depends on the versions, so that
the file is written anew only on purpose.
"""

from __future__ import annotations

import io
import os
import subprocess
import tempfile
import zipfile
from pathlib import Path

import imagecodecs
import numpy as np
from PIL import Image, ImageCms

CJXL = os.environ.get("CJXL", "cjxl")
RNG = np.random.default_rng(1)
SMALL = Image.fromarray(RNG.integers(0, 256, (6, 7, 4), dtype=np.uint8))
RGBA = np.asarray(SMALL.resize((67, 41), Image.Resampling.BICUBIC))
RGB, GREY = np.ascontiguousarray(RGBA[..., :3]), np.ascontiguousarray(RGBA[..., 1])
DEEP = RGBA.astype(np.uint16) * 251 + RNG.integers(0, 251, RGBA.shape).astype(np.uint16)
#: More than one group of 256 pixels each way.
LARGE = np.asarray(SMALL.convert("RGB").resize((301, 283), Image.Resampling.BICUBIC))


def saved(pixels, kind, **options):
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind, **options)
    return out.getvalue()


def array(pixels):
    out = io.BytesIO()
    np.save(out, pixels)
    return out.getvalue()


def cjxl(data, end, *options):
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder) / f"given.{end}", Path(folder) / "made.jxl"
        given.write_bytes(data)
        subprocess.run([CJXL, given, made, "--quiet", *options], check=True, capture_output=True)
        return made.read_bytes()


def turned(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return cjxl(saved(RGB, "JPEG", exif=exif.tobytes(), quality=60), "jpg")


def images():
    encode = imagecodecs.jpegxl_encode
    wide_gamut = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    animated = io.BytesIO()
    Image.fromarray(RGB).save(animated, "GIF", save_all=True, append_images=[Image.fromarray(RGB[::-1])])
    arrays = {"rgb": RGB, "rgba": RGBA, "grey": GREY, "grey-alpha": RGBA[..., 1::2]}
    arrays |= {"grey-16": DEEP[..., 1], "rgb-16": DEEP[..., :3], "rgba-16": DEEP, "grey-alpha-16": DEEP[..., 1::2]}
    return (
        {f"lossless-{name}.jxl": encode(np.ascontiguousarray(some), lossless=True) for name, some in arrays.items()}
        | {f"lossy-{name}.jxl": encode(np.ascontiguousarray(some), distance=1.0) for name, some in arrays.items()}
        | {f"lossy-turned-{number}.jxl": turned(number) for number in range(1, 9)}
        | {
            "lossless-boxes.jxl": encode(RGB, lossless=True, usecontainer=True),
            "lossless-10-bits.jxl": encode(DEEP[..., :3] >> 6, lossless=True, bitspersample=10),
            "lossless-grey-12-bits.jxl": encode(DEEP[..., 1] >> 4, lossless=True, bitspersample=12),
            "lossless-animated.jxl": cjxl(animated.getvalue(), "gif"),
            "lossless-large.jxl": encode(LARGE, lossless=True, effort=3),
            "lossless-squeezed.jxl": cjxl(saved(RGB, "PNG"), "png", "-d", "0", "-m", "1", "-p"),
            "lossy-large.jxl": encode(LARGE, distance=3.0),
            "lossy-progressive.jxl": cjxl(saved(LARGE, "PNG"), "png", "-d", "2", "-p", "--progressive_dc=1"),
            "lossy-resampled.jxl": encode(LARGE, distance=24.0),
            "lossy-patches.jxl": cjxl(saved(np.tile(RGB[:9, :9], (6, 6, 1)), "PNG"), "png", "-e", "9", "--patches=1"),
            "lossy-profile.jxl": cjxl(saved(RGB, "PNG", icc_profile=wide_gamut), "png"),
            "lossy-effort-1.jxl": encode(RGB, effort=1, distance=2.0),
            "refused-floats.jxl": encode(RGB.astype(np.float32) / 255, lossless=True),
        }
    )


def main():
    with zipfile.ZipFile(Path(__file__).parent / "jxl.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in images().items():
            archive.writestr(zipfile.ZipInfo(name), data)
            if not name.startswith("refused"):
                pixels = imagecodecs.jpegxl_decode(data, index=0 if "animated" in name else None)
                end, packed = ("png", saved(pixels, "PNG")) if pixels.itemsize == 1 else ("npy", array(pixels))
                archive.writestr(zipfile.ZipInfo(f"{name}.{end}"), packed, zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    main()
