"""Every argument of what opens data with values that no one should give: a PenstockError in our words, at once and in little memory, or it works."""

from __future__ import annotations

import functools
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import penstock as ps
from penstock import image
from support.damage import bounded_memory
from support.hostile_values import ROWS, VALUES, data, outcome, words


@functools.cache
def files() -> Path:
    """A file of several formats, and three images."""
    folder = Path(tempfile.mkdtemp())
    np.save(folder / "a.npy", np.arange(ROWS))
    (folder / "a.jsonl").write_text("".join(f'{{"x": {row}, "t": "a"}}\n' for row in range(ROWS)))
    (folder / "a.csv").write_text("x,t\n" + "1,a\n" * ROWS)
    (folder / "a.txt").write_text("line\n" * ROWS)
    (folder / "a.bin").write_bytes(bytes(4 * 64))
    (folder / "images").mkdir()
    for number in range(3):
        Image.new("RGB", (16, 16), (number, 2, 3)).save(folder / "images" / f"{number}.jpg")
    with sqlite3.connect(folder / "a.db") as base:
        base.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x REAL)")
        base.executemany("INSERT INTO t VALUES (?, 1.5)", [(row,) for row in range(ROWS)])
    base.close()
    return folder


def read(name: str = "a.npy", **options: Any) -> ps.Dataset:
    return ps.read(files() / name, **options).batch(2)


def column(**parts: Any) -> ps.Dataset:
    return read("a.jsonl", columns={"new": ps.Column(**{"feature": "x", **parts})})


class Items:
    """A map-style dataset whose items or length are a value."""

    def __init__(self, item: Any = 0, length: Any = 4) -> None:
        self.item, self.length = item, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, _: int) -> Any:
        return self.item


def items(value: Any) -> ps.Dataset:
    return ps.from_dataset(Items(value)).batch(2)


def numbers() -> Iterator[int]:
    yield from range(ROWS)


def drawn(make: Any = numbers, **options: Any) -> ps.Dataset:
    return ps.from_iterable(make, **options).batch(2)


def sql(uri: Any = None, query: Any = "SELECT id, x FROM t", **options: Any) -> ps.Dataset:
    return ps.read_sql(f"sqlite://{files()}/a.db" if uri is None else uri, query, **options).batch(2)


def stream(path: Any = "/nowhere", format: Any = "text", samples: Any = 4, **options: Any) -> ps.Dataset:
    return ps.read_stream(path, format=format, samples=samples, **options).batch(2)


def images(*ops: Any) -> ps.Dataset:
    return ps.read(files() / "images", columns=["image"]).transform(image=[image.Decode(), *ops]).batch(3)


def decoded(given: dict[str, Any]) -> ps.Dataset:
    return (
        ps.read(files() / "images", columns=["image"])
        .transform(image=[image.Decode(**given), image.Resize(8)])
        .batch(3)
    )


def op(make: Callable[..., Any], **usual: Any) -> dict[str, Callable[[Any], Any]]:
    """A case for each argument of an op, on images of 16 × 16."""
    return words(" ".join(usual), lambda given: images(image.Resize((16, 16)), make(**given)), **usual)


