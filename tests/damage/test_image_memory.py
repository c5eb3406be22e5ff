"""Headers of a hundred bytes that state gigabytes: an error that says so, in a child that may not have that much memory."""

from __future__ import annotations

import io
import random
import re
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from support.bounded import Case, Outcome, read_bounded

#: Memory that a case may take beyond what the child has with everything imported.
USED_MB = 256
SIDE = 1 << 14


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


KINDS = ["PNG", "JPEG", "WEBP", "BMP", "GIF"]
#: Limits of which small images are above one, each with what is said then.
LIMITS = {
    "none": ({}, ""),
    "pixels": ({"pixels": 59_999}, "60000 pixels, above the limit of 59999"),
    "bytes": ({"image_bytes": 50_000}, "bytes decoded, above the limit of 50000"),
}


def case(folder: Path, name: str, content: bytes, **limits: int) -> Case:
    path = folder / name.replace(" ", "-") / "one.jpg"
    path.parent.mkdir()
    path.write_bytes(content)
    return Case(path=str(path), limits=limits, images=True)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """All cases, in one child."""
    folder = tmp_path_factory.mktemp("images")
    cases = {name: case(folder, name, make(folder)) for name, (make, _) in CASES.items()}
    large = png(50_000, 30_000, 8, 6, random.Random(0).randbytes(6 << 20))
    cases["too large"] = case(folder, "too large", large, pixels=1 << 33, image_bytes=1 << 36)
    for kind in KINDS:
        small = io.BytesIO()
        Image.new("RGB", (300, 200)).save(small, kind, **({"progressive": True} if kind == "JPEG" else {}))
        for limit, (limits, _) in LIMITS.items():
            cases[f"{kind} {limit}"] = case(folder, f"{kind} {limit}", small.getvalue(), **limits)
    return read_bounded(cases, tmp_path_factory.mktemp("cache"))


def assert_refused(found: Outcome, message: str) -> None:
    assert found.status == 0, f"ended by signal or limit: {found.status}"
    assert re.search(f"^DataError: .*{message}", found.said, re.DOTALL), found.said
    assert found.used_mb < USED_MB


@pytest.mark.parametrize("name", CASES)
def test_what_a_header_states_is_not_allocated(name: str, outcomes: dict[str, Outcome]) -> None:
    assert_refused(outcomes[name], CASES[name][1])


def test_memory_that_a_process_may_not_have_is_an_error_and_no_abort(outcomes: dict[str, Outcome]) -> None:
    """The limits allow it, the address space does not."""
    assert_refused(outcomes["too large"], "more than this process may have; give the process more memory")


@pytest.mark.parametrize("kind", KINDS)
def test_the_limits_of_read_reach_every_decoder(kind: str, outcomes: dict[str, Outcome]) -> None:
    assert outcomes[f"{kind} none"].said == "read, of 1 rows"
    for limit in ("pixels", "bytes"):
        assert_refused(outcomes[f"{kind} {limit}"], LIMITS[limit][1])
