"""States, cached indexes and stores' descriptions with anything changed: the right rows, or errors of Penstock's own."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import penstock as ps
from penstock.core.errors import PenstockError
from penstock.derived import file_indexes as entries
from support import damage, damage_arrays
from support.mutated import flipped, mutated
from support.tries import tries

ROWS = 48


def plain() -> ps.Dataset:
    return ps.from_arrays({"x": np.arange(ROWS)}).shuffle(seed=3).batch(4)


def filtered() -> ps.Dataset:
    return ps.from_arrays({"x": np.arange(ROWS)}).shuffle(seed=3).filter(odd).batch(4, steps=8)


def mixed() -> ps.Dataset:
    one, other = (ps.from_arrays({"x": np.arange(ROWS) + first}) for first in (0, 100))
    return ps.mix([one.shuffle(seed=1), other], weights=[2, 1], rows=36).batch(4)


def odd(rows: dict[str, Any]) -> Any:
    return rows["x"] % 2 == 1


PLANS: dict[str, Callable[[], ps.Dataset]] = {"plain": plain, "filtered": filtered, "mixed": mixed}


@pytest.mark.parametrize("name", PLANS)
def test_changed_states(name: str) -> None:
    """A state is refused, or is one from which batches come."""
    plan, rng, refused = PLANS[name](), random.Random(11), 0
    with ps.Loader(plan) as loader:
        for number, _ in enumerate(loader):
            if number == 2:
                break
        state = json.loads(json.dumps(loader.state_dict()))
    for number in range(tries(1_000, at_least=40)):
        bad = mutated(state, rng)
        with ps.Loader(plan) as loader:
            try:
                loader.load_state_dict(bad)
                seen = [len(batch["x"]) for batch, _ in zip(loader, range(2), strict=False)]
            except PenstockError:
                refused += 1
            else:
                assert all(0 < rows <= 4 for rows in seen), number
    assert refused


@pytest.mark.parametrize("name", ["tfrecord", "jsonl.xz", "csv", "webdataset"])
def test_changed_entries_of_the_index(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their checksum is right, and what they say is not: they are made anew, or a row is refused; nothing large is asked for."""
    small = next(one for one in damage.SMALL if one.name == name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    victim = damage.Victim(small.make(tmp_path))
    wanted, rng = damage.read_rows(small, victim.path), random.Random(12)
    found = sorted((tmp_path / "cache/penstock").glob("index/*.index"))
    assert found
    whole, right, refused = {path: path.read_bytes() for path in found}, 0, 0
    with damage.bounded_memory():
        for _ in range(tries(1_000, at_least=100)):
            for path, content in whole.items():
                rest = flipped(content[entries._CHECKED_FROM :], rng)
                path.write_bytes(content[:8] + entries._digest(rest) + rest)
            try:
                right += damage.read_rows(small, victim.path) == wanted
            except PenstockError:
                refused += 1
    assert right
    assert refused


@pytest.mark.parametrize("version", [2, 3])
def test_changed_descriptions_of_zarr_stores(version: int, tmp_path: Path) -> None:
    path = tmp_path / "small.zarr"
    group = zarr.open_group(str(path), mode="w", zarr_format=version)  # type: ignore[arg-type]
    group.create_array("x", data=np.arange(24, dtype="i4").reshape(8, 3), chunks=(4, 3))
    described = path / "x" / ("zarr.json" if version == 3 else ".zarray")
    whole, rng, refused = json.loads(described.read_text()), random.Random(13), 0
    small = next(one for one in damage_arrays.SMALL if one.name == f"zarr {version}")
    with damage.bounded_memory():
        for _ in range(tries(1_000, at_least=40)):
            described.write_text(json.dumps(mutated(whole, rng)))
            try:
                damage.read_rows(small, path / "x" / "0")
            except PenstockError:
                refused += 1
    assert refused


GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize(
    "name", ["huggingface/saved", "litdata/rows", "litdata/packed-chunk", "mds/shards", "mds/packed-zstd"]
)
def test_changed_descriptions_of_datasets(name: str, tmp_path: Path) -> None:
    """Those of Hugging Face, LitData and MosaicML: rows come, or an error of Penstock's own."""
    folder = shutil.copytree(GOLDEN / name, tmp_path / "data")
    rng, refused = random.Random(14), 0
    for described in sorted(folder.rglob("*.json")):
        whole = described.read_text()
        for _ in range(tries(300, at_least=10)):
            described.write_text(json.dumps(mutated(json.loads(whole), rng)))
            try:
                rows = sum(1 for _ in ps.Loader(ps.read(str(folder)).batch(4)))
            except PenstockError:
                refused += 1
            else:
                assert rows
        described.write_text(whole)
    assert refused
