"""What compressed Arrow files take in memory, against pyarrow's own buffers; and that nobody's order depends on it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pytest

import penstock as ps
from penstock.format.arrow import unpacked
from penstock.format.arrow.source import ArrowBatches
from penstock.resolve import dealt
from penstock.source.nulls import stored
from support import tables
from support.cases import MemoryStorage
from support.seams import lowered_of

ROWS = 600
PACKINGS = pytest.mark.parametrize("packing", ["zstd", "lz4"])


def column(kind: str) -> pa.Array:
    rng = np.random.default_rng(0)
    texts = [f"row {number} " * (number % 40) for number in range(ROWS)]
    made = {
        "text": lambda: pa.array(texts),
        "large text": lambda: pa.array(texts, pa.large_string()),
        "text with nulls": lambda: pa.array([None if number % 3 else text for number, text in enumerate(texts)]),
        "bytes stored as they are": lambda: pa.array([rng.bytes(number % 200) for number in range(ROWS)]),
        "lists": lambda: pa.array([[*range(number % 9)] for number in range(ROWS)]),
        "lists of text": lambda: pa.array([[text, "a"] for text in texts]),
        "views of lists": lambda: pa.array([[*range(number % 9)] for number in range(ROWS)], pa.list_view(pa.int32())),
        "views of text": lambda: pa.array(texts, pa.string_view()),
        "dictionary": lambda: pa.array([texts[number % 30] for number in range(ROWS)]).dictionary_encode(),
        "structs": lambda: pa.array([{"a": text, "b": number} for number, text in enumerate(texts)]),
        "empty": lambda: pa.array([""] * ROWS),
    }
    return made[kind]()


KINDS = [
    "text", "large text", "text with nulls", "bytes stored as they are", "lists", "lists of text", "views of lists", "views of text",
    "dictionary", "structs", "empty",
]  # fmt: skip


def written(folder: Path, kind: str, packing: str, *, stream: bool = False) -> Path:
    """A column between others, whose buffers are to be told from its own."""
    others = pa.array([{"m": [("k", 1)], "n": None, "f": [1.0, 2.0]}] * ROWS, pa.struct([
        ("m", pa.map_(pa.string(), pa.int8())), ("n", pa.null()), ("f", pa.list_(pa.float32(), 2))]))  # fmt: skip
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([100, ROWS], pa.int32()), pa.array(["a", "b"]))
    made = {"before": runs, "others": others, "x": column(kind), "after": pa.array(["after"] * ROWS)}
    return tables.write_arrow(folder / "x.arrow", pa.table(made), rows=170, packing=packing, stream=stream)


def source_of(path: Path, columns: list[str]) -> Any:
    return stored(ps.read(path, columns=columns).source)


@PACKINGS
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_column_takes_is_what_arrow_unpacks(tmp_path: Path, kind: str, packing: str) -> None:
    path = written(tmp_path, kind, packing)
    with pa.OSFile(str(path)) as file:
        reader = pa.ipc.open_file(file)
        columns = [reader.get_batch(number)["x"] for number in range(reader.num_record_batches)]
    found = [column.indices if kind == "dictionary" else column for column in columns]
    unpacked = sum(buffer.size for column in found for buffer in column.buffers() if buffer is not None)
    source = source_of(path, ["x.a" if kind == "structs" else "x"])
    assert 0 <= source.unpacked_bytes - unpacked - 4 * ROWS <= 64 * len(columns), "offsets of 64 bits, and padding"
    assert source.manifest.held_bytes < path.stat().st_size, "by which blocks are cut"


def test_streams_feather_and_several_files(tmp_path: Path) -> None:
    one = source_of(written(tmp_path, "text", "zstd"), ["x"]).unpacked_bytes
    assert source_of(written(tmp_path, "text", "zstd", stream=True), ["x"]).unpacked_bytes == one
    (tmp_path / "y.arrow").write_bytes((tmp_path / "x.arrow").read_bytes())
    assert ps.read(tmp_path, columns=["x"]).source.unpacked_bytes == 2 * one
    feather.write_feather(pa.table({"x": column("text")}), tmp_path / "z.feather", compression="lz4")
    assert one - 4_000 < source_of(tmp_path / "z.feather", ["x"]).unpacked_bytes <= one


def test_of_many_batches_some_are_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """600 batches whose texts grow: as many requests as of a few, and about what all of them say."""
    table = pa.table({"x": pa.array([number * "a" for number in range(600)])})
    path = tables.write_arrow(tmp_path / "x.arrow", table, rows=1, packing="zstd")
    storage = MemoryStorage({"x.arrow": path.read_bytes()})
    found = stored(ps.read("x.arrow", storage=storage).source).unpacked_bytes
    asked = [length for _, _, length in storage.reads if length == 8]
    monkeypatch.setattr(unpacked, "_LOOKED_AT", 1_000)
    exact = source_of(path, ["x"]).unpacked_bytes
    assert 0.98 * exact <= found <= 1.02 * exact
    assert 64 <= len(asked) <= 2 * 64


def test_other_columns_do_not_count(tmp_path: Path) -> None:
    path = written(tmp_path, "text", "zstd")
    both, x, after = (source_of(path, names).unpacked_bytes for names in (["x", "after"], ["x"], ["after"]))
    assert both == x + after
    assert source_of(path, ["x", "after"]).only(["after"]).unpacked_bytes == after
    assert source_of(path, ["others.f"]).unpacked is None, "a fixed shape says what it takes"
    plain = tables.write_arrow(tmp_path / "plain.arrow", pa.table({"x": column("text")}), rows=170)
    assert source_of(plain, ["x"]).unpacked is None


@pytest.mark.parametrize("size", [-5, 1 << 40, 1 << 62, (1 << 63) - 1])
def test_sizes_that_cannot_be_are_errors_where_they_are_read(tmp_path: Path, size: int) -> None:
    path = tables.write_arrow(tmp_path / "x.arrow", pa.table({"x": [900 * "a"] * 100}), rows=100, packing="zstd")
    content, stated = path.read_bytes(), (90_000).to_bytes(8, "little")
    assert content.count(stated) == 1
    path.write_bytes(content.replace(stated, size.to_bytes(8, "little", signed=True)))
    with pytest.raises(ps.DataError, match="batch 0: "), ps.Loader(ps.read(path).batch(10), memory="70MB") as loader:
        next(iter(loader))


# What follows from it


def repeated(folder: Path, value: bytes, batches: int) -> ps.Dataset:
    """Batches of 100 rows of the same bytes, of which a block of 1 MiB of the file holds all."""
    made = pa.table({"n": np.arange(100), "x": pa.array([value] * 100)})
    with pa.ipc.new_file(folder / "x.arrow", made.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        for _ in range(batches):
            writer.write_table(made)
    return ps.read(folder / "x.arrow")


def test_windows_that_do_not_fit_are_refused_with_what_would(tmp_path: Path) -> None:
    """90 MB, in 200 KB of the file."""
    rows = repeated(tmp_path, 30_000 * b"a", 30)
    with pytest.raises(ps.PlanError, match=r"this plan holds in any case: [\d,]+ for .*blocks.*use ") as refused:
        ps.Loader(rows.shuffle(seed=0).batch(20), memory="70MB")
    needed = int(re.findall(r"memory=([\d,]+\d) for the Loader", str(refused.value))[0].replace(",", ""))
    assert needed > 90_000_000
    for plan, memory in ((rows.shuffle(seed=0), needed), (rows.shuffle(seed=0, block_rows=20), "70MB")):
        with ps.Loader(plan.batch(20), memory=memory) as loader:
            assert sum(len(batch["x"]) for batch in loader) == 3_000
            assert loader.stats()["memory"]["most_bytes"] <= 1.1 * lowered_of(loader).budget.limit_bytes


def test_rows_in_their_order_need_no_large_blocks(tmp_path: Path) -> None:
    with ps.Loader(repeated(tmp_path, 30_000 * b"a", 30).batch(20), memory="70MB") as loader:
        assert [number for batch in loader for number in batch["n"].tolist()] == 30 * [*range(100)]
        assert lowered_of(loader).window_bytes <= 4 << 20
        assert loader.stats()["memory"]["most_bytes"] <= 77_000_000


def test_lanes_that_fit_in_windows_of_a_block_are_named(tmp_path: Path) -> None:
    """Blocks of 30 MB: a lane alone has too many of them open, unless its windows are of one."""
    rows = repeated(tmp_path, 30_000 * b"a", 60)
    with pytest.raises(
        ps.PlanError, match=r"use batch\(…, lanes=1\) with shuffle\(…, window_blocks=1\), or shuffle with"
    ):
        ps.Loader(rows.shuffle(seed=0, block_rows=1_000).batch(20), memory="100MB")
    with pytest.raises(ps.PlanError, match="use shuffle with a smaller block_rows=, or memory="):
        ps.Loader(rows.shuffle(seed=0, block_rows=1_000, window_blocks=1).batch(20, lanes=20), memory="70MB")
    plan = rows.shuffle(seed=0, block_rows=1_000, window_blocks=1).batch(20, lanes=1)
    with ps.Loader(plan, memory="100MB") as loader:
        assert lowered_of(loader).needs.size_bytes <= 100_000_000
        assert len(next(iter(loader))["x"]) == 20


@pytest.mark.parametrize("kind", ["natural", "lanes", "default"])
def test_orders_are_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """An earlier version counted what lies in the file: blocks are cut by it, and a state of then goes on, also where the rule says fewer lanes now."""
    rows = repeated(tmp_path, 2_000 * b"a", 10)
    plan = {
        "natural": rows.batch(50),
        "lanes": rows.shuffle(seed=1).batch(50, lanes=10),
        "default": rows.shuffle(seed=1).batch(50),
    }[kind]
    monkeypatch.setattr(dealt, "OPEN_BYTES", 1_000_000)
    with monkeypatch.context() as patch:
        patch.setattr(ArrowBatches, "unpacked_bytes", property(lambda source: source.manifest.held_bytes))
        with ps.Loader(plan, epochs=2) as before:
            steps = iter(before)
            next(steps)
            state = json.loads(json.dumps(before.state_dict()))
            wanted = [batch["n"].tolist() for batch in steps]
    assert "dealt" not in state
    with ps.Loader(plan, epochs=2) as loader:
        assert ("dealt" in loader.state_dict()) == (kind == "default"), "fewer lanes, in a training that begins now"
        loader.load_state_dict(state)
        assert [batch["n"].tolist() for batch in loader] == wanted
