"""What limits a training, by figures that are given here: the rules, one by one."""

from __future__ import annotations

import ast
import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import penstock.observe.rules as all_rules
from penstock.core.files.traffic import Traffic
from penstock.observe.report import report_text
from penstock.observe.rules import RULES
from penstock.observe.rules.seen import SeenRun
from penstock.observe.snapshot import (
    Gpu,
    Identity,
    Machine,
    PlanFacts,
    RankFigures,
    Snapshot,
    StageFigures,
    Times,
)
from penstock.observe.store import store_figures
from penstock.observe.verdict import judge, judged


def times(mean_s: float, count: int = 100, **other: float) -> Times:
    return Times(
        **{
            "count": count,
            "mean_s": mean_s,
            "p50_s": mean_s,
            "p95_s": mean_s,
            "p99_s": mean_s,
            "most_s": mean_s,
            **other,
        }
    )  # type: ignore[arg-type]


def stage(name: str, kind: str, busy: float, **other: Any) -> StageFigures:
    given = {
        "threads": 2,
        "items": 100,
        "samples": 3200,
        "bytes": 1,
        "samples_per_s": 1.0,
        "bytes_per_s": 1.0,
        "cpu": 1.0,
    }
    rest = {"waiting_for_input": 0.0, "waiting_for_output": 0.0, "queue_depth": 0, "item_s": times(0.01)}
    return StageFigures(name=name, kind=kind, busy=busy, **{**given, **rest, **other})


def run(*stages: StageFigures, wait_s: float = 0.01, step_s: float = 0.01, **other: Any) -> Snapshot:
    """A hundred batches, each awaited and worked on for so long; half of four cores in use."""
    given = {
        "elapsed_s": 100 * (wait_s + step_s),
        "waited": wait_s / (wait_s + step_s),
        "wait": times(wait_s),
        "step": times(step_s),
        "machine": Machine(cores=4, usable_cores=4, mean_cpu=0.5, mean_process_cpu=0.5),
        "plan": PlanFacts(batch_rows=128, files=3, file_bytes=1e9),
        "memory": {"held_bytes": 10, "most_bytes": 10, "budget_bytes": 1000},
        "first_batch_s": 0.1,
        "stages": stages or (stage("read", "io", 0.1), stage("transform", "cpu", 0.9)),
    }
    return Snapshot(**{**given, **other})  # type: ignore[arg-type]


def traffic(*, requests: int, each: int, latency_s: float, limit: int, file_bytes: float, retries: int = 0) -> Any:
    found = Traffic(most_in_flight=limit, retries=retries)
    for _ in range(requests):
        found.add(latency_s, each)
    return store_figures(found, 2.0, file_bytes)


BUSY = Machine(cores=4, usable_cores=4, mean_cpu=0.95, mean_process_cpu=0.95)
IDLE = Machine(cores=4, usable_cores=4, mean_cpu=0.05, mean_process_cpu=0.05)
ONE_CORE = Machine(cores=4, usable_cores=4, mean_cpu=0.27, mean_process_cpu=0.25)
READS = (stage("read", "io", 0.95), stage("transform", "cpu", 0.2))
MAPS = (stage("read", "io", 0.1), stage("map f", "python", 0.98, cpu=0.5, item_s=times(0.078)))
GPU = Gpu(index=0, name="g", kernel_time=0.6, memory_bytes=1, memory_limit_bytes=2, power_w=1.0)

