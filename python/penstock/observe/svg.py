"""Drawings of a page: bars, squares, lines and tracks, as few bytes as they can be.

Lines and tracks are as wide as the page, whatever that is: what is drawn is stretched, and its words stand beside it as text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

from penstock.observe.page import text

#: Of a drawing of bars, and of one square.
_WIDTH, _HEIGHT, _SIDE = 260, 70, 14
_COLOURS = ("#4878b0", "#e08030")
#: Shades of a correlation between 0 and 1.
_SHADES = 10


def bars(sides: Sequence[Sequence[float]]) -> str:
    """One histogram, or two, each by its own whole: the second as a line over the first."""
    most = max((max(side, default=0) / (sum(side) or 1) for side in sides), default=0) or 1
    drawn = []
    for place, counts in enumerate(sides):
        step = _WIDTH / max(1, len(counts))
        tall = [max(1.0, count / (sum(counts) or 1) / most * _HEIGHT) if count else 0.0 for count in counts]
        if place:
            path = "".join(f"V{_short(_HEIGHT - each)}h{_short(step)}" for each in tall)
            drawn.append(
                f'<path fill="none" stroke="{_COLOURS[1]}" stroke-width="2" d="M0 {_HEIGHT}{path}V{_HEIGHT}"/>'
            )
            continue
        path = "".join(
            f"M{_short(number * step)} {_HEIGHT}v{_short(-each)}h{_short(step * 0.94)}V{_HEIGHT}z"
            for number, each in enumerate(tall)
            if each
        )
        drawn.append(f'<path fill="{_COLOURS[0]}" d="{path}"/>')
    frame = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" role="img"'
    return f"<svg {frame}>{''.join(drawn)}</svg>"


def heatmap(names: Sequence[str], figures: Sequence[Sequence[float | None]]) -> str:
    """Correlations below the diagonal: blue for those that rise together, orange for the others. names: shown as they are."""
    squares: dict[tuple[bool, int], list[str]] = {}
    for row, line in enumerate(figures):
        for column, found in enumerate(line[:row]):
            if found is not None and (shade := round(abs(found) * _SHADES)):
                squares.setdefault((found < 0, shade), []).append(f"M{column} {row}h1v1h-1z")
    paths = "".join(
        f'<path fill="{_COLOURS[is_negative]}" opacity="{shade / _SHADES:g}" d="{"".join(parts)}"/>'
        for (is_negative, shade), parts in sorted(squares.items())
    )
    labels = "".join(
        f'<text x="{row * _SIDE + 4}" y="{row * _SIDE + 11}">{escape(name)}</text>' for row, name in enumerate(names)
    )
    side = len(names) * _SIDE
    frame = f'viewBox="0 0 {side + 200} {side}" width="{side + 200}" height="{side}" role="img" font-size="11"'
    grid = f'<g transform="scale({_SIDE})"><path fill="#888" opacity=".15" d="M0 0V{len(names)}H{len(names)}z"/>{paths}</g>'
    return f'<svg {frame}>{grid}<g fill="currentColor">{labels}</g></svg>'


#: Of what is stretched: its width and height, in units of its own.
_ACROSS, _DOWN = 1000, 100
#: Per cents of the width below which two marks have one name.
_NEAR = 2.5

CHART_STYLE = """.plot{position:relative;height:8.5em;margin:.8em 0 0 4.6em}.plot svg,.track svg{position:absolute;inset:0;width:100%;height:100%;overflow:visible}
.plot path,.plot line{vector-effect:non-scaling-stroke}.plot .y{position:absolute;right:100%;padding-right:.5em;transform:translateY(-50%)}
.chart{margin:0 0 1.4em}.chart .y,.chart .x,.chart .mark{font-size:.78em;color:var(--quiet);font-variant-numeric:tabular-nums;white-space:nowrap}.x{display:flex;justify-content:space-between;margin:.15em 0 0 5.9em}
.mark{position:absolute;top:-1.35em;transform:translateX(-50%)}.key{margin-left:1em;color:var(--quiet);font-size:.9em}.key i{display:inline-block;width:1em;height:.28em;margin-right:.35em;vertical-align:middle}
.track{position:relative;display:block;height:.85em;min-width:15em}.wide{overflow-x:auto}.wide td{overflow-wrap:break-word;max-width:26em}.wide td:first-child{min-width:6.5em}.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}"""


@dataclass(frozen=True)
class Line:
    """A line of a chart. colour: one of the page's. low, high: where there is a band around it."""

    name: str
    colour: str
    values: Sequence[float | None]
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Lines over time. at: a time for each value. most: where the scale ends, at least. unit, across: make words of a value and of a time; durations by default. marks: times that have a number above the chart."""

    title: str
    at: Sequence[float]
    lines: Sequence[Line]
    unit: Callable[[float], str]
    most: float = 0.0
    ends_at: float = 0.0
    across: Callable[[float], str] | None = None
    marks: Sequence[tuple[float, str]] = ()


def chart(told: Chart) -> str:
    """Its HTML."""
    seen = [value for line in told.lines for value in (*line.values, *line.high) if value is not None]
    top = nice(max([told.most, *seen, 0.0]))
    end = max(told.ends_at, told.at[-1] if told.at else 0.0) or 1.0
    across = [_ACROSS * min(1.0, max(0.0, at / end)) for at in told.at]
    drawn = "".join(
        f"{_band(across, line, top)}<path fill=none stroke-width=1.6 stroke=var(--{line.colour}) d='{_path(across, line.values, top)}'/>"
        for line in told.lines
    )
    grid = f"<path stroke=var(--line) d='M0 0H{_ACROSS}M0 {_DOWN / 2:g}H{_ACROSS}M0 {_DOWN}H{_ACROSS}'/>"
    marks = [(100 * at / end, word) for at, word in told.marks if 0 <= at <= end]
    named = _apart(marks)
    ticks = "".join(
        f"<path stroke=var(--quiet) stroke-dasharray=3 d='M{_short(10 * at)} 0V{_DOWN}'/>" for at, _ in marks
    )
    words = "".join(f"<span class=mark style=left:{_short(at)}%>{text(word)}</span>" for at, word in named)
    sides = "".join(
        f"<span class=y style=top:{100 - 50 * half}%>{text(told.unit(top * half / 2))}</span>" for half in (2, 1, 0)
    )
    keys = "".join(
        f"<span class=key><i style=background:var(--{line.colour})></i>{text(line.name)}</span>" for line in told.lines
    )
    times = "".join(f"<span>{text((told.across or duration)(end * part / 4))}</span>" for part in range(5))
    frame = f"<svg viewBox='0 0 {_ACROSS} {_DOWN}' preserveAspectRatio=none role=img aria-label='{text(told.title)}'>"
    plot = f"<div class=plot>{frame}{grid}{ticks}{drawn}</svg>{sides}{words}</div>"
    return f"<figure class=chart><figcaption><b>{text(told.title)}</b>{keys}</figcaption>{plot}<div class=x>{times}</div></figure>"


def _apart(marks: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    """Names of marks; those too near to be read beside each other are one: "2–4"."""
    groups: list[list[tuple[float, str]]] = []
    for mark in sorted(marks):
        if groups and mark[0] - groups[-1][-1][0] < _NEAR:
            groups[-1].append(mark)
        else:
            groups.append([mark])
    return [
        ((group[0][0] + group[-1][0]) / 2, group[0][1] if len(group) == 1 else f"{group[0][1]}–{group[-1][1]}")
        for group in groups
    ]


def _path(across: Sequence[float], values: Sequence[float | None], top: float) -> str:
    parts, pen = [], "M"
    for x, value in zip(across, values, strict=True):
        if value is None:
            pen = "M"
            continue
        parts.append(f"{pen}{_short(x)} {_short(_down(value, top))}")
        pen = "L"
    if len(parts) == 1:  # one point alone is seen as a short line
        parts.append("h4")
    return "".join(parts)


def _band(across: Sequence[float], line: Line, top: float) -> str:
    both = [
        (x, low, high)
        for x, low, high in zip(across, line.low, line.high, strict=False)
        if low is not None and high is not None
    ]
    if len(both) < 2:
        return ""
    above = "L".join(f"{_short(x)} {_short(_down(high, top))}" for x, _, high in both)
    below = "L".join(f"{_short(x)} {_short(_down(low, top))}" for x, low, _ in reversed(both))
    return f"<path fill=var(--{line.colour}) opacity=.18 d='M{above}L{below}z'/>"


def _down(value: float, top: float) -> float:
    return _DOWN * (1 - min(1.0, max(0.0, value / top)))


@dataclass(frozen=True)
class Piece:
    """A part of a track, from 0 to 1. colour: one of the page's. opacity: of 1."""

    begin: float
    end: float
    colour: str
    opacity: float = 1.0


