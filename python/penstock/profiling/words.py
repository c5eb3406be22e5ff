"""Figures of a profile in a few words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.core.messages import counted, printable

_BLOCKS = " ▁▂▃▄▅▆▇█"
#: Bars that a terminal shows, values that it names, and characters of each.
_BARS, _NAMED, _LONGEST = 20, 3, 24
#: Whole numbers below this are written out.
_PLAIN = 10**9


def figure(value: float | None) -> str:
    """A number for people: figure(1234.5678) == "1,235", figure(2) == "2", figure(None) == ""."""
    if value is None:
        return ""
    if isinstance(value, int) and abs(value) < _PLAIN:
        return f"{value:,}"
    if value and not 1e-3 <= abs(value) < 1e7:
        return f"{value:.4g}"
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def share(count: int, rows: int) -> str:
    """A count, and its share: share(1, 8) == "1 (12.5%)", share(0, 8) == "0"."""
    return f"{count:,} ({count / rows:.1%})" if count and rows else f"{count:,}"


def distinct_words(column: Mapping[str, Any]) -> str:
    """How many different values there are: "about" where they were too many to count."""
    distinct = column.get("distinct")
    return "" if distinct is None else f"{'' if distinct['exact'] else 'about '}{distinct['count']:,}"


def value_words(column: Mapping[str, Any], rows: int) -> str:
    """The most frequent values; "" where none comes more than once."""
    values = column.get("values")
    if values is None or not values["most_frequent"] or values["most_frequent"][0][1] < 2:
        return ""
    named = [f"{shortened(value)} {count / rows:.1%}" for value, count in values["most_frequent"][:_NAMED]]
    return ", ".join([*named, *(["…"] if not values["all"] or len(values["most_frequent"]) > _NAMED else [])])


def shortened(value: Any, longest: int = _LONGEST) -> str:
    """A value as it is named."""
    text = printable(figure(value) if isinstance(value, float) else repr(value) if value == "" else str(value))
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def found_words(images: Mapping[str, Any]) -> str:
    """What is known of a column of images."""
    often = images.get("most_frequent") or [None]
    size = f"images, mostly {often[0]['width']} × {often[0]['height']}" if often[0] else "images"
    return f"  {size}, {counted(images['broken'], 'broken one')}"


def bars_text(numbers: Mapping[str, Any]) -> str:
    """A histogram in a few characters; "" for what has none."""
    counts = numbers.get("histogram", {}).get("counts", [])
    if len(counts) < 2:
        return ""
    together = -(-len(counts) // _BARS)  # bars of equal width
    summed = [sum(counts[place : place + together]) for place in range(0, len(counts), together)]
    most = max(summed)
    return "".join(_BLOCKS[0 if not count else max(1, round(8 * count / most))] for count in summed)
