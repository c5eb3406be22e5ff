"""What limits a training, in words: the first rule that finds something says it (see `rules`)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.core.messages import plain_signs
from penstock.observe.rules import RULES
from penstock.observe.rules.finding import RuleFinding
from penstock.observe.rules.seen import SeenRun
from penstock.observe.snapshot import Advice, Snapshot

#: Pieces of advice that are given at once.
_MOST = 4
#: A smaller gain is no reason to change anything.
_WORTH = 0.03
#: Of the first batch alone, before which files are opened and kernels compiled.
_ONLY_FIRST = (
    "Only the first batch was made, which comes later than others: what limits the rate shows from the second on."
)
#: The rule that always finds something.
_LAST = "slow_stage"


@dataclass(frozen=True)
class Verdict:
    """What limits a run. bottleneck: a stage's name, "consumer", "start", "rank 3", … advice: what to do, what helps most first."""

    bottleneck: str
    text: str
    advice: tuple[Advice, ...] = ()


def judge(snapshot: Snapshot) -> Verdict:
    """By the figures of a snapshot."""
    if not any(stage.items for stage in snapshot.stages):
        return Verdict("nothing", "No batch was made yet.")
    seen = SeenRun(snapshot)
    findings = [found for rule in RULES if (found := rule(seen)) is not None]
    first = findings[0]
    if not snapshot.wait.count and not seen.is_fed and first.bottleneck != "start":
        return Verdict("nothing", _ONLY_FIRST)
    others = [one for one in findings[1:_MOST] if one.advice.rule != _LAST]
    advice = tuple(_plain(one.advice) for one in (first, *others))
    return Verdict(first.bottleneck, plain_signs(_text(seen, first)), advice)


def judged(snapshot: Snapshot) -> Snapshot:
    """The snapshot with its verdict. Actors of Ray are judged by what they did (`penstock.ray.figures`)."""
    if snapshot.ray is not None and not snapshot.stages:
        return snapshot
    verdict = judge(snapshot)
    return replace(snapshot, verdict=verdict.text, bottleneck=verdict.bottleneck, advice=verdict.advice)


def gain_words(gain: float | None) -> str:
    """What a change gains, as people say it: gain_words(1.4) == "up to 40% more"; "" for what cannot be told, or is not worth it."""
    if gain is None or gain < 1 + _WORTH:
        return ""
    return f"up to {gain:.1f} times the rate" if gain >= 2 else f"up to {gain - 1:.0%} more"


def _plain(advice: Advice) -> Advice:
    """What a rule says, for users who print it on any output."""
    evidence, remedy, change = map(plain_signs, (advice.evidence, advice.remedy, advice.change))
    return replace(advice, evidence=evidence, remedy=remedy, change=change)


def _text(seen: SeenRun, found: RuleFinding) -> str:
    advice = found.advice
    head = found.head or seen.head_of(next(stage for stage in seen.snapshot.stages if stage.name == found.bottleneck))
    expected = gain_words(advice.gain)
    over = "over all the time so far, " if found.bottleneck == "start" else ""
    gains = f"; {over}it gains {expected}" if expected and found.bottleneck != "consumer" else ""
    return f"{head}; {advice.remedy}{gains}."
