"""CSV: files by Arrow, pandas and Hugging Face datasets, and Python's csv module as the reference."""

from __future__ import annotations

import csv
import itertools
import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.core.errors import DataError, PenstockError, PlanError, RowError, SourceError
from support.damage import load_all
from support.tfrecords import listed

GOLDEN = Path(__file__).parent.parent / "golden" / "lines"


def columns_of(path: Path, **options) -> dict[str, list]:
    return {name: listed(column) for name, column in load_all(ps.read(str(path), **options)).items()}


@pytest.mark.parametrize("name", ["arrow.csv", "datasets.csv", "pandas.csv.bz2", "pandas.tsv"])
def test_files_of_other_writers(name: str) -> None:
    wanted = json.loads((GOLDEN / "rows.json").read_text())
    found = columns_of(GOLDEN / name)
    assert found == {column: [row[column] for row in wanted] for column in ("id", "text", "score", "flag")}


NUMBERS = itertools.count()
fields = st.text(alphabet='ab ,;\t"\n\r1é', max_size=5)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(fields, fields, fields), min_size=1, max_size=9),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(",\t;"),
)
def test_any_text_that_pythons_writer_quotes(tmp_path: Path, rows: list, end: str, delimiter: str) -> None:
    path = tmp_path / f"{next(NUMBERS)}.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL).writerows(
            [("x", "y", "z"), *rows]
        )
    names = {name: ps.Column(feature=name, dtype="string") for name in "xyz"}
    found = columns_of(path, delimiter=delimiter, columns=names)
    assert list(zip(*found.values(), strict=True)) == rows


