"""Zarr stores, versions 2 and 3, that zarr-python wrote."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr

import penstock as ps
from support.files import errors, flips, outcomes, rows_of, through
from support.tries import tries

ROWS = 43
COMPRESSORS = {2: numcodecs.GZip(level=1), 3: zarr.codecs.GzipCodec(level=1)}


def write(path: Path, version: int, rows: int = ROWS) -> dict[str, list[Any]]:
    """A store of arrays of every kind; what they hold."""
    ids = np.arange(rows)
    texts = ["a" * (number % 4) + "ß" for number in range(rows)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zarr warns of text in version 3, whose specification is young
        group = zarr.open_group(str(path), mode="w", zarr_format=version)
        group.create_array("id", data=ids, chunks=(10,))
        image = (ids % 256).astype("u1")[:, None, None] + np.zeros((rows, 3, 2), "u1")
        group.create_array("train/image", data=image, chunks=(4, 2, 2), compressors=COMPRESSORS[version])
        group.create_array("train/big", data=ids.astype(">f4"), chunks=(rows,), compressors=None)
        group.create_array("flag", data=ids % 2 == 0, chunks=(7,))
        group.create_array("day", data=ids.astype("M8[D]"), chunks=(7,))
        group.create_array("fixed", data=np.array(texts), chunks=(7,))
        group.create_array("text", shape=(rows,), dtype=str, chunks=(7,))[:] = np.array(texts, dtype=object)
        if version == 3:
            sharded = group.create_array("sharded", shape=(rows,), dtype="i4", chunks=(3,), shards=(12,))
            sharded[:] = ids
    found = {
        "id": ids.tolist(),
        "train.image": image.tolist(),
        "train.big": ids.tolist(),
        "flag": (ids % 2 == 0).tolist(),
        "day": ids.tolist(),
        "fixed": texts,
        "text": texts,
    }
    return found | ({"sharded": ids.tolist()} if version == 3 else {})


@pytest.fixture(autouse=True)
def quiet() -> Any:
    """zarr warns of text in version 3 when it reads as well."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="zarr")
        yield


@pytest.mark.parametrize("version", [2, 3])
def test_golden_stores(version: int) -> None:
    root = Path(__file__).parents[1] / "golden" / "arrays"
    wanted = json.loads((root / "expected.json").read_text(encoding="utf-8"))
    columns = ["id", "big", "train.image", "empty", *["sharded"] * (version == 3)]
    assert through(ps.read(root / f"v{version}.zarr")) == {name: wanted[name] for name in columns}


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
def test_every_kind_of_array(tmp_path: Path, version: int) -> None:
    wanted = write(tmp_path / "x.zarr", version)
    dataset = ps.read(tmp_path / "x.zarr")
    found = through(dataset)
    assert set(found) == set(wanted)
    for name, values in wanted.items():
        assert found[name] == values, name
    assert str(dataset.spec["train.image"]) == "uint8(3, 2)"
    assert set(ps.read(tmp_path / "x.zarr", keys="train").spec) == {"train.image", "train.big"}
    assert rows_of(ps.read(tmp_path / "x.zarr", columns={"x": "train.big"})) == {"x": wanted["id"]}
    assert rows_of(ps.read(tmp_path / "x.zarr" / "id"))["array"] == wanted["id"]
    with pytest.raises(ps.PlanError, match=r"no column 'ids'; there are day, .*did you mean 'id'"):
        ps.read(tmp_path / "x.zarr", columns=["ids"])
    with pytest.raises(ps.SourceError, match="no arrays below test"):
        ps.read(tmp_path / "x.zarr", keys="test")


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
def test_the_digest_tells_stores_apart(tmp_path: Path, version: int) -> None:
    digests = set()
    for name, rows in (("a", 10), ("b", 11), ("c", 10)):
        write(tmp_path / name, version, rows)
        digests.add(ps.read(tmp_path / name, columns=["id", "flag"]).source.manifest.digest)
    assert len(digests) == 2


def test_blocks_are_whole_chunks(tmp_path: Path) -> None:
    group = zarr.open_group(str(tmp_path / "x"), mode="w")
    group.create_array("x", data=np.zeros((4_000, 1_000), "f4"), chunks=(100, 1_000))
    assert ps.read(tmp_path / "x").source.block_rows == 200  # 262 rows are 1 MiB


def test_arrays_of_other_lengths(tmp_path: Path) -> None:
    group = zarr.open_group(str(tmp_path / "x"), mode="w")
    group.create_array("a", data=np.arange(3))
    group.create_array("b", data=np.arange(4))
    with pytest.raises(ps.DataError, match=r"not equally long \(a: 3, b: 4\); choose some with columns"):
        ps.read(tmp_path / "x")
    assert rows_of(ps.read(tmp_path / "x", columns=["b"])) == {"b": [0, 1, 2, 3]}
    with pytest.raises(ps.DataError, match=r"a row of b takes 8 bytes; Limits\(record_bytes=7\)"):
        ps.read(tmp_path / "x", columns=["b"], limits=ps.Limits(record_bytes=7))


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
def test_damage(tmp_path: Path, version: int) -> None:
    """What the packing or the description can tell is an error; a missing chunk is the fill value, by Zarr's definition."""
    store = tmp_path / "x.zarr"
    group = zarr.open_group(str(store), mode="w", zarr_format=version)
    group.create_array("x", data=np.arange(50, dtype="i4"), chunks=(25,), compressors=COMPRESSORS[version])

    def read() -> Any:
        return rows_of(ps.read(store))

    wanted = read()
    chunk = store / "x" / ("0" if version == 2 else "c/0")
    whole = chunk.read_bytes()
    assert errors(outcomes(chunk, (whole[:size] for size in range(0, len(whole), 7)), read, store)) == -(
        -len(whole) // 7
    )
    found = outcomes(
        chunk, flips(whole, tries(1_000, at_least=20)), read, store
    )  # gzip's header has bits without a meaning
    assert errors(found) > 0.7 * len(found)
    assert all(one == wanted for one in found if isinstance(one, dict))
    chunk.unlink()
    assert read() == {"x": [0] * 25 + list(range(25, 50))}
    chunk.write_bytes(whole)
    described = store / "x" / (".zarray" if version == 2 else "zarr.json")
    text = described.read_bytes()
    found = outcomes(described, flips(text, tries(1_000, at_least=20)), read, store)
    assert errors(found) > len(found) / 2
    described.write_bytes(text.replace(b"50", b"9" * 30, 1))
    with pytest.raises(ps.DataError, match=r"x says that it has 999,.* rows|zarr cannot open it"):
        read()


def test_no_store(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"x")
    with pytest.raises(ps.SourceError, match=r"no Zarr store \(zarr\.json, \.zgroup, \.zarray\) in this folder"):
        ps.read(tmp_path, format="zarr")


def test_names_with_dots_and_groups_are_columns_of_their_own(tmp_path: Path) -> None:
    """An array a.b, and one that is called b in a group a."""
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
    group.create_array("a.b", data=np.arange(3))
    group.create_group("a").create_array("b", data=np.arange(3) * 10)
    assert rows_of(ps.read(tmp_path / "a.zarr")) == {r"a\.b": [0, 1, 2], "a.b": [0, 10, 20]}
