"""Reading from a store limits: which of its limits was reached."""

from __future__ import annotations

from penstock.observe.rules.finding import RuleFinding
from penstock.observe.rules.seen import SeenRun
from penstock.observe.snapshot import Advice
from penstock.observe.store import FEW, judge_store

#: Of the requests; a store that answers so often with "slow down" is asked too much.
_THROTTLED = 0.02

_RULES = (
    (
        "too few requests",
        "few_requests",
        "prefetch= or memory= as large as fits, a larger batch, shuffle(mode='block')",
    ),
    (
        "there are too many small files",
        "small_files",
        "penstock write DATA OUT --format webdataset, or tar, TFRecord, MDS, Parquet",
    ),
    ("requests are small", "small_requests", "shuffle(mode='block'), or block_rows= larger"),
    ("the line", "saturated_line", 'dataset.cache_local("200GB")'),
)


def store(seen: SeenRun) -> RuleFinding | None:
    """A stage that reads is the slowest, or everything waits for the few requests that are on their way."""
    figures, slow = seen.snapshot.storage, seen.slowest
    if seen.is_fed or not figures or not figures["requests"]:
        return None
    reading = next((stage for stage in seen.snapshot.stages if stage.kind == "io"), slow)
    if slow.kind != "io" and slow.busy > 0.5:
        return None
    share = figures["retries"] / figures["requests"]
    if share >= _THROTTLED:
        advice = Advice(
            rule="throttled_store",
            evidence=f"{figures['retries']:,} of {figures['requests']:,} requests were made again; p50 of the latency {1000 * figures['latency_p50_s']:,.0f} ms, p99 {1000 * figures['latency_p99_s']:,.0f} ms",
            remedy="the store refuses requests: ask it for fewer and larger ones, spread the files over more prefixes, or keep them on the local disk",
            change="dataset.cache_local(\"200GB\"), shuffle(mode='block'), or larger files",
            gain=seen.gain(reading),
        )
        return RuleFinding(bottleneck=reading.name, advice=advice)
    plan = seen.snapshot.plan
    words = judge_store(figures, is_tuned=plan.prefetch is None and plan.memory is None)
    rule, change = next((rule, change) for begins, rule, change in _RULES if words.startswith(begins))
    factor = float("inf")
    if rule == "few_requests":
        factor = max(1.0, FEW * 2 * figures["in_flight_limit"] / max(0.5, figures["in_flight"]))
    advice = Advice(
        rule=rule, evidence=words.partition(";")[0], remedy=words, change=change, gain=seen.gain(reading, factor=factor)
    )
    return RuleFinding(bottleneck=reading.name, advice=advice)