def test_types_and_nulls(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("i,f,b,t,d,n\n1,1.5,true,a,2020-01-02,\n2,nan,false,NA,2020-01-03,\n")
    dataset = ps.read(str(path))
    assert {name: str(field) for name, field in dataset.spec.items()} == {
        "i": "int64", "f": "float64", "b": "bool", "t": "string", "d": "string", "n": "string",
    }  # fmt: skip
    found = columns_of(path)
    assert np.isnan(found["f"][1])
    assert found["t"] == ["a", "NA"]
    assert found["n"] == ["", ""]
    typed = {"i": ps.Column(feature="i", dtype="float16"), "t": ps.Column(feature="t", dtype="bytes")}
    loaded = load_all(ps.read(str(path), columns=typed))
    assert loaded["i"].dtype == np.float16
    assert loaded["t"].to_pylist() == [b"a", b"NA"]
    path.write_text("i,t\n1,a\n,b\n")
    with pytest.raises(DataError, match=r"record 1, byte 8: column 'i' is null"):
        list(ps.Loader(ps.read(str(path)).batch(2)))
    assert columns_of(path, columns={"i": ps.Column(feature="i", default=-1)}) == {"i": [1, -1]}


def test_headers_and_names(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('\n"x\ny",b\n\n1,2\n\r\n3,4')
    assert columns_of(path) == {"x\ny": [1, 3], "b": [2, 4]}
    assert columns_of(path, names=["p", "q"]) == {"p": [1, 3], "q": [2, 4]}
    path.write_text("1,2\n3,4\n")
    assert columns_of(path, header=False) == {"f0": [1, 3], "f1": [2, 4]}
    with pytest.raises(PlanError, match=r"names has 1 names, .*a\.csv, record 0, byte 0 has 2 fields"):
        ps.read(str(path), header=False, names=["only"])
    path.write_text("a,a\n1,2\n")
    with pytest.raises(PlanError, match="columns with the same name"):
        ps.read(str(path))
    path.write_text("a,b\n")
    with pytest.raises(SourceError, match="no records behind a header"):
        ps.read(str(path))


def test_other_files_must_have_the_same_header(tmp_path: Path) -> None:
    (tmp_path / "0.csv").write_text("a,b\n1,2\n")
    (tmp_path / "1.csv").write_text('"a",b\r\n3,4')
    (tmp_path / "2.csv").write_text("a,b\n")
    (tmp_path / "3.csv").write_text("a,b\n5,6\n")
    assert columns_of(tmp_path) == {"a": [1, 3, 5], "b": [2, 4, 6]}
    (tmp_path / "2.csv").write_text("b,a\n1,2\n")
    with pytest.raises(DataError, match=r"2\.csv: the header is \['b', 'a'\], that of .*0\.csv is \['a', 'b'\]"):
        ps.read(str(tmp_path))


@pytest.mark.slow
def test_bad_records_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    good = "1,2\n" * 1_001
    for bad, message in {
        "3\n": "Expected 2 columns, got 1",
        "3,4,5\n": "Expected 2 columns, got 3",
        "3,x\n": "invalid value 'x'",
        "3,4.5\n": "invalid value '4.5'",
    }.items():
        path.write_text("a,b\n\n" + good + bad + good)
        with pytest.raises(DataError, match=rf"a\.csv, record 1,001, byte 4,009: .*{message}.*; repair the record"):
            list(ps.Loader(ps.read(str(path)).batch(500)))
        path.write_text("a,b\n1,2\n" + bad)
        with pytest.raises(DataError, match=r"a\.csv"):
            list(
                ps.Loader(ps.read(str(path), columns={n: ps.Column(feature=n, dtype="int64") for n in "ab"}).batch(100))
            )
    path.write_text('a,b\n1,"2\n3,4\n')
    with pytest.raises(
        DataError, match=r"a\.csv, record 0, byte 4: a quote is opened and never closed; .*quotes=False"
    ):
        ps.read(str(path))
    assert columns_of(path, quotes=False) == {"a": [1, 3], "b": ['"2', "4"]}


def test_options_that_cannot_be(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n")
    for delimiter in ("", ",,", '"', "\n", "é", 3):
        with pytest.raises(PlanError, match="it is one ASCII character"):
            ps.read(str(path), delimiter=delimiter)
    with pytest.raises(PlanError, match="shape"):
        ps.read(str(path), columns={"a": ps.Column(feature="a", shape=(2,))})
    with pytest.raises(PlanError, match="no column 'c'; there are a, b"):
        ps.read(str(path), columns=["c"])
    with pytest.raises(PlanError, match="csv has no option sep; its options: delimiter: "):
        ps.read(str(path), sep=";")


def test_options_are_part_of_the_data(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a;b,c\n1;2,3\n")
    digests = {
        ps.read(str(path), **options).source.manifest.digest for options in ({}, {"delimiter": ";"}, {"quotes": False})
    }
    assert len(digests) == 3


def test_quotes_over_the_edges_of_parts(tmp_path: Path) -> None:
    """Records of a file larger than what is read at once, with newlines in quotes everywhere."""
    path = tmp_path / "a.csv"
    texts = ['"\n' * (number % 40) + "x" * (number * 37 % 4_000) for number in range(3_000)]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("id", "text"), *enumerate(texts)])
    assert path.stat().st_size > 4 << 20
    assert columns_of(path) == {"id": list(range(3_000)), "text": texts}


def test_garbage_is_no_table(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(np.random.default_rng(0).bytes(4_000))
    with pytest.raises(PenstockError):
        columns_of(path)


@pytest.mark.parametrize(
    ("numbers", "dtype"),
    [
        (["9223372036854775808", "1"], "uint64"),
        (["18446744073709551615", "0"], "uint64"),
        (["9223372036854775807", "-9223372036854775808"], "int64"),
        (["9007199254740993", "-1"], "int64"),
    ],
)
def test_whole_numbers_keep_their_digits(tmp_path: Path, numbers: list[str], dtype: str) -> None:
    (tmp_path / "x.csv").write_text("x,y\n" + "".join(f"{number},1\n" for number in numbers))
    assert str(ps.read(tmp_path / "x.csv").spec["x"]) == dtype
    assert columns_of(tmp_path / "x.csv")["x"] == [int(number) for number in numbers]
    pl.DataFrame(
        {"x": pl.Series(list(map(int, numbers)), dtype=getattr(pl, dtype.replace("i", "I").replace("u", "U")))}
    ).write_csv(tmp_path / "polars.csv")
    assert (
        columns_of(tmp_path / "polars.csv")["x"]
        == pl.read_csv(tmp_path / "polars.csv", schema={"x": pl.Int128})["x"].to_list()
    )


@pytest.mark.parametrize(
    "numbers",
    [
        ["18446744073709551616", "1"],
        ["9223372036854775808", "-1"],
        ["-9223372036854775809"],
        ["9" * 60],
        ["+9007199254740993"],
    ],
)
def test_whole_numbers_that_no_type_holds(tmp_path: Path, numbers: list[str]) -> None:
    path = tmp_path / "x.csv"
    path.write_text("x\n" + "".join(f"{number}\n" for number in numbers))
    with pytest.raises(
        PlanError, match=r"column 'x' holds whole numbers from .*dtype 'string', or 'float64', which rounds"
    ):
        ps.read(path)
    assert columns_of(path, columns={"x": ps.Column(feature="x", dtype="string")})["x"] == numbers
    assert columns_of(path, columns={"x": ps.Column(feature="x", dtype="float64")})["x"] == list(map(float, numbers))


def test_larger_numbers_after_the_first_records(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("x\n" + "1\n" * 1000 + "9223372036854775808\n")
    with pytest.raises(RowError, match=r"row 1000: .*int64: invalid value '9223372036854775808'; .*dtype"):
        columns_of(tmp_path / "x.csv")
    wish = {"x": ps.Column(feature="x", dtype="uint64")}
    assert columns_of(tmp_path / "x.csv", columns=wish)["x"] == [1] * 1000 + [2**63]


@pytest.mark.parametrize(("text", "number"), [("007", 7), ("-01", -1), ("+5", 5), ("00", 0)])
def test_zeros_and_signs_that_numbers_lose(tmp_path: Path, text: str, number: int) -> None:
    """They become numbers, as they do elsewhere, and that is said; whoever names a dtype knows."""
    path = tmp_path / "x.csv"
    path.write_text(f"id,x\n{text},0\n12,0.5\n")
    with pytest.warns(
        UserWarning, match=rf"column 'id' becomes .* and '{re.escape(text)}' loses what it begins with; keep it with"
    ):
        ps.read(path)
    assert columns_of(path, columns={"id": ps.Column(feature="id", dtype="string")})["id"] == [text, "12"]
    for dtype in ("float64",) if text.startswith("+") else ("int64", "float32"):
        assert columns_of(path, columns={"id": ps.Column(feature="id", dtype=dtype)})["id"] == [number, 12]
    assert columns_of(path, columns=["x"])["x"] == [0, 0.5]


def test_bfloat16_holds_the_number_and_not_its_bits(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("x\n1.0\n2.5\n")
    (batch,) = ps.Loader(ps.read(tmp_path / "x.csv", columns={"x": ps.Column(feature="x", dtype="bfloat16")}).batch(2))
    assert batch["x"].tolist() == [1.0, 2.5]
