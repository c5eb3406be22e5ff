"""Arrow IPC files and streams against pyarrow's writer: mapped, packed, with dictionaries, and what is refused."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pytest

import penstock as ps
from penstock.format.arrow.messages import _Table, read_file, read_stream
from support import tables
from support.cases import MemoryStorage

FORMS = pytest.mark.parametrize(("stream", "packing"), [(s, p) for s in (False, True) for p in (None, "lz4", "zstd")])


@FORMS
@pytest.mark.parametrize("rows", [1, 7, 100])
def test_every_column(tmp_path: Path, stream: bool, packing: str | None, rows: int) -> None:
    whole = tables.table(40)
    for number, part in enumerate((whole.slice(0, 13), whole.slice(13))):
        tables.write_arrow(tmp_path / f"{number}.arrow", part, rows=rows, stream=stream, packing=packing)
    dataset = ps.read(tmp_path)
    batch = tables.rows_of(dataset)
    assert batch["id"].tolist() == list(range(40))
    tables.check(batch)
    for shuffled in ps.Loader(dataset.shuffle(seed=1, block_rows=4).batch(16)):
        tables.check(shuffled)


def test_feather(tmp_path: Path) -> None:
    feather.write_feather(tables.table(30), tmp_path / "x.feather")
    tables.check(tables.rows_of(ps.read(tmp_path)))
    (tmp_path / "x.feather").write_bytes(b"FEA1" + bytes(100) + b"FEA1")
    with pytest.raises(ps.SourceError, match="Feather V1"):
        ps.read(tmp_path)


def test_content_tells_the_format(tmp_path: Path) -> None:
    for stream in (False, True):
        path = tables.write_arrow(tmp_path / "data", tables.table(5), rows=5, stream=stream)
        assert ps.read(path).source.manifest.format == "arrow"


def test_plain_columns_are_not_copied(tmp_path: Path) -> None:
    path = tables.write_arrow(tmp_path / "x.arrow", pa.table({"x": np.arange(1_000)}), rows=1_000)
    source = ps.read(path).source
    first, second = source.load(10, 5)["x"], source.load(12, 5)["x"]
    assert first.tolist() == [10, 11, 12, 13, 14]
    assert np.shares_memory(first, second)
    assert not first.flags.writeable


@pytest.mark.parametrize("packing", [None, "zstd"])
@pytest.mark.parametrize("stream", [False, True])
def test_dictionaries(tmp_path: Path, stream: bool, packing: str | None) -> None:
    words = [pa.array(part).dictionary_encode() for part in (["a", "b", "a"], ["c", "a"], ["c", "c", "d"])]
    if not stream:
        words = pa.chunked_array(words).unify_dictionaries().chunks
    options = pa.ipc.IpcWriteOptions(compression=packing, emit_dictionary_deltas=True)
    batches = [pa.record_batch({"word": part, "n": range(len(part))}) for part in words]
    path = str(tmp_path / "x.arrow")
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(path, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    dataset = ps.read(path)
    assert tables.rows_of(dataset)["word"].to_pylist() == ["a", "b", "a", "c", "a", "c", "c", "d"]
    assert dataset.source.load(4, 2) is not None


def test_other_storages(tmp_path: Path) -> None:
    path = tables.write_arrow(tmp_path / "x.arrow", tables.table(50), rows=20)
    storage = MemoryStorage({"memory://x.arrow": path.read_bytes()})
    tables.check(tables.rows_of(ps.read("memory://", storage=storage)))


def test_another_schema(tmp_path: Path) -> None:
    tables.write_arrow(tmp_path / "0.arrow", pa.table({"x": [1]}), rows=1)
    tables.write_arrow(tmp_path / "1.arrow", pa.table({"x": ["1"]}), rows=1)
    with pytest.raises(ps.DataError, match=r"1\.arrow: column 'x' is string, and int64 in .*0\.arrow"):
        ps.read(tmp_path)


def test_offsets_out_of_bounds(tmp_path: Path) -> None:
    path = tables.write_arrow(tmp_path / "x.arrow", pa.table({"x": ["one", "two", "three"]}), rows=3)
    content = path.read_bytes()
    offsets = np.array([0, 3, 6, 11], dtype=np.int32).tobytes()
    assert content.count(offsets) == 1
    for bad in ([0, 3, 6, 1 << 30], [0, 1 << 30, 6, 11], [0, -3, 6, 11], [5, 3, 2, 1]):
        path.write_bytes(content.replace(offsets, np.array(bad, dtype=np.int32).tobytes()))
        with pytest.raises(ps.DataError, match=r"x\.arrow, batch 0: .*write it again"):
            tables.rows_of(ps.read(path))


def test_buffers_that_would_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = pa.table({"x": np.zeros(1 << 18)})
    path = tables.write_arrow(tmp_path / "x.arrow", whole, rows=1 << 18, packing="zstd")
    stated = (1 << 21).to_bytes(8, "little")
    content = path.read_bytes()
    assert content.count(stated) > 0
    for size in (1 << 40, 1 << 62, (1 << 63) - 1):
        path.write_bytes(content.replace(stated, size.to_bytes(8, "little")))
        with pytest.raises(ps.DataError, match=r"batch 0: .*(in memory, where|write it again)"):
            tables.rows_of(ps.read(path))
    path.write_bytes(content)
    monkeypatch.setattr("penstock.source.tables.table._UNSUSPICIOUS_BYTES", 1 << 16)
    with pytest.raises(ps.DataError, match="would become 2,097,152 in memory"):
        tables.rows_of(ps.read(path))


@FORMS
def test_messages_are_those_that_pyarrow_finds(tmp_path: Path, stream: bool, packing: str | None) -> None:
    path = tables.write_arrow(tmp_path / "x", tables.table(50), rows=8, stream=stream, packing=packing)
    with pa.memory_map(str(path)) as file:
        messages = (read_stream if stream else read_file)(file, path.stat().st_size)
    with pa.OSFile(str(path)) as file:
        file.seek(0 if stream else 8)
        if not stream:
            pa.ipc.read_message(file)  # the schema, of which the footer holds a copy
        for message in messages:
            assert file.tell() == message.start
            found = pa.ipc.read_message(file)
            assert found.type.replace("record batch", "batch") == message.kind
            assert file.tell() == message.start + message.length
    assert [message.rows for message in messages if message.kind == "batch"] == [8, 8, 8, 8, 8, 8, 2]
    assert {message.packed for message in messages if message.kind == "batch"} == {packing is not None}


@pytest.mark.parametrize("stream", [False, True])
def test_numbers_of_big_endian_machines_are_refused(tmp_path: Path, stream: bool) -> None:
    """Only the schema says so; pyarrow writes no such files, so that the schema's first field is set in what it wrote."""
    path = tables.write_arrow(tmp_path / "x.arrow", pa.table({"x": [1, 2]}), rows=2, stream=stream)
    content = bytearray(path.read_bytes())
    (length,) = struct.unpack("<i", content[-10:-6])
    start = 8 if stream else len(content) - 10 - length
    schema = _Table.root(bytes(content[start:])).table(2 if stream else 1)
    slot = start + schema._fields + 4
    content[slot : slot + 2] = content[slot + 2 : slot + 4]  # some number that is not 0: not little-endian
    path.write_bytes(content)
    with pytest.raises(ps.DataError, match=r"x\.arrow: numbers as big-endian machines write them; read the file with"):
        ps.read(path)


def test_blocks_that_lie_in_each_other(tmp_path: Path) -> None:
    """A footer that lists one batch twice would give its rows twice."""
    path = tables.write_arrow(tmp_path / "x.arrow", tables.table(20).select(["id"]), rows=10)
    content = path.read_bytes()
    with pa.memory_map(str(path)) as file:
        one, two = (message.start for message in read_file(file, len(content)))
    at = content.rindex(two.to_bytes(8, "little"))
    path.write_bytes(content[:at] + one.to_bytes(8, "little") + content[at + 8 :])
    with pytest.raises(ps.DataError, match=r"a message that begins inside another"):
        ps.read(path)
