"""Writes JPEG files for tests and benchmarks, from the photographs that scikit-image and scikit-learn carry.

    python tests/golden/make_jpegs.py bench DIR     about 500x400, quality 90 to 97, 4:2:0 and 4:4:4, for timing
    python tests/golden/make_jpegs.py golden DIR    small files of every kind, with digests.txt: "crc32 scale name",
                                                    the CRC-32 of the RGB bytes that libjpeg-turbo (Pillow) decodes,
                                                    and other.txt: "kind name", JPEGs that are not baseline
    python tests/golden/make_jpegs.py check DIR EXE compare the program `EXE crc FILES…` with Pillow on a wide corpus

Needs numpy, pillow, opencv-python-headless, scikit-image, scikit-learn, imagecodecs and mozjpeg-lossless-optimization; "golden" also
ImageMagick, cjpeg and Guetzli (Debian's imagemagick, libjpeg-turbo-progs and guetzli) and Cargo, which builds mozjpeg.
"""

from __future__ import annotations

import io
import itertools
import subprocess
import sys
import zlib
from pathlib import Path

import cv2
import mozjpeg_lossless_optimization
import numpy as np
import skimage.data
import sklearn.datasets
from jpeg_encoders import (
    SAMPLINGS,
    encode_12_bit,
    encode_cjpeg,
    encode_guetzli,
    encode_lossless,
    encode_magick,
    encode_mozjpeg,
    encode_opencv,
    encode_pillow,
    encode_separate_scans,
    with_frame,
)
from PIL import Image, ImageFile


def photographs() -> list[np.ndarray]:
    """RGB photographs, (height, width, 3) uint8."""
    data = skimage.data
    ours = [data.astronaut(), data.coffee(), data.chelsea(), data.rocket()]
    return ours + [sklearn.datasets.load_sample_image(name) for name in ("china.jpg", "flower.jpg")]


def crops(width: int, height: int, count: int, seed: int) -> list[np.ndarray]:
    """`count` crops, (height, width, 3), enlarged where a photograph is too small."""
    rng = np.random.default_rng(seed)
    pool, out = photographs(), []
    for i in range(count):
        photo = pool[i % len(pool)]
        factor = max(1.0, width / photo.shape[1], height / photo.shape[0])
        if factor > 1:
            size = (int(np.ceil(photo.shape[1] * factor)), int(np.ceil(photo.shape[0] * factor)))
            photo = np.asarray(Image.fromarray(photo).resize(size, Image.Resampling.BICUBIC))
        y = int(rng.integers(0, photo.shape[0] - height + 1))
        x = int(rng.integers(0, photo.shape[1] - width + 1))
        out.append(np.ascontiguousarray(photo[y : y + height, x : x + width]))
    return out


def other_encoders() -> dict[str, bytes]:
    """Baseline files by ImageMagick, cjpeg, mozjpeg and Guetzli: what the other encoders do not write."""
    image = crops(45, 39, 1, seed=45)[0]
    magick = {
        "444": ["-quality", "93", "-sampling-factor", "1x1"],
        "422": ["-quality", "85", "-sampling-factor", "2x1"],
        "420": ["-quality", "75", "-sampling-factor", "2x2"],
        "440": ["-quality", "60", "-sampling-factor", "1x2"],
        "411": ["-quality", "90", "-sampling-factor", "4x1"],
        "410": ["-quality", "90", "-sampling-factor", "4x2"],
        "chroma-wide": ["-quality", "80", "-sampling-factor", "2x2,2x1,2x1"],
        "luma-small": ["-quality", "80", "-sampling-factor", "1x1,2x2,2x2"],
        "grey": ["-quality", "80", "-colorspace", "Gray"],
        "plain-huffman": ["-quality", "80", "-define", "jpeg:optimize-coding=off"],
    }
    cjpeg = {
        "wide-tables": ["-quality", "1", "-optimize"],
        "restart-row": ["-quality", "80", "-restart", "1"],
        "restart-2": ["-quality", "95", "-restart", "2B", "-sample", "1x1"],
        "rgb": ["-quality", "90", "-rgb"],
    }
    scans = {"three": "0;1;2;", "luma-first": "0;1 2;", "chroma-first": "1 2;0;", "backwards": "2;1;0;"}
    files = {f"magick-45x39-{name}.jpg": encode_magick(image, *options) for name, options in magick.items()}
    files |= {f"cjpeg-45x39-{name}.jpg": encode_cjpeg(image, *options) for name, options in cjpeg.items()}
    for name, sampling in {"444": "1x1", "422": "2x1", "420": "2x2"}.items():
        files[f"mozjpeg-45x39-{name}.jpg"] = encode_mozjpeg(image, 85, sampling, "baseline")
    files["mozjpeg-200x201-420.jpg"] = encode_mozjpeg(crops(200, 201, 1, seed=46)[0], 75, "2x2", "baseline")
    files["guetzli-45x39-444.jpg"] = encode_guetzli(image, 90)
    for name, script in scans.items():
        files[f"separate-cjpeg-45x39-{name}.jpg"] = encode_cjpeg(image, "-quality", "80", scans=script)
    return files


