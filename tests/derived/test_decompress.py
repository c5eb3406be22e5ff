"""Packed files: unpacked once, whole, within their bounds, whoever packed them."""

from __future__ import annotations

import bz2
import errno
import lzma
import os
import zlib
from pathlib import Path

import pytest

import penstock as ps
from penstock.core import kernels
from penstock.core.errors import DataError, StorageError
from support.cases import FULL
from support.damage import load_all
from support.packers import PACKERS

LINES = b"".join(b"line %d\n" % number for number in range(1_000))

each = pytest.mark.parametrize("kind", PACKERS)


def texts_of(path: Path, **options) -> list[str]:
    return load_all(ps.read(str(path), **options))["text"].to_pylist()


WANTED = LINES.decode().splitlines()


@each
def test_whole_joined_and_empty(tmp_path: Path, kind: str) -> None:
    pack = PACKERS[kind]
    path = tmp_path / f"a.txt.{kind}"
    path.write_bytes(pack(LINES))
    assert texts_of(path) == WANTED
    (tmp_path / f"b.txt.{kind}").write_bytes(pack(LINES[:500]) + pack(b"") + pack(LINES[500:]))
    assert texts_of(tmp_path / f"b.txt.{kind}") == WANTED
    (tmp_path / f"c.txt.{kind}").write_bytes(pack(b""))
    (tmp_path / "d.txt").write_bytes(b"plain\n")
    assert texts_of(tmp_path) == [*WANTED, *WANTED, "plain"]


@each
def test_the_content_tells(tmp_path: Path, kind: str) -> None:
    """A file's name is only a name."""
    path = tmp_path / "a.txt"
    path.write_bytes(PACKERS[kind](LINES))
    assert texts_of(path) == WANTED


@each
def test_cut_and_followed_by_garbage(tmp_path: Path, kind: str) -> None:
    packed = PACKERS[kind](LINES)
    path = tmp_path / f"a.txt.{kind}"
    for size in range(12, len(packed), 97):
        path.write_bytes(packed[:size])
        with pytest.raises(
            DataError,
            match=r"a\.txt\..*decompressed bytes: compressed data that cannot be decompressed .*; copy or write",
        ):
            texts_of(path)
    path.write_bytes(packed + b"garbage")
    with pytest.raises(DataError, match="compressed data that cannot be decompressed"):
        texts_of(path)


@each
def test_bounds(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"a.txt.{kind}"
    path.write_bytes(PACKERS[kind](b"a" * (2 << 20)))
    for limits in (ps.Limits(ratio=2), ps.Limits(unpacked_bytes=1_000_000)):
        with pytest.raises(
            DataError, match=r"compressed bytes expand to more than \d+; raise Limits.unpacked_bytes or Limits.ratio"
        ):
            texts_of(path, limits=limits)
    monkeypatch.setattr("shutil.disk_usage", lambda _: FULL)
    with pytest.raises(StorageError, match=rf"^{path}: no room for the unpacked file below .*; free some") as caught:
        texts_of(path)
    assert caught.value.errno == errno.ENOSPC
    folder = Path(os.environ["XDG_CACHE_HOME"]) / "penstock" / "unpacked" / "scratch"
    assert not list(folder.iterdir())


def test_an_xz_file_that_wants_much_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.xz"
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 30}]
    # A dictionary of 1 GiB is only stated: the header's byte and its sum are all that says so.
    packed = bytearray(lzma.compress(b"text\n", filters=[{**filters[0], "dict_size": 1 << 16}]))
    assert packed[12:17] == bytes([2, 0, 0x21, 1, 8])
    packed[16] = 36
    packed[20:24] = zlib.crc32(packed[12:20]).to_bytes(4, "little")
    path.write_bytes(packed)
    with pytest.raises(DataError, match=r"cannot be decompressed .*[Mm]emory"):
        texts_of(path)


def test_progress_and_its_end(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.bz2"
    path.write_bytes(bz2.compress(LINES))
    told: list[tuple[int, int]] = []
    texts_of(path, progress=lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1]
    assert all(0 <= done <= total for done, total in told)


def test_names_of_packings(tmp_path: Path) -> None:
    """The numbers stand in the cache and never change."""
    for number, kind in enumerate(["plain", "gz", "zlib", "zst", "bz2", "xz", "lz4"]):
        path = tmp_path / kind
        path.write_bytes({"plain": bytes, "zlib": bytes, **PACKERS}[kind](LINES))
        assert kernels.recognise_packing([str(path)], 1).tolist() == [0 if kind == "zlib" else number]
    (tmp_path / "text").write_bytes(b"BZh9 is how this line begins\n")
    assert kernels.recognise_packing([str(tmp_path / "text")], 1).tolist() == [0]
