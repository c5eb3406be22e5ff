"""The output of `penstock inspect` as one self-contained HTML page: for a wiki, a ticket, a colleague."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from penstock.cli.console import shape_text, size_text

_STYLE = """body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; color: #222; }
table { border-collapse: collapse; margin: 0 0 1.5em; } th, td { text-align: left; padding: .2em 1em .2em 0; border-bottom: 1px solid #ddd; }
td { overflow-wrap: anywhere; } .warning { background: #fff3cd; padding: .5em 1em; margin: .5em 0; } img { max-width: 100%; }"""


def html_page(facts: Mapping[str, Any], where: str, sheet: bytes | None) -> str:
    """The page. Text from the data is escaped; the contact sheet is embedded."""
    shards = facts["shards"]
    files = f" in {shards['count']:,} files" if shards["count"] else ""
    sample = size_text(facts["bytes_per_sample"])
    summary = (
        f"<p><b>{escape(facts['format'])}</b>: {facts['samples']:,} samples, {size_text(facts['bytes'])}{files}; "
        f"{sample} a sample. Digest {facts['digest']}.</p>"
    )
    parts = [
        f"<h1>{escape(where)}</h1>",
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
    head = f'<meta charset="utf-8"><title>{escape(where)}</title><style>{_STYLE}</style>'
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>\n' + "\n".join(parts) + "\n</body></html>\n"


def _column(entry: tuple[str, Mapping[str, Any]]) -> tuple[str, str, str, str]:
    name, column = entry
    return name, column["dtype"], shape_text(column["shape"]), column["holds"]


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [_row("th", heads), *(_row("td", row) for row in rows)]
    return f"<table>{''.join(lines)}</table>"


def _row(kind: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{kind}>{escape(cell)}</{kind}>" for cell in cells) + "</tr>"