def other_kinds() -> dict[str, tuple[str, bytes]]:
    """Name -> (kind, file): valid JPEGs that are not baseline."""
    image = crops(45, 39, 1, seed=45)[0]
    progressive = [cv2.IMWRITE_JPEG_PROGRESSIVE, 1, cv2.IMWRITE_JPEG_QUALITY, 85]
    baseline = encode_pillow(image, quality=80)
    cmyk = io.BytesIO()
    Image.fromarray(image).convert("CMYK").save(cmyk, "JPEG", quality=90)
    return {
        "other-progressive-pillow.jpg": ("progressive", encode_pillow(image, quality=85, progressive=True)),
        "other-progressive-opencv.jpg": ("progressive", cv2.imencode(".jpg", image, progressive)[1].tobytes()),
        "other-progressive-magick.jpg": ("progressive", encode_magick(image, "-quality", "85", "-interlace", "JPEG")),
        "other-progressive-cjpeg.jpg": ("progressive", encode_cjpeg(image, "-quality", "85", "-progressive")),
        "other-progressive-mozjpeg.jpg": ("progressive", encode_mozjpeg(image, 85, "2x2", "progressive")),
        "other-progressive-mozjpeg-lossless.jpg": ("progressive", mozjpeg_lossless_optimization.optimize(baseline)),
        "other-cmyk-pillow.jpg": ("cmyk", cmyk.getvalue()),
        "other-arithmetic-cjpeg.jpg": ("arithmetic", encode_cjpeg(image, "-quality", "85", "-arithmetic")),
        "other-arithmetic-progressive-cjpeg.jpg": (
            "arithmetic",
            encode_cjpeg(image, "-quality", "85", "-arithmetic", "-progressive"),
        ),
        "other-12-bit.jpg": ("12-bit", with_frame(baseline, marker=0xC1, precision=12)),
        "other-12-bit-libjpeg-turbo.jpg": ("12-bit", encode_12_bit(image, 85)),
        "other-12-bit-grey-libjpeg-turbo.jpg": ("12-bit", encode_12_bit(image[:, :, 1], 95)),
        "other-lossless-imagecodecs.jpg": ("lossless", encode_lossless(image[:, :, 1].copy())),
        "other-lossless.jpg": ("lossless", with_frame(baseline, marker=0xC3)),
        "other-hierarchical.jpg": ("hierarchical", with_frame(baseline, marker=0xC5)),
    }


def bench(directory: Path) -> None:
    """72 pictures for timing."""
    directory.mkdir(parents=True, exist_ok=True)
    sizes, qualities = [(500, 375), (500, 400), (375, 500), (480, 360)], [90, 93, 95, 97]
    for i, (size, quality) in enumerate(itertools.islice(itertools.cycle(itertools.product(sizes, qualities)), 72)):
        image = crops(*size, 1 + i % 6, seed=i)[-1]
        sampling = 0 if i % 3 == 2 else 2
        name = f"{i:03}-{size[0]}x{size[1]}-q{quality}-{'444' if sampling == 0 else '420'}.jpg"
        (directory / name).write_bytes(encode_pillow(image, quality=quality, subsampling=sampling))


