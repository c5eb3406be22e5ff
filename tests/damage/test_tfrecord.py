"""Damaged and hostile TFRecord files: an error that says where, never a crash, a hang, much memory or a wrong sample."""

from __future__ import annotations

import bisect
import gzip
import os
import random
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from penstock.core.errors import DataError, PenstockError, PlanError, RowError
from penstock.core.limits import Limits
from penstock.core.verbs.options import Column
from support.tfrecords import (
    GOLDEN,
    block,
    entry,
    example,
    floats,
    frame,
    integers,
    listed,
    masked,
    open_files,
    parse,
    texts,
    varint,
    write,
)
from support.tries import some, tries

COLUMNS = {
    "x": Column(feature="x", dtype="float32", shape=(2,)),
    "y": Column(feature="y", dtype="int64", shape=(None,)),
    "z": Column(feature="z", dtype="bytes", shape=()),
}


def small(rows: int = 6) -> list[bytes]:
    return [
        example(x=floats(row, row / 3), y=integers(*range(0, 1000 * row, 700)), z=texts(b"z" * row))
        for row in range(rows)
    ]


def rows_of(columns) -> list[tuple]:
    return list(zip(*(listed(columns[name]) for name in COLUMNS), strict=True))


def test_truncation_at_every_byte(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole", small()).read_bytes()
    wanted = rows_of(parse(open_files(tmp_path / "whole", columns=COLUMNS)))
    ends = np.cumsum([len(frame(record)) for record in small()]).tolist()
    path = tmp_path / "cut"
    for size in sorted({*some(range(1, len(whole))), *ends[:-1]}):
        path.write_bytes(whole[:size])
        if size in ends:
            assert rows_of(parse(open_files(path, columns=COLUMNS))) == wanted[: ends.index(size) + 1]
            continue
        record = sum(end <= size for end in ends)
        with pytest.raises(DataError, match=rf"cut, record {record}, byte {([0, *ends])[record]}: .*truncated"):
            open_files(path, columns=COLUMNS)


def test_no_flipped_bit_makes_a_wrong_sample(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole", small()).read_bytes()
    wanted = rows_of(parse(open_files(tmp_path / "whole", columns=COLUMNS)))
    rng = random.Random(7)
    path = tmp_path / "flipped"
    told = 0
    count = tries(1_500)
    for _ in range(count):
        content = bytearray(whole)
        for _ in range(rng.choice([1, 1, 1, 2, 8])):
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        path.write_bytes(content)
        try:
            got = rows_of(parse(open_files(path, columns=COLUMNS)))
        except (DataError, RowError):
            told += 1
            continue
        assert got == wanted
    assert told >= count * 29 // 30


def test_garbage_in_records_with_sound_checksums_never_crashes(tmp_path: Path) -> None:
    rng = random.Random(8)
    path = tmp_path / "garbage"
    outcomes = set()
    for _ in range(tries(1_500, at_least=60)):
        data = bytearray(rng.choice(small()))
        for _ in range(rng.choice([1, 2, 5])):
            place = rng.randrange(len(data))
            data[place : place + rng.choice([0, 1, 1, 4])] = rng.randbytes(rng.choice([0, 1, 1, 4]))
        write(path, [*small(2), bytes(data)])
        try:
            outcomes.add(len(parse(open_files(path, columns=COLUMNS))))
        except PenstockError as error:
            outcomes.add(type(error))
    assert {3, RowError} <= outcomes <= {3, DataError, RowError}


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a",
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x0a\x05\x0a",
        b"\xff" * 11,
        b"\x0b" * 100_000,
        b"\x0b" * 100_000 + b"\x0c" * 99_999,
        b"\x0c",
        b"\x07",
        b"\x00\x00",
        block(1, block(1, block(1, b"x") + b"\x12\x7f")),
        block(1, block(1, block(1, b"x") + block(2, b"\x12\x7f"))),
        example(x=block(2, b"\x0a\x7f")),
        example(x=block(2, block(1, b"12345"))),
        example(x=block(2, b"\x0d12")),
    ],
)
def test_hostile_messages(tmp_path: Path, data: bytes) -> None:
    path = write(tmp_path / "a", [*small(1), data])
    with pytest.raises(PenstockError, match=r"record 1|row 1.*not a tf\.train\.Example: byte \d+ of the record"):
        parse(open_files(path, columns={"x": COLUMNS["x"]}))
    with pytest.raises(PenstockError):
        open_files(write(tmp_path / "b", [data]), columns=COLUMNS)


def test_hostile_integers(tmp_path: Path) -> None:
    for values in (b"\xff" * 11, b"\x80", b"\xff" * 10 + b"\x01"):
        path = write(tmp_path / "a", [example(y=integers(1)), example(y=block(3, block(1, values)))])
        for column in (COLUMNS["y"], Column(feature="y", dtype="int64", shape=(1,))):
            with pytest.raises(PenstockError, match=r"a number is|found 0 values|found 2 values"):
                parse(open_files(path, columns={"y": column}))


