"""TFRecord files of tf.train.SequenceExample, against what TensorFlow wrote and parsed."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

import penstock as ps
from format.test_tfrecord import golden, same
from penstock.core.columns.spec import Field
from penstock.core.errors import DataError, PenstockError, PlanError, RowError
from penstock.core.limits import Limits
from penstock.core.verbs.options import Column
from support.tfrecords import GOLDEN, block, entry, example, floats, integers, listed, open_files, parse, texts, write
from support.tries import tries

FILE = GOLDEN / "sequences.tfrecord"


def sequence(context: bytes = b"", **lists: list[bytes]) -> bytes:
    """A message of features and lists of features."""
    steps = {name: b"".join(block(1, step) for step in features) for name, features in lists.items()}
    return context + block(2, b"".join(entry(name, content) for name, content in steps.items()))


@pytest.mark.parametrize("threads", [1, 3])
def test_values_are_tensorflows(threads: int) -> None:
    wanted = golden("sequences.tfrecord.json")
    columns = parse(open_files(FILE), threads=threads)
    assert set(columns) == set(wanted)
    for name, column in columns.items():
        assert same(listed(column), wanted[name]), name


def test_what_is_inferred() -> None:
    assert open_files(FILE).spec == {
        "fps": Field("float32"),
        "id": Field("int64"),
        "name": Field("bytes"),
        "boxes": Field("int64", (None, None)),
        "captions": Field("bytes", (None, None)),
        "frame": Field("bytes", (None,)),
        "feature_lists/id": Field("int64", (None,)),
        "label": Field("int64", (None,)),
        "xy": Field("float32", (None, 3)),
    }


def test_other_dtypes_names_and_batches() -> None:
    columns = {
        "words": Column(feature="captions", dtype="string"),
        "labels": Column(feature="label", dtype="int16", shape=(None, None)),
        "steps": "feature_lists/id",
        "xy": Column(feature="xy", dtype="float64", shape=(None, 3)),
    }
    with ps.Loader(ps.read(str(FILE), columns=columns).batch(20)) as loader:
        batch = next(iter(loader))
    assert batch["words"].type == pa.large_list(pa.large_list(pa.large_string()))
    assert batch["words"][2].as_py() == [[], ["wörd 0"], ["wörd 0", "wörd 1"]]
    assert batch["labels"].type == pa.large_list(pa.large_list(pa.int16()))
    assert batch["labels"][2].as_py() == [[0], [2], [4]]
    assert batch["steps"][3].as_py() == [0, 1, 2, 3]
    assert batch["xy"].type == pa.large_list(pa.list_(pa.float64(), 3))


@pytest.mark.parametrize(
    ("column", "found"),
    [
        (Column(feature="xy", shape=(2, 3)), r"shape \(2, 3\) does not fit the list 'xy', whose steps hold 3 values"),
        (Column(feature="xy", shape=(None, 2)), "does not fit"),
        (Column(feature="boxes", shape=(None, 2)), "whose steps hold 0 to 2 values"),
        (Column(feature="captions", shape=(None,)), "does not fit"),
        (Column(feature="label", default=0), "a record that lacks a list has no steps"),
        (Column(feature="label", dtype="bytes"), "holds int64, which cannot become bytes"),
    ],
)
def test_columns_that_cannot_be(column: Column, found: str) -> None:
    with pytest.raises(PlanError, match=found):
        open_files(FILE, columns={"x": column})


def test_steps_that_do_not_fit_are_told(tmp_path: Path) -> None:
    good = sequence(example(id=integers(1)), x=[floats(1, 2)] * 3)
    for bad, found in (
        (sequence(x=[floats(1, 2), floats(1)]), r'feature "x": found 1 values, expected float32\(\?, 2\)'),
        (sequence(x=[floats(1, 2), integers(1, 2), texts(b"")]), "found bytes, expected float32"),
        (sequence(x=[b"\x12\x7f"]), "not a tf.train.Example: byte"),
        (block(2, block(1, block(1, b"x") + block(2, b"\x0a\x7f"))), "not a tf.train.Example: byte"),
        (block(2, b"\x0a\x7f"), "not a tf.train.Example: byte"),
    ):
        path = write(tmp_path / "a", [good] * 120 + [bad])
        with pytest.raises(RowError, match=f"row 120: .*{found}"):
            parse(open_files(path, columns=["x"]))
        with pytest.raises((RowError, DataError, PlanError)):
            parse(open_files(write(tmp_path / "b", [bad]), columns=["x", "id"]))
    source = open_files(write(tmp_path / "a", [good, b"", sequence(x=[])]), columns=["x"])
    assert parse(source)["x"].to_pylist() == [[[1, 2]] * 3, [], []]


@pytest.mark.slow
def test_garbage_in_records_with_sound_checksums_never_crashes(tmp_path: Path) -> None:
    rng = random.Random(8)
    good = sequence(example(id=integers(1)), x=[floats(1, 2)] * 3, y=[texts(b"a", b"b"), texts()], z=[integers(300)])
    outcomes = set()
    for _ in range(tries(5_000)):
        data = bytearray(good)
        for _ in range(rng.choice([1, 2, 5])):
            place = rng.randrange(len(data))
            data[place : place + rng.choice([0, 1, 1, 4])] = rng.randbytes(rng.choice([0, 1, 1, 4]))
        try:
            outcomes.add(len(parse(open_files(write(tmp_path / "a", [good, good, bytes(data)])))))
        except PenstockError as error:
            outcomes.add(type(error))
    assert {4, RowError} <= outcomes


def test_limits_bound_values_and_steps(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [sequence(x=[integers(1, 2), integers()] * 50)])
    assert len(parse(open_files(path))["x"][0]) == 100
    for limit in (99, 10):
        with pytest.raises(RowError, match=r"found \d+ values, the limit is"):
            parse(open_files(path, limits=Limits(values=limit)))


def test_of_duplicate_lists_the_last_counts(tmp_path: Path) -> None:
    twice = block(2, entry("x", block(1, integers(1))) + entry("x", block(1, integers(2)) * 2))
    assert parse(open_files(write(tmp_path / "a", [twice])))["x"].to_pylist() == [[2, 2]]
