"""Files of token ids: every window is the right one, wherever and however the tokens are stored."""

from __future__ import annotations

import shutil
import struct
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.core.files.shards import Shards
from support.cases import MemoryStorage
from support.changing_files import LOOKED_AT_AGAIN
from support.files import columns_of, cuts, errors, flips, outcomes, rows_of, through
from support.tries import tries

GOLDEN = Path(__file__).parents[1] / "golden" / "megatron"
RNG = np.random.default_rng(3)


def read_tokens(where: Any, **options: Any) -> ps.Dataset:
    return ps.read(where, format="tokens", **options)


def windows(tokens: np.ndarray, window: int, stride: int) -> list[list[int]]:
    """What NumPy makes of one file."""
    if len(tokens) < window:
        return []
    return np.lib.stride_tricks.sliding_window_view(tokens, window)[::stride].tolist()


@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize("stride", [1, 3, 10, 13])
@pytest.mark.parametrize(
    ("dtype", "to_dtype"),
    [("uint16", None), ("uint16", "int64"), (">u2", "int32"), ("uint32", "int64"), ("int8", None)],
)
def test_windows_are_numpys(tmp_path: Path, dtype: str, to_dtype: str | None, stride: int, mapped: bool) -> None:
    files = [RNG.integers(0, 120, size).astype(dtype) for size in (57, 9, 0, 10, 123)]
    for number, tokens in enumerate(files):
        tokens.tofile(tmp_path / f"{number}.bin")
    dataset = read_tokens(f"{tmp_path}/*.bin", dtype=dtype, window=10, stride=stride, to_dtype=to_dtype, mapped=mapped)
    wanted = [window for tokens in files for window in windows(tokens, 10, stride)]
    found = columns_of(dataset)["tokens"]
    assert found.tolist() == wanted
    assert found.dtype == np.dtype(to_dtype or np.dtype(dtype).newbyteorder("="))
    assert found.dtype.isnative
    assert through(dataset)["tokens"] == wanted


def test_mapped_or_read_the_order_is_one(tmp_path: Path) -> None:
    """The same data has the same order, state and batches, whether files are mapped or read by ranges."""
    RNG.integers(0, 50_000, 40_000, dtype=np.uint16).tofile(tmp_path / "a.bin")
    for mode in ("block", "global"):
        made = [
            read_tokens(tmp_path / "a.bin", dtype="uint16", window=65, stride=64, mapped=mapped)
            .shuffle(seed=1, mode=mode)
            .batch(16)
            for mapped in (True, False)
        ]
        loaders = [ps.Loader(dataset) for dataset in made]
        assert loaders[0].state_dict() == loaders[1].state_dict()
        for mine, other in zip(*loaders, strict=True):
            assert (mine["tokens"] == other["tokens"]).all()


def test_other_storages_are_read_by_ranges() -> None:
    tokens = RNG.integers(0, 50_000, 1_000, dtype=np.uint16)
    storage = MemoryStorage({"data/a.bin": tokens.tobytes()})
    dataset = read_tokens("data/", storage=storage, dtype="uint16", window=33)
    assert through(dataset)["tokens"] == windows(tokens, 33, 33)
    assert storage.reads


