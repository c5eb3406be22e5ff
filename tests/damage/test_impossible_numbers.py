"""Files and caches that are whole and say what cannot be: an error in our words, or made anew."""

from __future__ import annotations

import os
import random
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.core.errors import DataError, PenstockError
from support.tries import tries

ROWS = 600


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "penstock"


def test_damaged_decoded_parts_are_decoded_anew(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.derived.decoded.MEMORY_BYTES", 0)
    table = pa.table({"x": np.arange(ROWS), "t": [f"row {row}" for row in range(ROWS)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=ROWS // 2)

    def found() -> list[Any]:
        batches = ps.Loader(ps.read(tmp_path / "a.parquet").shuffle(seed=1).batch(100))
        return [{name: list(map(str, column)) for name, column in batch.items()} for batch in batches]

    wanted = found()
    parts = list((cache / "decoded").glob("*.rows"))
    assert parts
    for number in range(tries(40)):
        for part in parts:
            damaged, rng = bytearray(part.read_bytes()), random.Random(number)
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
            del damaged[len(damaged) - number % 2 :]
            part.write_bytes(damaged)
        assert found() == wanted


@pytest.mark.parametrize("packing", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_damaged_members_of_archives(tmp_path: Path, packing: int) -> None:
    np.save(tmp_path / "x.npy", np.arange(3_000))
    with zipfile.ZipFile(tmp_path / "a.npz", "w", packing) as archive:
        archive.write(tmp_path / "x.npy", "x.npy")
    whole, rng = (tmp_path / "a.npz").read_bytes(), random.Random(1)
    told = 0
    for number in range(tries(400)):
        damaged = bytearray(whole)
        damaged[rng.randrange(60 if number % 2 else len(whole))] ^= 1 << rng.randrange(8)
        (tmp_path / "a.npz").write_bytes(damaged)
        os.utime(tmp_path / "a.npz", ns=(number, number))
        try:
            found = [batch["x"] for batch in ps.Loader(ps.read(tmp_path / "a.npz").batch(3_000))]
        except PenstockError:
            told += 1
        else:
            assert np.array_equal(found[0], np.arange(3_000))
    assert told


def test_chunks_of_no_rows(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    for version, name in ((2, ".zarray"), (3, "zarr.json")):
        store = tmp_path / f"{version}.zarr"
        zarr.open_group(str(store), mode="w", zarr_format=version).create_array("x", data=np.arange(10), chunks=(4,))
        text = (store / "x" / name).read_text()
        (store / "x" / name).write_text("".join(text.split()).replace("[4]", "[0]"))
        with pytest.raises(DataError, match="chunks have the shape"):
            ps.read(store)
