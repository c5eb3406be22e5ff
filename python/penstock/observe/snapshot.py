"""What a loader measured, at one moment: what `Loader.stats()` returns, and what the report, `penstock top` and every exporter read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from typing import Any


class Figures:
    """Figures that are also found by name: `stats["samples"]` is `stats.samples`."""

    def __getitem__(self, name: str) -> Any:
        if name not in self.keys():
            raise KeyError(name)
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def keys(self) -> tuple[str, ...]:
        """The figures' names."""
        return tuple(one.name for one in fields(self))  # type: ignore[arg-type]  # all of them are dataclasses

    def as_dict(self) -> dict[str, Any]:
        """The same as plain values that JSON knows."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]  # as above


@dataclass(frozen=True, kw_only=True)
class Times(Figures):
    """Of how many things that took time half, 95 % and 99 % took no longer, and the longest; in seconds."""

    count: int = 0
    p50_s: float = 0.0
    p95_s: float = 0.0
    p99_s: float = 0.0
    most_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Identity(Figures):
    """Which loader it is. name: what it reads, without folders and secrets. started_at, in seconds since 1970."""

    pid: int = 0
    host: str = ""
    number: int = 0
    name: str = ""
    rank: int = 0
    world_size: int = 1
    started_at: float = 0.0


@dataclass(frozen=True, kw_only=True)
class StageFigures(Figures):
    """A stage: how much it made, and the shares of its threads' time that it worked and waited, 0 … 1. kind: "io", "cpu", "python" or "copy"."""

    name: str
    kind: str
    threads: int
    items: int
    samples: int
    bytes: int
    samples_per_s: float
    bytes_per_s: float
    busy: float
    waiting_for_input: float
    waiting_for_output: float
    queue_depth: int
    queue_limit: int = 0
    item_s: Times = Times()


@dataclass(frozen=True, kw_only=True)
class Advice(Figures):
    """One thing to do. rule: which one found it. evidence: the figures that say so. change: the exact argument or command. gain: the rate after the change by the rate now; None where it cannot be told."""

    rule: str
    evidence: str
    remedy: str
    change: str = ""
    gain: float | None = None


@dataclass(frozen=True, kw_only=True)
class Machine(Figures):
    """The machine since the last snapshot. cpu, process_cpu: shares of all cores, 0 … 1. io_wait: share of the time in which cores waited for disks."""

    cores: int = 0
    cpu: float = 0.0
    process_cpu: float = 0.0
    io_wait: float = 0.0
    memory_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class Gpu(Figures):
    """A GPU. kernel_time: the share of time in which any kernel ran, which says nothing of how much of the GPU it used; sm, tensor: activity, None where the driver does not tell."""

    index: int
    name: str
    kernel_time: float
    memory_bytes: int
    memory_limit_bytes: int
    power_w: float
    sm: float | None = None
    tensor: float | None = None


@dataclass(frozen=True, kw_only=True)
class RankFigures(Figures):
    """Another rank of the same training, as its process told last."""

    rank: int
    host: str
    pid: int
    at: float
    samples_per_s: float
    waited: float
    ready: float
    step_s: Times = Times()


@dataclass(frozen=True, kw_only=True)
class Snapshot(Figures):
    """Figures since the running pipeline was started, or of the last that ran.

    at: when, in seconds since 1970. waited: the share of the time that the consumer waited for data. wait: how long it waited for each batch; step: how long it worked on each, both after the
    first one, which `first_batch_s` tells. ready: the share of the times that a batch was asked for at which one was ready. dropped_events: of the recorder, whose ring was full.
    """

    at: float = 0.0
    loader: Identity = Identity()
    epoch: int = 0
    step_number: int = 0
    samples: int = 0
    batches: int = 0
    bytes: int = 0
    elapsed_s: float = 0.0
    samples_per_s: float = 0.0
    first_batch_s: float = 0.0
    waited: float = 0.0
    waited_s: float = 0.0
    wait: Times = Times()
    step: Times = Times()
    ready: float = 0.0
    verdict: str = "No batch was made yet."
    bottleneck: str = "nothing"
    advice: tuple[Advice, ...] = ()
    decoders: dict[str, int] = field(default_factory=dict)
    storage: dict[str, Any] | None = None
    memory: dict[str, int] = field(default_factory=dict)
    errors: dict[str, Any] = field(default_factory=dict)
    stalls: int = 0
    tuning: dict[str, Any] = field(default_factory=dict)
    cache: list[dict[str, Any]] = field(default_factory=list)
    functions: list[dict[str, str]] = field(default_factory=list)
    stages: tuple[StageFigures, ...] = ()
    machine: Machine = Machine()
    gpus: tuple[Gpu, ...] = ()
    ranks: tuple[RankFigures, ...] = ()
    exporters: dict[str, Any] = field(default_factory=dict)
    ray: dict[str, Any] | None = None
