"""penstock inspect --decode: reads and decodes every image, and lists the bad ones."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from penstock.cli.console import escape, out, progress
from penstock.cli.opening import image_columns, open_dataset
from penstock.core.cpus import usable_cpus
from penstock.core.errors import PlanError
from penstock.dataset import Dataset
from penstock.tools.decode_check import UndecodableSample, find_bad

#: Folders whose files are only read, since Penstock has no decoder for them.
_ONLY_READ = ("audio_folder", "video_folder")


def decode_all(dataset: Dataset, paths: list[str], column: str | None) -> dict[str, Any]:
    """What a check of all images found, as plain values. After Ctrl-C "complete" is false, and "bad" holds what was found."""
    began_at = time.perf_counter()
    columns = _columns(dataset, column)
    read_only = dataset.source.manifest.format in _ONLY_READ
    # A column that is not requested costs nothing and cannot be bad.
    checked = dataset if read_only else open_dataset(paths, columns=columns, nulls="error")
    bad: list[UndecodableSample] = []
    done, complete = 0, False
    with progress("Decoding") as report:

        def note(checked_samples: int, samples: int) -> None:
            nonlocal done
            done = checked_samples
            report(checked_samples, samples)

        try:
            for one in find_bad(
                checked.source,
                checked.read_ranges,
                [] if read_only else columns,
                threads=usable_cpus(),
                progress=note,
            ):
                bad.append(one)  # noqa: PERF402 - Ctrl-C keeps those found so far
            complete = True
        except KeyboardInterrupt:
            pass
    return {
        "columns": columns,
        "decoded": not read_only,
        "samples": len(checked),
        "checked": done,
        "complete": complete,
        "bad": [asdict(one) for one in bad],
        "seconds": time.perf_counter() - began_at,
    }


def _columns(dataset: Dataset, column: str | None) -> list[str]:
    known = ", ".join(dataset.spec)
    if column is not None:
        if column not in dataset.spec:
            raise PlanError(f"--column {column}: no such column; the columns are {known}")
        if dataset.spec[column].dtype != "bytes":
            raise PlanError(f"--column {column}: {dataset.spec[column]} cannot be decoded; name a column of bytes")
        return [column]
    if dataset.source.manifest.format in _ONLY_READ:
        return [name for name, field in dataset.spec.items() if field.dtype == "bytes"]
    if not (found := image_columns(dataset)):
        raise PlanError(f"--decode: no column holds images (columns: {known}); name one with --column")
    return found


def show_decoded(figures: Mapping[str, Any]) -> None:
    """Print the figures: a line for every bad sample, then the totals."""
    for one in figures["bad"]:
        column = f" ({one['column']})" if len(figures["columns"]) > 1 and one["column"] else ""
        out.print(f"[red]bad[/] {escape(one['where'])}{escape(column)}: {escape(one['found'])}", soft_wrap=True)
    did = "read and decoded" if figures["decoded"] else "read; Penstock has no decoder for them"
    stopped = "" if figures["complete"] else f" of {figures['samples']:,}, then interrupted"
    out.print(
        f"{figures['checked']:,} samples{stopped}: {did}, in {figures['seconds']:,.1f} s; {len(figures['bad']):,} bad",
        soft_wrap=True,
    )
