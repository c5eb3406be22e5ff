"""The user's own function limits: it holds the interpreter, waits for something, or is called for every row."""

from __future__ import annotations

from penstock.observe.rules.finding import RuleFinding
from penstock.observe.rules.seen import ALL_BUSY, SeenRun
from penstock.observe.snapshot import Advice, StageFigures

#: Cores that a function's threads use: what computes, what waits, and what is no more than one.
_COMPUTES, _WAITS, _ONE = 0.6, 0.25, 1.3
#: A call for a row that takes less costs more than its work.
_SHORT_S = 100e-6


def function(seen: SeenRun) -> RuleFinding | None:
    """A function of Python is the slowest stage, or fills the interpreter."""
    slow = max(seen.functions, key=seen.cores_of) if seen.is_held else seen.slowest
    if seen.is_fed or slow.kind != "python" or (slow.busy < 0.5 and not seen.is_held):
        return None
    is_process = seen.snapshot.plan.functions.get(slow.name) == "process"
    cores = 0.0 if is_process else seen.cores_of(slow)
    row_s = slow.item_s.mean_s * slow.cpu / max(1.0, slow.samples / max(1, slow.items))
    if not is_process and cores < _WAITS:
        return RuleFinding(bottleneck=slow.name, advice=_waits(seen, slow))
    head = _held_head(seen, slow) if seen.is_held else ""
    if slow.name.startswith("map_rows") and row_s < _SHORT_S:
        return RuleFinding(bottleneck=slow.name, advice=_by_row(seen, slow, row_s), head=head)
    if seen.is_held or (not is_process and _COMPUTES <= cores < _ONE and seen.cpu < ALL_BUSY):
        return RuleFinding(bottleneck=slow.name, advice=_holds(seen, slow, cores), head=head)
    advice = Advice(
        rule="slow_function",
        evidence=f"{slow.name!r} takes {1000 * slow.item_s.p50_s:,.3g} ms for {slow.samples / max(1, slow.items):,.0f} rows, on {slow.threads} {'processes' if is_process else 'threads'}, and the CPUs are {seen.cpu:.0%} busy",
        remedy="your own Python function is the limit: work on whole batches with map instead of map_rows, and in NumPy, or with native ops",
        change="dataset.transform(…) with ops of ps.image, ps.text or ps.table, or NumPy on whole batches",
        gain=seen.gain(slow),
    )
    return RuleFinding(bottleneck=slow.name, advice=advice)


def _held_head(seen: SeenRun, slow: StageFigures) -> str:
    return (
        f"The bottleneck is {slow.name!r}, which holds Python's interpreter {min(1.0, seen.cores_of(slow)):.0%} of the time, so that steps wait for it, too, "
        f"while the consumer waited {seen.waited:.0%} of the time for data"
    )


def _waits(seen: SeenRun, slow: StageFigures) -> Advice:
    return Advice(
        rule="waiting_function",
        evidence=f"{slow.name!r} takes {1000 * slow.item_s.p50_s:,.3g} ms, {slow.cpu:.0%} of it on a CPU, on {slow.threads} threads",
        remedy="your own Python function is the limit, and it waits: have more calls at once, or ask for many rows in one",
        change=f"Loader(…, cpus={min(64, 4 * slow.threads)}), an async function, or one request a batch",
        gain=seen.gain(slow, factor=4.0),
    )


def _by_row(seen: SeenRun, slow: StageFigures, row_s: float) -> Advice:
    return Advice(
        rule="function_by_row",
        evidence=f"{slow.name!r} is called for every row and takes {1e6 * row_s:,.0f} µs of CPU each time",
        remedy="your own Python function is the limit: it is called for each row; work on whole batches with map instead of map_rows, and in NumPy",
        change=f"dataset.map(…) instead of .{slow.name.partition(' ')[0]}(…)",
        gain=seen.gain(slow),
    )


def _holds(seen: SeenRun, slow: StageFigures, cores: float) -> Advice:
    return Advice(
        rule="function_holds_interpreter",
        evidence=f"{slow.name!r} is busy {min(1.0, slow.busy):.0%} of the time on {slow.threads} threads, which together use {cores:.1f} of {seen.usable} cores",
        remedy="your own Python function is the limit, and holds the interpreter: run it in processes (workers='process'), or work in NumPy",
        change="dataset.map(…, workers='process')",
        gain=seen.gain(slow, factor=seen.usable / max(1.0, cores)),
    )
