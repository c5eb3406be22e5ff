"""LMDB databases, as py-lmdb writes and reads them."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import pytest

import penstock as ps
from support.files import cuts, errors, flips, outcomes, rows_of, through

GOLDEN = Path(__file__).parents[1] / "golden" / "lmdb"


def write(path: Path, records: dict[bytes, bytes], **options: Any) -> Path:
    with lmdb.open(str(path), map_size=1 << 28, sync=False, **options) as env, env.begin(write=True) as transaction:
        for key, value in records.items():
            transaction.put(key, value)
    return path


def by_lmdb(path: Path) -> tuple[list[bytes], list[bytes]]:
    """What the library itself reads."""
    with lmdb.open(str(path), readonly=True, lock=False, subdir=path.is_dir()) as env, env.begin() as transaction:
        rows = list(transaction.cursor())
    return [bytes(key) for key, _ in rows], [bytes(value) for _, value in rows]


def test_golden_records() -> None:
    found = rows_of(ps.read(GOLDEN / "plain"))
    assert found["key"] == [b"%04d" % row for row in range(40)]
    assert found["value"] == [bytes([row]) * (row * row * 3) for row in range(40)]
    assert rows_of(ps.read(GOLDEN / "named", database="images")) == {"key": [b"a"], "value": [b"picture"]}
    assert rows_of(ps.read(GOLDEN / "named", database=b"labels", columns=["key"]))["key"] == [
        b"%d" % n for n in range(5)
    ]
    for options, message in [
        ({}, "it has the databases images, labels; choose one with database="),
        ({"database": "image"}, 'no database "image"; its named databases: images, labels'),
        ({"database": 7}, "database=7; pass the name"),
    ]:
        with pytest.raises(ps.PenstockError, match=message):
            ps.read(GOLDEN / "named", **options)
    with pytest.raises(ps.SourceError, match="the database is empty"):
        ps.read(GOLDEN / "empty")
    with pytest.raises(ps.DataError, match=r"several values \(DUPSORT\)"):
        ps.read(GOLDEN / "several")


@pytest.mark.parametrize("subdir", [True, False])
def test_any_records_are_the_librarys(tmp_path: Path, subdir: bool) -> None:
    """Three levels of pages, values of all sizes, records that were changed and removed."""
    rng = np.random.default_rng(5)
    path = tmp_path / "x.lmdb"
    records = {rng.bytes(int(rng.integers(1, 60))): rng.bytes(int(rng.integers(0, 300))) for _ in range(5_000)}
    write(path, records, subdir=subdir)
    keys = list(records)
    write(path, {key: rng.bytes(int(rng.integers(0, 20_000))) for key in keys[::50]}, subdir=subdir)
    with lmdb.open(str(path), map_size=1 << 28, subdir=subdir, sync=False) as env, env.begin(write=True) as transaction:
        for key in keys[::3]:
            transaction.delete(key)
    wanted = by_lmdb(path)
    dataset = ps.read(path)
    found = through(dataset, 100)
    assert found["key"] == wanted[0]
    assert found["value"] == wanted[1]
    assert len(dataset) == len(wanted[0]) > 3_000


def test_several_databases_and_columns(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / name, {b"%s%d" % (name.encode(), row): b"x" * row for row in range(10)})
    dataset = ps.read(tmp_path, columns={"image": "value", "name": "key"})
    found = through(dataset)
    assert found["name"] == [b"%c%d" % (letter, row) for letter in b"ab" for row in range(10)]
    assert found["image"] == [b"x" * row for row in range(10)] * 2
    assert ps.read(tmp_path / "a" / "data.mdb").source.manifest.samples == 10
    with pytest.raises(ps.PlanError, match="no column 'values'; there are key, value; did you mean 'value'"):
        ps.read(tmp_path, columns=["values"])
    with pytest.raises(ps.DataError, match=r"a value of 9 bytes, more than Limits\(record_bytes=8\)"):
        ps.read(tmp_path, limits=ps.Limits(record_bytes=8))


def newest_root(data: bytes) -> tuple[int, int]:
    """Where the newest description of the main database begins, and the number of the first page of its tree."""
    newest = max((0, 4096), key=lambda page: struct.unpack_from("<Q", data, page + 144))
    return newest, struct.unpack_from("<Q", data, newest + 128)[0]


@pytest.mark.slow
def test_damage(tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "plain" / "data.mdb", tmp_path)
    path = tmp_path / "data.mdb"
    whole = path.read_bytes()
    wanted = rows_of(ps.read(path))

    def read() -> Any:
        return rows_of(ps.read(path))

    found = outcomes(path, cuts(whole, 499), read)
    assert errors(found) > 250  # a cut among free pages does no harm
    assert all(one == wanted for one in found if isinstance(one, dict))
    found = outcomes(path, flips(whole, 100), read)  # most of the file are values, which nothing checks
    assert all(one["key"] == wanted["key"] for one in found if isinstance(one, dict))
    root = newest_root(whole)[1] * 4096
    structure = [*range(newest_root(whole)[0] + 112, newest_root(whole)[0] + 136), *range(root, root + 30)]
    flipped = [
        whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :] for at in structure for bit in range(0, 8, 3)
    ]
    found = outcomes(path, iter(flipped), read)
    assert errors(found) > len(found) / 2
    assert all(one == wanted for one in found if isinstance(one, dict))
    assert outcomes(path, iter([whole + b"garbage"]), read) == [wanted]


def test_hostile_trees(tmp_path: Path) -> None:
    path = tmp_path / "data.mdb"
    whole = bytearray((GOLDEN / "plain" / "data.mdb").read_bytes())
    newest, root = newest_root(bytes(whole))
    at = root * 4096

    def changed(place: int, number: bytes) -> bytes:
        return bytes(whole[:place] + number + whole[place + len(number) :])

    hostile = {
        "a root beyond the file": changed(newest + 128, b"\xff" * 7 + b"\x7f"),
        "as many records as a number holds": changed(newest + 120, b"\xff" * 8),
        "a circle": changed(at + struct.unpack_from("<H", whole, at + 16)[0], struct.pack("<IH", root, 0)),
        "a page that is another": changed(at, struct.pack("<Q", root + 1)),
        "nodes beyond the page": changed(at + 16, b"\xff\xff"),
        "more nodes than fit": changed(at + 12, b"\xf0\xff"),
        "another version": changed(20, b"\x02"),
        "pages of 3 bytes": changed(40, struct.pack("<I", 3)),
        "empty": b"",
    }
    for name, content in hostile.items():
        path.write_bytes(content)
        with pytest.raises(ps.PenstockError, match=r"data\.mdb|no records|empty") as caught:
            ps.read(path)
        assert "page" in str(caught.value) or name == "empty", name
