"""Profiles and drift as tables in a terminal."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from penstock.core.messages import counted, printable
from penstock.profiling.words import bars_text, distinct_words, figure, found_words, share, value_words

_LEVELS = {"stable": "green", "moderate": "yellow", "strong": "red", "changed": "red"}
_CLASSES = 20
#: Characters of a line where there is no terminal.
_WIDTH = 140


def profile_text(facts: Mapping[str, Any], findings: Sequence[Mapping[str, str]], width: int | None) -> str:
    """A profile. width: characters of a line; None: those of the terminal, with its colours."""
    parts: list[RenderableType] = [Text(printable(headline(facts)), style="bold"), ""]
    shown = _table(
        "column", "type", ">missing", ">distinct", ">least", ">median", ">greatest", ">mean", ">deviation", ""
    )
    for name, column in facts["columns"].items():
        figures = column.get("numbers") or column.get("lengths") or {}
        cells = [name, column["type"], share(column["missing"], column["rows"]), distinct_words(column)]
        numbers = [
            figure(figures.get("least")), figure(figures.get("quantiles", {}).get("0.5")), figure(figures.get("greatest")),
            figure(figures.get("mean")), figure(figures.get("deviation")),
        ]  # fmt: skip
        shown.add_row(*map(_cell, [*cells, *numbers, f"{bars_text(figures)}{_note(column)}"]))
    parts += [shown, ""]
    frequent = _table("column", "most frequent")
    for name, column in facts["columns"].items():
        if words := value_words(column, facts["rows"]):
            frequent.add_row(_cell(name), _cell(words))
    parts += [frequent, ""] if frequent.row_count else []
    if facts["label"]:
        parts += [_classes(facts["label"], facts["rows"]), ""]
    if findings:
        parts.append(Text("What stands out", style="bold"))
        parts += [_finding(one) for one in findings]
    return _rendered(parts, width)


def headline(facts: Mapping[str, Any]) -> str:
    """What the rows are."""
    duplicates = facts["duplicates"]
    about = "" if duplicates["exact"] else "about "
    copies = f"; {about}{counted(duplicates['rows'], 'copy', 'copies')} of rows" if facts["rows"] else ""
    return f"{counted(facts['rows'], 'row')}, {counted(len(facts['columns']), 'column')}{copies}"


def drift_text(facts: Mapping[str, Any], width: int | None) -> str:
    """A drift."""
    before, after = (counted(rows, "row") for rows in facts["rows"])
    parts: list[RenderableType] = [Text(f"from {before} to {after}: {facts['says']}", style="bold"), ""]
    shown = _table("column", ">PSI", ">KS", ">Jensen-Shannon", ">missing before", ">after", "says")
    for name, column in facts["columns"].items():
        style = _LEVELS[column["level"]]
        figures = [figure(column.get(one)) for one in ("psi", "ks", "js")]
        missing = [f"{one:.1%}" if one is not None else "" for one in column["missing_share"]]
        shown.add_row(_cell(name), *map(_cell, [*figures, *missing]), Text(printable(column["says"]), style=style))
    parts.append(shown)
    return _rendered(parts, width)


def _note(column: Mapping[str, Any]) -> str:
    if images := column.get("images"):
        return found_words(images)
    return "  (lengths)" if "lengths" in column and "numbers" not in column else ""


def _classes(label: Mapping[str, Any], rows: int) -> Table:
    title = f"Classes of {printable(label['column'])}: {label['classes']:,}"
    shown = _table("class", ">rows", ">share", "", title=title)
    most = max((count for _, count in label["counts"]), default=1)
    for value, count in label["counts"][:_CLASSES]:
        shown.add_row(_cell(str(value)), f"{count:,}", f"{count / rows:.1%}", "█" * max(1, round(24 * count / most)))
    if label["classes"] > _CLASSES:
        shown.add_row("…", f"and {label['classes'] - _CLASSES:,} more", "", "")
    return shown


def _finding(one: Mapping[str, str]) -> Text:
    column = f"{printable(one['column'])} " if one["column"] else ""
    return Text.assemble("  ", (column, "bold"), one["says"])


def _table(*heads: str, title: str | None = None) -> Table:
    made = Table(
        title=title and escape(title),
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    for head in heads:
        is_figure = head.startswith(">")
        made.add_column(
            head.removeprefix(">"),
            justify="right" if is_figure else "left",
            overflow="fold",
            no_wrap=is_figure,
            min_width=8 if head == "column" else None,
        )
    return made


def _cell(words: str) -> Text:
    return Text(printable(words))


def _rendered(parts: Sequence[RenderableType], width: int | None) -> str:
    made = io.StringIO()
    terminal = Console()
    width = width if width is not None or terminal.is_terminal else _WIDTH
    console = Console(
        file=made,
        width=max(width or terminal.width, 60),
        force_terminal=width is None,
        color_system="standard" if width is None else None,
        highlight=False,
    )
    for part in parts:
        console.print(part)
    return "\n".join(line.rstrip() for line in made.getvalue().splitlines()) + "\n"