def pillow_rgb(data: bytes, scale: int = 1) -> bytes:
    """The RGB bytes that Pillow decodes, optionally at 1/2, 1/4 or 1/8 of the size."""
    image = Image.open(io.BytesIO(data))
    if scale > 1:
        image.draft(image.mode, (image.width // scale, image.height // scale))
    return image.convert("RGB").tobytes()


def wide_corpus() -> dict[str, bytes]:
    """Many small files: sizes, qualities, sampling factors, restart intervals, encoders."""
    files: dict[str, bytes] = {}
    rng = np.random.default_rng(7)
    sizes = [(w, h) for w in (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 47, 67) for h in (1, 2, 5, 8, 16, 17, 33, 67)]
    sizes += [(200, 201), (333, 257), (500, 375), (799, 61), (63, 800), (1500, 211)]
    for width, height in sizes:
        image = crops(width, height, 1, seed=width * 1000 + height)[0]
        for sampling in SAMPLINGS:
            quality, restart = int(rng.integers(30, 101)), int(rng.choice([0, 0, 1, 2, 7]))
            data = encode_opencv(image, quality, sampling, restart, optimize=bool(rng.integers(2)))
            files[f"cv-{width}x{height}-{sampling}-q{quality}-r{restart}.jpg"] = data
        quality = int(rng.integers(30, 101))
        grey = image[:, :, 1].copy()
        files[f"cv-{width}x{height}-grey-q{quality}.jpg"] = encode_opencv(grey, quality, "444", int(rng.choice([0, 3])))
        for name, options in {
            "rgb": {"keep_rgb": True, "quality": quality},
            "420": {"subsampling": 2, "quality": quality, "optimize": True},
            "q100": {"subsampling": 0, "quality": 100},
        }.items():
            files[f"pil-{width}x{height}-{name}-q{quality}.jpg"] = encode_pillow(image, **options)
        for name, factor in {"separate444": 1, "separate420": 2}.items():
            files[f"{name}-{width}x{height}-q{quality}.jpg"] = encode_separate_scans(image, quality, factor)
    noise = rng.integers(0, 256, (120, 133, 3), dtype=np.uint8)
    for quality, sampling in itertools.product((1, 30, 75, 100), SAMPLINGS):
        files[f"noise-{sampling}-q{quality}.jpg"] = encode_opencv(noise, quality, sampling, 0)
    return files


def golden(directory: Path) -> None:
    """A subset of the wide corpus that is small enough to be kept in the repository."""
    directory.mkdir(parents=True, exist_ok=True)
    lines = []
    for name, data in (wide_corpus() | other_encoders()).items():
        sizes = ("1x1", "3x5", "17x17", "33x67", "67x33", "200x201", "45x39")
        small = any(f"-{size}-" in name for size in sizes)
        if not (small or name.startswith("noise")) or len(data) > 30_000:
            continue
        (directory / name).write_bytes(data)
        for scale in (1, 2, 4, 8) if min(Image.open(io.BytesIO(data)).size) >= 16 else (1,):
            lines += [f"{zlib.crc32(pillow_rgb(data, scale)):08x} {scale} {name}\n"]
    (directory / "digests.txt").write_text("".join(lines))
    others = other_kinds()
    for name, (_, data) in others.items():
        (directory / name).write_bytes(data)
    (directory / "other.txt").write_text("".join(f"{kind} {name}\n" for name, (kind, _) in others.items()))
    # Cut files as Pillow reads them with LOAD_TRUNCATED_IMAGES: "crc32 bytes name".
    ImageFile.LOAD_TRUNCATED_IMAGES = True
    lines = []
    for path in sorted(directory.glob("*200x201*.jpg")) + sorted(directory.glob("*67x33*.jpg")):
        data = path.read_bytes()
        if path.name.startswith("separate"):
            continue
        for cut in np.linspace(data.rindex(b"\xff\xda") + 20, len(data) - 3, 12).astype(int):
            lines.append(f"{zlib.crc32(pillow_rgb(data[:cut])):08x} {cut} {path.name}\n")
    (directory / "truncated.txt").write_text("".join(lines))


def check(directory: Path, program: str) -> None:
    """Compares a decoder with Pillow, file by file."""
    directory.mkdir(parents=True, exist_ok=True)
    files = wide_corpus()
    for name, data in files.items():
        (directory / name).write_bytes(data)
    out = subprocess.run([program, "crc", *sorted(files)], cwd=directory, check=True, capture_output=True, text=True)
    wrong = 0
    for line in out.stdout.splitlines():
        found, name = line.rsplit(" ", 1)
        if found != f"{zlib.crc32(pillow_rgb(files[name])):08x}":
            print("differs:", line)
            wrong += 1
    print(f"{len(files)} files, {wrong} differ")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["bench", where]:
            bench(Path(where))
        case ["golden", where]:
            golden(Path(where))
        case ["check", where, program]:
            check(Path(where), str(Path(program).resolve()))
        case _:
            sys.exit(__doc__)
