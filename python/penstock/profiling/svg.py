"""Drawings of a page: bars and squares, as few bytes as they can be."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

#: Of a drawing of bars, and of one square.
_WIDTH, _HEIGHT, _SIDE = 260, 70, 14
_COLOURS = ("#4878b0", "#e08030")
#: Shades of a correlation between 0 and 1.
_SHADES = 10


def bars(sides: Sequence[Sequence[float]]) -> str:
    """One histogram, or two over each other, each by its own whole."""
    drawn = []
    for place, counts in enumerate(sides):
        whole = sum(counts) or 1
        most = max((max(side, default=0) / (sum(side) or 1) for side in sides), default=0) or 1
        step = _WIDTH / max(1, len(counts))
        path = "".join(
            f"M{_short(number * step)} {_HEIGHT}v{_short(-max(1.0, count / whole / most * _HEIGHT))}h{_short(step * 0.94)}V{_HEIGHT}z"
            for number, count in enumerate(counts)
            if count
        )
        opacity = ' opacity=".6"' if len(sides) > 1 else ""
        drawn.append(f'<path fill="{_COLOURS[place]}"{opacity} d="{path}"/>')
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
    grid = f'<g transform="scale({_SIDE})"><path fill="#eee" d="M0 0V{len(names)}H{len(names)}z"/>{paths}</g>'
    return f'<svg {frame}>{grid}<g fill="currentColor">{labels}</g></svg>'


def _short(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