@pytest.mark.parametrize("length", [1 << 63, (1 << 64) - 1, 1 << 40, 100])
def test_record_lengths_that_cannot_be(tmp_path: Path, length: int) -> None:
    path = tmp_path / "a"
    stated = struct.pack("<Q", length)
    path.write_bytes(frame(b"") + stated + masked(stated) + b"12345678")
    with pytest.raises(
        DataError, match=rf"a, record 1, byte 16: a record of {length} bytes, 4 are left; the file is trunc"
    ):
        open_files(path)


def test_appended_garbage_and_wrong_files(tmp_path: Path) -> None:
    path = write(tmp_path / "a", small())
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"garbage" * 5)
    with pytest.raises(DataError, match=rf"a, record 6, byte {size}: the length's checksum is .*appended"):
        open_files(path)
    for content in (b"\x89PNG\r\n\x1a\n" + bytes(50), b"#!/bin/sh\necho hello, world\n"):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"record 0, byte 0: .*this is not a TFRecord file"):
            open_files(path)


def test_records_of_no_bytes(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [b"", *small(1)])
    got = parse(open_files(path, columns={"y": COLUMNS["y"]}))
    assert got["y"].to_pylist() == [[], []]
    with pytest.raises(PlanError, match="no values in the first records"):
        open_files(write(tmp_path / "b", [b""]))


def test_a_file_that_changed_after_it_was_opened(tmp_path: Path) -> None:
    path = write(tmp_path / "a", small())
    source = open_files(path, columns=COLUMNS)
    content = path.read_bytes()
    other = write(path, reversed(small())).read_bytes()
    assert len(other) == len(content)
    with pytest.raises(RowError, match=r"the frame states \d+ bytes of data, the index \d+|not lie"):
        parse(source)


def test_bombs_are_stopped(tmp_path: Path) -> None:
    path = tmp_path / "bomb.tfrecord.gz"
    path.write_bytes(gzip.compress(bytes(64 << 20), 9))
    with pytest.raises(DataError, match=r"compressed bytes expand to more than \d+; raise Limits"):
        open_files(path, limits=Limits(ratio=100))
    with pytest.raises(DataError, match="expand to more than 1000000"):
        open_files(path, limits=Limits(unpacked_bytes=1_000_000))
    assert list(Path(os.environ["XDG_CACHE_HOME"]).rglob("*.tmp")) == []


@pytest.mark.slow
@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_packed_files_cut_or_damaged(tmp_path: Path, pack) -> None:
    path = tmp_path / "a"
    whole = pack(b"".join(map(frame, small(40))))
    for size in range(16, len(whole), 37):
        path.write_bytes(whole[:size])
        with pytest.raises(
            DataError, match=r"a, .*: (compressed data that cannot be decompressed|the length's|.* truncated)"
        ):
            open_files(path)
    rng = random.Random(9)
    wanted = rows_of(parse(open_files(write(tmp_path / "plain", small(40)), columns=COLUMNS)))
    for _ in range(100):
        content = bytearray(whole)
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        path.write_bytes(content)
        try:
            got = rows_of(parse(open_files(path, columns=COLUMNS)))
        except (DataError, RowError):
            continue
        assert got == wanted


def test_a_packed_file_of_damaged_records_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord.gz"
    length = struct.pack("<Q", 1 << 63)
    path.write_bytes(gzip.compress(frame(small(1)[0]) + length + masked(length) + bytes(9)))
    with pytest.raises(
        DataError, match=r"^/.*/a\.tfrecord\.gz, record 1, byte \d+: a record of 9223372036854775808 bytes"
    ):
        open_files(path)


def test_a_plain_file_that_begins_like_gzip(tmp_path: Path) -> None:
    pad = 0x088B1F - len(example(x=integers(1), pad=texts(b"")))
    record = example(x=integers(1), pad=texts(b"p" * (pad - 15)))
    record = example(x=integers(1), pad=texts(b"p" * (pad - 15 + 0x088B1F - len(record))))
    assert frame(record).startswith(b"\x1f\x8b\x08")
    assert parse(open_files(write(tmp_path / "a", [record]), columns=["x"]))["x"].tolist() == [1]


@pytest.mark.parametrize(
    "golden",
    [path for path in sorted(GOLDEN.glob("*.tfrecord")) if "zlib" not in path.stem],
    ids=lambda path: path.stem,
)
def test_files_of_other_writers_cut_anywhere(golden: Path, tmp_path: Path) -> None:
    whole, manifest = golden.read_bytes(), open_files(golden).manifest
    ends = [0, *(manifest.offset + manifest.length).tolist()]
    assert ends[-1] == len(whole)
    path = tmp_path / "cut"
    for size in some(range(len(whole)), full=200):
        if size in ends:
            continue
        path.write_bytes(whole[:size])
        with pytest.raises(DataError, match=rf"cut, record {bisect.bisect(ends, size) - 1}, byte .*truncated"):
            open_files(path)


def test_very_many_features_and_columns(tmp_path: Path) -> None:
    names = [f"feature_{number:05d}" for number in range(3000)]
    records = [block(1, b"".join(entry(name, integers(row)) for name in sorted(names, key=hash))) for row in range(3)]
    columns = parse(open_files(write(tmp_path / "a", records)))
    assert len(columns) == 3000
    assert all(column.tolist() == [0, 1, 2] for column in columns.values())
    assert varint(300) == b"\xac\x02"
