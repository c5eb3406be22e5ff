"""One rank waits for its data, and all others for that rank."""

from __future__ import annotations

from statistics import median

from penstock.observe.rules.finding import RuleFinding
from penstock.observe.rules.seen import ENOUGH, SeenRun
from penstock.observe.snapshot import Advice


def slow_rank(seen: SeenRun) -> RuleFinding | None:
    """A rank waits 5 % of the time more than the median of the others; their steps hold its wait, in the collectives."""
    snapshot = seen.snapshot
    waited = {one.rank: (one.waited, one.host) for one in snapshot.ranks}
    waited[snapshot.loader.rank] = seen.waited, snapshot.loader.host
    if len(waited) < 2:
        return None
    slow = max(waited, key=lambda rank: waited[rank][0])
    share, host = waited[slow]
    usual = median(one for rank, (one, _) in waited.items() if rank != slow)
    if share - usual < ENOUGH or usual >= share / 2:
        return None
    gain = (1 - usual) / max(0.05, 1 - share)
    advice = Advice(
        rule="slow_rank",
        evidence=f"rank {slow} ({host}) waited {share:.0%} of the time for data, the others {usual:.0%}",
        remedy="compare that machine with the others: its disk, its link, what else runs there",
        change=f"loader.report() on rank {slow}",
        gain=gain,
    )
    return RuleFinding(
        bottleneck=f"rank {slow}",
        advice=advice,
        head=f"Rank {slow} is the slow one: it waited {share:.0%} of the time for data, the others {usual:.0%}, and they wait for it in every step",
    )
