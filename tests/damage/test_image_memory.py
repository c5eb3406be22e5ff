"""Headers of a hundred bytes that state gigabytes: an error that says so, in a child that may not have that much memory."""

from __future__ import annotations

import random
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

#: Address space that the child may ask for beyond what it has with everything imported, and memory that it may use.
ASKED_BYTES = 3 << 30
USED_MB = 256
SIDE = 1 << 14

CHILD = f"""
import resource, sys
from pathlib import Path
import penstock as ps
plan = ps.read(sys.argv[1], limits=ps.Limits(**eval(sys.argv[2])))
plan = plan.transform(image=[ps.image.Decode(), ps.image.Resize((32, 32))]).batch(1)
pages = int(Path("/proc/self/statm").read_text().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + {ASKED_BYTES},) * 2)
used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    with ps.Loader(plan) as loader:
        next(iter(loader))
except ps.DataError as error:
    print(error)
else:
    print("read")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used) >> 10)
"""


def png(width: int, height: int, depth: int, colour: int, rows: bytes = b"") -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    parts = (b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


def gif() -> bytes:
    frame = b"," + struct.pack("<HHHHB", 0, 0, SIDE, SIDE, 0) + b"\x02\x02\x4c\x01\x00;"
    return b"GIF89a" + struct.pack("<HHBBB", SIDE, SIDE, 0x80, 0, 0) + bytes(6) + frame


def bmp(bits: int, compression: int, rest: bytes) -> bytes:
    start = 54 + len(rest)
    header = struct.pack("<IiiHHIIiiII", 40, SIDE, SIDE, 1, bits, compression, 0, 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", start + 22, 0, 0, start) + header + rest + b"\0\1" * 11


def webp(lossless: bool) -> bytes:
    side = SIDE - 1
    if lossless:
        kind, body = b"VP8L", b"\x2f" + struct.pack("<I", (side - 1) | (side - 1) << 14) + bytes(60)
    else:
        kind, body = b"VP8 ", b"\x10\x00\x00\x9d\x01\x2a" + struct.pack("<HH", side, side) + bytes(80)
    chunk = kind + struct.pack("<I", len(body)) + body + bytes(len(body) % 2)
    return b"RIFF" + struct.pack("<I", len(chunk) + 4) + b"WEBP" + chunk


def progressive(folder: Path) -> bytes:
    Image.new("RGB", (64, 64)).save(folder / "small", "JPEG", progressive=True)
    content = bytearray((folder / "small").read_bytes())
    (folder / "small").unlink()
    frame = content.index(b"\xff\xc2")
    content[frame + 5 : frame + 9] = struct.pack(">HH", SIDE, SIDE)
    return bytes(content)


CASES: dict[str, tuple[Callable[[Path], bytes], str]] = {
    "a PNG of 16 bits": (
        lambda _: png(SIDE, SIDE, 16, 6),
        "takes 2147483648 bytes decoded, above the limit of 1073741824",
    ),
    "a PNG of one row": (lambda _: png(1 << 28, 1, 8, 2), "holds [0-9]+ bytes, above the limit"),
    "a PNG of one column": (lambda _: png(1, 1 << 28, 16, 6), "holds [0-9]+ bytes, above the limit"),
    "a PNG without pixels": (lambda _: png(SIDE, SIDE, 1, 0), "it states 16384 × 16384 pixels in [0-9]+ bytes"),
    "a GIF": (lambda _: gif(), "1100 times as many; raise Limits"),
    "a BMP": (lambda _: bmp(24, 0, b""), "it states 16384 × 16384 pixels in [0-9]+ bytes"),
    "a BMP of runs": (lambda _: bmp(8, 1, bytes(1024)), "1100 times as many"),
    "a lossless WebP": (lambda _: webp(lossless=True), "1100 times as many"),
    "a lossy WebP": (lambda _: webp(lossless=False), "1100 times as many"),
    "a progressive JPEG": (progressive, "1100 times as many"),
}


def read(path: Path, limits: str = "{}") -> tuple[str, int]:
    """What reading the image says, and the MiB that it took."""
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(path), limits], capture_output=True, text=True, timeout=120, check=False
    )
    assert child.returncode == 0, child.stderr
    said, used_mb = child.stdout.strip().rsplit("\n", 1)
    return said, int(used_mb)


@pytest.mark.parametrize("name", CASES)
def test_what_a_header_states_is_not_allocated(tmp_path: Path, name: str) -> None:
    make, message = CASES[name]
    path = tmp_path / "one.jpg"
    path.write_bytes(make(tmp_path))
    said, used_mb = read(path)
    assert used_mb < USED_MB
    with pytest.raises(ValueError, match=message):
        raise ValueError(said)


def test_memory_that_a_process_may_not_have_is_an_error_and_no_abort(tmp_path: Path) -> None:
    """The limits allow it, the address space does not."""
    path = tmp_path / "one.png"
    path.write_bytes(png(50_000, 30_000, 8, 6, random.Random(0).randbytes(6 << 20)))
    said, used_mb = read(path, "dict(pixels=1 << 33, image_bytes=1 << 36)")
    assert "more than this process may have; give the process more memory" in said
    assert used_mb < USED_MB


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "BMP", "GIF"])
def test_the_limits_of_read_reach_every_decoder(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "one.jpg"
    Image.new("RGB", (300, 200)).save(path, kind, **({"progressive": True} if kind == "JPEG" else {}))
    assert read(path)[0] == "read"
    assert "60000 pixels, above the limit of 59999" in read(path, "dict(pixels=59_999)")[0]
    assert "bytes decoded, above the limit of 50000" in read(path, "dict(image_bytes=50_000)")[0]
