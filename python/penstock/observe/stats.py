"""The figures of a run that `Loader.stats()` returns."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from penstock.observe.figure_groups import (
    CacheFigures,
    ErrorFigures,
    FunctionFigures,
    MemoryFigures,
    StorageFigures,
    TunedNumber,
    TuningDecision,
    TuningFigures,
)
from penstock.observe.metrics import Meter
from penstock.observe.snapshot import Snapshot


def run_stats(
    meters: Sequence[Meter],
    *,
    elapsed_s: float,
    waited_s: float,
    room_waited_s: float,
    first_batch_s: float,
    decoders: Mapping[str, int],
    storage: StorageFigures | None,
    memory: Mapping[str, int],
    errors: ErrorFigures,
    stalls: int,
    tuning: Mapping[str, Any],
    cache: Sequence[Mapping[str, Any]] = (),
    functions: Sequence[Mapping[str, str]] = (),
) -> Snapshot:
    """Totals, and the figures of each stage; `verdict.judged` adds what limits them.

    waited_s: by the consumer. room_waited_s: by items, for memory. decoders: images by decoder. storage: see `store_figures`; None for local files.
    memory: see `Budget.figures`. errors: see `BadSamples.figures`. stalls: how often the watchdog told
    that nothing was finished. tuning: see `all_tuning`. cache: what each `cache()` holds. functions: where those of workers="auto" run, and why.
    """
    samples = meters[-1].rows
    return Snapshot(
        at=time.time(),
        samples=samples,
        bytes=meters[-1].size_bytes,
        elapsed_s=elapsed_s,
        samples_per_s=samples / elapsed_s,
        first_batch_s=first_batch_s,
        waited=min(1.0, waited_s / max(elapsed_s, 1e-9)),
        waited_s=waited_s,
        room_waited_s=room_waited_s,
        decoders=dict(decoders),
        storage=storage,
        memory=MemoryFigures(**memory),
        errors=errors,
        stalls=stalls,
        tuning=_tuning(tuning),
        cache=tuple(CacheFigures(**one) for one in cache),
        functions=tuple(FunctionFigures(**one) for one in functions),
        stages=tuple(meter.snapshot(elapsed_s) for meter in meters),
    )


class LaneStageFigures(Protocol):
    """A lane stage: what runs below it and itself, and the lane stages below (see `stages.lanes.feed`)."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def run(self) -> Any:
        """Its run, which has meters, and for which the stage above waited `waited_s`; None if nothing runs."""

    @property
    def below(self) -> Sequence[LaneStageFigures]:
        """Those below."""


def all_meters(meters: Sequence[Meter], below: Sequence[LaneStageFigures]) -> list[Meter]:
    """The meters of a run, after those of the lane stages that it gets rows from. Waiting for these counts as waiting for input."""
    found: list[Meter] = []
    first, *others = meters
    waited_s = 0.0
    for stage in below:
        if (run := stage.run) is not None:
            *inner, last = all_meters(run.meters, stage.below)
            found += [replace(meter, name=f"{meter.name} -> {stage.name}") for meter in inner] + [last]
            waited_s += run.waited_s
    busy_s, waiting_s = first.busy_s - min(waited_s, first.busy_s), first.waiting_for_input_s + waited_s
    return [*found, replace(first, busy_s=busy_s, waiting_for_input_s=waiting_s), *others] if found else [*meters]


#: Decisions of all runs together that are told.
_DECISIONS = 32


def all_tuning(run: Any, below: Sequence[LaneStageFigures]) -> dict[str, Any]:
    """What is tuned of a run and of the lane stages that it gets rows from, whose numbers have their names; the last decisions of all, in order."""
    found: dict[str, Any] = run.tuning()
    for stage in below:
        if (inner := stage.run) is None:
            continue
        more, later_s = all_tuning(inner, stage.below), inner.started_at - run.started_at
        names = {name: f"{name} -> {stage.name}" for name in more["values"]}
        found["values"] |= {names[name]: value for name, value in more["values"].items()}
        found["changes"] += more["changes"]
        found["decisions"] += [
            {**one, "knob": names[one["knob"]], "at_s": round(one["at_s"] + later_s, 3)} for one in more["decisions"]
        ]
    found["decisions"] = sorted(found["decisions"], key=lambda one: one["at_s"])[-_DECISIONS:]
    return found


def _tuning(told: Mapping[str, Any]) -> TuningFigures:
    """What `all_tuning` tells."""
    return TuningFigures(
        values={name: TunedNumber(**one) for name, one in told["values"].items()},
        changes=told["changes"],
        decisions=tuple(
            TuningDecision(**{"from_" if name == "from" else name: value for name, value in one.items()})
            for one in told["decisions"]
        ),
    )
