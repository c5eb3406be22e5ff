"""What several commands share: opening a dataset with a progress bar, its first rows, the usual plan."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer

from penstock.batch.stack import materialize
from penstock.cli.console import progress
from penstock.core.columns.rows import join_columns
from penstock.core.columns.spec import Columns, Ids
from penstock.core.errors import DataError, PlanError
from penstock.core.images.by_library import HEAD_BYTES
from penstock.dataset import Dataset
from penstock.format.media.folder import IMAGES
from penstock.loader import Loader
from penstock.open import read
from penstock.source.nulls import null_count
from penstock.source.protocol import Access
from penstock.stages.read.samples import load_readable
from penstock.transform import image

Paths = Annotated[list[str], typer.Argument(metavar="PATH...", help="A folder, a file or a quoted glob, or several.")]
Json = Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")]
BatchSize = Annotated[int, typer.Option("--batch", min=1, help="Rows in a batch.")]

_SIZE = 224
#: How many first samples are searched for readable ones, and for an image.
_LOOKED_AT, _LOOKED_AT_IMAGES = 64, 8


class Ops(StrEnum):
    """What is done with images: the usual ImageNet augmentation, a plain decode, or nothing."""

    rrc224 = "rrc224"
    decode = "decode"
    none = "none"


def open_dataset(paths: list[str], **options: Any) -> Dataset:
    """The dataset at some paths, as training opens it; where columns are known to have nulls, and no option says what becomes of them, they stay.

    A missing index is built, with a progress bar.
    """
    with progress("Indexing") as report:
        opened = read(paths, progress=report, **options)
        has_nulls = any(null_count(opened.source, name) != 0 for name in opened.spec)
        return (
            read(paths, progress=report, nulls="arrow", **options) if has_nulls and "nulls" not in options else opened
        )


def keep_inputs(output: Path, *inputs: Path | None) -> None:
    """PlanError where a command would write over what it reads."""
    for path in inputs:
        if path is not None and path.exists() and output.exists() and output.samefile(path):
            raise PlanError(f"--output {output}: this file is read, and would be written over; name another one")


def named_in_module(asked: str, named: str) -> Any:
    """What a module of the current folder, or one that is installed, calls so: named_in_module("--filter mine:long_enough", "mine:long_enough")."""
    module, _, name = named.partition(":")
    if not module or not name:
        raise PlanError(f"{asked}: write module:name, for example mine:long_enough")
    sys.path.insert(0, os.getcwd())
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise PlanError(f"{asked}: {error}; it is looked for in the current folder and in what is installed") from None


def first_rows(dataset: Dataset, rows: int) -> dict[str, Any]:
    """The first readable rows: NumPy arrays, or Arrow arrays for bytes, text and ragged columns.

    Raises the DataError of the first row if none of the first 64 is readable.
    """
    plan = dataset.batch(min(rows, len(dataset)))
    try:
        with Loader(plan, rank=0, world_size=1) as loader:
            return loader.batch_at(epoch=0, step=0)
    except DataError:
        if dataset.source.access is Access.FORWARD:
            raise
        found = join_columns(_readable(dataset, np.arange(min(_LOOKED_AT, len(dataset)))))
        return {name: column[:rows] for name, column in dict[str, Any](found).items()}


def _readable(dataset: Dataset, samples: Ids) -> list[Columns]:
    runs, bad = load_readable(dataset.source, dataset.read_ranges, samples)
    if not runs:
        raise bad[0][1]
    return [materialize(columns) for _, columns in runs]


def spread_rows(dataset: Dataset, rows: int) -> dict[str, Any]:
    """Rows from all over the dataset, always the same ones; the first rows of a stream."""
    if dataset.source.access is Access.FORWARD:
        return first_rows(dataset, rows)
    with Loader(_spread(dataset, rows), rank=0, world_size=1) as loader:
        return loader.batch_at(epoch=0, step=0)


def _spread(dataset: Dataset, rows: int) -> Dataset:
    return dataset.shuffle(seed=0, mode="global").batch(rows, lanes=1)


def spread_images(dataset: Dataset, column: str, rows: int) -> list[bytes]:
    """The images of `spread_rows`; empty bytes for one that cannot be read."""
    try:
        return [_one_image(value.as_py()) for value in spread_rows(dataset, rows)[column]]
    except DataError:
        with Loader(_spread(dataset, rows), rank=0, world_size=1) as loader:
            return [_image_or_none(dataset, column, sample) for sample in loader.sample_ids(0, 0).tolist()]


def _image_or_none(dataset: Dataset, column: str, sample: int) -> bytes:
    runs, _ = load_readable(dataset.source, dataset.read_ranges, np.array([sample], dtype=np.int64))
    columns: dict[str, Any] = materialize(runs[0][1]) if runs else {}
    return _one_image(columns[column][0].as_py()) if columns else b""


def _one_image(value: Any) -> bytes:
    """A row's image, or the first one of its list."""
    return (next(iter(value), b"") if isinstance(value, list) else value) or b""


def image_columns(dataset: Dataset) -> list[str]:
    """The columns of bytes, or of lists of bytes, whose first rows hold an image; in a folder of images, all image columns."""
    source: Any = dataset.source
    if source.manifest.format == IMAGES.name:
        return [name for name, feature in source.features.items() if feature == "image"]
    candidates = [name for name, field in dataset.spec.items() if field.dtype == "bytes"]
    found: list[str] = []
    for rows in (1, _LOOKED_AT_IMAGES) if candidates else ():
        first = first_rows(dataset, rows)
        found = [name for name in candidates if is_image(first[name])]
        if found or source.access is Access.FORWARD:
            break
    return found


def image_column(dataset: Dataset) -> str | None:
    """The first column whose rows are images; None if there is none."""
    return next((name for name in image_columns(dataset) if dataset.spec[name].shape == ()), None)


def is_image(column: Any) -> bool:
    """Whether a row of a column, or of its lists, begins like a file of an image."""
    if isinstance(column, pa.Array) and pa.types.is_large_list(column.type):
        column = column.flatten()
    if not isinstance(column, pa.Array) or not pa.types.is_large_binary(column.type):
        return False
    heads = (value.as_py()[:HEAD_BYTES] for value in column if value.is_valid)
    return any(map(IMAGES.matches, heads))


def usual_plan(dataset: Dataset, ops: Ops, batch_size: int) -> Dataset:
    """Shuffle, ops on images, batch; a dataset smaller than a batch is one batch.

    decode resizes the whole image to 224 × 224, so that images of any size fit into one batch.
    """
    plan = dataset.shuffle(seed=0)
    if ops is not Ops.none:
        column = image_column(dataset)
        if column is None:
            raise PlanError(
                f"--ops {ops.value}: no column holds images (columns: {', '.join(dataset.spec)}); use --ops none"
            )
        plan = plan.transform(**{column: usual_chain(ops)})
    return plan.batch(min(batch_size, len(dataset)))


def usual_chain(ops: Ops) -> list[Any]:
    """The ops on images."""
    if ops is Ops.decode:
        return [image.Decode("RGB"), image.Resize((_SIZE, _SIZE))]
    return [
        image.Decode("RGB"),
        image.RandomResizedCrop(_SIZE),
        image.RandomHorizontalFlip(),
        image.Normalize(image.IMAGENET),
    ]


def suited_ops(dataset: Dataset, wanted: Ops | None) -> Ops:
    """The requested ops; by default rrc224 for datasets with images, none for others."""
    if wanted is not None:
        return wanted
    return Ops.none if image_column(dataset) is None else Ops.rrc224