class Endless(MemoryStorage):
    """A file of 1e12 tokens: token i is i // 1,000,000 modulo 65,536."""

    def list(self, where: str) -> Shards:
        paths = pa.array(["store://corpus.bin"], pa.large_string())
        return Shards(paths, np.array([2 * 10**12]), np.array([0]), "store://")

    def read(self, shards: Shards, shard: Any, offset: Any, length: Any, out: Any, at: Any) -> None:
        for first, size, place in zip(*(a.tolist() for a in (offset, length, at)), strict=True):
            numbers = np.arange(first // 2, (first + size) // 2)
            out[place : place + size] = (numbers // 1_000_000).astype(np.uint16).view(np.uint8)


def test_a_trillion_tokens_open_at_once() -> None:
    dataset = read_tokens("store://", storage=Endless({}), dtype="uint16", window=2049, stride=2048)
    assert len(dataset) == (10**12 - 2049) // 2048 + 1
    with ps.Loader(dataset.shuffle(seed=2, mode="global").batch(4)) as loader:
        loader.load_state_dict({**loader.state_dict(), "step": len(loader) // 2})
        batch, ids = next(iter(loader)), loader.sample_ids(0, len(loader) // 2)
    assert batch["tokens"][:, 0].tolist() == (ids * 2048 // 1_000_000 % 65_536).tolist()


def test_megatron_across_documents_and_within(tmp_path: Path) -> None:
    joined = read_tokens(GOLDEN / "small.bin", window=4)
    assert rows_of(joined)["tokens"] == [[1, 2, 3, 4], [5, 6, 6, 6], [6, 7, 8, 9], [10, 11, 12, 13]]
    split = read_tokens(GOLDEN / "small.bin", window=3, stride=2, documents="split")
    wanted = [[1, 2, 3], [3, 4, 5], [6, 6, 6], [7, 8, 9], [9, 10, 11], [11, 12, 13]]
    assert rows_of(split)["tokens"] == wanted
    assert through(split)["tokens"] == wanted
    assert split.source.manifest.place(3).endswith("small.bin, record 3, byte 18")
    text = read_tokens([GOLDEN / "text.bin", GOLDEN / "text.idx"], window=20, documents="split", to_dtype="int64")
    assert rows_of(text)["tokens"] == [list(range(70_000, 70_020))]
    for name in ("small.bin", "small.idx"):
        shutil.copy(GOLDEN / name, tmp_path)
    assert rows_of(ps.read(tmp_path, window=4)) == rows_of(joined), "a folder of .bin and .idx says what it is"
    storage = MemoryStorage({f"m/{name}": (GOLDEN / name).read_bytes() for name in ("small.bin", "small.idx")})
    assert rows_of(read_tokens("m/", storage=storage, window=4, documents="split")) == rows_of(
        read_tokens(GOLDEN / "small.bin", window=4, documents="split")
    )


def test_headers_are_known(tmp_path: Path) -> None:
    tokens = RNG.integers(0, 50_000, 500, dtype=np.uint16)
    head = np.zeros(256, dtype="<i4")
    head[:3] = 20240520, 1, len(tokens)
    (tmp_path / "llmc.bin").write_bytes(head.tobytes() + tokens.tobytes())
    np.save(tmp_path / "tokens.npy", tokens)
    for name in ("llmc.bin", "tokens.npy"):
        dataset = read_tokens(tmp_path / name, window=33)
        assert rows_of(dataset)["tokens"] == windows(tokens, 33, 33), name
    with pytest.raises(ps.PlanError, match=r"says that it holds uint16, and dtype='uint32' was asked for"):
        read_tokens(tmp_path / "llmc.bin", window=33, dtype="uint32")


def test_columns_are_renamed_but_not_retyped(tmp_path: Path) -> None:
    np.arange(100, dtype=np.uint16).tofile(tmp_path / "a.bin")
    options = {"dtype": "uint16", "window": 10}
    assert list(read_tokens(tmp_path / "a.bin", columns={"x": "tokens"}, **options).spec) == ["x"]
    with pytest.raises(ps.PlanError, match="no column 'token'; there are tokens; did you mean 'tokens'"):
        read_tokens(tmp_path / "a.bin", columns=["token"], **options)
    with pytest.raises(ps.PlanError, match=r"column 'tokens' is uint16\(10\), and is taken as it is"):
        read_tokens(tmp_path / "a.bin", columns={"x": ps.Column(feature="tokens", dtype="int64")}, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "window=None; pass how many tokens a sample has"),
        ({"window": 0}, "window=0"),
        ({"window": 10, "stride": -1}, "stride=-1"),
        ({"window": 10}, "do not say what they hold; pass dtype='uint16'"),
        ({"window": 10, "dtype": "float32"}, "is no type of integers"),
        ({"window": 10, "dtype": "nonsense"}, "is no type of integers"),
        (
            {"window": 10, "dtype": "uint16", "to_dtype": "int16"},
            "to_dtype='int16' cannot be made of uint16; one of int32",
        ),
        (
            {"window": 10, "dtype": "int16", "to_dtype": "uint32"},
            "cannot be made of int16; one of int16, int32, int64 can",
        ),
        ({"window": 10, "dtype": "uint16", "documents": "split"}, "needs Megatron's index"),
        ({"window": 10, "dtype": "uint16", "documents": "no"}, "documents='no'"),
        ({"window": 10, "dtype": "uint16", "windows": 3}, "tokens has no option windows; its options: window: "),
        ({"window": 102, "dtype": "uint16"}, "the longest run has 101 tokens, fewer than window=102"),
        ({"window": 10, "dtype": "uint32"}, r"a\.bin: 202 bytes are no whole number of uint32"),
    ],
)
def test_what_is_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    np.arange(101, dtype=np.uint16).tofile(tmp_path / "a.bin")
    with pytest.raises(ps.PenstockError, match=message):
        read_tokens(tmp_path / "a.bin", **options)


def test_a_file_that_was_cut_or_removed_is_told(tmp_path: Path) -> None:
    """Reading behind the end of a mapped file would end the process."""
    path = tmp_path / "a.bin"
    np.arange(100_000, dtype=np.uint16).tofile(path)
    dataset = read_tokens(path, dtype="uint16", window=100)
    columns_of(dataset)
    path.write_bytes(b"short")
    time.sleep(LOOKED_AT_AGAIN)
    with pytest.raises(ps.DataError, match=r"a\.bin: 5 bytes now, 200000 when it was indexed; if the data was changed"):
        columns_of(dataset)
    path.unlink()
    time.sleep(LOOKED_AT_AGAIN)
    with pytest.raises(ps.DataError, match=r"a\.bin: No such file"):
        list(ps.Loader(dataset.batch(4)))


def test_damaged_indices_are_told(tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "small.bin", tmp_path)
    index, whole = tmp_path / "small.idx", (GOLDEN / "small.idx").read_bytes()

    def read() -> Any:
        return rows_of(read_tokens(tmp_path / "small.bin", window=3, documents="split"))

    index.write_bytes(whole)
    wanted = read()
    assert errors(outcomes(index, cuts(whole), read)) == len(whole)
    count = tries(10_000)
    found = outcomes(index, flips(whole, count), read)
    assert errors(found) > 0.8 * count  # bounds of documents can change and still be bounds
    assert all(len(row) == 3 for one in found if isinstance(one, dict) for row in one["tokens"])
    hostile = [
        whole[:18] + struct.pack("<QQ", 1 << 63, 1 << 63) + whole[34:],
        whole[:17] + b"\x06" + whole[18:],
        whole + b"garbage",
        b"",
        b"nonsense" * 10,
    ]
    assert errors(outcomes(index, iter(hostile), read)) == len(hostile)
    index.write_bytes(whole)
    assert read() == wanted
    (tmp_path / "small.bin").write_bytes((GOLDEN / "small.bin").read_bytes()[:-2])
    with pytest.raises(ps.DataError, match="its sequences do not fill"):
        read()


def test_every_bin_needs_its_index(tmp_path: Path) -> None:
    for name in ("small.bin", "small.idx", "text.bin"):
        shutil.copy(GOLDEN / name, tmp_path)
    with pytest.raises(ps.SourceError, match=r"text\.idx: missing, and .*small\.idx is there"):
        read_tokens(f"{tmp_path}/*.bin", window=3)
