"""What a run did over time, as charts, and what the tuner did meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.observe.history import History, Point
from penstock.observe.page import table_of, text
from penstock.observe.run_html.words import cut, per_cent, plain_number
from penstock.observe.svg import Chart, Line, chart, duration

#: Decisions of the tuner that a page names.
_DECISIONS = 24


def over_time_part(told: History) -> str:
    """All charts of rates, waiting and requests, with what the tuner did."""
    points = told.all_points()
    if len(points) < 2:
        return (
            "<p class=note>One snapshot has no course over time: observe='jsonl:run.jsonl' keeps it, and penstock report run.jsonl draws it.</p>"
            if told.snapshots < 2
            else ""
        )
    drawn = [rates_chart(told), waiting_chart(told)]
    if any(point.requests for point in points):
        lines = [
            Line("requests", "blue", [point.rate(point.requests) for point in points]),
            Line("made again, after errors and when throttled", "red", [point.rate(point.again) for point in points]),
        ]
        drawn.append(over_time_chart("requests a second", points, lines, plain_number))
    return f"<h2>Over time</h2>{''.join(drawn)}{_decisions(told)}"


def over_time_chart(title: str, points: Sequence[Point], lines: Sequence[Line], unit: Any, **more: Any) -> str:
    """A chart of lines that have a value for each point."""
    return chart(Chart(title=title, at=[point.end_s for point in points], lines=lines, unit=unit, **more))


def rates_chart(told: History, most: float = 0.0, ends_at: float = 0.0) -> str:
    """The rate, with the decisions of the tuner as marks. most, ends_at: where the scales end, at least."""
    points = told.all_points()
    line = Line(
        "samples/s", "blue", [p.rate(p.samples) for p in points], [p.low for p in points], [p.high for p in points]
    )
    marks = [(one["at_s"], str(number)) for number, one in enumerate(told.decisions[:_DECISIONS], 1)]
    return over_time_chart("samples a second", points, [line], plain_number, marks=marks, most=most, ends_at=ends_at)


def waiting_chart(told: History, ends_at: float = 0.0) -> str:
    """How long the training waited, and how often batches were ready."""
    points = told.all_points()
    lines = [
        Line("waited for data", "orange", [min(1.0, p.rate(p.waited_s)) for p in points]),
        Line("batches ready", "green", [min(1.0, p.ready / p.batches) if p.batches else None for p in points]),
    ]
    return over_time_chart(
        "waiting, and batches that were there when they were asked for",
        points,
        lines,
        per_cent,
        most=1.0,
        ends_at=ends_at,
    )


def _decisions(told: History) -> str:
    if not told.decisions:
        return ""
    shown = told.decisions[:_DECISIONS]
    rows = (
        (
            str(number),
            duration(one["at_s"]),
            text(cut(one["knob"])),
            text(f"{one['from']} → {one['to']}"),
            text(one["why"]),
        )
        for number, one in enumerate(shown, 1)
    )
    left = len(told.decisions) + told.decisions_left_out - len(shown)
    more = f"<p class=note>and {left:,} more</p>" if left else ""
    return f"<h3>What the tuner did</h3>{table_of(('', '>after', 'what', 'change', 'why'), rows)}{more}"


def gauges(
    points: Sequence[Point], title: str, wanted: Sequence[tuple[str, str, str]], unit: Any, most: float = 0.0
) -> str:
    """A chart of gauges, each with its name, a word and a colour; "" where no point has any of them."""
    lines = [Line(word, colour, [point.gauge(name) for point in points]) for name, word, colour in wanted]
    lines = [line for line in lines if any(value is not None for value in line.values)]
    return over_time_chart(title, points, lines, unit, most=most) if lines else ""
