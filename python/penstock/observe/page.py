"""One self-contained HTML page: for a wiki, a ticket, a colleague. No script, nothing from elsewhere; light and dark as the reader's system is, and on paper."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from penstock.core.messages import printable

_STYLE = """:root { color-scheme: light dark; --ink: #1f2430; --paper: #fff; --quiet: #667080; --line: #d9dde4; --fill: #f3f5f8; --rest: #dde2ea;
--blue: #3d6fa8; --orange: #d47a1f; --green: #2f8a57; --red: #c03a3a; --warn: #fff3cd; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7ec; --paper: #15181d; --quiet: #98a2b0; --line: #343a44; --fill: #1e2229; --rest: #39404b;
--blue: #7db0e8; --orange: #f0a35a; --green: #68c794; --red: #f08080; --warn: #4a3d12; } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; color: var(--ink); background: var(--paper); }
h1 { overflow-wrap: anywhere; line-height: 1.2; } h2 { margin: 1.6em 0 .5em; line-height: 1.3; }
table { border-collapse: collapse; margin: 0 0 1.5em; } th, td { text-align: left; padding: .2em 1em .2em 0; border-bottom: 1px solid var(--line); }
td { overflow-wrap: anywhere; } .warning { background: var(--warn); padding: .5em 1em; margin: .5em 0; } img { max-width: 100%; }
small { color: var(--quiet); } code { background: var(--fill); padding: .1em .35em; border-radius: 3px; overflow-wrap: anywhere; }
@media (max-width: 40em) { body { margin: 1em auto; } h1 { font-size: 1.5em; } }
@media print { :root { color-scheme: light; } body { max-width: none; margin: 0; font-size: 11px; } section, figure, tr { break-inside: avoid; } }"""


def page_of(title: str, parts: Iterable[str]) -> str:
    """The page. parts: HTML, in which everything that is not ours is escaped."""
    shown = text(title)
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>{shown}</title><style>{_STYLE}</style>'
    body = "\n".join((f"<h1>{shown}</h1>", *parts))
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'


def text(value: object) -> str:
    """A value in a page: neither markup nor what turns text around: text("<b>") == "&lt;b&gt;"."""
    return escape(printable(str(value)))


def table_of(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML; a head that begins with ">" makes a column of figures."""
    kinds = [" class=n" if head.startswith(">") else "" for head in heads]
    head = "".join(f"<th{kind}>{text(one.removeprefix('>'))}" for kind, one in zip(kinds, heads, strict=True))
    lines = "".join(
        f"<tr>{''.join(f'<td{kind}>{cell}' for kind, cell in zip(kinds, row, strict=True))}" for row in rows
    )
    return f"<div class=wide><table><tr>{head}{lines}</table></div>"
