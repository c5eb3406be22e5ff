"""The ranks of a training, and which of them the others wait for."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.observe.page import table_of, text
from penstock.observe.run_html.words import cut, per_cent
from penstock.observe.run_words import rank_rows, ranks_words, straggler
from penstock.observe.snapshot import Snapshot
from penstock.observe.svg import Chart, Line, chart, duration

#: Ranks that a page names; all of them are in its chart.
_RANKS = 12


def ranks_part(now: Snapshot) -> str:
    """The spread in words, a chart of all, and those whose batches are ready least often."""
    if not (said := ranks_words(now)):
        return ""
    rows, slow = rank_rows(now), straggler(now)
    worst = sorted(rows, key=lambda one: (one[4], -one[3]))[:_RANKS]
    cells = [
        (
            f"<span class={'late' if one[0] == slow else 'rank'}>{one[0]:,}</span>",
            text(cut(one[1])),
            f"{one[2]:,.0f}",
            f"{one[3]:.1%}",
            f"{one[4]:.0%}",
            duration(one[5]),
        )
        for one in worst
    ]
    line = Line("waited for data", "orange", [one[3] for one in rows])
    ready = Line("batches ready", "green", [one[4] for one in rows])
    drawn = _by_rank(rows, [line, ready]) if len(rows) > _RANKS else ""
    head = f"<p class=note>the {len(worst)} whose batches are ready least often</p>" if len(rows) > len(worst) else ""
    return f"<h2>Ranks</h2><p>{text(said)}.</p>{drawn}{head}{table_of(('rank', 'host', '>samples/s', '>waited', '>ready', '>step, half'), cells)}"


def _by_rank(rows: Sequence[tuple[int, str, float, float, float, float]], lines: Sequence[Line]) -> str:
    """Drawn with at most 240 of them, the worst of neighbours."""
    group = -(-len(rows) // 240)
    places = range(0, len(rows), group)
    thin = [
        Line(
            one.name,
            one.colour,
            [
                (max if one.colour == "orange" else min)(v for v in one.values[at : at + group] if v is not None)
                for at in places
            ],
        )
        for one in lines
    ]
    told = Chart(
        title="by rank",
        at=[float(rows[at][0]) for at in places],
        lines=thin,
        unit=per_cent,
        most=1.0,
        across=lambda at: f"rank {at:,.0f}",
    )
    return chart(told)
