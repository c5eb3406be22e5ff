"""penstock inspect --quarantine: the bad samples of a quarantine file, and what they hold now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from penstock.batch.stack import materialize
from penstock.cli.console import escape, out, table
from penstock.dataset import Dataset
from penstock.observe.quarantine import BadSample, ids_in, read_quarantine
from penstock.source.protocol import Access
from penstock.stages.read.samples import load_readable

_SHOWN = 50

#: A value of a column in a few words: (column, row).
Show = Callable[[Any, int], str]


def look_into(dataset: Dataset, path: str, show: Show) -> dict[str, Any]:
    """The bad samples of a file that lie in a dataset, and how many lie elsewhere, as plain values."""
    bad = read_quarantine(path)
    ids = ids_in(bad, dataset.source.manifest)
    mine = [(sample, one) for sample, one in zip(ids.tolist(), bad, strict=True) if sample >= 0]
    return {
        "file": path,
        "samples": [_described(dataset, sample, one, show) for sample, one in sorted(mine, key=lambda pair: pair[0])],
        "elsewhere": len(bad) - len(mine),
    }


def _described(dataset: Dataset, sample: int, bad: BadSample, show: Show) -> dict[str, Any]:
    return {
        "sample": sample,
        "where": dataset.source.manifest.place(sample),
        "found": bad.found,
        "do": bad.do,
        "epoch": bad.epoch,
        "step": bad.step,
        "holds": _holds(dataset, sample, show),
    }


def _holds(dataset: Dataset, sample: int, show: Show) -> dict[str, str] | None:
    """The values of a sample in a few words; None where it cannot be read even without any transform."""
    if dataset.source.access is Access.FORWARD:
        return None
    runs, _ = load_readable(dataset.source, dataset.read_ranges, np.array([sample], dtype=np.int64))
    columns = materialize(runs[0][1]) if runs else None
    return None if columns is None else {name: show(column, 0) for name, column in columns.items()}


def show_quarantine(found: Mapping[str, Any]) -> None:
    """Print them."""
    samples = found["samples"]
    shown = table(">sample", "where", "found", "holds", title=f"Bad samples: {len(samples):,}")
    for one in samples[:_SHOWN]:
        holds = one["holds"]
        words = "cannot be read" if holds is None else ", ".join(f"{name}: {value}" for name, value in holds.items())
        shown.add_row(f"{one['sample']:,}", *map(escape, (one["where"], one["found"], words)))
    out.print("", shown)
    if len(samples) > _SHOWN:
        out.print(f"… and {len(samples) - _SHOWN:,} more; --json lists all")
    if found["elsewhere"]:
        out.print(f"{found['elsewhere']:,} more in {escape(found['file'])} lie in other data", soft_wrap=True)
