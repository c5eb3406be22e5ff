"""TFRecord files of tf.train.Example, against what TensorFlow wrote and parsed."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.core.columns.spec import Field, Spans
from penstock.core.errors import DataError, PlanError, RowError, SourceError
from penstock.core.limits import Limits
from penstock.core.verbs.options import Column
from support.tfrecords import (
    GOLDEN,
    block,
    entry,
    example,
    floats,
    integers,
    listed,
    open_files,
    parse,
    texts,
    varint,
    write,
)


def golden(name: str) -> dict[str, list]:
    def value(item):
        if isinstance(item, dict):
            return bytes.fromhex(item["hex"])
        if isinstance(item, list):
            return [value(part) for part in item]
        return float(item) if item in ("inf", "-inf", "nan") else item

    return {key: value(column) for key, column in json.loads((GOLDEN / name).read_text()).items()}


def same(got, expected) -> bool:
    if isinstance(expected, list):
        return len(got) == len(expected) and all(map(same, got, expected))
    if isinstance(expected, float):
        return struct.pack("<f", got) == struct.pack("<f", expected)
    return got == expected


PLAIN = ["dense.tfrecord", "ragged.tfrecord", "unpacked.tfrecord", "images.tfrecord", "docs.tfrecord"]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *((name, name) for name in PLAIN),
        ("dense_gzip.tfrecord.gz", "dense.tfrecord"),
        ("dense_zlib.tfrecord", "dense.tfrecord"),
    ],
)
def test_values_are_tensorflows(name: str, expected: str, threads: int) -> None:
    wanted = golden(expected + ".json")
    columns = parse(open_files(GOLDEN / name), threads=threads)
    assert set(columns) == set(wanted)
    for key, column in columns.items():
        assert same(listed(column), wanted[key]), key


def test_what_is_inferred() -> None:
    assert open_files(GOLDEN / "dense.tfrecord").spec == {
        "label": Field("int64"),
        "x": Field("float32", (32,)),
        "y": Field("int64", (16,)),
    }
    assert open_files(GOLDEN / "ragged.tfrecord").spec == {
        "name": Field("bytes"),
        "tokens": Field("int64", (None,)),
        "weights": Field("float32", (None,)),
        "words": Field("bytes", (None,)),
    }


def test_missing_features_take_the_default_or_are_an_error() -> None:
    columns = {
        "a": "a",
        "b": Column(feature="b", dtype="float32", shape=(), default=-1),
        "c": Column(feature="c", dtype="bytes", shape=(), default="none"),
    }
    wanted = golden("missing.tfrecord.json")
    for key, column in parse(open_files(GOLDEN / "missing.tfrecord", columns=columns)).items():
        assert same(listed(column), wanted[key]), key
    strict = open_files(GOLDEN / "missing.tfrecord", columns={"b": Column(feature="b", shape=())})
    with pytest.raises(
        RowError, match=r"feature \"b\": the record lacks it; expected float32; give the column a default"
    ) as error:
        parse(strict)
    assert error.value.row == 0
    empty = parse(open_files(GOLDEN / "missing.tfrecord", columns=["b", "c"]))
    assert empty["b"].to_pylist()[:3] == [[], [0.5], [1.0]]
    assert empty["c"].to_pylist()[:2] == [[], [b"c"]]


def test_bytes_are_not_copied() -> None:
    source = open_files(GOLDEN / "images.tfrecord", columns={"image": "image/encoded"})
    image = parse(source)["image"]
    assert isinstance(image, Spans)
    assert len(image.buffers) == 1
    assert all(picture.startswith(b"\xff\xd8") for picture in listed(image))


def test_strings_nested_shapes_and_other_dtypes() -> None:
    columns = {
        "text": Column(feature="name", dtype="string"),
        "words": Column(feature="words", dtype="string"),
        "wide": Column(feature="weights", dtype="float64"),
        "again": "weights",
    }
    got = parse(open_files(GOLDEN / "ragged.tfrecord", columns=columns))
    assert got["text"].type == pa.large_string()
    assert got["words"].type == pa.large_list(pa.large_string())
    assert got["words"][2].as_py() == ["wörd 0", "wörd 1"]
    assert got["wide"].type == pa.large_list(pa.float64())
    assert got["again"].type == pa.large_list(pa.float32())
    table = {"x": Column(feature="x", dtype="float16", shape=(4, 8)), "pairs": Column(feature="y", shape=(None, 2))}
    got = parse(open_files(GOLDEN / "dense.tfrecord", columns=table))
    wanted = golden("dense.tfrecord.json")
    np.testing.assert_array_equal(got["x"], np.array(wanted["x"], np.float32).astype(np.float16).reshape(-1, 4, 8))
    assert got["pairs"].type == pa.large_list(pa.list_(pa.int64(), 2))
    assert got["pairs"][3].as_py() == np.array(wanted["y"][3]).reshape(-1, 2).tolist()


@pytest.mark.parametrize(
    ("dtype", "good", "bad"),
    [
        ("bool", [0, 1], 2),
        ("int8", [-128, 127], 128),
        ("uint8", [0, 255], -1),
        ("int32", [-(2**31), 2**31 - 1], 2**31),
        ("uint64", [0, 2**63 - 1], -1),
        ("float16", [-2048, 2048], 2049),
        ("bfloat16", [-256, 256], 257),
        ("float32", [-(2**24), 2**24], 2**24 + 1),
        ("float64", [-(2**53), 2**53], 2**53 + 1),
    ],
)
def test_integers_become_other_dtypes_only_exactly(tmp_path: Path, dtype: str, good: list[int], bad: int) -> None:
    path = write(tmp_path / "a", [example(x=integers(value)) for value in [*good, bad]])
    source = open_files(path, columns={"x": Column(feature="x", dtype=dtype)})
    got = parse(source, [0, 1])["x"]
    if dtype == "bfloat16":
        got = (got.astype(np.uint32) << 16).view(np.float32)
    assert got.tolist() == good
    with pytest.raises(RowError, match=f"the value {bad} does not fit; expected {dtype}"):
        parse(source)


def test_a_float_that_becomes_infinite_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [example(x=floats(math.inf)), example(x=floats(1e30))])
    with pytest.raises(RowError, match=r"row 1.*does not fit; expected float16"):
        parse(open_files(path, columns={"x": Column(feature="x", dtype="float16")}))


def test_duplicate_keys_the_last_wins_and_lists_join(tmp_path: Path) -> None:
    twice = block(1, entry("x", integers(1)) + entry("x", integers(2)))
    parts = example(x=integers(1)) + example(x=integers(3))
    joined = example(x=integers(4, 5) + floats(1.0) + integers(6) + integers(7, 300))
    unknown = (
        varint(9 << 3) + b"\x05" + block(1, block(12, b"zz") + entry("x", integers(8)) + varint(5 << 3 | 5) + b"1234")
    )
    groups = varint(7 << 3 | 3) + varint(7 << 3 | 3) + varint(7 << 3 | 4) + varint(7 << 3 | 4) + example(x=integers(9))
    path = write(tmp_path / "a", [twice, parts, joined, unknown, groups])
    got = parse(open_files(path, columns={"x": Column(feature="x", dtype="int64", shape=(None,))}))["x"]
    assert got.to_pylist() == [[2], [3], [6, 7, 300], [8], [9]]


def test_errors_name_feature_expected_and_found(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a", [example(x=integers(1), y=floats(1, 2))] * 200 + [example(x=floats(1), y=floats(1, 2, 3))]
    )
    with pytest.raises(
        RowError, match='feature "x": found float32, expected int64; give the column the dtype'
    ) as error:
        parse(open_files(path, columns=["x"]), threads=2)
    assert error.value.row == 200
    with pytest.raises(RowError, match=r'feature "y": found 3 values, expected float32\(2\)'):
        parse(open_files(path, columns=["y"]))


def test_the_lowest_failing_row_is_told_whatever_the_threads(tmp_path: Path) -> None:
    good, bad = example(x=integers(1)), example(x=floats(1))
    path = write(tmp_path / "a", [bad if row in (700, 1501, 1999) else good for row in range(2000)])
    source = open_files(path)
    for threads in (1, 2, 5):
        with pytest.raises(RowError) as error:
            parse(source, threads=threads)
        assert error.value.row == 700


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        (
            {"z": "labell"},
            r"no column 'labell' in the first records; there are label, x, y; .*; did you mean 'label'\?",
        ),
        ({"z": Column(feature="x", dtype="int64")}, "holds float32, which cannot become int64"),
        ({"z": Column(feature="x", dtype="text")}, "dtype 'text' is not known"),
        ({"z": Column(feature="x", shape=(3,))}, r"takes 3 values, the first records hold 32 in 'x'"),
        ({"z": Column(feature="x", shape=(2, None))}, "only the first can be None"),
        ({"z": Column(feature="x", shape=(None,), default=0)}, "leave the default away"),
        ({"z": Column(feature="y", default=1.5)}, "default 1.5 is no int64"),
        ({"z": Column(feature="x", default=[1, 2])}, r"a default of shape \(2,\) for float32\(32\)"),
        (
            {"z": "q"},
            r"no column 'q' in the first records; there are label, x, y; a column that only later records have needs dtype",
        ),
        ([], "none are named"),
    ],
)
def test_columns_that_cannot_be(columns, found: str) -> None:
    with pytest.raises(PlanError, match=found):
        open_files(GOLDEN / "dense.tfrecord", columns=columns)


def test_a_feature_that_only_later_records_have(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [example(x=integers(1))] * 150 + [example(x=integers(2), rare=integers(7))])
    with pytest.warns(UserWarning, match="none of the first 100 records has the feature 'rare'"):
        source = open_files(path, columns={"rare": Column(feature="rare", dtype="int64", shape=(), default=-1)})
    assert parse(source, [0, 150])["rare"].tolist() == [-1, 7]


def test_shards_and_their_order(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / f"{part}", [example(x=integers(10 * part + row)) for row in range(part)]) for part in range(5)
    ]
    source = open_files(*paths)
    assert source.manifest.samples == 10
    assert parse(source, [9, 0, 4])["x"].tolist() == [43, 10, 31]
    assert open_files(*paths).manifest.digest == source.manifest.digest
    with pytest.raises(SourceError, match="no records in 1 file"):
        open_files(paths[0])


def test_limits_and_verify(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [example(x=integers(*range(100)))])
    for _ in range(2):  # the second time, an index without that limit lies in the cache
        with pytest.raises(DataError, match=r"record 0, byte 0: a record of \d+ bytes, the limit is 50"):
            open_files(path, limits=Limits(record_bytes=50))
        open_files(path)
    ragged = {"x": Column(feature="x", shape=(None,))}
    with pytest.raises(RowError, match="found 100 values, the limit is 99"):
        parse(open_files(path, columns=ragged, limits=Limits(values=99)))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"checksum is 0x.*, the file says 0x"):
        open_files(path)
    assert parse(open_files(path, verify=False))["x"].tolist() == [list(range(100))]


def test_no_value_of_bytes_is_not_an_empty_one(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [example(x=texts(b"")), example(x=texts())])
    source = open_files(path, columns={"x": Column(feature="x", dtype="bytes", shape=())})
    assert listed(parse(source, [0])["x"]) == [b""]
    with pytest.raises(RowError, match="found 0 values, expected bytes"):
        parse(source)


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [example(x=texts(b"\xff"))])
    with pytest.raises(RowError, match="bytes that are not UTF-8"):
        parse(open_files(path, columns={"x": Column(feature="x", dtype="string")}))
