"""Writes JPEG files for tests and benchmarks, from the photographs that scikit-image and scikit-learn carry.

    python tests/golden/make_jpegs.py bench DIR     about 500x400, quality 90 to 97, 4:2:0 and 4:4:4, for timing
    python tests/golden/make_jpegs.py golden DIR    small files of every kind, with digests.txt: "crc32 scale name",
                                                    the CRC-32 of the RGB bytes that libjpeg-turbo (Pillow) decodes,
                                                    and other.txt: "kind name", JPEGs that are not baseline
    python tests/golden/make_jpegs.py check DIR EXE compare the program `EXE crc FILES…` with Pillow on a wide corpus

Needs numpy, pillow, opencv-python-headless, scikit-image and scikit-learn; "golden" also ImageMagick and cjpeg (Debian's imagemagick
and libjpeg-turbo-progs).
"""

from __future__ import annotations

import io
import itertools
import shutil
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import cv2
import numpy as np
import skimage.data
import sklearn.datasets
from PIL import Image, ImageFile

SAMPLINGS = {"444": 0x111111, "422": 0x211111, "420": 0x221111, "440": 0x121111, "411": 0x411111}


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


def with_frame(data: bytes, *, marker: int | None = None, precision: int | None = None) -> bytes:
    """A baseline file whose frame claims another kind of coding or another precision."""
    at = data.index(b"\xff\xc0\x00\x11\x08")
    kind, bits = marker or data[at + 1], precision or data[at + 4]
    return data[: at + 1] + bytes([kind]) + data[at + 2 : at + 4] + bytes([bits]) + data[at + 5 :]


def other_encoders() -> dict[str, bytes]:
    """Baseline files by ImageMagick and cjpeg: what the other encoders do not write."""
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
        "other-cmyk-pillow.jpg": ("cmyk", cmyk.getvalue()),
        "other-arithmetic-cjpeg.jpg": ("arithmetic", encode_cjpeg(image, "-quality", "85", "-arithmetic")),
        "other-arithmetic-progressive-cjpeg.jpg": (
            "arithmetic",
            encode_cjpeg(image, "-quality", "85", "-arithmetic", "-progressive"),
        ),
        "other-12-bit.jpg": ("12-bit", with_frame(baseline, marker=0xC1, precision=12)),
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
