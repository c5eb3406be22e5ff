"""Which figures of a snapshot are exported, under which name, unit and labels: one table for every exporter of numbers.

Labels have few values: numbers of loaders, ranks, GPUs and caches, names of stages. Names of files are never labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from penstock.observe.named_figures import NamedFigures
from penstock.observe.snapshot import Snapshot, StageFigures, Times

#: Names and values, in one order for each figure.
Labels: TypeAlias = tuple[tuple[str, str], ...]
#: The values of a figure in a snapshot.
Values: TypeAlias = Iterable[tuple[Labels, float | None]]

#: A stage is named after a user's function, whose name may be endless.
_LONGEST_LABEL = 80


@dataclass(frozen=True)
class Figure:
    """A figure. unit: "seconds", "bytes", "ratio" (0 … 1), "watts" or "". is_charted: whether it is drawn beside a training's losses, where hundreds would hide these."""

    name: str
    kind: Literal["counter", "gauge"]
    unit: str
    about: str
    read: Callable[[Snapshot], Values]
    is_charted: bool = True

    @property
    def full_name(self) -> str:
        """With unit and kind, as Prometheus wants it: "waited_seconds_total"."""
        unit = f"_{self.unit}" if self.unit and not self.name.endswith(f"_{self.unit}") else ""
        return f"{self.name}{unit}{'_total' if self.kind == 'counter' else ''}"


def _one(name: str) -> Callable[[Snapshot], Values]:
    return lambda snapshot: [((), getattr(snapshot, name))]


def _of(group: str, name: str) -> Callable[[Snapshot], Values]:
    """A figure of one of the snapshot's groups; of no store there is none."""

    def read(snapshot: Snapshot) -> Values:
        found: NamedFigures | None = getattr(snapshot, group)
        return [] if found is None else [((), found[name])]

    return read


def _machine(name: str) -> Callable[[Snapshot], Values]:
    return lambda snapshot: [((), getattr(snapshot.machine, name))] if snapshot.machine.cores else []


def _gpu(name: str) -> Callable[[Snapshot], Values]:
    return lambda snapshot: [((("gpu", str(gpu.index)),), getattr(gpu, name)) for gpu in snapshot.gpus]


def stages_of(snapshot: Snapshot) -> Iterator[tuple[str, StageFigures]]:
    """Stages with names that stand once: a second "transform" is "transform 2"."""
    seen: dict[str, int] = {}
    for stage in snapshot.stages:
        name = stage.name[:_LONGEST_LABEL]
        seen[name] = number = seen.get(name, 0) + 1
        yield (name if number == 1 else f"{name} {number}"), stage


def _stage(name: str) -> Callable[[Snapshot], Values]:
    return lambda snapshot: [
        ((("stage", shown), ("kind", stage.kind)), getattr(stage, name)) for shown, stage in stages_of(snapshot)
    ]


def _percentiles(times: Times, labels: Labels = ()) -> Values:
    if times.count:
        for name, value in (("p50", times.p50_s), ("p95", times.p95_s), ("p99", times.p99_s), ("max", times.most_s)):
            yield (*labels, ("percentile", name)), value


def _stage_times(snapshot: Snapshot) -> Values:
    for shown, stage in stages_of(snapshot):
        yield from _percentiles(stage.item_s, (("stage", shown), ("kind", stage.kind)))


def _latency(snapshot: Snapshot) -> Values:
    if (store := snapshot.storage) is not None:
        for share in ("p50", "p95", "p99"):
            yield (("percentile", share),), store[f"latency_{share}_s"]


def _decoders(snapshot: Snapshot) -> Values:
    return [((("decoder", name),), count) for name, count in snapshot.decoders.items()]


def _caches(name: str) -> Callable[[Snapshot], Values]:
    return lambda snapshot: [((("cache", str(number)),), one[name]) for number, one in enumerate(snapshot.cache)]


def _bottleneck(snapshot: Snapshot) -> Values:
    yield (("stage", snapshot.bottleneck[:_LONGEST_LABEL]),), 1


