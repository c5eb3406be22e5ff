"""The stages of a pipeline: how their threads spend the time, the way of an item through them, and how long things take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.observe.page import table_of, text
from penstock.observe.run_html.words import cut
from penstock.observe.snapshot import Snapshot, StageFigures
from penstock.observe.svg import Piece, duration, track

#: Stages that a page shows.
MOST_STAGES = 40


def stages_part(now: Snapshot) -> str:
    """How the stages' threads spent their time, and the way of an item."""
    if not now.stages:
        return ""
    shown = now.stages[:MOST_STAGES]
    rows = [
        (
            f"{bold(stage.name, now)}<br><small>{text(stage.kind)}</small>",
            track(_shares(stage), _shares_words(stage)),
            f"{stage.busy:.0%}",
            f"{stage.samples_per_s:,.0f}",
            f"{stage.bytes_per_s / 1e6:,.1f}",
            f"{stage.threads:,}",
            f"{stage.queue_depth:,}{f' of {stage.queue_limit:,}' if stage.queue_limit else ''}",
        )
        for stage in shown
    ]
    key = "".join(
        f"<span class=key><i style=background:var(--{colour})></i>{word}</span>"
        for colour, word in (("blue", "busy"), ("orange", "waits for input"), ("rest", "waits for room behind it"))
    )
    more = f"<p class=note>and {len(now.stages) - len(shown):,} more</p>" if len(now.stages) > len(shown) else ""
    table = table_of(("stage", "its threads' time", ">busy", ">samples/s", ">MB/s", ">threads", ">queue"), rows)
    return f"<h2>Where the time goes</h2><p>{key}</p>{table}{more}{_waterfall(shown, now)}"


def bold(name: str, now: Snapshot) -> str:
    """The name of a stage; bold for the one that limits."""
    shown = text(cut(name))
    return f"<b>{shown}</b>" if name == now.bottleneck else shown


def _shares(stage: StageFigures) -> Iterator[Piece]:
    begin = 0.0
    for share, colour in (
        (stage.busy, "blue"),
        (stage.waiting_for_input, "orange"),
        (stage.waiting_for_output, "rest"),
    ):
        end = min(1.0, begin + max(0.0, share))
        yield Piece(begin, end, colour)
        begin = end


def _shares_words(stage: StageFigures) -> str:
    return f"{cut(stage.name)}: busy {stage.busy:.0%}, waits for input {stage.waiting_for_input:.0%}, for room {stage.waiting_for_output:.0%}"


def _waterfall(stages: Sequence[StageFigures], now: Snapshot) -> str:
    """An item's way: a stage begins where half of the items leave the one before, in as long as half of them take; lighter up to p95."""
    timed = [(stage.name, stage.item_s) for stage in stages if stage.item_s.count]
    if not timed:
        return ""
    begins = [sum(times.p50_s for _, times in timed[:place]) for place in range(len(timed))]
    end = max(begin + max(times.p50_s, times.p95_s) for begin, (_, times) in zip(begins, timed, strict=True)) or 1.0
    rows = [
        (
            bold(name, now),
            track(
                [
                    Piece(begin / end, (begin + times.p50_s) / end, "blue"),
                    Piece((begin + times.p50_s) / end, (begin + max(times.p50_s, times.p95_s)) / end, "blue", 0.35),
                ],
                f"{cut(name)}: half of the items within {duration(times.p50_s)}, 95 % within {duration(times.p95_s)}",
            ),
            duration(times.p50_s),
            duration(times.p95_s),
        )
        for begin, (name, times) in zip(begins, timed, strict=True)
    ]
    says = "Each stage begins where half of the items leave the one before; dark: as long as half of them take, light: up to 95 %."
    return f"<h3>The way of an item</h3><p class=note>{says}</p>{table_of(('stage', '', '>half', '>95 %'), rows)}"


def latencies_part(now: Snapshot) -> str:
    """Quantiles of what takes time."""
    rows = [("wait of the training for a batch", now.wait), ("step of the training", now.step)]
    rows += [(f"stage {cut(stage.name)}, an item", stage.item_s) for stage in now.stages[:MOST_STAGES]]
    cells = [
        (text(name), f"{times.count:,}", *(duration(times[share]) for share in ("p50_s", "p95_s", "p99_s", "most_s")))
        for name, times in rows
        if times.count
    ]
    if store := now.storage:
        cells.append(
            (
                "request to the store",
                f"{store.requests:,}",
                *map(duration, (store.latency_p50_s, store.latency_p95_s, store.latency_p99_s)),
                "",
            )
        )
    return (
        f"<h2>How long it takes</h2>{table_of(('', '>how many', '>p50', '>p95', '>p99', '>longest'), cells)}"
        if cells
        else ""
    )
