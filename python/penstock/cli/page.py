"""The output of `penstock inspect` as a page."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from penstock.cli.console import shape_text, size_text
from penstock.observe.page import page_of


def html_page(facts: Mapping[str, Any], where: str, sheet: bytes | None, seen: Sequence[str]) -> str:
    """The page. Text from the data is escaped; the contact sheet is embedded. seen: what follows it, as HTML."""
    shards = facts["shards"]
    files = f" in {shards['count']:,} files" if shards["count"] else ""
    sample = size_text(facts["bytes_per_sample"])
    summary = (
        f"<p><b>{escape(facts['format'])}</b>: {facts['samples']:,} samples, {size_text(facts['bytes'])}{files}; "
        f"{sample} a sample. Digest {facts['digest']}.</p>"
    )
    parts = [
        summary,
        *(f'<p class="warning">{escape(warning)}</p>' for warning in facts["warnings"]),
        "<h2>Columns</h2>",
        _table(("column", "dtype", "shape", "holds"), map(_column, facts["columns"].items())),
    ]
    if facts["classes"]:
        counts = ((str(label), name, f"{count:,}") for label, (name, count) in enumerate(facts["classes"].items()))
        parts += ["<h2>Classes</h2>", _table(("label", "class", "samples"), counts)]
    numbers = [str(number) for number in range(len(facts["first_samples"]))]
    rows = ((name, *(sample[name] for sample in facts["first_samples"])) for name in facts["columns"])
    parts += ["<h2>First samples</h2>", _table(("column", *numbers), rows)]
    if sheet is not None:
        data = base64.b64encode(sheet).decode()
        parts += ["<h2>Images</h2>", f'<img alt="images of the dataset" src="data:image/png;base64,{data}">']
    return page_of(where, (*parts, *seen))


def _column(entry: tuple[str, Mapping[str, Any]]) -> tuple[str, str, str, str]:
    name, column = entry
    return name, column["dtype"], shape_text(column["shape"]), column["holds"]


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [_row("th", heads), *(_row("td", row) for row in rows)]
    return f"<table>{''.join(lines)}</table>"


def _row(kind: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{kind}>{escape(cell)}</{kind}>" for cell in cells) + "</tr>"