CASES: dict[str, Mapping[str, Callable[[Any], Any]]] = {
    "read": {
        "where": lambda value: ps.read(value).batch(2),
        "one": lambda value: ps.read([files() / "a.npy", value]).batch(2),
        **words(
            "format columns storage verify limits progress exclude trust trusted_hosts window",
            lambda given: read(**given),
        ),
        "column": lambda value: read("a.jsonl", columns=[value]),
        "renamed": lambda value: read("a.jsonl", columns={"new": value}),
    },
    "Column": words("feature dtype shape default", lambda given: column(**given)),
    "axis": {"shape": lambda value: column(shape=(value,)), "long": lambda value: column(shape=(2, value))},
    "Limits": words(
        "record_bytes pixels image_bytes unpacked_bytes ratio values",
        lambda given: read("a.jsonl", limits=ps.Limits(**given)),
    ),
    "tokens": words("dtype window shift stride", lambda given: read("a.bin", **given), format="tokens", dtype="uint16"),
    "csv": words("delimiter header quotes dtypes", lambda given: read("a.csv", **given)),
    "classes": {"classes=": lambda value: read("images", classes=value)},
    "from_arrays": {
        "columns": lambda value: ps.from_arrays(value).batch(2),
        "column": lambda value: ps.from_arrays({"a": value}).batch(2),
        "second": lambda value: ps.from_arrays({"a": np.arange(ROWS), "b": value}).batch(2),
        "row": lambda value: ps.from_arrays([{"a": value}]).batch(2),
    },
    "from_dataset": {
        "data": lambda value: ps.from_dataset(list(value) if isinstance(value, dict) else value).batch(2),
        "item": items,
        "entry": lambda value: items({"a": value}),
        "length": lambda value: ps.from_dataset(Items(0, value)).batch(2),
        **words("columns name version threads", lambda given: ps.from_dataset(Items(), **given).batch(2)),
    },
    "from_iterable": {
        "item": lambda value: drawn([value, value]),
        "entry": lambda value: drawn([{"a": value}]),
        **words("samples spool columns name version limits progress", lambda given: drawn(**given)),
        "arguments=": lambda value: drawn(lambda **_: numbers(), arguments=value, name="n"),
        "stream": lambda value: drawn(samples=value, spool=False),
    },
    "read_sql": words(
        "uri query partition columns ties checksum connections limits progress", lambda given: sql(**given)
    ),
    "read_stream": words("path format samples columns verify limits", lambda given: stream(**given)),
    "simulate": {
        **words("world_size nodes epochs cache", lambda given: data().shuffle().batch(2).simulate(**given)),
    },
    "explain": {"world_size=": lambda value: data().batch(2).explain(world_size=value)},
    "cache_local": words("limit path", lambda given: data().cache_local(**given).batch(2)),
    "quarantine": {"quarantine=": lambda value: ps.Loader(data().batch(2), on_error="skip", quarantine=value)},
    "on_error": {"on_error=": lambda value: ps.Loader(data().batch(2), on_error=value)},
    "max_errors": {
        "max_errors=": lambda value: ps.Loader(data().batch(2), on_error="skip", max_errors=value)
    },
    "transform": {
        "ops": lambda value: ps.read(files() / "images").transform(image=value).batch(3),
        "op": lambda value: ps.read(files() / "images").transform(image=[image.Decode(), value]).batch(3),
    },
    "Decode": words("apply_exif fast allow_truncated entry_points", decoded),
    "Resize": op(image.Resize, size=8, interpolation="bilinear", max_size=None, antialias=True),
    "side": {"size": lambda value: images(image.Resize((8, value)))},
    "CenterCrop": op(image.CenterCrop, size=8),
    "RandomResizedCrop": op(
        image.RandomResizedCrop, size=8, scale=(0.08, 1.0), ratio=(0.75, 1.3), interpolation="bilinear", antialias=True
    ),
    "span": {
        "scale": lambda value: images(image.RandomResizedCrop(8, scale=(0.1, value))),
        "ratio": lambda value: images(image.RandomResizedCrop(8, ratio=(value, 2.0))),
    },
    "RandomHorizontalFlip": op(image.RandomHorizontalFlip, p=0.5),
    "RandomVerticalFlip": op(image.RandomVerticalFlip, p=0.5),
    "RandomGrayscale": op(image.RandomGrayscale, p=0.5),
    "Normalize": op(image.Normalize, mean=0.5, std=0.5),
    "mean": {
        "mean": lambda value: images(image.Normalize([0.5, value, 0.5], [0.5, 0.5, 0.5])),
        "std": lambda value: images(image.Normalize([0.5, 0.5, 0.5], [0.5, value, 0.5])),
    },
    "ToDtype": op(image.ToDtype, dtype="float32", scale=True),
    "ToLayout": op(image.ToLayout, layout="NCHW"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("function", "argument"), [(function, argument) for function, cases in CASES.items() for argument in cases]
)
def test_hostile_sources(
    function: str, argument: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("here"))
    with bounded_memory():
        found = {name: outcome(CASES[function][argument], make()) for name, make in VALUES.items()}
    assert not {name: wrong for name, wrong in found.items() if wrong}
