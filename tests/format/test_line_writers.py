"""JSON and CSV as other writers leave them: the values that Python's own readers find, or an error that says what to do."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from support.tables import rows_of

JSON_READ: dict[str, bytes] = {
    "a byte order mark": b'\xef\xbb\xbf{"a": 1}\n',
    "Windows line ends": b'{"a": 1}\r\n{"a": 2}\r\n',
    "blank lines": b'\n{"a": 1}\n \n{"a": 2}\n\n',
    "no last line end": b'{"a": 1}\n{"a": 2}',
    "spaces and another order": b' {"a" : 1 , "b":"x" } \n\t{"b":"y","a":2}\n',
    "escapes": rb'{"a": "\ud83d\ude00 \u00e9\u2028\/\b\f\n\u0000"}',
    "raw line separators": '{"a": "x\u2028y\u2029z\x85w\x7f"}'.encode(),
    "escaped keys": b'{"\\u0061": 1}\n{"a": 2}\n',
    "words for numbers": b'{"a": NaN}\n{"a": Infinity}\n{"a": -Infinity}\n',
    "the largest and smallest": b'{"a": 1.7976931348623157e308}\n{"a": 4.9e-324}\n{"a": 1e-400}\n{"a": -0.0}\n',
    "many digits": b'{"a": 0.1000000000000000055511151231257827021181583404541015625}\n{"a": 123456789012345678e-3}\n',
    "large integers": b'{"a": 18446744073709551615}\n{"a": 0}\n',
    "an empty key": b'{"": 1}\n',
}
JSON_REFUSED: dict[str, tuple[bytes, str]] = {
    "UTF-16": (
        '{"a": 1}\n'.encode("utf-16"),
        "byte 0: the byte order mark of UTF-16 or UTF-32; convert the file to UTF-8",
    ),
    "Latin-1": (
        '{"a": "é"}\n'.encode("latin-1"),
        "record 0, byte 0: .*convert the file to UTF-8, for example with: iconv",
    ),
    "half a pair": (
        rb'{"a": "\ud83d"}',
        "record 0, byte 0: byte 7 of the line: .*half a surrogate pair.*repair the line",
    ),
    "half a pair in a key": (
        rb'{"a\ud83d": 1}',
        r"record 0, byte 0: .*key 'a\\ud83d' holds half a surrogate pair.*; repair",
    ),
    "half a pair in an inner key": (rb'{"b": {"a\uDE00": 1}}', r"record 0.*key 'a\\ude00' holds half a surrogate pair"),
    "a key twice": (b'{"a": 1, "a": 2}', 'record 0, byte 0: .*the key "a" occurs twice; leave one of them'),
    "an object twice": (
        b'{"a": {"b": 1}, "a": {"c": 2}}',
        'record 0, byte 0: .*outer key of "a.c" occurs twice; leave one',
    ),
    "null and an object": (
        b'{"a": {"b": 1}}\n{"a": null, "a": {"b": 2}}',
        'record 1, byte 16: .*outer key of "a.b" occurs twice',
    ),
    "1e400": (
        b'{"a": 1e400}',
        'record 0, byte 0: .*"a" is a number that float64 cannot hold; give the column another dtype',
    ),
    "30 digits": (b'{"a": 123456789012345678901234567890}', "which no integer type holds; say what it is"),
    "JavaScript's nan": (
        b'{"a": 1.5}\n{"a": nan}\n',
        "record 1, byte 11: .*not JSON: a value is missing; repair the line",
    ),
    "a trailing comma": (b'{"a": 1,}\n', "record 0, byte 0: not JSON lines .*jq -c"),
    "one array": (b'[{"a": 1}]\n', r"record 0, byte 0: begins with '\['.*jq -c '\.\[\]'"),
    "deep nesting": (
        b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        "record 0, byte 0: .*nested too deeply.*; repair",
    ),
    "zeros at the end": (b'{"a": 1}\n' + bytes(64), "record 1, byte 9: .*repair the line"),
}
CSV_READ: dict[str, bytes] = {
    "Excel": b'\xef\xbb\xbfa,b\r\n1,"x\r\ny"\r\n2,"p""q,"\r\n',
    "line ends of two kinds": b"a,b\n1,x\r\n2,y",
    "all quoted": b'"a","b"\n"1","x"\n"2","y"\n',
    "R with row names": b'"","a","b"\n"1",5,"x"\n"2",6,"y"\n',
    "pandas with an index": b",a,b\n0,5,x\n1,6,y\n",
    "a comma at the end": b"a,b,\n1,2,\n",
    "quotes inside": b'a,b\n5" nail,"x"\n',
    "decimal commas": b'a,b\n"1,5",x\n',
    "words for numbers": b"a\n1.5\ninf\n-Infinity\nNaN\n",
    "other nulls stay text": b"a,b\n1,x\n\\N,y\nNone,z\n",
    "separators in text": "a,b\n1,x\u2028y\x0bz\n".encode(),
}
CSV_REFUSED: dict[str, tuple[bytes, str]] = {
    "Excel's note": (b"sep=;\r\na;b\r\n1;x\r\n", "the first line is 'sep=;'.*remove the line .*pass delimiter=';'"),
    "Excel's note of a comma": (b'\xef\xbb\xbf"sep=,"\na,b\n1,x\n', "tells Excel the delimiter.*pass delimiter=','"),
    "UTF-16": ("a,b\n1,x\n".encode("utf-16"), "byte 0: the byte order mark of UTF-16 or UTF-32; convert"),
    "Latin-1": ("a,b\n1,é\n".encode("latin-1"), "record 0, byte 4: .*convert the file to UTF-8, .*or take the bytes"),
    "old line ends": (b"a,b\r1,x\r2,y\r", r"no records behind a header.*convert files whose lines end with \\r alone"),
    "1e400": (b"a\n1.5\n1e400\n", "record 1, byte 6: column 'a' is 1e400, which is too large for float64; give"),
    "null words": (b"a,b\n1,x\nNULL,y\n", "record 1, byte 8: column 'a' is null; give it a value"),
    "a short header": (b'"a","b"\n"1",5,"x"\n', "record 0, byte 8: no record of 2 fields"),
    "another delimiter": (b"a;b\n1,5;x;y\n", "record 0, byte 4: no record of 1 fields.*delimiter="),
    "an open quote": (b'a,b\n1,"x\n', "record 0, byte 4: a quote is opened and never closed"),
}


def read(path: Path) -> dict[str, Any]:
    return {name: column.tolist() for name, column in rows_of(ps.read(path)).items()}


@pytest.mark.parametrize("name", JSON_READ)
def test_json_is_read_as_python_reads_it(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(JSON_READ[name])
    lines = [json.loads(line) for line in JSON_READ[name].decode("utf-8-sig").split("\n") if line.strip()]
    assert repr(read(path)) == repr({key: _alike([line[key] for line in lines]) for key in lines[0]})


def _alike(values: list[Any]) -> list[Any]:
    """A column with a fraction is one of floats."""
    return [float(value) for value in values] if any(isinstance(value, float) for value in values) else values


@pytest.mark.parametrize("name", JSON_REFUSED)
def test_json_is_refused_with_its_place(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    data, message = JSON_REFUSED[name]
    path.write_bytes(data)
    with pytest.raises(ps.PenstockError, match=rf"a\.jsonl.*{message}"):
        read(path)


@pytest.mark.parametrize("name", CSV_READ)
def test_csv_is_read_as_python_reads_it(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(CSV_READ[name])
    with path.open(newline="", encoding="utf-8-sig") as file:
        names, *rows = csv.reader(file)
    found = read(path)
    assert list(found) == names
    for values, texts in zip(found.values(), zip(*rows, strict=True), strict=True):
        assert repr(values) == repr([text if isinstance(values[0], str) else type(values[0])(text) for text in texts])


@pytest.mark.parametrize("name", CSV_REFUSED)
def test_csv_is_refused_with_its_place(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    data, message = CSV_REFUSED[name]
    path.write_bytes(data)
    with pytest.raises(ps.PenstockError, match=rf"a\.csv.*{message}"):
        read(path)


@pytest.mark.parametrize("data", [b"a;b\n1;x\n", b"a\tb\n1\tx\n", b"a|b|c\n1|x|2\n"])
def test_a_delimiter_that_was_not_chosen_is_told(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(data)
    delimiter = chr(data[1])
    with pytest.warns(UserWarning, match=r"a\.csv: one column.*" + re.escape(f"pass delimiter={delimiter!r}")):
        ps.read(path)
    assert list(ps.read(path, delimiter=",").spec) == [data.split(b"\n")[0].decode()]
    assert list(ps.read(path, delimiter=delimiter).spec)[:2] == ["a", "b"]


def test_hexadecimal_numbers_lose_their_form_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a\n0x10\n")
    with pytest.warns(UserWarning, match="'0x10' loses what it begins with"):
        assert read(path) == {"a": [16]}


def test_infinite_numbers_are_sought_in_the_chosen_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1e400,inf\n2.5,1e39\n")
    assert rows_of(ps.read(path, columns=["b"]))["b"].tolist() == [float("inf"), 1e39]
    with pytest.raises(ps.DataError, match=r"record 1, .*column 'b' is 1e39, which is too large for float32"):
        rows_of(ps.read(path, columns={"b": ps.Column(feature="b", dtype="float32")}))
    assert rows_of(ps.read(path, columns={"a": ps.Column(feature="a", dtype="string")}))["a"].tolist() == [
        "1e400",
        "2.5",
    ]
