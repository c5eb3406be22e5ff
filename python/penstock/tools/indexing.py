"""Building all that can be known of a dataset's files before training: see `Dataset.index`."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.batch.stack import materialize
from penstock.core.cpus import usable_cpus
from penstock.core.errors import PlanError
from penstock.core.files.byte_ranges import Progress
from penstock.core.images.encoded import image_size
from penstock.core.messages import quoted
from penstock.core.names import did_you_mean
from penstock.plan.nodes import Node, Opened
from penstock.plan.tree import leaves
from penstock.source.checks.build import build_checksums
from penstock.source.checks.ranges import CheckedRanges
from penstock.stages.read.samples import load_samples
from penstock.tools.jpeg_index import build_entry_points


def build_indexes(
    root: Node, *, checksums: bool, jpeg: bool, column: str | None = None, progress: Progress | None = None
) -> None:
    """Checksums of all files, and entry points of all JPEGs; PlanError, before anything is read, where there are none."""
    if column is not None and not jpeg:
        raise PlanError(f"index: column={quoted(column)} names the column of images for jpeg=True, which is missing")
    opened = [leaf.opened for leaf in leaves(root)]
    files = [(one, read) for one in opened if isinstance(read := one.read_ranges, CheckedRanges)]
    if checksums and not files:
        raise PlanError(
            "index: checksums=True is for data in files, and this has none, or was opened with verify=False"
        )
    images = [(one, name) for one in opened if (name := _image_column(one, column)) is not None] if jpeg else []
    if jpeg and not images:
        names = [name for one in opened for name in one.source.spec]
        found = (
            "no column holds images" if column is None else f"no column {quoted(column)}{did_you_mean(column, names)}"
        )
        raise PlanError(f"index: jpeg=True: {found}; there are {', '.join(names)}")
    if checksums:
        for one, read in files:
            build_checksums(one.source.manifest, read, progress)
    for one, name in images:
        build_entry_points(one.source, one.read_ranges, name, threads=usable_cpus(), progress=progress)


def _image_column(opened: Opened, asked: str | None) -> str | None:
    """The column of a source that was asked for, or the first whose first row is an image; None if it has none."""
    if asked is not None:
        return asked if asked in opened.source.spec else None
    names = [name for name, field in opened.source.spec.items() if field.dtype == "bytes" and field.shape == ()]
    if not names or not opened.source.manifest.samples:
        return None
    first = load_samples(opened.source, opened.read_ranges, np.zeros(1, dtype=np.int64))
    return next((name for name in names if _is_image(first[name])), None)


def _is_image(column: Any) -> bool:
    values: Any = materialize({"": column})[""]
    try:
        image_size(values[0].as_py())
    except ValueError:
        return False
    return True
