"""JSON lines: files by Hugging Face datasets and pandas, and the standard library as the reference."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.core import kernels
from penstock.core.errors import DataError, PenstockError, PlanError, RowError
from penstock.format.json.features import ValueKind, learn
from support.damage import load_all
from support.tfrecords import listed

GOLDEN = Path(__file__).parent.parent / "golden" / "lines"


def write(path: Path, *rows: Any) -> Path:
    path.write_text(
        "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), encoding="utf-8"
    )
    return path


def columns_of(path: Path, **options) -> dict[str, list]:
    return {name: listed(column) for name, column in load_all(ps.read(str(path), **options)).items()}


@pytest.mark.parametrize("name", ["datasets.jsonl", "pandas.jsonl", "pandas.jsonl.xz"])
def test_files_of_other_writers(name: str) -> None:
    wanted = json.loads((GOLDEN / "rows.json").read_text())
    found = columns_of(GOLDEN / name)
    assert list(found) == ["id", "text", "score", "flag", "tokens", "words", "box.left"]
    for column in ("id", "text", "score", "flag", "tokens", "words"):
        assert found[column] == [row[column] for row in wanted], column
    assert found["box.left"] == [row["box"]["left"] for row in wanted]
    spec = ps.read(str(GOLDEN / name)).spec
    assert {column: str(field) for column, field in spec.items()} == {
        "id": "int64",
        "text": "string",
        "score": "float64",
        "flag": "bool",
        "tokens": "int64(?)",
        "words": "string(?)",
        "box.left": "float64",
    }


scalars = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text() | st.booleans() | st.none()
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)


@pytest.mark.slow
@given(st.text(), values, st.text(), st.booleans(), st.sampled_from([None, 1]))
def test_any_value_between_others(key: str, value: Any, text: str, ascii_only: bool, indent: int | None) -> None:
    """What is not wanted is stepped over, what is wanted is what Python's reader gives."""
    row = {"before": 7, "skip" + key: value, "text": text, "raw": value}
    line = json.dumps(row, ensure_ascii=ascii_only, indent=indent).encode("utf-8", "surrogatepass")
    record = np.frombuffer(line, dtype=np.uint8)
    parser = kernels.JsonParser(
        [
            (["text"], "text", "string", [], "text", None),
            (["raw"], "raw", "string", [], "JSON", b"null"),
            (["before"], "fixed", "int64", [], "int64", None),
        ],
        values_limit=100,
    )
    before = np.empty(8, dtype=np.uint8)
    zero, size = np.zeros(1, dtype=np.int64), np.array([len(line)])
    (data, ends, _), (raw, _, _), _ = parser.parse([record], zero, zero, size, [None, None, before], 1)
    assert bytes(data[: ends[1]]).decode() == text
    assert json.loads(bytes(raw)) == value
    assert before.view(np.int64)[0] == 7


@given(st.binary(max_size=60))
def test_bytes_of_any_kind_are_told(line: bytes) -> None:
    """What Python's reader refuses is refused here as well."""
    parser = kernels.JsonParser([(["a"], "raw", "string", [], "JSON", b"")], values_limit=100)
    zero, size = np.zeros(1, dtype=np.int64), np.array([len(line)])
    try:
        parser.parse([np.frombuffer(line, dtype=np.uint8)], zero, zero, size, [None], 1)
    except RowError:
        return
    assert isinstance(json.loads(line), dict)


