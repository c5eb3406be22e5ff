"""A profile as HTML, without any script: what is in it does not grow with the rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from penstock.observe import svg
from penstock.profiling.text import headline
from penstock.profiling.words import distinct_words, figure, share, shortened

#: Colours that are seen on white and on black, since notebooks are either.
STYLE = """<style>.pp table{border-collapse:collapse;margin:0 0 .6em}.pp td,.pp th{text-align:left;padding:.1em .9em .1em 0;border-bottom:1px solid rgba(128,128,128,.3);vertical-align:top}
.pp .n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}.pp td:first-child{max-width:22em}.pp section{display:flex;flex-wrap:wrap;align-items:flex-start;gap:0 2.5em;border-top:2px solid rgba(128,128,128,.5);padding:.6em 0}.pp h3{flex-basis:100%;margin:0 0 .4em;overflow-wrap:anywhere}
.pp section>table:first-of-type{min-width:min(330px,100%)}.pp h3 small{font-weight:normal;color:#888}.pp figure{margin:0}.pp figcaption{display:flex;justify-content:space-between;width:260px;color:#888;font-size:.85em}.pp ul{padding-left:1.2em}.pp i{display:inline-block;height:.7em;background:#4878b0}
.pp .scrolls{overflow-x:auto;max-width:100%}.pp .moderate{background:rgba(255,190,0,.2)}.pp .strong,.pp .changed{background:rgba(220,60,60,.2)}</style>"""
#: Findings, classes, pairs of columns, broken images and values that a page names, and characters of names.
_FINDINGS, _CLASSES, _PAIRS, _BROKEN, _VALUES, _NAME = 100, 30, 20, 20, 8, 60


def profile_parts(facts: Mapping[str, Any], findings: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """The parts of a page, in which everything that is not ours is escaped."""
    yield STYLE
    yield f'<div class="pp"><p><b>{escape(headline(facts))}</b></p>'
    if findings:
        yield f"<h2>What stands out</h2><ul>{''.join(map(_finding, findings[:_FINDINGS]))}{_more(len(findings), _FINDINGS)}</ul>"
    yield "<h2>Columns</h2>"
    for name, column in facts["columns"].items():
        yield _column(name, column)
    if facts["label"]:
        yield _label(facts["label"], facts["rows"])
    if len(facts["correlations"]["columns"]) > 1:
        yield _correlations(facts["correlations"])
    yield f"<p><small>{escape(_notes(facts))}</small></p></div>"


def name_of(name: str) -> str:
    """A column's name, escaped and cut."""
    return escape(shortened(name, _NAME))


def _finding(one: Mapping[str, str]) -> str:
    column = f"<b>{name_of(one['column'])}</b> " if one["column"] else ""
    return f"<li>{column}{escape(shortened(one['says'], 200))}</li>"


def _more(there: int, shown: int) -> str:
    return f"<li>and {there - shown:,} more</li>" if there > shown else ""


def _column(name: str, column: Mapping[str, Any]) -> str:
    numbers = column.get("numbers") or column.get("lengths") or {}
    lines = [("missing", share(column["missing"], column["rows"]))]
    if "distinct" in column:
        lines.append(("distinct", distinct_words(column)))
    if column.get("empty"):
        lines.append(("empty", share(column["empty"], column["rows"])))
    if "images" in column:
        lines.append(("broken images", share(column["images"]["broken"], column["rows"])))
    if numbers.get("infinite"):
        lines.append(("infinite", share(numbers["infinite"], column["rows"])))
    if numbers.get("count"):
        lines += _number_lines(numbers, column["rows"])
        if "numbers" in column:
            lines += [(word, share(numbers[word], column["rows"])) for word in ("zeros", "negative")]
    head = f"<h3>{name_of(name)} <small>{escape(column['type'])}{_lengths_of(column)}</small></h3>"
    pictures = [_histogram(numbers), _values(column)]
    return f"<section>{head}{table(lines)}{''.join(pictures)}{_images(column)}</section>"


def _lengths_of(column: Mapping[str, Any]) -> str:
    units = {"text": "characters", "bytes": "bytes", "image": "bytes of files", "list": "values"}
    return f" · figures of lengths, in {units[column['kind']]}" if column["kind"] in units else ""


def _number_lines(numbers: Mapping[str, Any], rows: int) -> list[tuple[str, str]]:
    quantiles, outliers = numbers["quantiles"], numbers["outliers"]
    about = "" if numbers["quantiles_exact"] else ", to 1 in a million"
    low, high = (figure(quantiles[one]) for one in ("0.05", "0.95"))
    beyond = share(outliers["low"] + outliers["high"], rows)
    return [
        ("least … greatest", f"{figure(numbers['least'])} … {figure(numbers['greatest'])}"),
        ("mean ± deviation", f"{figure(numbers['mean'])} ± {figure(numbers['deviation'])}"),
        (f"quartiles{about}", " · ".join(figure(quantiles[one]) for one in ("0.25", "0.5", "0.75"))),
        ("5 % … 95 %", f"{low} … {high}"),
        ("outliers (1.5 IQR)", beyond if outliers["exact"] else f"about {beyond}"),
    ]


def table(lines: Sequence[tuple[str, str]]) -> str:
    """Two columns of words and figures."""
    return f"<table>{''.join(f'<tr><td>{escape(word)}<td class=n>{escape(said)}' for word, said in lines)}</table>"


def _histogram(numbers: Mapping[str, Any]) -> str:
    found = numbers.get("histogram", {"counts": []})
    if len(found["counts"]) < 2:
        return ""
    ends = "".join(f"<span>{figure(numbers[end])}</span>" for end in ("least", "greatest"))
    return f"<figure>{svg.bars([found['counts']])}<figcaption>{ends}</figcaption></figure>"


def _values(column: Mapping[str, Any]) -> str:
    values = column.get("values")
    if not values or not values["most_frequent"] or values["most_frequent"][0][1] < 2:
        return ""
    shown = values["most_frequent"][:_VALUES]
    lines = "".join(
        f"<tr><td>{escape(shortened(value))}<td class=n>{share(count, column['rows'])}<td><i style=width:{round(80 * count / shown[0][1])}px></i>"
        for value, count in shown
    )
    left = "" if values["all"] and len(values["most_frequent"]) <= _VALUES else "<tr><td>…<td><td>"
    return f"<table>{lines}{left}</table>"


def _images(column: Mapping[str, Any]) -> str:
    if not (images := column.get("images")):
        return ""
    often = images.get("most_frequent", [])[:_VALUES]
    sizes = [(f"{one['width']} × {one['height']}", share(one["count"], column["rows"])) for one in often]
    broken = [(shortened(one["where"], _NAME), shortened(one["found"], _NAME)) for one in images["broken_first"]]
    return table(sizes) + (table(broken[:_BROKEN]) if broken else "")


def _label(label: Mapping[str, Any], rows: int) -> str:
    most = max((count for _, count in label["counts"]), default=1)
    lines = "".join(
        f"<tr><td>{escape(shortened(value))}<td class=n>{share(count, rows)}<td><i style=width:{round(160 * count / most)}px></i>"
        for value, count in label["counts"][:_CLASSES]
    )
    more = f"<tr><td>and {label['classes'] - _CLASSES:,} more<td><td>" if label["classes"] > _CLASSES else ""
    balance = "" if label["balance"] is None else f"; balance {label['balance']:.2f} (1: all classes are as many)"
    return f"<h2>Classes of {name_of(label['column'])}: {label['classes']:,}{balance}</h2><table>{lines}{more}</table>"


def _correlations(found: Mapping[str, Any]) -> str:
    names, figures = found["columns"], found["figures"]
    pairs = [
        (abs(figure_), names[row], names[column], figure_)
        for row in range(len(names))
        for column in range(row)
        if (figure_ := figures[row][column]) is not None
    ]
    strongest = sorted(pairs, key=lambda pair: -pair[0])[:_PAIRS]
    lines = [(f"{shortened(one, 40)} · {shortened(other, 40)}", f"{value:+.3f}") for _, one, other, value in strongest]
    drawn = svg.heatmap([shortened(name) for name in names], figures)
    return f"<h2>Correlations (Pearson)</h2><section><div class=scrolls>{drawn}</div>{table(lines)}</section>"


def _notes(facts: Mapping[str, Any]) -> str:
    notes = [f"Figures of {facts['digest']}; deviations are divided by n; quantiles are between ranks by a line."]
    if any(not column["distinct"]["exact"] for column in facts["columns"].values() if "distinct" in column):
        notes.append("More than 65,536 distinct values are estimated, by the smallest hashes, to about 1 in 256.")
    if not facts["duplicates"]["exact"]:
        notes.append(f"Copies of rows are estimated by {facts['duplicates']['told_apart']:,} different rows.")
    if left := facts["duplicates"]["left_out"]:
        notes.append(f"Rows are compared without {', '.join(shortened(name, _NAME) for name in left[:20])}.")
    if left := facts["correlations"]["left_out"]:
        notes.append(f"Correlations leave out {len(left):,} columns, behind the first 100.")
    return " ".join(notes)
