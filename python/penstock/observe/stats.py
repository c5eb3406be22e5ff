"""The figures of a run that `Loader.stats()` returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.observe.metrics import Meter
from penstock.observe.store import judge_store
from penstock.observe.verdict import judge


def run_stats(
    meters: Sequence[Meter],
    *,
    elapsed_s: float,
    waited_s: float,
    first_batch_s: float,
    decoders: Mapping[str, int],
    storage: dict[str, Any] | None,
    memory: dict[str, int],
) -> dict[str, Any]:
    """Totals, the verdict, and the figures of each stage.

    waited_s: how long the consumer waited. decoders: images by decoder. storage: see `store_figures`; None for local files.
    memory: see `Budget.figures`.
    """
    verdict = judge(meters, elapsed_s, waited_s, judge_store(storage) if storage else "")
    samples = meters[-1].rows
    return {
        "samples": samples,
        "elapsed_s": elapsed_s,
        "samples_per_s": samples / elapsed_s,
        "first_batch_s": first_batch_s,
        "waited": verdict.waited,
        "verdict": verdict.text,
        "bottleneck": verdict.bottleneck,
        "decoders": dict(decoders),
        "storage": storage,
        "memory": memory,
        "stages": [meter.snapshot(elapsed_s) for meter in meters],
    }


def no_stats() -> dict[str, Any]:
    """The same figures before anything ran."""
    rates = dict.fromkeys(("elapsed_s", "samples_per_s", "first_batch_s", "waited"), 0.0)
    return {
        "samples": 0,
        "verdict": "No batch was made yet.",
        "bottleneck": "nothing",
        "decoders": {},
        "storage": None,
        "memory": {"held_bytes": 0, "most_bytes": 0, "budget_bytes": 0},
        "stages": [],
        **rates,
    }
