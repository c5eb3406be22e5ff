"""One self-contained HTML page: for a wiki, a ticket, a colleague."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

_STYLE = """body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; color: #222; }
table { border-collapse: collapse; margin: 0 0 1.5em; } th, td { text-align: left; padding: .2em 1em .2em 0; border-bottom: 1px solid #ddd; }
td { overflow-wrap: anywhere; } .warning { background: #fff3cd; padding: .5em 1em; margin: .5em 0; } img { max-width: 100%; }"""


def page_of(title: str, parts: Iterable[str]) -> str:
    """The page. parts: HTML, in which everything that is not ours is escaped."""
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    body = "\n".join((f"<h1>{escape(title)}</h1>", *parts))
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'
