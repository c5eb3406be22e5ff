"""Prints the table of formats of docs/formats.md, made from the registry; with --write, puts it there."""

from __future__ import annotations

import sys
from pathlib import Path

from penstock.format import FORMATS
from penstock.source.protocol import Format

PAGE = Path(__file__).parent.parent / "docs" / "formats.md"
BEGIN, END = "<!-- table of formats: python scripts/formats_table.py --write -->\n", "<!-- end of the table -->\n"


def table() -> str:
    """One row a format, in the registry's order."""
    head = "| format | files | random access | damage detected without checksums | options | extra |\n| --- | --- | --- | --- | --- | --- |\n"
    return head + "".join(_row(format) for format in FORMATS)


def _row(format: Format) -> str:
    files = " ".join(f"`{suffix}`" for suffix in format.suffixes) or "a folder"
    options = " ".join(f"`{option}`" for option in format.options)
    cells = (f"[{format.name}](#{format.name})", files, format.access, format.detects, options, format.extra)
    return f"| {' | '.join(cells)} |\n"


def page(text: str) -> str:
    """The page with the table in its place."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + table() + END + after


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print(table(), end="")
