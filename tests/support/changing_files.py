"""Files that change while they are read: `tried` changes those of one format in one way, and says what came of it."""

from __future__ import annotations

import gzip
import os
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import penstock as ps
from penstock.core.errors import PenstockError
from penstock.format import hdf5_turned
from support import tfrecords

ROWS, FILES, WIDTH = 1_000, 3, 64
#: What the new values are above the old ones.
NEW = 1_000_000


def values(file: int, more: int) -> np.ndarray:
    """Rows that say which they are, and of which version."""
    first = np.arange(file * ROWS, (file + 1) * ROWS, dtype=np.int32)[:, None] + more
    return np.repeat(first, WIDTH, axis=1)


def write_npy(path: Path, rows: np.ndarray) -> None:
    np.save(path, rows)


def write_turned(path: Path, rows: np.ndarray) -> None:
    np.save(path, np.asfortranarray(rows))


def write_npz(path: Path, rows: np.ndarray) -> None:
    np.savez(path, x=rows)


def write_packed(path: Path, rows: np.ndarray) -> None:
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=0) as archive,
        archive.open("x.npy", "w") as file,
    ):
        np.save(file, rows)


def write_tokens(path: Path, rows: np.ndarray) -> None:
    rows.astype("<u4").tofile(path)


def write_hdf5(path: Path, rows: np.ndarray, **options: object) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=rows, **options)


def write_chunked(path: Path, rows: np.ndarray) -> None:
    write_hdf5(path, rows, chunks=(100, WIDTH))


def write_across(path: Path, rows: np.ndarray) -> None:
    write_hdf5(path, rows, chunks=(ROWS, 1))


def table_of(rows: np.ndarray) -> pa.Table:
    return pa.table({"x": pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), WIDTH)})


def lists_of(rows: np.ndarray) -> pa.Table:
    edges = pa.array(np.arange(len(rows) + 1, dtype=np.int64) * WIDTH)
    return pa.table({"x": pa.LargeListArray.from_arrays(edges, pa.array(rows.reshape(-1)))})


def write_arrow(path: Path, rows: np.ndarray, *, table: Callable[[np.ndarray], pa.Table] = table_of) -> None:
    made = table(rows)
    with pa.ipc.new_file(str(path), made.schema) as writer:
        writer.write_table(made, max_chunksize=200)


def write_arrow_lists(path: Path, rows: np.ndarray) -> None:
    write_arrow(path, rows, table=lists_of)


def write_parquet(path: Path, rows: np.ndarray) -> None:
    pq.write_table(table_of(rows), path, row_group_size=200, compression="none", use_dictionary=False)


def write_tfrecord(path: Path, rows: np.ndarray) -> None:
    tfrecords.write(path, [tfrecords.example(x=tfrecords.floats(*row.tolist())) for row in rows])


def write_jsonl(path: Path, rows: np.ndarray) -> None:
    path.write_text("".join(f'{{"x": {(row + 10_000_000).tolist()}}}\n' for row in rows))


def write_tfrecord_packed(path: Path, rows: np.ndarray) -> None:
    plain = path.with_name("plain")
    write_tfrecord(plain, rows)
    path.write_bytes(gzip.compress(plain.read_bytes(), 0, mtime=0))


WRITERS: dict[str, tuple[str, Callable[[Path, np.ndarray], None], dict[str, object]]] = {
    "npy": ("npy", write_npy, {}),
    "npy turned": ("npy", write_turned, {}),
    "npz": ("npz", write_npz, {}),
    "npz packed": ("npz", write_packed, {}),
    "tokens": ("bin", write_tokens, {"format": "tokens", "dtype": "uint32", "window": WIDTH}),
    "hdf5": ("h5", write_hdf5, {}),
    "hdf5 chunked": ("h5", write_chunked, {}),
    "hdf5 across": ("h5", write_across, {}),
    "arrow": ("arrow", write_arrow, {}),
    "arrow lists": ("arrow", write_arrow_lists, {}),
    "arrow joined": ("arrow", write_arrow, {}),
    "parquet": ("parquet", write_parquet, {}),
    "tfrecord": ("tfrecord", write_tfrecord, {"columns": {"x": ps.Column(feature="x", dtype="float32", shape=(WIDTH,))}}),
    "jsonl": ("jsonl", write_jsonl, {}),
    "tfrecord packed": ("tfrecord.gz", write_tfrecord_packed, {"columns": {"x": ps.Column(feature="x", dtype="float32", shape=(WIDTH,))}}),
}  # fmt: skip


#: A mapped file that was looked at less than 5 ms ago is read as it was; in seconds.
LOOKED_AT_AGAIN = 0.02

#: Read as one dataset a file, joined.
JOINED = ("arrow joined",)