def test_types_shapes_and_defaults(tmp_path: Path) -> None:
    rows = [
        {"x": 1, "v": [1, 2], "m": [[1, 2], [3, 4]], "t": "a", "o": {"z": [1, "b"]}},
        {"x": 2, "v": [3, 4], "m": [[5, 6]], "t": None},
    ]
    path = write(tmp_path / "a.jsonl", *rows)
    columns = {
        "x": ps.Column(feature="x", dtype="float32"),
        "v": ps.Column(feature="v", dtype="uint8", shape=(2,)),
        "m": "m",
        "t": ps.Column(feature="t", default="none"),
        "bytes": ps.Column(feature="t", dtype="bytes", default=b""),
        "late": ps.Column(feature="not.yet", dtype="int16", shape=(2,), default=-1),
        "json": ps.Column(feature="o", dtype="string", default="{}"),
    }
    found = load_all(ps.read(str(path), columns=columns))
    assert found["x"].dtype == np.float32
    assert found["x"].tolist() == [1, 2]
    assert found["v"].dtype == np.uint8
    assert found["v"].tolist() == [[1, 2], [3, 4]]
    assert found["m"].type == pa.large_list(pa.list_(pa.int64(), 2))
    assert found["m"].to_pylist() == [[[1, 2], [3, 4]], [[5, 6]]]
    assert found["t"].to_pylist() == ["a", "none"]
    assert found["bytes"].to_pylist() == [b"a", b""]
    assert found["late"].tolist() == [[-1, -1]] * 2
    assert found["json"].to_pylist() == ['{"z": [1, "b"]}', "{}"]


def test_missing_and_null_lists_are_empty(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"v": [1], "w": ["x"]}, {"v": None}, {})
    assert columns_of(path) == {"v": [[1], [], []], "w": [["x"], [], []]}


def test_numbers_that_python_writes(tmp_path: Path) -> None:
    floats = [math.inf, -math.inf, 5e-324, 0.1 + 0.2, -0.0, 1e22]
    path = write(tmp_path / "a.jsonl", {"f": [*floats, math.nan], "i": [2**63 - 1, -(2**63)], "u": 2**64 - 1})
    found = load_all(ps.read(str(path), columns={"f": "f", "i": "i", "u": ps.Column(feature="u", dtype="uint64")}))
    values = found["f"].to_pylist()[0]
    assert [value.hex() for value in values[:-1]] == [value.hex() for value in floats]
    assert math.isnan(values[-1])
    assert found["i"].to_pylist() == [[2**63 - 1, -(2**63)]]
    assert found["u"].tolist() == [2**64 - 1]


def test_blank_lines_are_no_samples(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf\n \t\r\n{"a": 1}\r\n\n\n{"a": 2}\n\n   \n')
    assert columns_of(path) == {"a": [1, 2]}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            '{"a": 1',
            r"record 1, byte 9: byte 8 of the line: not JSON: a comma or a closing bracket is missing; repair the line",
        ),
        (
            '{"a": "x"}',
            r"byte 6 of the line: \"a\" is text, expected int64; give the column the dtype that the file has",
        ),
        ('{"b": 1}', 'the key "a" is missing, expected int64; give the column a default'),
        ('{"a": null}', '"a" is null, expected int64; give the column a default'),
        ('{"a": 1.5}', r'"a" is a number that int64 cannot hold; give the column another dtype'),
        ('{"a": 1, "a": 1}', 'the key "a" occurs twice'),
        ("[]", "the line is no object"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, line: str, message: str) -> None:
    """The first file is fine, so that nothing is seen before the line is read."""
    write(tmp_path / "0.jsonl", {"a": 1})
    write(tmp_path / "1.jsonl", {"a": 1}, line)
    with pytest.raises(DataError, match=message) as caught:
        list(ps.Loader(ps.read(str(tmp_path)).batch(3)))
    assert "1.jsonl, record 1, byte 9" in str(caught.value)


def test_what_is_no_file_of_lines(tmp_path: Path) -> None:
    whole = write(tmp_path / "a.json", json.dumps([{"a": 1}], indent=1))
    with pytest.raises(DataError, match=r"a\.json, record 0, byte 0: begins with '\[': a JSON array.*jq -c '\.\[\]'"):
        ps.read(str(whole))
    pretty = write(tmp_path / "b.json", json.dumps({"a": 1}, indent=1))
    with pytest.raises(DataError, match=r"b\.json, record 0, byte 0: not JSON lines .*jq -c \. data\.json"):
        ps.read(str(pretty))
    deep = write(tmp_path / "c.json", '{"a": ' + "[" * 200_000)
    with pytest.raises(DataError, match="record 0, byte 0: not JSON lines"):
        ps.read(str(deep))


