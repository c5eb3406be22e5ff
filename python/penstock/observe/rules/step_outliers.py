"""Now and then a step, or a wait, takes much longer than others."""

from __future__ import annotations

from penstock.observe.rules.finding import RuleFinding
from penstock.observe.rules.seen import SeenRun
from penstock.observe.snapshot import Advice

#: An outlier is so many times the median, and all of them together take this share of the time.
_TIMES, _SHARE, _LEAST = 5.0, 0.1, 20
#: Shorter steps are no training: an interrupt of the machine is an outlier among them.
_SHORT_S = 0.001


def step_outliers(seen: SeenRun) -> RuleFinding | None:
    """Steps, without data, that take long: their mean is far above their median."""
    step = seen.snapshot.step
    if step.count < _LEAST or step.most_s < max(_SHORT_S, _TIMES * step.p50_s) or step.p50_s <= 0:
        return None
    lost = 1 - step.p50_s / step.mean_s
    if lost < _SHARE or not seen.is_fed:
        return None
    advice = Advice(
        rule="step_outliers",
        evidence=f"half of the steps take {1000 * step.p50_s:,.3g} ms, the longest {1000 * step.most_s:,.3g} ms, the mean {1000 * step.mean_s:,.3g} ms",
        remedy="some steps of the training take much longer than others: look at what they do besides, such as checkpoints, evaluation, logging or garbage collection",
        change="save in another thread; gc.freeze() before training",
        gain=1 / (1 - lost),
    )
    return RuleFinding(
        bottleneck="consumer",
        advice=advice,
        head=f"Data is not the bottleneck: the consumer waited for it {seen.waited:.1%} of the time; but some of its steps take {step.most_s / step.p50_s:,.0f} times as long as others",
    )
