"""The copy to the device limits."""

from __future__ import annotations

from penstock.observe.rules.finding import RuleFinding
from penstock.observe.rules.seen import SeenRun
from penstock.observe.snapshot import Advice


def device_copy(seen: SeenRun) -> RuleFinding | None:
    """The slowest stage copies."""
    slow = seen.slowest
    if seen.is_fed or slow.kind != "copy":
        return None
    advice = Advice(
        rule="device_copy",
        evidence=f"{slow.name!r} moves {slow.bytes_per_s / 1e6:,.0f} MB/s, and is busy {min(1.0, slow.busy):.0%} of the time",
        remedy="the copy to the device is the limit: deliver a smaller dtype (uint8 or bfloat16)",
        change='leave Normalize and ToDtype to the device (device=\'cuda\' does), or convert={"image": "bfloat16"}',
        gain=seen.gain(slow, factor=4.0),
    )
    return RuleFinding(bottleneck=slow.name, advice=advice)
