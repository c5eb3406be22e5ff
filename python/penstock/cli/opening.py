"""What several commands need of a dataset: opened with a progress bar, its first rows, a usual plan on it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import pyarrow as pa
import typer

from penstock.cli.console import progress
from penstock.dataset import Dataset, read
from penstock.errors import PlanError
from penstock.format import image_folder
from penstock.format.protocol import is_forward_only
from penstock.loader import Loader
from penstock.transform import image

Paths = Annotated[list[str], typer.Argument(metavar="PATH...", help="A folder, a file or a quoted glob; or several.")]
Json = Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")]
BatchSize = Annotated[int, typer.Option("--batch", min=1, help="Rows in a batch.")]

_SIZE = 224


class Ops(StrEnum):
    """What is done to the pictures: the usual augmentation of ImageNet training, a plain decode, or nothing."""

    rrc224 = "rrc224"
    decode = "decode"
    none = "none"


def open_dataset(paths: list[str]) -> Dataset:
    """The dataset at some paths; an index that is not there yet is built, with a progress bar."""
    with progress("Indexing") as report:
        return read(paths, progress=report)


def first_rows(dataset: Dataset, rows: int) -> dict[str, Any]:
    """The first rows as they are stored: NumPy arrays, or Arrow arrays for bytes, text and ragged columns."""
    plan = dataset.batch(min(rows, len(dataset)))
    with Loader(plan, rank=0, world_size=1) as loader:
        return loader.batch_at(epoch=0, step=0)


def spread_rows(dataset: Dataset, rows: int) -> dict[str, Any]:
    """Some rows from all over the dataset, always the same; the first ones where it comes in one order only."""
    if is_forward_only(dataset.source):
        return first_rows(dataset, rows)
    plan = dataset.shuffle(seed=0, mode="global").batch(rows, lanes=1)
    with Loader(plan, rank=0, world_size=1) as loader:
        return loader.batch_at(epoch=0, step=0)


def picture_column(dataset: Dataset) -> str | None:
    """The first column of bytes that holds a picture in the first row; None if there is none."""
    if not any(field.dtype == "bytes" for field in dataset.spec.values()):
        return None
    rows = first_rows(dataset, 1)
    return next((name for name, column in rows.items() if is_picture(column)), None)


def is_picture(column: Any) -> bool:
    """Whether the first row of a column begins as a JPEG, PNG, WebP, BMP or GIF does."""
    if not isinstance(column, pa.Array) or not pa.types.is_large_binary(column.type):
        return False
    head = column[0].as_py()[:64]
    return head.startswith(b"\xff\xd8\xff") or image_folder.FORMAT.matches(head)


def usual_plan(dataset: Dataset, ops: Ops, batch_size: int) -> Dataset:
    """Shuffle, ops on the pictures, batch; a dataset smaller than a batch is one batch.

    decode resizes the whole picture to 224 × 224, so that pictures of any size fit into one batch.
    """
    plan = dataset.shuffle(seed=0)
    if ops is not Ops.none:
        column = picture_column(dataset)
        if column is None:
            raise PlanError(
                f"no column holds pictures (columns: {', '.join(dataset.spec)}), which ops {ops.value!r} need; "
                f"use --ops none"
            )
        plan = plan.transform(**{column: _chain(ops)})
    return plan.batch(min(batch_size, len(dataset)))


def _chain(ops: Ops) -> list[Any]:
    if ops is Ops.decode:
        return [image.Decode(), image.Resize((_SIZE, _SIZE))]
    return [
        image.Decode(),
        image.RandomResizedCrop(_SIZE),
        image.RandomHorizontalFlip(),
        image.Normalize(image.IMAGENET),
    ]


def suited_ops(dataset: Dataset, wanted: Ops | None) -> Ops:
    """The ops that were asked for; else rrc224 for datasets with pictures and none for others."""
    if wanted is not None:
        return wanted
    return Ops.none if picture_column(dataset) is None else Ops.rrc224