def track(pieces: Iterable[Piece], words: str) -> str:
    """A bar in a table. words: what it says, for who does not see it."""
    drawn = "".join(
        f"<path fill=var(--{one.colour}) opacity={one.opacity:g} d='M{_short(_ACROSS * one.begin)} 0H{_short(_ACROSS * one.end)}V1H{_short(_ACROSS * one.begin)}z'/>"
        for one in pieces
        if one.end > one.begin
    )
    frame = f"viewBox='0 0 {_ACROSS} 1' preserveAspectRatio=none role=img aria-label='{text(words)}'"
    return f"<span class=track title='{text(words)}'><svg {frame}>{drawn}</svg></span>"


def nice(most: float) -> float:
    """Where a scale ends: nice(1730.0) == 2000.0, nice(0.0) == 1.0."""
    if not 0 < most < 1e300:
        return 1.0
    step = 10.0 ** math.floor(math.log10(most))
    return next(step * by for by in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12) if step * by >= most * 0.999)


def duration(seconds: float) -> str:
    """A time for people: duration(0.0021) == "2.1 ms", duration(75.0) == "1 min 15 s", duration(0.0) == "0 s", duration(90_000.0) == "25 h"."""
    if seconds < 60:
        for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
            if seconds >= size:
                return f"{seconds / size:.3g} {unit}"
        return "0 s" if seconds < 1e-9 else f"{seconds / 1e-6:.2g} µs"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min" if minutes else f"{hours:,} h"


def _short(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
