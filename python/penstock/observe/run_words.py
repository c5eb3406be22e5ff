"""A run in words: what it was, what to do, its ranks, and how it differs from another run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from penstock.core.messages import counted
from penstock.observe.figure_groups import StorageFigures
from penstock.observe.history import History
from penstock.observe.rules.seen import SeenRun
from penstock.observe.rules.slow_rank import slow_rank
from penstock.observe.snapshot import Advice, Gpu, Snapshot, StageFigures
from penstock.observe.svg import duration
from penstock.observe.verdict import gain_words

#: Figures that differ by less are called equal.
_ALIKE = 0.03
#: A stage that takes less than this part of the slowest is not worth a sentence.
_SMALL = 0.05


def rate_of(now: Snapshot) -> float:
    """Samples a second, without the setup where that is known."""
    return now.steady_samples_per_s or now.samples_per_s


def gain_of(advice: Advice) -> str:
    """What to expect: gain_of(Advice(rule="", evidence="", remedy="", gain=1.4)) == "up to 40% more"; "" for what cannot be told, or is not worth it."""
    return gain_words(advice.gain)


def bytes_words(size_bytes: float) -> str:
    """Bytes: bytes_words(1.5e9) == "1.5 GB"."""
    return f"{size_bytes / 1e9:,.3g} GB" if size_bytes >= 1e9 else f"{size_bytes / 1e6:,.3g} MB"


def gpu_words(gpu: Gpu) -> str:
    """What a GPU does, each figure named for what it is; those that its driver does not tell are left out."""
    shares = (("any kernel ran", gpu.kernel_time), ("SMs at work", gpu.sm), ("tensor cores at work", gpu.tensor))
    said = [f"{word} {share:.0%}" for word, share in shares if share is not None]
    said.append(f"{gpu.memory_bytes / 1e9:,.1f} of {gpu.memory_limit_bytes / 1e9:,.1f} GB")
    return ", ".join([*said, *([f"{gpu.power_w:,.0f} W"] if gpu.power_w is not None else [])])


#: What limits a run, where it is no stage.
_LIMITS = {
    "consumer": "the training",
    "nothing": "not known yet",
    "start": "the start",
    "prefetch": "too little ahead",
    "interpreter": "the interpreter",
    "memory": "the memory budget",
    "batch size": "small batches",
}


def limit_words(now: Snapshot) -> str:
    """What limits it, in a few words: limit_words(Snapshot(bottleneck="consumer")) == "the training"."""
    return _LIMITS.get(now.bottleneck, now.bottleneck)


def headline(told: History) -> str:
    """Which loader it was, and for how long: one line."""
    now, loader = told.now, told.now.loader
    rank = f"rank {loader.rank} of {loader.world_size:,}" if loader.world_size > 1 else ""
    where = f"process {loader.pid} on {loader.host}" if loader.host else f"process {loader.pid}"
    again = f"its pipeline was started {told.restarts + 1:,} times" if told.restarts else ""
    ran = f"{duration(told.seconds)}, {counted(told.samples, 'sample')}, {counted(told.snapshots, 'snapshot')}"
    at = f"epoch {now.epoch}, step {now.step_number:,}"
    return "; ".join(filter(None, (rank, where, ran, at, again)))


def rank_rows(now: Snapshot) -> list[tuple[int, str, float, float, float, float]]:
    """Each rank with its host, rate, share of waiting, readiness and median step, this one with the others."""
    own = (now.loader.rank, now.loader.host, rate_of(now), now.waited, now.ready, now.step.p50_s)
    others = [(one.rank, one.host, one.samples_per_s, one.waited, one.ready, one.step_s.p50_s) for one in now.ranks]
    return sorted({one[0]: one for one in [*others, own]}.values())


def straggler(now: Snapshot) -> int | None:
    """The rank that the others wait for, by the rule that gives the verdict. None where all are alike.

    All ranks of a synchronous training have the same rate, whichever is slow, so that a rate says nothing.
    """
    found = slow_rank(SeenRun(now))
    return None if found is None else int(found.bottleneck.removeprefix("rank "))


def ranks_words(now: Snapshot) -> str:
    """The spread over ranks, and the straggler; "" for one rank."""
    rows = rank_rows(now)
    if len(rows) < 2:
        return ""
    waited = [one[3] for one in rows]
    said = f"{len(rows):,} of {now.loader.world_size:,} ranks: they waited {min(waited):.0%} … {max(waited):.0%} of the time"
    slow = straggler(now)
    if slow is None:
        return f"{said}; none holds the others up"
    host = next(one[1] for one in rows if one[0] == slow)
    return f"{said}; the others wait for rank {slow}{f' on {host}' if host else ''}, whose batches are late"


def facts_of(told: History) -> dict[str, Any]:
    """All figures, as plain values: the last snapshot, and what the times show."""
    return {
        "name": told.now.loader.name,
        "says": headline(told),
        "seconds": told.seconds,
        "samples": told.samples,
        "samples_per_s": rate_of(told.now),
        "snapshots": told.snapshots,
        "pipelines": told.restarts + 1,
        "notes": told.notes,
        "straggler": straggler(told.now),
        "over_time": [
            {
                "end_s": round(one.end_s, 3),
                "samples_per_s": round(one.rate(one.samples), 3),
                "waited": round(min(1.0, one.rate(one.waited_s)), 4),
                **{name: one.gauge(name) for name in one.gauges},
            }
            for one in told.all_points()
        ],
        "decisions": told.decisions,
        "last": told.now.as_dict(),
    }


def rows_beside(one: History, other: History) -> Iterator[tuple[str, str, str, str]]:
    """A row a figure: its name, what each run has, and the difference in words."""
    a, b = one.now, other.now
    yield "samples/s", f"{rate_of(a):,.0f}", f"{rate_of(b):,.0f}", times_words(rate_of(a), rate_of(b))
    yield "waited for data", f"{a.waited:.1%}", f"{b.waited:.1%}", _points_words(a.waited, b.waited)
    yield (
        "first batch",
        duration(a.first_batch_s),
        duration(b.first_batch_s),
        _less_words(a.first_batch_s, b.first_batch_s),
    )
    for name in ("wait", "step"):
        for share in ("p50_s", "p95_s", "p99_s"):
            before, after = a[name][share], b[name][share]
            yield f"{name} of a batch, {share[:-2]}", duration(before), duration(after), _less_words(before, after)
    yield "batches ready", f"{a.ready:.1%}", f"{b.ready:.1%}", _points_words(a.ready, b.ready)
    held = [each.memory.most_bytes for each in (a, b)]
    if any(held):
        yield "memory held, at most", f"{held[0] / 1e6:,.1f} MB", f"{held[1] / 1e6:,.1f} MB", _less_words(*held)
    if a.storage or b.storage:
        stores = [each.storage or StorageFigures() for each in (a, b)]
        for word, name in (("requests", "requests"), ("requests again", "retries")):
            before, after = (each[name] for each in stores)
            yield word, f"{before:,}", f"{after:,}", _less_words(before, after)


def differences(one: History, other: History, names: Sequence[str]) -> list[str]:
    """What is different, in sentences, the most important first. names: what the two runs are called."""
    a, b = one.now, other.now
    first, second = names
    said = [_rates(rate_of(a), rate_of(b), first, second)]
    if abs(a.waited - b.waited) >= 0.02:
        said.append(f"It waited for data {b.waited:.0%} of the time, {first} {a.waited:.0%}.")
    if a.bottleneck != b.bottleneck:
        said.append(f"What limits it is {limit_words(b)}; {first} is limited by {limit_words(a)}.")
    steps = [each.step.p50_s for each in (a, b)]
    if min(steps) > 0 and not 0.8 <= steps[1] / steps[0] <= 1.25:
        said.append(
            f"The training's own step takes {duration(steps[1])}, in {first} {duration(steps[0])} (half of the steps): {_less_words(*steps)}."
        )
    said += _stage_differences(a, b, first)
    if a.loader.world_size != b.loader.world_size:
        said.append(
            f"It has {counted(b.loader.world_size, 'rank')}, {first} {a.loader.world_size:,}: the rates are of one rank."
        )
    if a.loader.name != b.loader.name:
        said.append(
            f"They read different data: {b.loader.name or 'unnamed'}, and {a.loader.name or 'unnamed'} in {first}."
        )
    short = [name for name, told in zip(names, (one, other), strict=True) if told.now.batches < 20]
    if short:
        said.append(f"{' and '.join(short)} had fewer than 20 batches: the figures say little.")
    return said


def _rates(a: float, b: float, first: str, second: str) -> str:
    if not a or not b:
        return f"{first if not a else second} made no samples, so that no rates can be compared."
    said = times_words(a, b)
    verb = "is" if said.endswith("fast") else "has"
    return f"{second} {verb} {said} {'as' if verb == 'is' else 'of'} {first}: {b:,.0f} samples/s, and {a:,.0f} there."


def _stage_differences(a: Snapshot, b: Snapshot, first: str) -> Iterator[str]:
    before, after = ({stage.name: stage for stage in each.stages} for each in (a, b))
    if new := [name for name in after if name not in before]:
        yield f"New stages: {', '.join(new)}."
    if gone := [name for name in before if name not in after]:
        yield f"Stages that only {first} has: {', '.join(gone)}."
    most = max([_sample_s(stage) for stage in (*a.stages, *b.stages)], default=0.0)
    for name in [name for name in before if name in after]:
        old, new_ = before[name], after[name]
        took = [_sample_s(each) for each in (old, new_)]
        if min(took) > 0 and max(took) > _SMALL * most and not 0.8 <= took[1] / took[0] <= 1.25:
            yield f"The stage {name!r} takes {duration(took[1])} a sample, {duration(took[0])} in {first}: {_less_words(*took)}."
        if old.threads != new_.threads:
            yield f"The stage {name!r} has {counted(new_.threads, 'thread')}, {old.threads:,} in {first}."


def _sample_s(stage: StageFigures) -> float:
    return stage.item_s.p50_s * stage.items / max(1, stage.samples)


def times_words(before: float, after: float) -> str:
    """One rate by another: times_words(100.0, 140.0) == "1.4 times as fast", times_words(100.0, 30.0) == "30% of the rate"."""
    if not before or not after:
        return "not to be compared"
    ratio = after / before
    return (
        "as fast"
        if abs(ratio - 1) < _ALIKE
        else f"{ratio:.3g} times as fast"
        if ratio > 1
        else f"{ratio:.0%} of the rate"
    )


def _less_words(before: float, after: float) -> str:
    if not before or not after:
        return "" if before == after else f"{'from' if not before else 'to'} nothing"
    ratio = after / before
    if abs(ratio - 1) < _ALIKE:
        return "alike"
    return (
        f"{1 - ratio:.0%} less" if ratio < 1 else f"{ratio - 1:.0%} more" if ratio < 2 else f"{ratio:.3g} times as much"
    )


def _points_words(before: float, after: float) -> str:
    points = 100 * (after - before)
    return "alike" if abs(points) < 1 else f"{abs(points):.0f} points {'more' if points > 0 else 'less'}"
