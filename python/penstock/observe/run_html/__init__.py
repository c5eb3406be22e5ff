"""A run as HTML: the parts of one page, of a size that does not grow with the run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.core.messages import counted
from penstock.observe.history import History
from penstock.observe.page import table_of, text
from penstock.observe.run_html.machine import machine_part, rest_part, storage_part
from penstock.observe.run_html.over_time import over_time_part, rates_chart, waiting_chart
from penstock.observe.run_html.ranks import ranks_part
from penstock.observe.run_html.stages import latencies_part, stages_part
from penstock.observe.run_html.words import cut
from penstock.observe.run_words import differences, gain_of, headline, rate_of, rows_beside
from penstock.observe.snapshot import Snapshot
from penstock.observe.svg import CHART_STYLE, duration

STYLE = f"""<style>{CHART_STYLE}
.verdict{{border-left:.4em solid var(--orange);background:var(--fill);padding:.7em 1em;margin:0 0 1em;font-size:1.1em}}.verdict.fed{{border-color:var(--green)}}
.tiles{{display:flex;flex-wrap:wrap;gap:.7em;margin:0 0 1em}}.tiles div{{background:var(--fill);padding:.5em .9em;border-radius:6px;min-width:7.5em}}.tiles b{{display:block;font-size:1.3em;font-variant-numeric:tabular-nums}}
.advice li{{margin:0 0 .7em}}.gain{{color:var(--green);font-weight:600}}.note{{color:var(--quiet)}}.beside{{display:grid;grid-template-columns:repeat(auto-fit,minmax(20em,1fr));gap:0 2em}}.late{{color:var(--red);font-weight:600}}
section.loader{{border-top:2px solid var(--line);margin-top:2em}}</style>"""
#: What a page shows at most.
_LOADERS, _ADVICE = 6, 12


def run_parts(histories: Sequence[History], told: Sequence[str] = ()) -> Iterator[str]:
    """Of a run with one or several loaders. told: what is to be said of where it comes from."""
    yield STYLE
    yield from (f"<p class=warning>{text(one)}</p>" for one in told)
    for place, one in enumerate(histories[:_LOADERS]):
        if place:
            yield f"<section class=loader><h2>{_title(one, place + 1)}</h2>"
        yield from _loader(one)
        if place:
            yield "</section>"
    if left := histories[_LOADERS:]:
        yield f"<p class=note>and {counted(len(left), 'loader')} more, with {sum(one.samples for one in left):,} samples in all</p>"


def beside_parts(runs: Sequence[Sequence[History]], names: Sequence[str], told: Sequence[str] = ()) -> Iterator[str]:
    """Two runs side by side: the loader with the most samples of each."""
    yield STYLE
    yield from (f"<p class=warning>{text(one)}</p>" for one in told)
    one, other = (run[0] for run in runs)
    yield f"<h2>What is different</h2><ul>{''.join(f'<li>{text(said)}' for said in differences(one, other, names))}</ul>"
    rows = ([text(cell) for cell in row] for row in rows_beside(one, other))
    yield table_of(("", f">{cut(names[0])}", f">{cut(names[1])}", "difference"), rows)
    ends_at = max(one.seconds, other.seconds)
    most = max((point.rate(point.samples) for each in (one, other) for point in each.all_points()), default=0.0)
    drawn = [
        f"<div><h3>{text(cut(name))}</h3>{rates_chart(each, most, ends_at)}{waiting_chart(each, ends_at)}</div>"
        for name, each in zip(names, (one, other), strict=True)
    ]
    yield f"<h2>Over time</h2><div class=beside>{''.join(drawn)}</div>"
    for name, each in zip(names, (one, other), strict=True):
        yield f"<section class=loader><h2>{text(cut(name))}</h2>"
        yield from _loader(each)
        yield "</section>"


def _title(told: History, number: int) -> str:
    return text(cut(told.now.loader.name) or f"loader {number}")


def _loader(told: History) -> Iterator[str]:
    now = told.now
    yield f"<p class=note>{text(cut(now.loader.name))}{'; ' if now.loader.name else ''}{text(headline(told))}</p>"
    yield from (f"<p class=warning>{text(note)}</p>" for note in told.notes)
    yield f"<p class='verdict{' fed' if now.bottleneck == 'consumer' else ''}'>{text(now.verdict)}</p>"
    yield _tiles(told)
    yield _advice(now)
    yield stages_part(now)
    yield over_time_part(told)
    yield latencies_part(now)
    yield ranks_part(now)
    yield storage_part(now)
    yield machine_part(told)
    yield rest_part(now)


def _tiles(told: History) -> str:
    now = told.now
    shown = [
        ("samples/s", f"{rate_of(now):,.0f}"),
        ("waited for data", f"{now.waited:.1%}"),
        ("batches ready", f"{now.ready:.0%}"),
        ("first batch", duration(now.first_batch_s)),
        ("step, half of them", duration(now.step.p50_s)),
        ("epoch · step", f"{now.epoch} · {now.step_number:,}"),
    ]
    return f"<div class=tiles>{''.join(f'<div><b>{text(value)}</b><small>{text(word)}</small></div>' for word, value in shown)}</div>"


def _advice(now: Snapshot) -> str:
    if not now.advice:
        return ""
    lines = []
    for one in now.advice[:_ADVICE]:
        change = f" <code>{text(one.change)}</code>" if one.change else ""
        gain = f" <span class=gain>{text(gain_of(one))}</span>" if gain_of(one) else ""
        lines.append(f"<li>{text(one.remedy)}{change}{gain}<br><small>{text(one.evidence)}</small>")
    return f"<h2>What to do</h2><ol class=advice>{''.join(lines)}</ol>"
