"""`memory=` is a number: the anonymous memory of a process stays within it, a tenth more and one batch, or the plan is refused before anything is read."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.loader import share
from penstock.resolve import dealt
from penstock.source.nulls import stored
from support.seams import lowered_of

sys.path.append(str(Path(__file__).parents[2] / "benches"))

import memory as bench
from memory_data import FORMATS, KINDS, write

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="what a process holds stands in Linux's /proc only"
)

MIB = 1 << 20
#: Pools stay, since what was taken of one may be given back at any time.
COUNTING = list[pa.MemoryPool]()
#: One of each kind that once held more than its budget.
SHORT = [
    ("parquet", "dictionary", "shuffled", 256),
    ("arrow", "run-end", "natural", 256),
    ("parquet", "6 MB blocks", "natural", 64),
    ("hdf5", "chunks of a column", "shuffled", 64),
]


def keeps_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cell: bench.Cell) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write(cell.format, cell.kind, tmp_path)
    for one, found in bench.measured(cell, str(tmp_path)):
        assert found.is_kept, (one, found)


@pytest.mark.slow
@pytest.mark.parametrize(("format", "kind", "order", "budget"), SHORT)
def test_what_once_held_more_keeps_to_its_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str, kind: str, order: str, budget: int
) -> None:
    keeps_to_it(tmp_path, monkeypatch, bench.Cell(format, kind, order, budget))


@pytest.mark.long
@pytest.mark.parametrize("cell", bench.cells([*FORMATS], [*KINDS], bench.BUDGETS_MB, bench.ORDERS), ids=str)
def test_every_format_keeps_to_its_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cell: bench.Cell) -> None:
    keeps_to_it(tmp_path, monkeypatch, cell)


# Refused before anything is read


def chunked(folder: Path, rows: int, chunk: tuple[int, int]) -> ps.Dataset:
    """Ones in chunks that take next to nothing in the file."""
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("x", (rows, chunk[1]), "f4", chunks=chunk, compression="gzip", fillvalue=1)
    return ps.read(folder / "x.h5")


def test_windows_that_do_not_fit_are_refused_with_what_would(tmp_path: Path) -> None:
    data = chunked(tmp_path, 64_000, (160, 10_000))
    with pytest.raises(
        ps.PlanError, match=r"32 lanes × 2 of a window × [\d,]+ bytes.*use batch\(…, lanes=\d+\)"
    ) as refused:
        ps.Loader(data.shuffle(seed=0).batch(64), memory="128MB")
    said = str(refused.value)
    lanes, needed = (
        int(number.replace(",", "")) for number in re.findall(r"(?:\blanes|or memory)=([\d,]+\d|\d)", said)
    )
    for plan, memory in (
        (data.shuffle(seed=0).batch(64, lanes=lanes), "128MB"),
        (data.shuffle(seed=0).batch(64), needed),
    ):
        with ps.Loader(plan, memory=memory) as loader:
            assert lowered_of(loader).needs.size_bytes <= 1.1 * lowered_of(loader).budget.limit_bytes
    with pytest.raises(ps.PlanError, match="lanes × 2 of a window"):
        ps.Loader(data.shuffle(seed=0).batch(64, lanes=min(64, 8 * lanes)), memory="128MB")


def test_lanes_that_fit_are_named_where_blocks_are_few(tmp_path: Path) -> None:
    """64 lanes of 100 blocks have one each, which is longer than fewer lanes would have: what fits follows from the order of these."""
    plan = chunked(tmp_path, 10_000, (100, 15_000)).shuffle(seed=0)
    with pytest.raises(
        ps.PlanError, match=r"64 lanes × 2 of a window × [\d,]+ bytes, but no more than the data has\).*lanes=\d+"
    ) as refused:
        ps.Loader(plan.batch(64), memory="256MB")
    lanes = int(re.findall(r"lanes=(\d+)", str(refused.value))[0])
    with ps.Loader(plan.batch(64, lanes=lanes), memory="256MB") as loader:
        assert lowered_of(loader).needs.size_bytes <= 1.1 * 256_000_000
        assert len(next(iter(loader))["x"]) == 64


def test_lanes_that_fit_are_those_that_a_batch_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where blocks are large, windows are of one block until a batch names its lanes."""
    monkeypatch.setattr(dealt, "OPEN_BYTES", 1)
    plan = chunked(tmp_path, 64_000, (160, 10_000)).shuffle(seed=0)
    with pytest.raises(ps.PlanError, match=r"8 lanes × 1 of a window.*lanes=\d+") as refused:
        ps.Loader(plan.batch(64), memory="70MB")
    lanes = int(re.findall(r"lanes=(\d+)", str(refused.value))[0])
    with ps.Loader(plan.batch(64, lanes=lanes), memory="70MB") as loader:
        assert lowered_of(loader).order.rows.shape.window_blocks == 2
        assert lowered_of(loader).needs.size_bytes <= 70_000_000


