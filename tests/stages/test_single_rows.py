"""Rows in columns that are read one by one: few loads, no row that nobody asked for far from others."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.source.protocol import BlockSource
from penstock.stages.read import blocks
from penstock.stages.read.blocks import load_block
from penstock.stages.read.single_rows import SingleRows, spans_of
from support.seams import lowered_of


@given(st.lists(st.integers(0, 200), max_size=30))
def test_spans(samples: list[int]) -> None:
    first, end, which = spans_of(np.array(samples, dtype=np.int64))
    assert (first[1:] > end[:-1] + 7).all()
    assert ((first[which] <= samples) & (samples < end[which])).all()
    assert set(first.tolist()) | set((end - 1).tolist()) <= set(samples)


@pytest.mark.parametrize("kind", ["arrow", "hdf5"])
def test_an_item_is_loaded_in_a_few_spans(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where its rows are many of those that there are; it took a load for every row."""
    ids = np.arange(4000)
    if kind == "arrow":
        table = pa.table({"id": ids})
        with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as writer:
            writer.write_table(table, max_chunksize=100)
    else:
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file.create_dataset("id", data=ids, chunks=(50,), compression="gzip")
    spans: list[tuple[int, int]] = []

    def counted(source: BlockSource, first: int, rows: int, *, threads: int) -> object:
        spans.append((first, rows))
        return load_block(source, first, rows, threads=threads)

    monkeypatch.setattr(blocks, "load_block", counted)
    for dataset in (ps.read(tmp_path).shuffle(seed=1, mode="global"), ps.read(tmp_path).sort(-ps.col("id") % 1000)):
        spans.clear()
        with ps.Loader(dataset.batch(500, lanes=4), rank=0, world_size=1, epochs=1) as loader:
            found = [number for batch in loader for number in batch["id"].tolist()]
            lowered = lowered_of(loader)
            assert lowered.budget.kept_bytes == 0
        assert sorted(found) == ids.tolist()
        assert len(spans) < 400


def test_each_source_of_a_mix_is_read_as_suits_it(tmp_path: Path) -> None:
    """Blocks of one, single rows of the other."""
    table = pa.table({"id": np.arange(100_000)})
    with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=10_000)
    data = ps.read(tmp_path / "a.arrow")
    mixed = ps.mix([data.shuffle(seed=0), data.balance(ps.col("id") < 10_000).shuffle(seed=0)]).batch(64)
    with ps.Loader(mixed, rank=0, world_size=1) as loader:
        order = lowered_of(loader).order.rows
        assert order.block_rows_at(0) > 1
        assert order.block_rows_at(100_000) == 1
        for step, batch in zip(range(20), loader, strict=False):
            assert (batch["id"] == loader.sample_ids(0, step) % 100_000).all()
    assert SingleRows.in_order is False
