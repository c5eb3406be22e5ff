"""penstock inspect: what a dataset holds, as text, JSON, a contact sheet or a page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer

from penstock.cli.console import escape, out, print_json, shape_text, size_text, table
from penstock.cli.decode import decode_all, show_decoded
from penstock.cli.opening import Json, Paths, first_rows, image_column, is_image, open_dataset
from penstock.cli.page import html_page
from penstock.cli.quarantine import look_into, show_quarantine
from penstock.cli.seen import BoxColumn, BoxFormat, Format, LabelColumn, MaskColumn, Seeing, StepOps
from penstock.cli.sheet import contact_sheet
from penstock.cli.warnings import files_without_checksums, find_warnings
from penstock.core.errors import DataError, PlanError
from penstock.core.files.shards import Shards
from penstock.core.files.whole import write_whole
from penstock.core.images.encoded import image_size
from penstock.dataset import Dataset
from penstock.source.nulls import null_count

_SAMPLES_SHOWN = 3
_CLASSES_SHOWN = 20
_TEXT_SHOWN = 60
_VALUES_SHOWN = 4

_LISTS = (pa.ListScalar, pa.LargeListScalar)


Sheet = Annotated[Path | None, typer.Option("--sheet", metavar="PNG", help="Write a contact sheet of images.")]
Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write everything as one page.")]


Decode = Annotated[bool, typer.Option("--decode", help="Read and decode every image, and list the bad ones.")]
Column = Annotated[str | None, typer.Option(help="With --decode: the column of images; default: all such columns.")]

Quarantine = Annotated[Path | None, typer.Option(metavar="FILE", help="Show the bad samples of a quarantine file.")]


def inspect(
    paths: Paths,
    as_json: Json = False,
    sheet: Sheet = None,
    html: Html = None,
    decode: Decode = False,
    column: Column = None,
    quarantine: Quarantine = None,
    boxes: BoxColumn = None,
    box_format: Format = BoxFormat.XYXY,
    labels: LabelColumn = None,
    mask: MaskColumn = None,
    ops: StepOps = None,
) -> None:
    """Show what a dataset holds: format, files, sizes, columns, classes, a few samples, and warnings.

    Reads only the index and the first samples, so it is quick on a dataset of any size.

    With --decode it also reads and decodes every image, on all cores. It lists each file or record that is empty, cannot be
    read or cannot be decoded, with the reason. The exit status is 1 if there is one.

    With --quarantine it shows the bad samples that training met: what was wrong with each, and what it holds now. The file is
    what penstock.Loader(dataset, on_error="skip", quarantine="bad.jsonl") wrote.

    With --html the page also draws boxes (--boxes) and masks (--mask) over the first images, and with --ops it shows these images
    behind each op of the usual augmentation, with what the op drew. For a pipeline of your own call
    dataset.show(steps=True, html="page.html") in Python.

    Examples:
        penstock inspect data/train
        penstock inspect 'data/train-*.tfrecord'
        penstock inspect data/train --json | jq .classes
        penstock inspect data/train --sheet images.png --html page.html
        penstock inspect data/train --html page.html --ops rrc224
        penstock inspect 'data/*.parquet' --html page.html --boxes bbox --box-format XYWH --labels category
        penstock inspect data/train --decode
        penstock inspect 'data/*.parquet' --decode --column image --json | jq .decode.bad
        penstock inspect data/train --quarantine bad.jsonl
    """
    if column is not None and not decode:
        raise PlanError("--column: names the column for --decode, which is missing; pass both")
    seeing = Seeing(boxes=boxes, box_format=box_format, labels=labels, mask=mask, ops=ops)
    seeing.check(is_page=html is not None)
    dataset = open_dataset(paths)
    facts = describe_dataset(dataset, may_be_bad=decode or quarantine is not None)
    if quarantine is not None:
        facts["quarantine"] = look_into(dataset, str(quarantine), _show_value)
    if sheet is not None:
        write_whole(sheet, contact_sheet(dataset))
    if html is not None:
        images = contact_sheet(dataset) if image_column(dataset) is not None else None
        write_whole(html, html_page(facts, ", ".join(paths), images, seeing.parts(dataset)).encode(errors="replace"))
    if decode:
        facts["decode"] = decode_all(dataset, paths, column)
    if as_json:
        print_json(facts)
    else:
        _show(facts)
        if quarantine is not None:
            show_quarantine(facts["quarantine"])
        if decode:
            show_decoded(facts["decode"])
    if decode:
        _end(facts["decode"])


def _end(decoded: Mapping[str, Any]) -> None:
    if not decoded["complete"]:
        raise KeyboardInterrupt
    if decoded["bad"]:
        raise typer.Exit(1)


def describe_dataset(dataset: Dataset, *, may_be_bad: bool = False) -> dict[str, Any]:
    """All that the command prints, as plain values. With `may_be_bad`, unreadable first samples are left out."""
    manifest = dataset.source.manifest
    classes = _count_classes(dataset)
    rows: Mapping[str, Any] = {}
    try:
        rows = first_rows(dataset, _SAMPLES_SHOWN)
    except DataError:
        if not may_be_bad:
            raise
    return {
        "format": manifest.format,
        "samples": manifest.samples,
        "bytes": manifest.size_bytes,
        "bytes_per_sample": manifest.size_bytes / manifest.samples,
        "digest": manifest.digest,
        "shards": _describe_shards(manifest.shards),
        "files_without_checksums": files_without_checksums(dataset),
        "columns": {
            name: {
                "dtype": field.dtype,
                "shape": list(field.shape),
                "holds": _holds(rows.get(name)),
                **({} if (nulls := null_count(dataset.source, name)) == 0 else {"nulls": nulls}),
            }
            for name, field in dataset.spec.items()
        },
        "classes": classes,
        "first_samples": [
            {name: _show_value(column, row) for name, column in rows.items()}
            for row in range(len(next(iter(rows.values()), ())))
        ],
        "warnings": find_warnings(dataset, classes),
    }


def _describe_shards(shards: Shards) -> dict[str, Any]:
    if len(shards) == 0:  # memory, a database
        return {"count": 0}
    sizes = shards.sizes
    return {
        "count": len(sizes),
        "smallest_bytes": int(sizes.min()),
        "median_bytes": int(np.median(sizes)),
        "largest_bytes": int(sizes.max()),
        "largest": shards.path(int(sizes.argmax())),
    }


def _count_classes(dataset: Dataset) -> dict[str, int]:
    labels = getattr(dataset.source, "labels", None)
    if labels is None:
        return {}
    counts = np.bincount(labels, minlength=len(dataset.classes)).tolist()
    return dict(zip(dataset.classes, counts, strict=True))


def _holds(column: Any) -> str:
    return "images" if is_image(column) else ""


def _show_value(column: Any, row: int) -> str:
    value = column[row]
    if isinstance(value, pa.Scalar) and not value.is_valid:
        return "null"
    if isinstance(value, pa.Scalar):
        value = value.values.to_numpy(zero_copy_only=False) if isinstance(value, _LISTS) else value.as_py()
    if isinstance(value, bytes):
        return _show_bytes(value)
    if isinstance(value, str):
        is_path = "/" in value and not any(map(str.isspace, value))  # whose end says most
        short = f"…{value[-_TEXT_SHOWN:]}" if is_path else f"{value[:_TEXT_SHOWN]}…"
        return value if len(value) <= _TEXT_SHOWN else short
    array = np.asarray(value)
    if array.ndim == 0:
        return str(array)
    flat = array.reshape(-1)
    start = ", ".join(f"{number:.6g}" if array.dtype.kind == "f" else str(number) for number in flat[:_VALUES_SHOWN])
    more = ", …" if flat.size > _VALUES_SHOWN else ""
    return f"[{start}{more}] {array.dtype}{array.shape}"


def _show_bytes(value: bytes) -> str:
    if not is_image(pa.array([value], pa.large_binary())):
        return f"{value[:16]!r}{'…' if len(value) > 16 else ''} ({size_text(len(value))})"
    try:
        height, width = image_size(value)
    except ValueError as error:
        return f"unreadable image ({error}), {size_text(len(value))}"
    return f"image {width} × {height}, {size_text(len(value))}"


def _show(facts: Mapping[str, Any]) -> None:
    shards = facts["shards"]
    files = f" in {shards['count']:,} files" if shards["count"] else ""
    out.print(
        f"[bold]{facts['format']}[/]: {facts['samples']:,} samples, {size_text(facts['bytes'])}{files}; "
        f"{size_text(facts['bytes_per_sample'])} a sample",
        soft_wrap=True,
    )
    if shards["count"]:
        sizes = ", ".join(f"{word} {size_text(shards[word + '_bytes'])}" for word in ("smallest", "median", "largest"))
        out.print(f"files: {sizes}{_checksums(facts['files_without_checksums'], shards['count'])}", soft_wrap=True)
    out.print(f"digest: {facts['digest']}\n", soft_wrap=True)
    has_nulls = any("nulls" in column for column in facts["columns"].values())
    columns = table("column", "dtype", "shape", "holds", *([">nulls"] if has_nulls else []), title="Columns")
    for name, column in facts["columns"].items():
        count = column.get("nulls", 0)
        nulls = "some" if count is None else f"{count:,}"
        shown = [name, column["dtype"], shape_text(column["shape"]), column["holds"]]
        columns.add_row(*map(escape, shown), *([nulls] if has_nulls else []))
    out.print(columns, "")
    if facts["classes"]:
        _show_classes(facts["classes"])
    samples = table("column", *map(str, range(len(facts["first_samples"]))), title="First samples")
    for name in facts["columns"]:
        samples.add_row(*(escape(text) for text in (name, *(sample[name] for sample in facts["first_samples"]))))
    out.print(samples)
    for warning in facts["warnings"]:
        out.print(f"\n[yellow]Warning:[/] {escape(warning)}", soft_wrap=True)


def _checksums(without: int, files: int) -> str:
    """Not a warning: to have none is usual."""
    missing = "no checksums" if without == files else f"{without:,} without checksums"
    return f"; {missing} (penstock index --checksums makes them)" if without else ""


def _show_classes(classes: Mapping[str, int]) -> None:
    most, total = max(classes.values()), sum(classes.values())
    shown = table("label", "class", ">samples", ">share", "", title=f"Classes: {len(classes):,}")
    for label, (name, count) in enumerate(classes.items()):
        if label == _CLASSES_SHOWN:
            shown.add_row("…", f"and {len(classes) - label:,} more")
            break
        shown.add_row(
            str(label), escape(name), f"{count:,}", f"{count / total:.1%}", "█" * max(1, round(24 * count / most))
        )
    out.print(shown, "")
