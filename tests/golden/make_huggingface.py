"""Writes tests/golden/huggingface with the real library: python make_huggingface.py (datasets 5.2.0)."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import datasets
import numpy as np

HERE = Path(__file__).resolve().parent / "huggingface"
FEATURES = datasets.Features(
    {
        "id": datasets.Value("int64"),
        "label": datasets.ClassLabel(names=["cat", "dog", "owl"]),
        "text": datasets.Value("string"),
        "image": datasets.Image(),
        "grid": datasets.Array2D(shape=(2, 3), dtype="float32"),
        "pair": datasets.Sequence(datasets.Value("int16"), length=2),
        "words": datasets.Sequence(datasets.Value("string")),
    }
)


def rows(first: int, count: int) -> datasets.Dataset:
    """Rows whose values follow from their ids."""
    ids = range(first, first + count)
    columns = {
        "id": list(ids),
        "label": [number % 3 for number in ids],
        "text": [f"text {number}" * (number % 3) for number in ids],
        "image": [{"bytes": b"\xff\xd8\xff" + bytes([number]), "path": f"{number}.jpg"} for number in ids],
        "grid": [(np.arange(6).reshape(2, 3) + number).tolist() for number in ids],
        "pair": [[number, -number] for number in ids],
        "words": [["w"] * (number % 4) for number in ids],
    }
    return datasets.Dataset.from_dict(columns, features=FEATURES)


NESTED = datasets.Features(
    {
        "id": datasets.Value("int64"),
        "pages": datasets.List(datasets.Image()),
        "meta": {
            "deep": {"label": datasets.ClassLabel(names=["no", "yes"]), "when": datasets.Value("timestamp[us]")},
            "cover": datasets.Image(),
            "grid": datasets.Array2D(shape=(2, 2), dtype="int32"),
        },
        "objects": datasets.List(
            {"box": datasets.List(datasets.Value("float32"), length=4), "kind": datasets.Value("string")}
        ),
        "grids": datasets.List(datasets.Array2D(shape=(1, 2), dtype="int16")),
        "days": datasets.List(datasets.Value("date32")),
    }
)


def nested(count: int) -> datasets.Dataset:
    """Structs in structs, lists of pictures, of structs, of arrays and of days."""
    ids = range(count)
    columns = {
        "id": list(ids),
        "pages": [[{"bytes": bytes([number, n]), "path": None} for n in range(number % 3)] for number in ids],
        "meta": [
            {
                "deep": {"label": number % 2, "when": dt.datetime(2024, 1, 1 + number)},  # noqa: DTZ001
                "cover": {"bytes": bytes([number]), "path": f"{number}.png"},
                "grid": [[number, 1], [2, 3]],
            }
            for number in ids
        ],
        "objects": [[{"box": [n, 0, 1, number], "kind": f"kind {n}"} for n in range(number % 4)] for number in ids],
        "grids": [[[[n, number]] for n in range(number % 3)] for number in ids],
        "days": [[dt.date(2024, 1, 1 + n) for n in range(number % 3)] for number in ids],
    }
    return datasets.Dataset.from_dict(columns, features=NESTED)


def main() -> None:
    """All forms in which the library leaves data on a disk."""
    rows(0, 23).save_to_disk(HERE / "saved", num_shards=2)
    datasets.DatasetDict({"train": rows(0, 9), "test": rows(9, 4)}).save_to_disk(HERE / "splits")
    nested(7).save_to_disk(HERE / "nested")
    nested(7).to_parquet(HERE / "nested-exported" / "train-00000-of-00001.parquet")
    rows(0, 12).shuffle(seed=1).save_to_disk(HERE / "shuffled")
    exported = HERE / "exported" / "data"
    exported.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate((rows(0, 5), rows(5, 4))):
        part.to_parquet(exported / f"train-{number:05d}-of-00002.parquet")
    rows(9, 3).to_parquet(exported / "test-00000-of-00001.parquet")


if __name__ == "__main__":
    main()
