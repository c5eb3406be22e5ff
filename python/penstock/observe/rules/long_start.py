"""The first batch takes long, and those behind it do not."""

from __future__ import annotations

from penstock.observe.rules.finding import RuleFinding
from penstock.observe.rules.seen import SeenRun
from penstock.observe.snapshot import Advice

#: A start is long from so many seconds on, if it is this share of all the time.
_LONG_S, _SHARE = 2.0, 0.2

_CHANGES = {
    "index": "penstock index DATA, once, ahead; it lies in the user's cache from then on",
    "download": 'dataset.cache_local("200GB") on a disk that stays, or penstock index DATA ahead',
    "decompress": "store the shards uncompressed, or zstd in frames",
}


def long_start(seen: SeenRun) -> RuleFinding | None:
    """Setup is a fifth of the time so far or more: which part of it was longest. The gain is that of the rate over all this time."""
    snapshot = seen.snapshot
    made_s = sum(snapshot.plan.setup.values())
    start_s, all_s = made_s + snapshot.first_batch_s, made_s + snapshot.elapsed_s
    if not seen.is_fed or start_s < _LONG_S or start_s < _SHARE * all_s:
        return None
    parts = {
        f"the {what} took {seconds:.1f} s": seconds for what, seconds in snapshot.plan.setup.items() if seconds >= 0.1
    }
    slow = max(snapshot.stages, key=lambda stage: stage.item_s.most_s)
    if slow.item_s.most_s >= 0.5 * snapshot.first_batch_s:
        parts[f"the first item of {slow.name!r} {slow.item_s.most_s:.1f} s"] = slow.item_s.most_s
    longest = max(snapshot.plan.setup, key=lambda what: snapshot.plan.setup[what], default="")
    if longest and snapshot.plan.setup[longest] > 0.5 * start_s:
        remedy, change = "make it once, ahead", _CHANGES[longest]
    elif slow.kind == "python":
        remedy, change = (
            "load what the function needs before training, or smaller",
            "a class whose __init__ loads, in workers='process' once a process",
        )
    else:
        remedy, change = "what is opened first is large: smaller files, or an index of them", "penstock index DATA"
    advice = Advice(
        rule="long_start",
        evidence=", ".join([f"the first batch came after {start_s:.1f} s", *parts]),
        remedy=remedy,
        change=change,
        gain=all_s / max(0.05 * all_s, all_s - start_s),
    )
    return RuleFinding(
        bottleneck="start",
        advice=advice,
        head=f"The start is long, and data no bottleneck after it: the consumer waited {snapshot.first_batch_s:.1f} s for the first batch, and {seen.waited:.1%} of the time since then",
    )