def test_columns_that_cannot_be(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"n": None, "mixed": [1, "a"], "deep": [[1], [1, 2]], "x": 1, "o": [{"a": 1}]})
    for name, message in {
        "n": "holds null in the first records, which is no column by itself",
        "mixed": "holds lists of mixed in the first records.*takes its JSON",
        "deep": "holds lists of lists of integer",
        "o": "holds lists of object",
        "y": "no column 'y' in the first records; there are n, mixed, deep, x, o",
    }.items():
        with pytest.raises(PlanError, match=message):
            ps.read(str(path), columns=[name])
    for column, message in {
        ps.Column(feature="x", dtype="bool"): "holds integer, which cannot become bool; it can become int8",
        ps.Column(feature="x", dtype="int46"): "dtype 'int46' is not known",
        ps.Column(feature="x", shape=(None,)): "holds integer, which cannot become int64",
        ps.Column(feature="mixed", dtype="string", shape=(0,)): "cannot become",
        ps.Column(feature="x", default="a"): "default 'a' is no int64",
    }.items():
        with pytest.raises(PlanError, match=message):
            ps.read(str(path), columns={"c": column})
    with pytest.raises(PlanError, match="'n' holds null"):
        ps.read(str(path))


def test_what_first_lines_say() -> None:
    assert learn([b'{"a": {"b": [1, 2]}}', b'{"a": {"b": [2.5]}, "c": null}', b'{"c": true, "d": [[], [[1]]]}']) == {
        ("a",): ValueKind("object"),
        ("a", "b"): ValueKind("float", (-1,)),
        ("c",): ValueKind("bool"),
        ("d",): ValueKind("integer", (2, -1, 1)),
    }


def test_threads_and_batches_make_no_difference(tmp_path: Path) -> None:
    rows = [{"i": n, "t": "x" * (n % 50), "l": list(range(n % 7)), "w": ["é"] * (n % 3)} for n in range(3_000)]
    dataset = ps.read(str(write(tmp_path / "a.jsonl", *rows)))
    source, manifest = dataset.source, dataset.source.manifest
    buffer = np.frombuffer((tmp_path / "a.jsonl").read_bytes(), dtype=np.uint8)
    from penstock.core.columns.spec import Spans

    records = Spans((buffer,), np.zeros(len(rows), dtype=np.int64), manifest.offset, manifest.length)
    ids = np.arange(len(rows))
    made = [
        source.parse(ids, records, lambda _, field, n: np.empty((n, *field.shape), field.dtype), threads=t)
        for t in (1, 3)
    ]
    for name in source.spec:
        assert listed(made[0][name]) == listed(made[1][name]) == [row[name] for row in rows]


def test_hostile_lists_are_bounded(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"v": list(range(100))})
    with pytest.raises(PenstockError, match="more than 99 values"):
        columns_of(path, limits=ps.Limits(values=99))


@pytest.mark.parametrize(
    ("numbers", "dtype"),
    [
        ([2**63, 1], "uint64"),
        ([2**64 - 1, 0], "uint64"),
        ([2**63 - 1, -(2**63)], "int64"),
        ([[2**63], [1, 2]], "uint64"),
        ([2**53 + 1, -1], "int64"),
    ],
)
def test_whole_numbers_keep_their_digits(tmp_path: Path, numbers: list[Any], dtype: str) -> None:
    path = write(tmp_path / "x.jsonl", *({"x": number} for number in numbers))
    assert ps.read(str(path)).spec["x"].dtype == dtype
    assert columns_of(path)["x"] == numbers


def test_whole_numbers_that_no_type_holds(tmp_path: Path) -> None:
    for numbers in ([2**64, 1], [2**63, -1], [-(2**63) - 1], [[2**64]], [10**400, 1]):
        path = write(tmp_path / "x.jsonl", *({"x": number} for number in numbers))
        with pytest.raises(
            PlanError, match=r"'x' holds whole numbers from .* which no integer type holds; say what it"
        ):
            ps.read(str(path))
    path = write(tmp_path / "x.jsonl", {"x": 2**64}, {"x": -1})
    assert columns_of(path, columns={"x": ps.Column(feature="x", dtype="string")})["x"] == [str(2**64), "-1"]
    assert columns_of(path, columns={"x": ps.Column(feature="x", dtype="float64")})["x"] == [2.0**64, -1.0]
    later = write(tmp_path / "y.jsonl", *[{"x": 1}] * 1000, {"x": 2**63})
    with pytest.raises(RowError, match=r"row 1000: .*a number that int64 cannot hold; .*uint64.*string"):
        columns_of(later)