@cache
def content_of(kind: str, number: int, more: int) -> bytes:
    """A file of this kind; a text of many rows takes long to write."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"made.{WRITERS[kind][0]}")
        WRITERS[kind][1](path, values(number, more))
        return path.read_bytes()


class Files:
    """The files of a dataset, and what may happen to them."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self._suffix, _, self.options = WRITERS[kind]
        self.folder = folder
        self.paths = [folder / f"{number}.{self._suffix}" for number in range(FILES)]
        for number in range(FILES):
            self.write(number, self.paths[number], 0)

    def write(self, number: int, path: Path, more: int) -> None:
        """One file, of the old values or the new."""
        path.write_bytes(content_of(self.kind, number, more))

    def _aside(self, number: int) -> Path:
        aside = self.folder.parent / f"aside.{self._suffix}"
        self.write(number, aside, NEW)
        assert aside.stat().st_size == self.paths[number].stat().st_size
        return aside

    def cut(self) -> None:
        """To a third, as by a copy that goes wrong."""
        for path in self.paths:
            os.truncate(path, path.stat().st_size // 3)

    def replace(self) -> None:
        """By new ones of the same sizes, with the time of now."""
        for number, path in enumerate(self.paths):
            self._aside(number).replace(path)

    def replace_in_time(self) -> None:
        """By new ones of the same sizes and times, as an archive that is unpacked once more has them."""
        for number, path in enumerate(self.paths):
            found, aside = path.stat(), self._aside(number)
            os.utime(aside, ns=(found.st_atime_ns, found.st_mtime_ns))
            aside.replace(path)

    def overwrite(self) -> None:
        """In place, with new values of the same size."""
        for number, path in enumerate(self.paths):
            with path.open("r+b") as file:
                file.write(self._aside(number).read_bytes())

    def become_pipes(self) -> None:
        """Pipes that nobody writes into."""
        for path in self.paths:
            path.unlink()
            os.mkfifo(path)

    def touch(self) -> None:
        """No change of what is read: permissions, and a second name."""
        for path in self.paths:
            path.chmod(0o600)
            os.link(path, path.with_name(f".{path.name}"))


CHANGES = {
    "cut": Files.cut,
    "replaced": Files.replace,
    "replaced in time": Files.replace_in_time,
    "overwritten": Files.overwrite,
    "pipes": Files.become_pipes,
    "linked": Files.touch,
}


def dataset_of(files: Files) -> ps.Dataset:
    hdf5_turned._LARGE_BYTES = 1_000 if files.kind == "hdf5 across" else 64 << 20  # of blocks that are worth a copy
    if files.kind in JOINED:
        return ps.concat([ps.read(str(path), **files.options) for path in files.paths])
    return ps.read(str(files.folder), **files.options)


def first_values(files: Files, *, change: Callable[[], None] = lambda: None, epochs: int = 1) -> Iterator[np.ndarray]:
    """A value of every row; the change happens behind the first step."""
    dataset = dataset_of(files)
    column = next(iter(dataset.spec))
    with ps.Loader(dataset.shuffle(seed=1).batch(50), epochs=epochs, prefetch=1) as loader:
        for step, batch in enumerate(loader):
            if step == 1:
                change()
            rows = batch[column]
            yield (
                np.array([row[0] for row in rows.to_pylist()] if isinstance(rows, pa.Array) else rows[:, 0])
                % 10_000_000
            )


def verdict(found: Iterator[np.ndarray], wanted_rows: int) -> str:
    """See above."""
    try:
        seen = np.sort(np.concatenate(list(found)).astype(np.int64))
    except PenstockError as error:
        return f"{type(error).__name__}: {error}"
    wanted = np.sort(np.resize(np.arange(ROWS * FILES), wanted_rows))
    for name, more in (("old", 0), ("new", NEW)):
        if np.array_equal(seen, wanted + more):
            return name
    return "mixed"


def during(files: Files, change: Callable[[Files], None]) -> str:
    return verdict(first_values(files, change=lambda: change(files)), ROWS * FILES)


def between(files: Files, change: Callable[[Files], None]) -> str:
    """The dataset is opened, read once, and read again after the change."""
    dataset = dataset_of(files)
    column = next(iter(dataset.spec))
    for batch in ps.Loader(dataset.batch(1_000)):
        assert len(batch[column]) == 1_000
    change(files)
    time.sleep(LOOKED_AT_AGAIN)

    def again() -> Iterator[np.ndarray]:
        for batch in ps.Loader(dataset.batch(50)):
            rows = batch[column]
            yield (
                np.array([row[0] for row in rows.to_pylist()] if isinstance(rows, pa.Array) else rows[:, 0])
                % 10_000_000
            )

    return verdict(again(), ROWS * FILES)


def reopened(files: Files, change: Callable[[Files], None]) -> str:
    """Opened anew after the change, with the indexes that were made before."""
    first = verdict(first_values(files), ROWS * FILES)
    assert first == "old", first
    change(files)
    try:
        return verdict(first_values(files), ROWS * FILES)
    except PenstockError as error:
        return f"{type(error).__name__}: {error}"


def at_any_moment(files: Files, change: Callable[[Files], None]) -> str:
    """Another thread changes the files at a moment of its own."""
    moment = threading.Thread(
        target=lambda: (time.sleep(int.from_bytes(os.urandom(2), "little") / 65536 * 0.05), change(files))
    )  # type: ignore[func-returns-value]
    try:
        dataset = dataset_of(files)
        column = next(iter(dataset.spec))
        moment.start()
        for _ in range(20):
            for batch in ps.Loader(dataset.shuffle(seed=1).batch(200)):
                assert len(batch[column])
    except PenstockError as error:
        return f"{type(error).__name__}: {error}"
    finally:
        moment.join()
    return "old"


WHEN = {"during": during, "between": between, "reopened": reopened, "any moment": at_any_moment}


def tried(kind: str, folder: str, changes: list[tuple[str, str]]) -> list[str]:
    """For each (when, change): "old" if every row came as it was, "new" if every row came as it is now, "mixed" for anything else, or the error."""
    found = []
    for number, (when, change) in enumerate(changes):
        data = Path(folder, str(number), "data")
        data.mkdir(parents=True)
        found.append(WHEN[when](Files(kind, data), CHANGES[change]))
    return found
