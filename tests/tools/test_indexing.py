"""`Dataset.index` builds what `penstock index` does, also where a format's options are needed to open the data."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.source.jpeg_index import index_path, load
from penstock.tools.jpeg_index import describe


def test_checksums_find_what_changes_later(tmp_path: Path) -> None:
    path = tmp_path / "tokens.bin"
    np.arange(5_000, dtype=np.uint16).tofile(path)
    data = ps.read(str(path), format="tokens", window=100, dtype="uint16")  # options that the command line cannot give
    done: list[tuple[int, int]] = []
    assert data.index(checksums=True, progress=lambda some, of: done.append((some, of))) is data
    assert done[-1] == (10_000, 10_000)
    before = os.stat(path)
    changed = bytearray(path.read_bytes())
    changed[200] ^= 1
    path.write_bytes(changed)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(ps.DataError, match="checksum"):
        ps.read(str(path), format="tokens", window=100, dtype="uint16").head(5)


def test_entry_points_of_jpegs_are_kept(photos: Path) -> None:
    data = ps.read(str(photos), columns={"picture": "image"})
    data.shuffle(seed=0).index(jpeg=True)
    index = load(index_path(data.digest, "picture"))
    assert describe(data.source, index).samples == len(data)
    assert index is not None
    captions = ps.from_arrays({"caption": [str(number) for number in range(len(data))]})
    both = ps.zip([data, captions])
    assert both.index(jpeg=True, column="picture") is both


def test_what_cannot_be_indexed_says_why(photos: Path) -> None:
    arrays, pictures = ps.from_arrays({"x": np.arange(3)}), ps.read(str(photos))
    assert pictures.index() is pictures
    for wrong, message in (
        (lambda: arrays.index(checksums=True), "for data in files, and this has none"),
        (lambda: ps.read(str(photos), verify=False).index(checksums=True), "verify=False"),
        (lambda: arrays.index(jpeg=True), "no column holds images; there are x"),
        (
            lambda: pictures.index(jpeg=True, column="imag"),
            "no column 'imag'; did you mean 'image'|no column 'imag'.*did you mean",
        ),
        (lambda: pictures.index(column="image"), "jpeg=True, which is missing"),
        (lambda: pictures.index(jpeg=2), "jpeg"),  # type: ignore[arg-type]
        (lambda: pictures.index(progress=3), "progress"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ps.PlanError, match=message):
            wrong()
