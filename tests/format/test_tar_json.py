"""Keys of JSON members as columns, against what webdataset wrote and Python's json reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.core.columns.spec import Field
from penstock.core.errors import DataError, PlanError, RowError
from penstock.core.limits import Limits
from penstock.format.tar.json_members import split_feature
from support import damage
from support import promises as contracts
from support.tars import GOLDEN, write
from support.tfrecords import listed

CAPTIONS = GOLDEN / "captions.tar"


def read(path: Path, columns: Any, **options: Any) -> dict[str, list[Any]]:
    """All columns as lists of Python values."""
    found = damage.load_all(ps.read(str(path), columns=columns, **options))
    return {name: listed(column) for name, column in found.items()}


def archive(path: Path, *members: object) -> Path:
    """An archive with a .cls in every sample and a .json of these contents; None: of none."""
    files = []
    for number, content in enumerate(members):
        files.append((f"{number}.cls", b"%d" % number))
        if content is not None:
            files.append((f"{number}.json", content if isinstance(content, bytes) else json.dumps(content).encode()))
    return write(path / "a.tar", files)


def written() -> list[dict[str, Any]]:
    rows = json.loads(CAPTIONS.with_name("captions.tar.json").read_text())
    return [json.loads(bytes.fromhex(row["json"])) for row in rows]


def test_keys_that_webdataset_wrote() -> None:
    columns = {
        "caption": "json.caption",
        "image": "jpg",
        "width": ps.Column(feature="json.meta.size.width", dtype="int16"),
        "crop": ps.Column(feature="json.meta.size.crop", shape=(2,)),
        "score": ps.Column(feature="json.meta.score", default=-1.0),
        "seen": ps.Column(feature="json.meta.seen", default=False),
        "size": ps.Column(feature="json.meta.size", dtype="string"),
        "whole": "json",
    }
    assert ps.read(str(CAPTIONS), columns=columns).spec == {
        "caption": Field("string"),
        "image": Field("bytes"),
        "width": Field("int16"),
        "crop": Field("float64", (2,)),
        "score": Field("float64"),
        "seen": Field("bool"),
        "size": Field("string"),
        "whole": Field("string"),
    }
    found = read(CAPTIONS, columns)
    wanted = written()
    assert list(found) == list(columns)
    assert found["caption"] == [row["caption"] for row in wanted]
    assert found["width"] == [row["meta"]["size"]["width"] for row in wanted]
    assert found["crop"] == [row["meta"]["size"]["crop"] for row in wanted]
    assert found["score"] == [row["meta"].get("score", -1) for row in wanted]
    assert found["seen"] == [row["meta"].get("seen", False) for row in wanted]
    assert [json.loads(text) for text in found["size"]] == [row["meta"]["size"] for row in wanted]
    assert [json.loads(text) for text in found["whole"]] == wanted


def test_promises() -> None:
    dataset = ps.read(str(CAPTIONS), columns=["json.id", "json.caption"])
    contracts.resume_is_exact(dataset.shuffle(seed=1).batch(2), epochs=1)
    contracts.ranks_share_every_epoch(dataset.batch(2, lanes=2), "json.id", epochs=1)


def test_batches_of_many_threads(tmp_path: Path) -> None:
    rows = 700
    path = archive(tmp_path, *({"text": "x" * (number % 50), "ids": [number] * (number % 3)} for number in range(rows)))
    columns = {"ids": "json.ids", "label": "cls", "text": "json.text"}
    with ps.Loader(ps.read(str(path), columns=columns).shuffle(seed=1).batch(64), to="numpy", cpus=2) as loader:
        seen = {
            label: (ids, text)
            for batch in loader
            for label, ids, text in zip(*(listed(batch[name]) for name in ("label", "ids", "text")), strict=True)
        }
    assert seen == {number: ([number] * (number % 3), "x" * (number % 50)) for number in range(rows)}


def test_which_part_of_a_feature_is_the_member(tmp_path: Path) -> None:
    for feature, offered, wanted in [
        ("json.a.b", {"json"}, ("json", "a.b")),
        (" .JSON.Key", {"json"}, ("json", "Key")),
        ("json.a", {"json", "json.a"}, ("json.a", "")),
        ("meta.json.a", {"meta.json"}, ("meta.json", "a")),
        ("json.json.a", {"json.json"}, ("json.json", "a")),
        ("meta.jsn.a", {"cls"}, ("meta.jsn", "a")),
        ("seg.png", {"json"}, ("seg.png", "")),
    ]:
        assert split_feature(feature, offered) == (wanted if wanted[1] else (feature, ""))
    write(tmp_path / "a.tar", [("0.a.json", b'{"A": 1}'), ("0.b.json", b'{"A": 2}'), ("0.json.A", b"3")])
    found = read(tmp_path / "a.tar", ["b.json.A", "json.a", "a.json.A"])
    assert found == {"b.json.A": [2], "json.a": [b"3"], "a.json.A": [1]}


def test_keys_and_members_that_are_missing(tmp_path: Path) -> None:
    path = archive(tmp_path, {"a": 1, "b": [1, 2], "c": "x"}, {"b": None}, None)
    columns: dict[str, Any] = {
        "a": ps.Column(feature="json.a", dtype="int32", default=-1),
        "b": "json.b",
        "c": ps.Column(feature="json.c", default="none"),
    }
    assert read(path, columns) == {"a": [1, -1, -1], "b": [[1, 2], [], []], "c": ["x", "none", "none"]}
    with pytest.raises(
        PlanError,
        match=r"columns\['a'\]: 1 of the first 3 samples of .*a\.tar have no member 'json'; give the column a def",
    ):
        read(path, {"a": "json.a", "b": "json.b"})
    path = archive(tmp_path, {"a": 1}, {"b": 2})
    with pytest.raises(
        RowError, match=r'row 1: member "json": the key "a" is missing, expected int64; give the column a def'
    ):
        read(path, {"a": "json.a"})
    path = archive(tmp_path, *[{"a": 1}] * 101, None)
    with pytest.raises(
        RowError, match='row 101: member "json": the sample lacks it; expected bytes; give the column a'
    ):
        read(path, {"a": "json.a"})


def test_keys_that_only_later_samples_have(tmp_path: Path) -> None:
    path = archive(tmp_path, *[None] * 100, {"late": 5})
    late = ps.Column(feature="json.late", dtype="int64", shape=(), default=0)
    assert read(path, {"late": late})["late"] == [0] * 100 + [5]
    with pytest.raises(
        PlanError, match=r"""a\.tar, member "json": no column 'late' in the first records; there are none"""
    ):
        read(path, ["json.late"])
    path = archive(tmp_path, {"caption": "a", "meta": {"width": 1}})
    with pytest.raises(
        PlanError, match=r"no column 'captoin' in the .*; there are caption, meta, m.*; did you mean 'caption'\?"
    ):
        read(path, ["json.captoin"])


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ({"a": "text"}, r'byte 6 of it: "a" is .*expected int64; give the column the dtype'),
        ({"a": 1 << 40}, "a number that int32 cannot hold"),
        (b'{"a": 1', r"byte \d+ of it: not JSON: a comma or a closing bracket is missing; repair it"),
        (b"", r"byte 0 of it: not JSON: it is no object"),
        (b'[{"a": 1}]', r"byte 0 of it: not JSON: it is no object"),
        (b'{"a": 1} {', "something follows the object"),
        (b'{"a": 1, "b": "\xff"}', "bytes that are not UTF-8"),
        (b'{"a": 1, "a": 2}', 'the key "a" occurs twice; leave one of them in it'),
        ({"a": None}, '"a" is null, expected int64; give the column a default'),
    ],
)
def test_members_that_do_not_fit(tmp_path: Path, content: object, found: str) -> None:
    path = archive(tmp_path, *[{"a": 1}] * 100, content)
    dtype = "int32" if "int32" in found else "int64"
    dataset = ps.read(str(path), columns={"a": ps.Column(feature="json.a", dtype=dtype)}).batch(101)
    with (
        ps.Loader(dataset) as loader,
        pytest.raises(DataError, match=rf'a\.tar, record 100, byte 204,800: member "json": .*{found}'),
    ):
        next(iter(loader))


@pytest.mark.parametrize(
    ("content", "found"), [(b"{]", "not JSON: a key in quotes"), (b"[1]", "it is no object"), (b"", "it is no object")]
)
def test_first_members_that_are_no_objects(tmp_path: Path, content: bytes, found: str) -> None:
    path = archive(tmp_path, {"a": 1}, content)
    with (
        ps.Loader(ps.read(str(path), columns=["json.a"]).batch(2)) as loader,
        pytest.raises(DataError, match=rf'a\.tar, record 1, byte 2,048: member "json": .*{found}'),
    ):
        next(iter(loader))
    assert read(path, ["json"])["json"] == ['{"a": 1}', content.decode()], "taken whole it is text"


def test_columns_that_cannot_be(tmp_path: Path) -> None:
    path = archive(tmp_path, {"a": 1, "b": [{}], "c": [1, 2, 3]})
    for column, found in [
        (ps.Column(feature="json.a", dtype="bool"), "cannot become bool"),
        ("json.b", "lists of object in the first records, which is no column by itself"),
        (ps.Column(feature="json.a", default="x"), "default 'x' is no int64"),
    ]:
        with pytest.raises(PlanError, match=found):
            read(path, {"x": column})
    with pytest.raises(RowError, match=r'member "json": .*"c" has more than 2 values; raise Limits.values'):
        read(path, {"c": "json.c"}, limits=Limits(values=2))


def test_an_object_over_several_lines(tmp_path: Path) -> None:
    path = archive(tmp_path, b'\n{\r\n\t"a": 1,\n "b": {"c": [0.5]}\n}\n')
    assert read(path, {"a": "json.a", "c": "json.b.c"}) == {"a": [1], "c": [[0.5]]}
    assert damage.load_all(ps.read(str(path), columns=["json.a"]))["json.a"].dtype == np.int64


def test_keys_with_dots_and_large_numbers(tmp_path: Path) -> None:
    row = {"a.b": 1, "a": {"b": 2**63}}
    path = archive(tmp_path, row, row)
    found = read(path, {"key": r"json.a\.b", "inner": "json.a.b"})
    assert found == {"key": [1, 1], "inner": [2**63, 2**63]}


def test_lists_of_objects(tmp_path: Path) -> None:
    path = archive(tmp_path, {"x": [{"a": 1}, {"b": 2}]}, {"x": [{"c": 3}]})
    with pytest.raises(PlanError, match=r"member \"json\": the key 'x' holds lists of object .*takes its JSON"):
        ps.read(str(path), columns=["json.x"])
    found = read(path, {"x": ps.Column(feature="json.x", dtype="string")})["x"]
    assert [json.loads(text) for text in found] == [[{"a": 1}, {"b": 2}], [{"c": 3}]]
