"""penstock index: counts and indexes a dataset before its first use."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Annotated, Any, Literal, cast

import typer

from penstock.cli.console import out, print_json, progress, size_text
from penstock.cli.opening import Json, Paths, image_column, named_in_module, open_dataset
from penstock.core.cpus import usable_cpus
from penstock.core.errors import PlanError
from penstock.dataset import Dataset
from penstock.source.checks.build import build_checksums
from penstock.source.checks.ranges import CheckedRanges
from penstock.tools.jpeg_index import Built, build_entry_points

Jpeg = Annotated[bool, typer.Option("--jpeg", help="Also record where decoding can start inside JPEGs.")]
Sums = Annotated[
    bool,
    typer.Option("--checksums", help="Also read all files once and store their checksums; later reads compare them."),
]
Column = Annotated[str | None, typer.Option(help="With --jpeg: the column of images; default: the first one.")]


Filter = Annotated[
    str | None,
    typer.Option(
        "--filter",
        help="module:function of a predicate: looks at all rows once and keeps which of them it lets through.",
    ),
]
Dedup = Annotated[
    str | None,
    typer.Option(
        "--dedup",
        help="column or column:minhash: looks for copies of rows once and keeps which rows stay.",
    ),
]
Nulls = Annotated[str, typer.Option(help="With --filter or --dedup: as read(…, nulls=…) of training.")]
Columns = Annotated[
    str | None,
    typer.Option(
        help="With --filter or --dedup: as read(…, columns=…) of training, with commas between; default: all."
    ),
]


def index(
    paths: Paths,
    checksums: Sums = False,
    jpeg: Jpeg = False,
    column: Column = None,
    predicate: Filter = None,
    dedup: Dedup = None,
    nulls: Nulls = "error",
    columns: Columns = None,
    as_json: Json = False,
) -> None:
    """Build a dataset's index before training, so that training starts at once.

    The index (shards, sizes, where each record lies) is cached for the user and rebuilt when a file changes. The digest
    identifies the data: training resumes only on data with the same digest. Prints samples, bytes, digest and the time taken.

    With --checksums it also reads every file once and stores a CRC-32C of every 64 KiB. From then on, all reads of these
    files compare the checksums of what they read for the first time. A flipped bit is an error that names file and bytes, in
    every format. This is optional because it takes as long as reading everything. Run it again after you add or change
    files; files that have checksums are not read again.

    With --jpeg it also scans every JPEG once and records places at which decoding can start. A random crop is then decoded
    without what lies above it. The files stay as they are. An interrupted run continues where it stopped.

    With --filter it calls your function once with all rows, in batches, as read(…).filter(function, ahead=True) does. In training that
    then costs nothing, and `len` is exact. The module is looked for in the current folder, too.

    With --dedup it reads a column once and keeps which rows stay, as read(…).deduplicate(column) does; text:minhash looks for near copies.
    What is kept belongs to the options that data is read with: give --nulls and --columns as training does, or it looks again.

    Examples:
        penstock index 'data/train-*.tfrecord'
        penstock index 'data/*.jsonl' --filter mine:long_enough
        penstock index 'data/*.jsonl' --dedup text:minhash
        penstock index 'data/*.jsonl' --dedup text --nulls arrow --columns text,id
        penstock index 's3://bucket/train-*.tar'
        penstock index data/train --checksums
        penstock index photos --jpeg
        penstock index 'data/train-*.tfrecord' --jpeg --column image/encoded
        penstock index data/train --json
    """
    began_at = time.perf_counter()
    chosen = None if columns is None else [name.strip() for name in columns.split(",")]
    dataset = open_dataset(paths, nulls=nulls, columns=chosen)  # as training opens it
    manifest = dataset.source.manifest
    digest = manifest.digest
    figures: dict[str, Any] = {
        "where": paths,
        "format": manifest.format,
        "shards": len(manifest.shards),
        "samples": manifest.samples,
        "bytes": manifest.size_bytes,
        "digest": digest,
        "seconds": time.perf_counter() - began_at,
    }
    if checksums:
        figures["checksums"] = _checksums(dataset)
    if predicate is not None:
        figures["filter"] = _filtered(dataset, predicate)
    if dedup is not None:
        figures["dedup"] = _deduplicated(dataset, dedup)
    jpeg_began_at = time.perf_counter()
    built = _entry_points(dataset, column) if jpeg else None
    if built is not None:
        figures["jpeg"] = asdict(built) | {"seconds": time.perf_counter() - jpeg_began_at}
    if as_json:
        print_json(figures)
        return
    what = f"{manifest.samples:,} samples in {len(manifest.shards):,} files, {size_text(manifest.size_bytes)}"
    out.print(f"{what}, indexed in {figures['seconds']:.2f} s", soft_wrap=True)
    out.print(f"digest {digest}")
    if predicate is not None:
        found = figures["filter"]
        out.print(
            f"{found['rows']:,} of {found['samples']:,} rows pass {predicate}, in {found['seconds']:.2f} s",
            soft_wrap=True,
        )
    if dedup is not None:
        found = figures["dedup"]
        out.print(
            f"{found['rows']:,} of {found['samples']:,} rows stay after deduplication by {dedup}, in {found['seconds']:.2f} s",
            soft_wrap=True,
        )
    if checksums:
        _print_checksums(figures["checksums"])
    if built is not None:
        share = built.size_bytes / max(1, built.record_bytes)
        what = f"{built.indexed:,} of {built.samples:,} images have entry points"
        out.print(f"{what}: {size_text(built.size_bytes)}, {share:.2%} of the records", soft_wrap=True)


def _filtered(dataset: Dataset, named: str) -> dict[str, float]:
    began_at = time.perf_counter()
    function = named_in_module(f"--filter {named}", named)
    with progress("Filter") as report:
        found = dataset.filter(function, ahead=True, progress=report)
    return {"samples": len(dataset), "rows": len(found), "seconds": time.perf_counter() - began_at}


def _deduplicated(dataset: Dataset, asked: str) -> dict[str, float]:
    began_at = time.perf_counter()
    column, _, how = asked.partition(":")
    with progress("Duplicates") as report:
        found = dataset.deduplicate(column, how=cast('Literal["exact", "minhash"]', how or "exact"), progress=report)
    return {"samples": len(dataset), "rows": len(found), "seconds": time.perf_counter() - began_at}


def _checksums(dataset: Dataset) -> dict[str, float]:
    if not isinstance(dataset.read_ranges, CheckedRanges):
        raise PlanError("--checksums: this dataset has no files; leave --checksums out")
    began_at = time.perf_counter()
    with progress("Checksums") as report:
        built = build_checksums(dataset.source.manifest, dataset.read_ranges, report)
    return asdict(built) | {"seconds": time.perf_counter() - began_at}


def _print_checksums(built: dict[str, float]) -> None:
    what = f"{built['files']:,} files have checksums, {size_text(built['size_bytes'])}"
    read = f"read {size_text(built['read_bytes'])} in {built['seconds']:.2f} s"
    out.print(f"{what}; {read}", soft_wrap=True)


def _entry_points(dataset: Dataset, column: str | None) -> Built:
    column = column or image_column(dataset)
    if column is None:
        raise PlanError(f"--jpeg: no column holds images (columns: {', '.join(dataset.spec)}); name one with --column")
    with progress("JPEG index") as report:
        return build_entry_points(dataset.source, dataset.read_ranges, column, threads=usable_cpus(), progress=report)
