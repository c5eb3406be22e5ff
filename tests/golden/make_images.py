"""Writes tests/golden/images.zip: small images by encoders other than Pillow and libjpeg, read or refused: python tests/golden/make_images.py.

Needs numpy, pillow, pypng, opencv-python-headless, imageio, imagecodecs, tifffile and pillow-heif. JPEGs that are read are in golden/jpeg.
Compressed data depends on the versions, so that the file is written anew only on purpose.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import cv2
import imagecodecs
import imageio.v3
import numpy as np
import pillow_heif
import png
import tifffile
from PIL import Image

WIDTH, HEIGHT = 23, 19
RNG = np.random.default_rng(1)
SMALL = Image.fromarray(RNG.integers(0, 256, (6, 7, 4), dtype=np.uint8))
RGBA = np.asarray(SMALL.resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC))
RGB, GREY = np.ascontiguousarray(RGBA[..., :3]), np.ascontiguousarray(RGBA[..., 1])
GREY_ALPHA = RGBA[..., 1::2]


def pypng(pixels, bits=8, **options):
    """Pixels of 0 to 255, scaled to `bits`."""
    out = io.BytesIO()
    values = pixels.astype(int) * ((1 << bits) - 1) // 255
    png.Writer(width=WIDTH, height=HEIGHT, bitdepth=bits, **options).write(out, values.reshape(HEIGHT, -1).tolist())
    return out.getvalue()


def pypngs():
    found = {}
    for interlace in (False, True):
        way = {"interlace": interlace}
        end = "-interlaced.png" if interlace else ".png"
        for bits in (1, 2, 4, 8, 16):
            found[f"pypng-grey-{bits}{end}"] = pypng(GREY, bits, greyscale=True, **way)
            found[f"pypng-grey-transparent-{bits}{end}"] = pypng(GREY, bits, greyscale=True, transparent=0, **way)
        for bits in (1, 2, 4, 8):
            for kind, channels in (("palette", 3), ("palette-alpha", 4)):
                palette = [tuple(colour) for colour in RNG.integers(0, 256, (1 << bits, channels)).tolist()]
                found[f"pypng-{kind}-{bits}{end}"] = pypng(GREY, bits, palette=palette, **way)
        for bits in (8, 16):
            found[f"pypng-rgb-{bits}{end}"] = pypng(RGB, bits, greyscale=False, **way)
            found[f"pypng-rgba-{bits}{end}"] = pypng(RGBA, bits, greyscale=False, alpha=True, **way)
            found[f"pypng-grey-alpha-{bits}{end}"] = pypng(GREY_ALPHA, bits, greyscale=True, alpha=True, **way)
    for gamma in (0.45455, 1.0):
        found[f"pypng-gamma-{gamma}.png"] = pypng(RGB, greyscale=False, gamma=gamma)
    return found


def opencv(end, pixels, *options):
    return cv2.imencode(end, pixels, list(options))[1].tobytes()


def tiff(**options):
    out = io.BytesIO()
    tifffile.imwrite(out, RGB, **options)
    return out.getvalue()


def heif():
    out = io.BytesIO()
    pillow_heif.from_pillow(Image.fromarray(RGB)).save(out)
    return out.getvalue()


def images():
    deep = (RGB.astype(np.uint16) * 16) + 7
    return pypngs() | {
        "opencv-rgb.png": opencv(".png", RGB),
        "opencv-rgba-16.png": opencv(".png", RGBA.astype(np.uint16) * 257),
        "opencv-bilevel.png": opencv(".png", (GREY > 128).astype(np.uint8) * 255, cv2.IMWRITE_PNG_BILEVEL, 1),
        "imageio.png": imageio.v3.imwrite("<bytes>", RGB, extension=".png"),
        "libspng.png": imagecodecs.spng_encode(RGB),
        "animated.png": imagecodecs.apng_encode(np.stack([RGB, RGB[::-1]])),
        "opencv.bmp": opencv(".bmp", RGBA),
        "opencv-grey.bmp": opencv(".bmp", GREY),
        "opencv.webp": opencv(".webp", RGB),
        "opencv-lossless.webp": opencv(".webp", RGB, cv2.IMWRITE_WEBP_QUALITY, 101),
        "libwebp-alpha.webp": imagecodecs.webp_encode(RGBA, lossless=True),
        "imageio-animated.gif": imageio.v3.imwrite("<bytes>", np.stack([RGB, RGB[::-1]]), extension=".gif"),
        "opencv.gif": opencv(".gif", RGB),
        "gain-map.jpg": imagecodecs.ultrahdr_encode(
            np.dstack([RGB.astype(np.float16) / 255, np.ones_like(GREY, np.float16)])
        ),
        "cmyk.jpg": imagecodecs.jpeg8_encode(RGBA, colorspace="CMYK", outcolorspace="CMYK"),
        "ycck.jpg": imagecodecs.jpeg8_encode(RGBA, colorspace="CMYK", outcolorspace="YCCK"),
        "refused-12-bits.jpg": imagecodecs.jpeg8_encode(deep, bitspersample=12),
        "refused-lossless.jpg": imagecodecs.ljpeg_encode(GREY),
        "refused-near-lossless.jls": imagecodecs.jpegls_encode(RGB),
        "refused-2000.jp2": imagecodecs.jpeg2k_encode(RGB),
        "refused-codestream.j2k": imagecodecs.jpeg2k_encode(RGB, codecformat="j2k"),
        "refused-xl.jxl": imagecodecs.jpegxl_encode(RGB),
        "refused-tifffile.tif": tiff(),
        "refused-tifffile-big.tif": tiff(bigtiff=True),
        "refused-tifffile-other-order.tif": tiff(byteorder=">"),
        "refused-libtiff.tif": opencv(".tif", RGB),
        "refused-avif.avif": imagecodecs.avif_encode(RGB),
        "refused-heif.heic": heif(),
        "refused-opencv.ppm": opencv(".ppm", RGB),
    }


def main():
    with zipfile.ZipFile(Path(__file__).parent / "images.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in images().items():
            archive.writestr(zipfile.ZipInfo(name), data)


if __name__ == "__main__":
    main()