#: A snapshot, the rule that must find what limits it, what the bottleneck is called, and the gain.
CASES: dict[str, tuple[Snapshot, str, str, float]] = {
    "the step": (run(wait_s=0.0001), "model", "consumer", 1.01),
    "decoding": (run(machine=BUSY, decoders={"jpeg": 9}), "decode", "transform", 2.0),
    "other ops": (run(machine=BUSY), "busy_cpus", "transform", 2.0),
    "few requests": (
        run(
            *READS,
            plan=PlanFacts(batch_rows=128, prefetch=1, files=1),
            machine=IDLE,
            storage=traffic(requests=100, each=8 << 20, latency_s=0.1, limit=64, file_bytes=1e9),
        ),
        "few_requests",
        "read",
        2.0,
    ),
    "nothing is busy, and requests are few": (
        run(
            stage("read", "io", 0.3),
            stage("transform", "cpu", 0.2),
            plan=PlanFacts(batch_rows=128, memory=1, files=1),
            machine=IDLE,
            storage=traffic(requests=100, each=8 << 20, latency_s=0.1, limit=64, file_bytes=1e9),
        ),
        "few_requests",
        "read",
        2.0,
    ),
    "a full line": (
        run(*READS, machine=IDLE, storage=traffic(requests=100, each=8 << 20, latency_s=1.0, limit=64, file_bytes=1e9)),
        "saturated_line",
        "read",
        2.0,
    ),
    "small files in a store": (
        run(*READS, machine=IDLE, storage=traffic(requests=900, each=4096, latency_s=0.1, limit=64, file_bytes=4096)),
        "small_files",
        "read",
        2.0,
    ),
    "small requests": (
        run(*READS, machine=IDLE, storage=traffic(requests=900, each=4096, latency_s=0.1, limit=64, file_bytes=1e9)),
        "small_requests",
        "read",
        2.0,
    ),
    "a store that refuses": (
        run(
            *READS,
            machine=IDLE,
            storage=traffic(requests=100, each=8 << 20, latency_s=1.0, limit=64, file_bytes=1e9, retries=30),
        ),
        "throttled_store",
        "read",
        2.0,
    ),
    "small files here": (
        run(*READS, plan=PlanFacts(batch_rows=128, files=50_000, file_bytes=900)),
        "small_local_files",
        "read",
        2.0,
    ),
    "a disk": (run(*READS, machine=replace(IDLE, mean_io_wait=0.4)), "slow_disk", "read", 2.0),
    "a stream": (run(*READS, plan=PlanFacts(batch_rows=128)), "slow_source", "read", 2.0),
    "a function that holds the interpreter": (
        run(*MAPS, wait_s=0.03, machine=ONE_CORE),
        "function_holds_interpreter",
        "map f",
        4.0,
    ),
    "a function that waits": (
        run(stage("read", "io", 0.1), stage("map f", "python", 0.98, cpu=0.01), machine=IDLE),
        "waiting_function",
        "map f",
        2.0,
    ),
    "a function for each row": (
        run(
            stage("read", "io", 0.1),
            stage("map_rows f", "python", 0.98, cpu=0.5, item_s=times(0.039), samples=64_000),
            machine=ONE_CORE,
        ),
        "function_by_row",
        "map_rows f",
        2.0,
    ),
    "a function on all cores": (
        run(
            stage("read", "io", 0.1),
            stage("map f", "python", 0.98, threads=4, cpu=0.95, item_s=times(0.078)),
            machine=BUSY,
        ),
        "slow_function",
        "map f",
        2.0,
    ),
    "the loop": (
        run(machine=replace(ONE_CORE, interpreter_wait_s=0.005), step_cpu=0.97),
        "held_interpreter",
        "interpreter",
        2.06,
    ),
    "other programs": (
        run(machine=Machine(cores=4, usable_cores=4, mean_cpu=0.99, mean_process_cpu=0.49)),
        "noisy_neighbour",
        "other programs",
        2.0,
    ),
    "tiny batches": (
        run(wait_s=0.0002, step_s=0.00001, plan=PlanFacts(batch_rows=1, files=1)),
        "tiny_batches",
        "batch size",
        64.0,
    ),
    "memory": (
        run(*READS, machine=IDLE, room_waited_s=1.5, memory={"held_bytes": 9, "most_bytes": 9, "budget_bytes": 10}),
        "memory_budget",
        "memory",
        2.0,
    ),
    "cpus=1": (
        run(machine=ONE_CORE, plan=PlanFacts(batch_rows=128, cpus=1, files=1)),
        "fixed_cpus",
        "transform",
        2.0,
    ),
    "prefetch=1": (
        run(
            stage("read", "io", 0.4),
            stage("map f", "python", 0.45, cpu=0.01),
            machine=IDLE,
            plan=PlanFacts(batch_rows=128, prefetch=1, files=1),
        ),
        "few_ahead",
        "prefetch",
        2.0,
    ),
    "the copy": (run(stage("read", "io", 0.1), stage("copy", "copy", 0.97)), "device_copy", "copy", 2.0),
    "the start": (
        run(wait_s=0.00001, step_s=0.001, first_batch_s=9.0, elapsed_s=10.0, plan=PlanFacts(setup={"index": 8.0})),
        "long_start",
        "start",
        18.0,
    ),
    "outliers": (
        run(wait_s=0.0001, step=times(0.02, p50_s=0.01, most_s=0.5)),
        "step_outliers",
        "consumer",
        2.0,
    ),
    "launches": (run(wait_s=0.0001, gpus=(GPU,)), "kernel_launches", "consumer", 1.5),
    "a slow rank": (
        run(
            wait_s=0.0001,
            ranks=tuple(
                RankFigures(
                    rank=rank, host="h", pid=rank, at=0.0, samples_per_s=1.0, waited=0.5 * (rank == 2), ready=1.0
                )
                for rank in (1, 2, 3)
            ),
        ),
        "slow_rank",
        "rank 2",
        2.0,
    ),
    "this rank is the slow one": (
        run(
            loader=Identity(rank=0),
            ranks=tuple(
                RankFigures(rank=rank, host="h", pid=rank, at=0.0, samples_per_s=1.0, waited=0.0, ready=1.0)
                for rank in (1, 2, 3)
            ),
        ),
        "slow_rank",
        "rank 0",
        2.0,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_has_its_verdict(name: str) -> None:
    snapshot, rule, bottleneck, gain = CASES[name]
    found = judge(snapshot)
    assert (found.advice[0].rule, found.bottleneck) == (rule, bottleneck), found.text
    for advice in found.advice:
        assert advice.evidence
        assert advice.remedy in found.text or advice is not found.advice[0]
        assert advice.change
    assert found.advice[0].gain == pytest.approx(gain, rel=0.02)


def test_every_rule_has_a_file_and_a_case() -> None:
    """A rule that no figures reach would never speak."""
    folder = Path(all_rules.__file__).parent
    files = {path.stem for path in folder.glob("*.py")} - {"__init__", "finding", "seen"}
    assert {rule.__name__ for rule in RULES} == files
    assert len({*RULES}) == len(RULES)
    reached = {rule for rule in RULES if any(rule(SeenRun(snapshot)) is not None for snapshot, *_ in CASES.values())}
    assert reached == {*RULES}
    words = {
        node.value.value
        for rule in RULES
        for node in ast.walk(ast.parse(inspect.getsource(inspect.getmodule(rule))))  # type: ignore[arg-type]
        if isinstance(node, ast.keyword) and node.arg == "rule" and isinstance(node.value, ast.Constant)
    }
    cased = {rule for _, rule, *_ in CASES.values()}
    assert words - {"slow_stage"} <= cased


@pytest.mark.parametrize("waited", [0.0, 0.01, 0.049])
@pytest.mark.parametrize("name", CASES)
def test_where_nobody_waits_no_verdict_is_of_data(name: str, waited: float) -> None:
    """Whatever stages, stores and machines do."""
    snapshot = CASES[name][0]
    fed = replace(
        snapshot,
        wait=times(waited),
        step=times(1 - waited),
        waited=waited,
        ranks=(),
        first_batch_s=0.0,
        plan=PlanFacts(),
    )
    assert judge(fed).bottleneck == "consumer"
    assert "Data is not the bottleneck" in judge(fed).text


def test_what_the_first_batch_takes_is_no_bottleneck() -> None:
    """Once others came: opening files and compiling kernels is done by then."""
    found = judge(run(wait_s=0.00006, first_batch_s=1.9, elapsed_s=10.0, waited=0.2))
    assert found.bottleneck == "consumer"
    assert "the consumer waited 1.9 s for the first batch, and 0.6% of the time since then" in found.text
    few = run(wait=times(0.0, count=1), step=times(0.01, count=1), waited=0.2)
    assert judge(few).bottleneck == "transform", "of a few, none is told apart"
    assert "waited 20% of the time" in judge(few).text


@pytest.mark.parametrize(("waited", "word"), [(0.06, "moderately"), (0.19, "moderately"), (0.21, "strongly")])
def test_how_much_it_limits_is_said(waited: float, word: str) -> None:
    assert f"limits training {word}" in judge(run(wait_s=waited, step_s=1 - waited)).text


def test_nothing_was_made() -> None:
    assert judge(Snapshot()).bottleneck == "nothing"
    assert judged(run(stage("read", "io", 0.0, items=0))).verdict == "No batch was made yet."


def test_the_gain_ends_at_the_next_limit() -> None:
    """The consumer's step, the next stage, or the cores: whichever comes first."""
    slow = stage("map f", "python", 0.98, cpu=0.0, threads=64)
    step, read = 0.001, stage("read", "io", 0.5)
    assert SeenRun(run(slow, wait_s=0.009, step_s=step, machine=IDLE)).gain(slow) == pytest.approx(10)
    assert SeenRun(run(read, slow, wait_s=0.009, step_s=step, machine=IDLE)).gain(slow) == pytest.approx(2)
    assert SeenRun(run(slow, wait_s=0.009, step_s=step)).gain(slow) == pytest.approx(2)
    assert SeenRun(run(slow, wait_s=0.009, step_s=step)).gain(slow, cores=1.9) == pytest.approx(10)
    assert SeenRun(run(slow, wait_s=0.009, step_s=step, machine=IDLE)).gain(slow, factor=3) == pytest.approx(3)
    tuned = {"values": {"read": {"value": 2, "most": 8, "unit": "reads", "fixed": False}}}
    assert SeenRun(run(read, slow, wait_s=0.009, step_s=step, machine=IDLE, tuning=tuned)).gain(slow) == pytest.approx(
        10
    )


@pytest.mark.parametrize("name", CASES)
def test_odd_figures_break_no_rule(name: str) -> None:
    """Zeros, from runs that have hardly begun, and names of files with braces."""
    snapshot = CASES[name][0]
    for other in (
        {"machine": Machine()},
        {"step": Times(), "wait": Times()},
        {"elapsed_s": 0.0},
        {"tuning": {}, "memory": {}},
        {"stages": tuple(replace(one, name="map {0}%s→", threads=0, samples=0) for one in snapshot.stages)},
    ):
        found = judged(replace(snapshot, **other))  # type: ignore[arg-type]
        assert found.verdict.endswith(".")


def test_a_loop_that_does_nothing_is_promised_no_gain_that_nobody_measured() -> None:
    """Its step is no limit, so that the arithmetic would say hundreds of times."""
    for found in (
        judge(run(wait_s=0.01, step_s=1e-6, machine=BUSY)),
        judge(run(wait_s=0.01, step_s=2e-5, machine=replace(IDLE, interpreter_wait_s=0.005), step_cpu=0.97)),
    ):
        assert found.advice[0].rule in ("busy_cpus", "held_interpreter")
        assert all(one.gain is None or one.gain <= 4 for one in found.advice)
        assert found.advice[0].gain is None


def test_more_cores_than_there_are_help_no_loop_that_holds_the_interpreter() -> None:
    machine = Machine(cores=4, usable_cores=4, mean_cpu=0.6, mean_process_cpu=0.6, interpreter_wait_s=0.005)
    found = judge(run(wait_s=0.02, step_s=0.005, machine=machine, step_cpu=0.97))
    assert found.advice[0].rule == "held_interpreter"
    assert found.advice[0].gain == pytest.approx(1 / 0.6)


@pytest.mark.parametrize(("value", "change"), [(4, "a larger batch, or prefetch=8"), (16, "a larger batch")])
def test_no_more_is_to_be_made_ahead_than_fits(value: int, change: str) -> None:
    tuning = {"values": {"prefetch": {"value": value, "most": 16, "unit": "items", "fixed": False}}}
    found = judge(run(stage("read", "io", 0.4), machine=IDLE, tuning=tuning))
    assert (found.advice[0].rule, found.advice[0].change) == ("few_ahead", change)


def test_the_first_batch_alone_says_nothing_of_what_limits() -> None:
    first = run(stage("read", "io", 0.2), wait=Times(), step=times(0.001, count=1), waited=0.99, machine=IDLE)
    assert judge(first).bottleneck == "nothing"
    assert "the first batch" in judge(first).text


def test_a_gain_that_is_none_is_not_told() -> None:
    (line,) = [one for one in report_text(judged(CASES["the step"][0])).splitlines() if "torch.profiler" in one]
    assert "more" not in line


def test_an_interrupt_among_steps_of_a_microsecond_is_no_outlier() -> None:
    found = judge(run(wait_s=0.0, step=times(1.3e-6, p50_s=1e-6, most_s=2.4e-5)))
    assert [one.rule for one in found.advice] == ["model"]


HELD = replace(ONE_CORE, interpreter_wait_s=0.005)


def holding(cores: float, **other: Any) -> Snapshot:
    """A function that uses so many cores while nearly every batch is ready, since steps wait for the interpreter as well: 20 ms each, of which 8 are their own."""
    maps = stage("map f", "python", 0.6, cpu=0.5, item_s=times(0.0404 * cores))
    given = {"wait_s": 0.0002, "step": times(0.02, p5_s=0.008), "machine": HELD, "step_s": 0.02}
    return run(stage("read", "io", 0.1), maps, **{**given, **other})


def test_a_function_that_fills_the_interpreter_is_found_though_nobody_waits_for_batches() -> None:
    """The steps hold the wait: theirs is the limit behind the remedy, and not what they take now."""
    found = judge(holding(0.95))
    assert (found.bottleneck, found.advice[0].rule) == ("map f", "function_holds_interpreter")
    assert found.advice[0].gain == pytest.approx(0.0202 / 0.008)
    assert "holds Python's interpreter 95% of the time, so that steps wait for it" in found.text


def test_a_loop_and_a_function_that_fill_the_interpreter_together() -> None:
    found = judge(holding(0.3, step_cpu=0.6))
    assert (found.bottleneck, found.advice[0].rule) == ("interpreter", "held_interpreter")
    assert found.advice[0].gain == pytest.approx(0.0202 / 0.012)


@pytest.mark.parametrize(
    "snapshot",
    [
        holding(0.5),
        holding(2.0),
        holding(0.95, machine=ONE_CORE),
        holding(0.95, machine=replace(BUSY, interpreter_wait_s=0.005)),
        holding(0.95, plan=PlanFacts(functions={"map f": "process"})),
        holding(0.95, plan=PlanFacts(isolation=True)),
        holding(0.0, step_cpu=1.0),
        holding(0.95, step=times(0.02, p5_s=0.0195)),
    ],
    ids=[
        "half",
        "lets others run",
        "no thread waits",
        "all cores are busy",
        "processes",
        "isolated",
        "the loop alone",
        "steps are not late",
    ],
)
def test_an_interpreter_that_is_not_full_is_no_bottleneck(snapshot: Snapshot) -> None:
    assert judge(snapshot).bottleneck == "consumer"


def test_the_start_is_said_to_be_gained_over_the_time_so_far() -> None:
    assert "over all the time so far, it gains up to 18.0 times the rate" in judge(CASES["the start"][0]).text


def test_batches_of_rows_that_are_read_are_not_called_tiny() -> None:
    """What reading costs grows with the rows."""
    found = judge(run(stage("read", "io", 0.95), wait_s=0.0002, step_s=0.00001, plan=PlanFacts(batch_rows=1, files=1)))
    assert found.advice[0].rule == "slow_disk"
