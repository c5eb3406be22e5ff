"""A drift as HTML, without any script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from penstock.core.messages import counted
from penstock.observe import svg
from penstock.profiling.page import STYLE, name_of, table
from penstock.profiling.words import figure, shortened

#: Values that a column shows, and new or lost ones that it names.
_VALUES, _NAMED = 8, 8


def drift_parts(facts: Mapping[str, Any]) -> Iterator[str]:
    """The parts of a page, in which everything that is not ours is escaped."""
    before, after = (counted(rows, "row") for rows in facts["rows"])
    yield STYLE
    yield f'<div class="pp"><p><b>From {before} to {after}: {escape(facts["says"])}</b></p>'
    lines = "".join(_line(name, column) for name, column in facts["columns"].items())
    yield f"<div class=scrolls><table><tr><th>column<th class=n>PSI<th class=n>KS<th class=n>Jensen-Shannon<th class=n>missing<th>says</tr>{lines}</table></div>"
    for name, column in facts["columns"].items():
        if drawn := f"{_bars(column)}{_values(column)}{_came_and_went(column)}":
            yield f"<section><h3>{name_of(name)} <small>{escape(column['says'])}</small></h3>{drawn}</section>"
    limits = facts["thresholds"]
    yield (
        f"<p><small>PSI, the population stability index, on the deciles of the first, or on categories: stable below {limits['moderate']}, moderate drift below {limits['strong']}, strong drift "
        "above. KS: the greatest distance of the distributions. Jensen-Shannon: a distance, base 2, from 0 to 1. Blue bars: before; orange line: after.</small></p></div>"
    )


def _line(name: str, column: Mapping[str, Any]) -> str:
    figures = "".join(f"<td class=n>{figure(column.get(one))}" for one in ("psi", "ks", "js"))
    missing = " → ".join("" if one is None else f"{one:.1%}" for one in column["missing_share"])
    return f"<tr class={column['level']}><td>{name_of(name)}{figures}<td class=n>{missing}<td>{escape(column['says'])}</tr>"


def _bars(column: Mapping[str, Any]) -> str:
    found = column.get("bars")
    if not found or not found["edges"]:
        return ""
    ends = "".join(f"<span>{figure(found['edges'][place])}</span>" for place in (0, -1))
    means = table([("mean before", figure(column["means"][0])), ("mean after", figure(column["means"][1]))])
    return f"<figure>{svg.bars(found['counts'])}<figcaption>{ends}</figcaption></figure>{means}"


def _values(column: Mapping[str, Any]) -> str:
    if "new" not in column:
        return ""
    lines = [(shortened(name), f"{before:.1%} → {after:.1%}") for name, before, after in column["shares"][:_VALUES]]
    return table(lines) if lines else ""


def _came_and_went(column: Mapping[str, Any]) -> str:
    said = []
    for word in ("new", "lost"):
        found = column.get(word)
        if found and found["count"]:
            names = ", ".join(escape(shortened(name)) for name in found["first"][:_NAMED])
            more = f" and {found['count'] - _NAMED:,} more" if found["count"] > _NAMED else ""
            said.append(f"<p>{word}: {names}{more} ({counted(found['rows'], 'row')})</p>")
    return "".join(said)
