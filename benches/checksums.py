"""What checksums cost: making them, and comparing them in the first and in later epochs, in CPU seconds. Prints JSON.

    python benches/checksums.py [--gigabytes 1.5]

Records of about 100 KB in tar and TFRecord, lines of about 450 bytes as JSON; files in the page cache, best of three.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import struct
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps
from penstock.cli.console import print_json
from penstock.core import kernels
from penstock.source.checks.build import build_checksums
from penstock.source.checks.ranges import CheckedRanges

_SHARDS, _TIMES = 4, 3
_NOISE = np.random.default_rng(0).bytes(8 << 20)


def _record(number: int) -> bytes:
    begin = number * 1_777 % (4 << 20)
    return _NOISE[begin : begin + 90_000 + number % 20_000]


def write_tar(path: Path, size_bytes: int) -> None:
    """Samples of a jpg and a cls."""
    with tarfile.open(path, "w") as archive:
        for number in range(size_bytes // 101_000):
            for name, content in (
                (f"{number:06d}.jpg", _record(number)),
                (f"{number:06d}.cls", b"%d" % (number % 1000)),
            ):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


def _masked(data: bytes) -> bytes:
    zero = np.zeros(1, dtype=np.int64)
    (crc,) = kernels.checksums([np.frombuffer(data, dtype=np.uint8)], zero, zero, zero + len(data), 1).tolist()
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _field(number: int, content: bytes) -> bytes:
    """A protobuf field of bytes."""
    length, head = len(content), bytearray([number << 3 | 2])
    while length >= 0x80:
        head.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes(head) + bytes([length]) + content


def write_tfrecord(path: Path, size_bytes: int) -> None:
    """Examples of one feature of bytes."""
    with path.open("wb") as file:
        for number in range(size_bytes // 100_000):
            feature = _field(1, _field(1, _record(number)))
            example = _field(1, _field(1, _field(1, b"image") + _field(2, feature)))
            length = struct.pack("<Q", len(example))
            file.write(length + _masked(length) + example + _masked(example))


def write_jsonl(path: Path, size_bytes: int) -> None:
    """A number, a text and a fraction a line."""
    text = "the quick brown fox jumps over the lazy dog "
    with path.open("w") as file:
        for number in range(size_bytes // 466):
            file.write(json.dumps({"id": number, "text": text * (number * 7 % 20), "x": number / 3}) + "\n")


def best(work: Callable[[], Any], times: int = _TIMES) -> dict[str, float]:
    """The least CPU time and wall time of some runs, in seconds."""
    found = []
    for _ in range(times):
        before = time.perf_counter(), time.process_time()
        work()
        found.append((time.perf_counter() - before[0], time.process_time() - before[1]))
    return {"wall_s": min(wall for wall, _ in found), "cpu_s": min(cpu for _, cpu in found)}


def measure(folder: Path, cache: Path) -> dict[str, Any]:
    """All figures of one dataset."""
    ps.read(folder)  # makes the index of records, and brings the files into memory

    def build() -> None:
        shutil.rmtree(cache / "penstock" / "checksums", ignore_errors=True)
        dataset = ps.read(folder)
        assert isinstance(dataset.read_ranges, CheckedRanges)
        build_checksums(dataset.source.manifest, dataset.read_ranges)

    def epochs(name: str, *, verify: bool) -> dict[str, Any]:
        first, later = [], []
        for _ in range(_TIMES):
            with ps.Loader(ps.read(folder, verify=verify).shuffle(seed=1).batch(256)) as loader:
                first.append(best(lambda loader=loader: sum(1 for _ in loader), 1))
                later.append(best(lambda loader=loader: sum(1 for _ in loader), 1))
        told = {f"{name}, first epoch": first, f"{name}, later epochs": later}
        return {what: {key: min(run[key] for run in runs) for key in runs[0]} for what, runs in told.items()}

    made = best(build)
    size = sum(path.stat().st_size for path in folder.iterdir())
    return {"bytes": size, "making": made, **epochs("without", verify=False), **epochs("with checksums", verify=True)}


def main() -> None:
    """Writes the data, measures, removes it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1.5, help="of each format")
    size_bytes = int(parser.parse_args().gigabytes * 1e9)
    found: dict[str, Any] = {"command": " ".join(sys.argv), "cpus": os.cpu_count()}
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        os.environ["XDG_CACHE_HOME"] = str(root / "cache")
        for kind, write in {"tar": write_tar, "tfrecord": write_tfrecord, "jsonl": write_jsonl}.items():
            (root / kind).mkdir()
            for shard in range(_SHARDS):
                write(root / kind / f"{shard}.{kind}", size_bytes // _SHARDS)
            found[kind] = measure(root / kind, root / "cache")
            shutil.rmtree(root / kind)
    print_json(found)


if __name__ == "__main__":
    main()