FIGURES: tuple[Figure, ...] = (
    Figure("samples", "counter", "", "Samples that were made, of which some may lie ready.", _one("samples")),
    Figure("batches", "counter", "", "Batches that the consumer took.", _one("batches")),
    Figure("delivered", "counter", "bytes", "Bytes of the batches that were made.", _one("bytes")),
    Figure("samples_per_second", "gauge", "", "Samples a second since the pipeline started.", _one("samples_per_s")),
    Figure("epoch", "gauge", "", "The epoch that is read.", _one("epoch")),
    Figure("step", "gauge", "", "The step of the epoch.", _one("step_number")),
    Figure("running", "gauge", "seconds", "Since the pipeline started.", _one("elapsed_s"), is_charted=False),
    Figure("first_batch", "gauge", "seconds", "Until the first batch was there.", _one("first_batch_s")),
    Figure("waited", "gauge", "ratio", "Share of the time that the consumer waited for data.", _one("waited")),
    Figure("waited", "counter", "seconds", "Time that the consumer waited for data.", _one("waited_s")),
    Figure("wait", "gauge", "seconds", "How long a batch was waited for.", lambda it: _percentiles(it.wait)),
    Figure("step_time", "gauge", "seconds", "How long the consumer worked on a batch.", lambda it: _percentiles(it.step)),
    Figure("ready", "gauge", "ratio", "Share of the times that a batch was ready when asked for.", _one("ready")),
    Figure("bottleneck", "gauge", "", "1 for the stage that limits the loader.", _bottleneck, is_charted=False),
    Figure("stalls", "counter", "", "Times that nothing was finished for long.", _one("stalls")),
    Figure("bad_samples", "counter", "", "Different bad samples that were met.", _of("errors", "samples")),
    Figure("memory_held", "gauge", "bytes", "Memory that items hold.", _of("memory", "held_bytes")),
    Figure("memory_budget", "gauge", "bytes", "Memory that items may hold.", _of("memory", "budget_bytes"), is_charted=False),
    Figure("tuning_changes", "counter", "", "Decisions of the tuner.", _of("tuning", "changes"), is_charted=False),
    Figure("images_decoded", "counter", "", "Images, by what decoded them.", _decoders, is_charted=False),
    Figure("storage_requests", "counter", "", "Requests to stores.", _of("storage", "requests")),
    Figure("storage_retries", "counter", "", "Requests that were made again after an error.", _of("storage", "retries")),
    Figure("storage_hedges", "counter", "", "Slow requests that were made a second time.", _of("storage", "hedges"), is_charted=False),
    Figure("storage_received", "counter", "bytes", "Bytes from stores.", _of("storage", "bytes")),
    Figure("storage_in_flight", "gauge", "", "Requests in flight, on average.", _of("storage", "in_flight")),
    Figure("storage_in_flight_limit", "gauge", "", "Requests that may be in flight.", _of("storage", "in_flight_limit"), is_charted=False),
    Figure("storage_latency", "gauge", "seconds", "How long an answer took.", _latency),
    Figure("disk_cache_hits", "counter", "", "Pieces of files that the cache on the disk had.", _of("storage", "cache_hits"), is_charted=False),
    Figure("disk_cache_misses", "counter", "", "Pieces that it did not have.", _of("storage", "cache_misses"), is_charted=False),
    Figure("disk_cache_saved", "counter", "bytes", "Bytes that were not downloaded.", _of("storage", "cache_bytes"), is_charted=False),
    Figure("row_cache_rows", "gauge", "", "Rows that a cache() holds.", _caches("rows"), is_charted=False),
    Figure("row_cache_size", "gauge", "bytes", "What they take.", _caches("size_bytes"), is_charted=False),
    Figure("row_cache_hits", "counter", "", "Rows that came out of it.", _caches("hits"), is_charted=False),
    Figure("row_cache_made", "counter", "", "Rows that were made for it.", _caches("made"), is_charted=False),
    Figure("stage_items", "counter", "", "Items that a stage finished.", _stage("items"), is_charted=False),
    Figure("stage_samples", "counter", "", "Samples that a stage finished.", _stage("samples"), is_charted=False),
    Figure("stage_made", "counter", "bytes", "Bytes that a stage made.", _stage("bytes"), is_charted=False),
    Figure("stage_samples_per_second", "gauge", "", "Samples a second of a stage.", _stage("samples_per_s"), is_charted=False),
    Figure("stage_busy", "gauge", "ratio", "Share of its threads' time that a stage worked.", _stage("busy")),
    Figure("stage_waiting_for_input", "gauge", "ratio", "Share of it that it waited for input.", _stage("waiting_for_input"), is_charted=False),
    Figure("stage_waiting_for_output", "gauge", "ratio", "Share of it that it waited for room.", _stage("waiting_for_output"), is_charted=False),
    Figure("stage_queue", "gauge", "", "Items behind a stage that nobody took yet.", _stage("queue_depth")),
    Figure("stage_queue_limit", "gauge", "", "Items that may lie there.", _stage("queue_limit"), is_charted=False),
    Figure("stage_threads", "gauge", "", "Threads of a stage.", _stage("threads")),
    Figure("stage_item", "gauge", "seconds", "How long a stage worked on an item.", _stage_times, is_charted=False),
    Figure("machine_cpu", "gauge", "ratio", "Share of all cores that are busy.", _machine("cpu")),
    Figure("process_cpu", "gauge", "ratio", "The same of this process.", _machine("process_cpu")),
    Figure("machine_io_wait", "gauge", "ratio", "Share of the time that cores waited for disks.", _machine("io_wait")),
    Figure("process_memory", "gauge", "bytes", "Memory of this process.", _machine("memory_bytes")),
    Figure("gpu_kernel_time", "gauge", "ratio", "Share of the time in which any kernel ran.", _gpu("kernel_time")),
    Figure("gpu_sm_active", "gauge", "ratio", "Share of the multiprocessors' time that they worked.", _gpu("sm")),
    Figure("gpu_tensor_active", "gauge", "ratio", "Share of the time that tensor cores worked.", _gpu("tensor")),
    Figure("gpu_memory", "gauge", "bytes", "Memory of a GPU in use.", _gpu("memory_bytes")),
    Figure("gpu_memory_limit", "gauge", "bytes", "Memory of a GPU.", _gpu("memory_limit_bytes"), is_charted=False),
    Figure("gpu_power", "gauge", "watts", "Power that a GPU takes.", _gpu("power_w")),
)  # fmt: skip
