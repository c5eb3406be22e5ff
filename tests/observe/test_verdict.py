"""What limits a run, by figures that are given here."""

from __future__ import annotations

import pytest

from penstock.observe.metrics import Meter
from penstock.observe.verdict import Waits, judge


def meters(**busy_s: float) -> list[Meter]:
    found = [Meter(name, "cpu", 1) for name in busy_s]
    for meter, seconds in zip(found, busy_s.values(), strict=True):
        meter.add(rows=1, size_bytes=1, waited_s=0.0, busy_s=seconds, blocked_s=0.0, queue=0)
    return found


@pytest.mark.parametrize(
    ("waits", "bottleneck", "text"),
    [
        (Waits(0.1, 0.05, 100), "consumer", "the consumer waited for it 1.0% of the time"),
        (
            Waits(2.05, 2.0, 100),
            "consumer",
            "the consumer waited 2.0 s for the first batch, and 0.6% of the time since then",
        ),
        (
            Waits(5.0, 2.0, 100),
            "transform",
            "the stage 'transform', busy 80% of the time, while the consumer waited 50% of the time",
        ),
        (Waits(2.0, 2.0, 1), "transform", "while the consumer waited 20% of the time"),
    ],
)
def test_what_the_first_batch_takes_is_no_bottleneck(waits: Waits, bottleneck: str, text: str) -> None:
    """Once others came: opening files and compiling kernels is done by then."""
    found = judge(meters(read=1.0, transform=8.0), 10.0, waits)
    assert found.bottleneck == bottleneck
    assert text in found.text
    assert found.waited == pytest.approx(waits.all_s / 10)


def test_nothing_was_made() -> None:
    assert judge([Meter("read", "io", 1)], 1.0, Waits(0.5, 0.0, 0)).bottleneck == "nothing"