def test_numbers_beyond_floats(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", '{"x": 1.5}', '{"x": 1e999}')
    with pytest.raises(RowError, match=r'row 1: .*"x" is a number that float64 cannot hold'):
        columns_of(path)
    assert columns_of(path, columns={"x": ps.Column(feature="x", dtype="string")})["x"] == ["1.5", "1e999"]


@pytest.mark.parametrize("swapped", [False, True])
def test_keys_with_dots(tmp_path: Path, swapped: bool) -> None:
    """A key with a dot is not the key of an object inside; the dot gets a backslash where both are there."""
    row: dict[str, Any] = {"a.b": 1, "a": {"b": 2}}
    row = dict(reversed(row.items())) if swapped else row
    path = write(tmp_path / "x.jsonl", row, row)
    assert columns_of(path) == {r"a\.b": [1, 1], "a.b": [2, 2]}
    assert columns_of(path, columns={"key": r"a\.b", "inner": "a.b"}) == {"key": [1, 1], "inner": [2, 2]}
    alone = write(tmp_path / "y.jsonl", {"a.b": 1, "c.d": {"e.f": 2}})
    assert columns_of(alone) == {"a.b": [1], "c.d.e.f": [2]}
    assert columns_of(alone, columns=[r"a\.b", r"c\.d.e\.f"]) == {r"a\.b": [1], r"c\.d.e\.f": [2]}
    twice = write(tmp_path / "z.jsonl", {"a.b": {"c": 1}, "a": {"b.c": 2}})
    assert columns_of(twice) == {r"a\.b.c": [1], r"a.b\.c": [2]}
    late = ps.Column(feature=r"x\.y", dtype="int64", shape=(), default=7)
    assert columns_of(write(tmp_path / "l.jsonl", {"a": 1}, {"x.y": 3, "x": {"y": 4}}), columns={"x": late}) == {
        "x": [7, 3]
    }


@pytest.mark.parametrize(
    "rows",
    [
        [{"id": 1, "x": [{"a": 1}]}],
        [{"id": 1, "x": [{"a": 1}, {"b": 2}]}, {"id": 2, "x": [{"c": "d"}]}],
        [{"id": 1, "x": [[{"a": 1}]]}],
        [{"id": 1, "o": {"x": [{"a": 1}]}}],
        [{"id": 1, "x": []}, {"id": 1, "x": [{}]}],
    ],
)
def test_lists_of_objects_are_never_left_out_unseen(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    path = write(tmp_path / "x.jsonl", *rows)
    name = "o.x" if "o" in rows[0] else "x"
    with pytest.raises(
        PlanError, match=rf"the key '{name}' holds lists of .*leave it out with columns=.* takes its JSON"
    ):
        ps.read(str(path))
    assert columns_of(path, columns=["id"])["id"] == [row["id"] for row in rows]
    taken = columns_of(path, columns={"x": ps.Column(feature=name, dtype="string")})["x"]
    assert [json.loads(text) for text in taken] == [row["x"] if "x" in row else row["o"]["x"] for row in rows]


def test_lists_of_objects_in_later_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", *[{"x": [1]}] * 1000, {"x": [{"a": 1}]})
    with pytest.raises(RowError, match=r'row 1000: .*"x" is an object, expected int64'):
        columns_of(path)


@pytest.mark.parametrize("value", [5, "text", [{"a": 1}], True])
def test_what_is_no_object_lacks_no_key(tmp_path: Path, value: Any) -> None:
    """The default is for keys that are missing, not for values that are something else."""
    path = write(tmp_path / "x.jsonl", {"x": {"a": 1}}, {"x": value})
    inner = {"a": ps.Column(feature="x.a", dtype="int64", shape=(), default=7)}
    with pytest.raises(RowError, match=r'row 1: .* where an object belongs, in which "x.a" is int64'):
        columns_of(path, columns=inner)
    assert columns_of(write(tmp_path / "y.jsonl", {"x": {"a": 1}}, {"x": None}, {}), columns=inner)["a"] == [1, 7, 7]
