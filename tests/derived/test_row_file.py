"""Files of rows hold what was written, in other processes too, and damage is told by checksums."""

from __future__ import annotations

import pickle
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.derived.row_file import BlockFile, BlockWriter, binary_column, bytes_of_binary

ROWS = 50


def block(number: int) -> pa.RecordBatch:
    numbers = np.arange(ROWS, dtype=np.int16) + number
    columns = {
        "fixed": binary_column(numbers.view(np.uint8), ROWS, 2),
        "nothing": binary_column(np.empty(0, np.uint8), ROWS, 0),
        "text": pa.array([None if row == number else f"row {row}" for row in range(ROWS)], pa.large_string()),
        "lists": pa.array([[row] * (row % 3) for row in range(ROWS)], pa.large_list(pa.int32())),
        "repeated": pa.array(["a", "b"] * (ROWS // 2)).dictionary_encode(),
    }
    return pa.RecordBatch.from_pydict(columns)


def written(path: Path, blocks: int = 3) -> Path:
    with path.open("wb") as file:
        writer = BlockWriter(file)
        for number in range(blocks):
            writer.add(block(number))
        writer.finish({"rows": blocks * ROWS})
    return path


def opened(path: Path) -> BlockFile:
    found = BlockFile.open(str(path))
    assert found is not None
    return found


def test_blocks_come_back_as_they_were(tmp_path: Path) -> None:
    """Of every type, and where the file is sent and gone."""
    file = opened(written(tmp_path / "a.rows"))
    sent = pickle.loads(pickle.dumps(file))
    assert (file.facts["rows"], file.size_bytes) == (3 * ROWS, (tmp_path / "a.rows").stat().st_size)
    (tmp_path / "a.rows").unlink()
    for found in (file, sent):
        assert [found.block(number) for number in (2, 0, 1)] == [block(number) for number in (2, 0, 1)]
    part = file.block(1).column("fixed").slice(3, 4)
    assert bytes_of_binary(part, 2).view(np.int16).tolist() == [4, 5, 6, 7]
    assert not bytes_of_binary(file.block(1).column("nothing"), 0).size


def test_a_file_that_was_longer_ends_where_it_was_written(tmp_path: Path) -> None:
    """Room is reserved in the file before it is filled."""
    (tmp_path / "a.rows").write_bytes(bytes(1 << 20))
    with (tmp_path / "a.rows").open("r+b") as file:
        writer = BlockWriter(file)
        writer.add(block(0))
        writer.finish({})
    assert (tmp_path / "a.rows").stat().st_size < 1 << 14
    assert opened(tmp_path / "a.rows").block(0) == block(0)


def test_no_damage_gives_other_rows(tmp_path: Path) -> None:
    """The file counts as missing, or the block as damaged."""
    path = written(tmp_path / "a.rows")
    whole, rng = path.read_bytes(), random.Random(1)
    for at in [*range(64), *(rng.randrange(len(whole)) for _ in range(300))]:
        damaged = bytearray(whole)
        damaged[at] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        if (found := BlockFile.open(str(path))) is None:
            continue
        for number in range(3):
            try:
                assert found.block(number) == block(number)
            except pa.ArrowInvalid as error:
                assert f"block {number} has another checksum" in str(error)  # noqa: PT017


@pytest.mark.parametrize("content", [b"", b"PSTKROW2", b"PSTKROW1" + bytes(100), bytes(100)])
def test_other_files_are_none(tmp_path: Path, content: bytes) -> None:
    """Of another kind or version, cut, or missing."""
    assert BlockFile.open(str(tmp_path / "a.rows")) is None
    (tmp_path / "a.rows").write_bytes(content)
    assert BlockFile.open(str(tmp_path / "a.rows")) is None
    whole = written(tmp_path / "b.rows").read_bytes()
    (tmp_path / "a.rows").write_bytes(whole[:-1])
    assert BlockFile.open(str(tmp_path / "a.rows")) is None