def test_a_step_of_two_windows_holds_both(tmp_path: Path) -> None:
    """One row of a lane a step: lanes wait at new windows. With several, a step holds the last of one window and the first of the next."""
    plan = chunked(tmp_path, 64_000, (160, 10_000)).shuffle(seed=0, block_rows=160)
    with ps.Loader(plan.batch(16, lanes=16), memory="240MB"):
        pass
    with pytest.raises(ps.PlanError, match=r"16 lanes × 2 of a window.*use batch\(…, lanes=8\)"):
        ps.Loader(plan.batch(64, lanes=16), memory="240MB")
    for lanes, memory in ((8, "240MB"), (16, "400MB")):
        with ps.Loader(plan.batch(64, lanes=lanes), memory=memory):
            pass


def test_one_lane_holds_two_windows_where_one_ends(tmp_path: Path) -> None:
    plan = chunked(tmp_path, 16_000, (160, 10_000)).shuffle(seed=0).batch(64, lanes=1)
    with ps.Loader(plan, memory="256MB") as loader:
        assert lowered_of(loader).window_bytes == 4 * 160 * 40_000


def test_only_a_small_budget_says_how_the_process_allocates(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    monkeypatch.setattr(share, "keep_no_large_pieces", lambda: called.append(1))
    data = ps.from_arrays({"x": np.arange(64)}).batch(8)
    for memory in (None, "2GB"):
        ps.Loader(data, memory=memory).close()
    assert not called
    ps.Loader(data, memory="70MB").close()
    assert called


def test_a_budget_below_one_batch_is_refused() -> None:
    data = ps.from_arrays({"x": np.zeros((64, 1 << 19), np.float32)})
    with pytest.raises(ps.PlanError, match="134,217,728 for a batch; use smaller batches, or memory=134,217,728"):
        ps.Loader(data.batch(64), memory="70MB")
    with ps.Loader(data.batch(16), memory="70MB") as loader:
        assert sum(len(batch["x"]) for batch in loader) == 64


def test_a_block_that_is_larger_than_the_budget_is_refused_with_what_would_do(tmp_path: Path) -> None:
    """Chunks of a column each: a block is the file."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", (10_000, 2_000), "f4", chunks=(10_000, 1), fillvalue=1)
    plan = ps.read(tmp_path / "x.h5").batch(64)
    with pytest.raises(ps.PlanError, match=r"for blocks of 80,000,000 bytes.* to decode parts.*use memory=") as refused:
        ps.Loader(plan, memory="70MB")
    needed = int(re.findall(r"memory=([\d,]+\d) for the Loader", str(refused.value))[0].replace(",", ""))
    with ps.Loader(plan, memory=needed) as loader:
        assert float(next(iter(loader))["x"].sum()) == 64 * 2_000


def test_a_small_dataset_is_no_more_than_it_is(tmp_path: Path) -> None:
    """Windows of 64 lanes hold no more than there is."""
    with ps.Loader(chunked(tmp_path, 1_600, (160, 10_000)).shuffle(seed=0).batch(64), memory="100MB") as loader:
        assert lowered_of(loader).window_bytes <= 64_000_000
        assert sum(float(batch["x"].sum()) for batch in loader) == 16_000_000


# What decoding takes is what it is said to take


def columns(kind: str) -> pa.Array:
    """200 rows of some 6 KB."""
    drawn = np.random.default_rng(0).integers(0, 200, 200 * 6_000).astype(np.uint8)
    texts = [row.tobytes().hex() for row in drawn.reshape(200, 6_000)[:, :3_000]]
    lists = {
        "uint8": drawn,
        "int16": drawn[: 200 * 3_000].astype(np.int16),
        "float32": drawn[: 200 * 1_500].astype(np.float32),
    }
    if kind == "text":
        return pa.array(texts)
    values = lists[kind.removeprefix("ragged ")]
    if "ragged" in kind:
        return pa.array(np.split(values, 200))
    return pa.FixedSizeListArray.from_arrays(pa.array(values), len(values) // 200)


@pytest.mark.parametrize("kind", ["text", "uint8", "int16", "float32", "ragged uint8", "ragged float32"])
def test_decoding_a_row_group_takes_no_more_than_is_set_aside(tmp_path: Path, kind: str) -> None:
    """Counted by Arrow: levels of lists take two bytes twice for each value, and small numbers lie as four bytes in the file."""
    column = columns(kind)
    with pq.ParquetWriter(tmp_path / "x.parquet", pa.schema([("x", column.type)])) as writer:
        for _ in range(2):
            writer.write_table(pa.table({"x": column}))
    source: Any = stored(ps.read(tmp_path / "x.parquet").source)
    usual, counting = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    COUNTING.append(counting)
    pa.set_memory_pool(counting)
    try:
        source.stored.decode(1)
    finally:
        pa.set_memory_pool(usual)
    most = counting.max_memory()
    source.decoded.keep_within(4, 1)  # of which next to nothing is kept
    assert most <= source.keep_within(4) <= source.manifest.held_bytes + 3 * most


# What is short in the file is what it says


@pytest.mark.parametrize("shuffled", [False, True])
def test_dictionaries_that_grow_from_row_group_to_row_group(tmp_path: Path, shuffled: bool) -> None:
    """The first row group says nothing of the later ones: steps that were to be made together are made one by one where they fit nowhere."""
    with pq.ParquetWriter(tmp_path / "x.parquet", pa.schema([("x", pa.dictionary(pa.int32(), pa.string()))])) as writer:
        for length in (1, 100, 20_000):
            text = pa.DictionaryArray.from_arrays(np.zeros(6_000, np.int32), [length * "x"])
            writer.write_table(pa.table({"x": text}))
    data = ps.read(tmp_path / "x.parquet")
    plan = data.shuffle(seed=0) if shuffled else data
    with ps.Loader(plan.batch(100), memory="70MB") as loader:
        found = dict[int, int]()
        for batch in loader:
            for length in set(pc.binary_length(batch["x"]).to_pylist()):
                found[length] = found.get(length, 0) + 1
        assert {*found} == {1, 100, 20_000}
        assert loader.stats()["memory"]["most_bytes"] <= 1.1 * 70_000_000


@pytest.mark.parametrize("format", ["parquet", "arrow"])
@pytest.mark.parametrize("null", [-1, 5])
def test_dictionaries_stay_short_whether_or_not_values_are_missing(tmp_path: Path, format: str, null: int) -> None:
    """200 MB of text, in kilobytes of the file."""
    numbers = pa.array(np.zeros(20_000, np.int32), mask=np.arange(20_000) == null)
    table = pa.table({"x": pa.DictionaryArray.from_arrays(numbers, [10_000 * "x"])})
    where = tmp_path / f"x.{format}"
    if format == "parquet":
        pq.write_table(table, where)
    else:
        with pa.ipc.new_file(where, table.schema) as writer:
            writer.write_table(table)
    with ps.Loader(ps.read(where, nulls="arrow").shuffle(seed=0).batch(100), memory="64MB") as loader:
        assert lowered_of(loader).needs.decoding_bytes < 16_000_000
        assert sum(batch["x"].null_count for batch in loader) == (null >= 0)
        assert loader.stats()["memory"]["most_bytes"] <= 1.1 * 64_000_000


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_the_budget_that_is_named_does_for_a_loader_that_had_no_other(tmp_path: Path, format: str) -> None:
    """Of a larger budget more is kept decoded: that counts in what is named."""
    table = pa.table({"x": pa.array([60_000 * b"x"] * 500)})
    if format == "parquet":
        pq.write_table(pa.concat_tables([table] * 4), tmp_path / "x", row_group_size=500, use_dictionary=False)
    else:
        with pa.ipc.new_file(
            tmp_path / "x", table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
        ) as writer:
            for _ in range(4):
                writer.write_table(table)
    with pytest.raises(ps.PlanError, match="memory=") as refused:
        ps.Loader(ps.read(tmp_path / "x").batch(16), memory="64MB")
    needed = int(re.findall(r"memory=([\d,]+\d) for the Loader", str(refused.value))[0].replace(",", ""))
    with ps.Loader(ps.read(tmp_path / "x").batch(16), memory=needed) as loader:
        assert lowered_of(loader).needs.size_bytes <= needed
        assert len(next(iter(loader))["x"]) == 16


@pytest.mark.parametrize("nulls", [None, "arrow"])
def test_parts_are_set_aside_whether_or_not_values_are_missing(tmp_path: Path, nulls: Any) -> None:
    """A row group of 16 MB: four times that is taken to decode it, and some is kept."""
    texts = [None if nulls and row == 7 else 80_000 * "x" for row in range(200)]
    pq.write_table(pa.table({"n": range(200), "x": texts}), tmp_path / "x.parquet", use_dictionary=False)
    data = ps.read(tmp_path / "x.parquet") if nulls is None else ps.read(tmp_path / "x.parquet", nulls=nulls)
    with ps.Loader(data.shuffle(seed=0).batch(10), memory="100MB") as loader:
        assert 64_000_000 <= lowered_of(loader).needs.decoding_bytes <= 100_000_000
        assert sum(len(batch["n"]) for batch in loader) == 200


def runs(folder: Path, values: pa.Array, rows: int) -> ps.Dataset:
    """Runs of equal length, one a value."""
    ends = pa.array(np.arange(1, len(values) + 1) * (rows // len(values)), pa.int64())
    batch = pa.record_batch({"x": pa.RunEndEncodedArray.from_arrays(ends, values)})
    with pa.ipc.new_file(folder / "x.arrow", batch.schema) as writer:
        writer.write_batch(batch)
    return ps.read(folder / "x.arrow")


def test_a_row_of_two_billion_in_runs(tmp_path: Path) -> None:
    """16 GB of numbers, if they were written out to take one."""
    rows = 2_000_000_000
    data = runs(tmp_path, pa.array([3, 5]), rows)
    with ps.Loader(data.batch(1), memory="70MB", epochs=1) as loader:
        assert loader.batch_at(0, 7)["x"].tolist() == [3]
        assert loader.batch_at(0, rows - 1)["x"].tolist() == [5]


@pytest.mark.parametrize("values", [pa.array(["a", None, "ccc"]), pa.array([1.5, None, -2.0])], ids=["text", "numbers"])
def test_nulls_in_runs(tmp_path: Path, values: pa.Array) -> None:
    """Rows on both sides of where a run of nulls begins and ends."""
    source: Any = stored(runs(tmp_path, values, 1_200_000).source)
    assert source.batches.is_short(0)
    for first, wanted in ((399_998, [0, 0, 1, 1]), (799_998, [1, 1, 2, 2])):
        assert source.load(first, 4).others["x"].to_pylist() == values.take(pa.array(wanted)).to_pylist()


def test_slices_of_runs_are_those_rows(tmp_path: Path) -> None:
    """Compared with what pyarrow makes of the whole column."""
    data = runs(tmp_path, pa.array([*range(300)]), 1_200_000)
    wanted, source = np.repeat(np.arange(300), 4_000), stored(data.source)
    assert source.batches.is_short(0)
    for first, rows in ((0, 3), (3_998, 5), (1_199_990, 10), (123_456, 30_000)):
        found: Any = source.load(first, rows)
        assert found.fixed.view(np.int64).ravel().tolist() == wanted[first : first + rows].tolist()


def test_very_wide_tables_are_counted(tmp_path: Path) -> None:
    wide = pa.table({f"c{number}": np.zeros(500, np.float64) for number in range(150)})
    pq.write_table(wide, tmp_path / "wide.parquet", row_group_size=100)
    with pytest.raises(ps.PlanError, match="for a batch"):
        ps.Loader(ps.read(tmp_path / "wide.parquet").batch(100_000), memory="70MB")
    with ps.Loader(ps.read(tmp_path / "wide.parquet").shuffle(seed=0).batch(50), memory="70MB") as loader:
        assert sum(len(batch["c7"]) for batch in loader) == 500


def test_explain_says_what_is_held(tmp_path: Path) -> None:
    plan = chunked(tmp_path, 64_000, (160, 10_000)).shuffle(seed=0).batch(64)
    words = plan.explain()
    assert "Memory\n  in any case:" in words
    assert "for open blocks (32 lanes × 2 of a window ×" in words
    assert "2,560,000 for a batch" in words
    assert re.search(r"budget: [\d,]+ bytes, this machine's now without memory=", words)
    with ps.Loader(plan, memory="4GB") as loader:
        assert "budget: memory=4,000,000,000 bytes" in loader.explain()
