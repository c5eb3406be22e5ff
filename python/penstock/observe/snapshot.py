"""What a loader measured, at one moment: what `Loader.stats()` returns, and what the report, `penstock top` and every exporter read."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.observe.figure_groups import (
    CacheFigures,
    ErrorFigures,
    ExporterFigures,
    FunctionFigures,
    MemoryFigures,
    RayFigures,
    StorageFigures,
    TuningFigures,
)
from penstock.observe.named_figures import NamedFigures


@dataclass(frozen=True, kw_only=True)
class Times(NamedFigures):
    """Of how many things that took time 5 %, half, 95 % and 99 % took no longer, the longest, and their mean; in seconds."""

    count: int = 0
    mean_s: float = 0.0
    p5_s: float = 0.0
    p50_s: float = 0.0
    p95_s: float = 0.0
    p99_s: float = 0.0
    most_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Identity(NamedFigures):
    """Which loader it is. number: of its process, from 1. name: what it reads, without folders and secrets. training: what the ranks of one training have in common. started_at, in seconds since 1970.

    process_ticks: when its process began, in ticks since the machine did; 0 where the system does not tell.
    """

    pid: int = 0
    host: str = ""
    number: int = 0
    name: str = ""
    rank: int = 0
    world_size: int = 1
    started_at: float = 0.0
    training: str = ""
    process_ticks: int = 0


@dataclass(frozen=True, kw_only=True)
class StageFigures(NamedFigures):
    """A stage: how much it made, and the shares of its threads' time that it worked and waited, 0 … 1. kind: "io", "cpu", "python" or "copy".

    cpu: the share of the time that it worked in which its own threads had a CPU, and did not wait: for the interpreter, a store, native threads.
    """

    name: str
    kind: str
    threads: int
    items: int  # type: ignore[assignment]  # a figure, as its name says
    samples: int
    bytes: int
    samples_per_s: float
    bytes_per_s: float
    busy: float
    waiting_for_input: float
    waiting_for_output: float
    queue_depth: int
    queue_limit: int = 0
    cpu: float = 0.0
    item_s: Times = Times()


@dataclass(frozen=True, kw_only=True)
class PlanFacts(NamedFigures):
    """What the verdict knows of the plan. batch_rows: of this rank's full batch. prefetch, cpus, memory: as passed, None where they are tuned.

    files, file_bytes: how many, and their mean size. functions: where users' functions run, "thread" or "process", by stage. setup: seconds that this process spent on derived files
    so far, by kind: "index", "download", "decompress".
    """

    batch_rows: int = 0
    prefetch: int | None = None
    cpus: int | None = None
    memory: int | None = None
    isolation: bool = False
    files: int = 0
    file_bytes: float = 0.0
    functions: dict[str, str] = field(default_factory=dict)
    setup: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Advice(NamedFigures):
    """One thing to do. rule: which one found it. evidence: the figures that say so. change: the exact argument or command. gain: the rate after the change by the rate now; None where it cannot be told."""

    rule: str
    evidence: str
    remedy: str
    change: str = ""
    gain: float | None = None


@dataclass(frozen=True, kw_only=True)
class Machine(NamedFigures):
    """The machine since the last snapshot. cpu, process_cpu: shares of all cores, 0 … 1. io_wait: share of the time in which cores waited for disks.

    mean_…: the same since the pipeline was started. mean_children_cpu: of processes that this one started. usable_cores: those that this process may use. memory_bytes: what is
    resident of this process. interpreter_wait_s: how long a thread that wants Python's interpreter waits for it, in the median of the last looks.
    """

    cores: int = 0
    usable_cores: int = 0
    cpu: float = 0.0
    process_cpu: float = 0.0
    io_wait: float = 0.0
    mean_cpu: float = 0.0
    mean_process_cpu: float = 0.0
    mean_children_cpu: float = 0.0
    mean_io_wait: float = 0.0
    interpreter_wait_s: float = 0.0
    memory_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class Gpu(NamedFigures):
    """A GPU. kernel_time: the share of time in which any kernel ran, which says nothing of how much of the GPU it used; sm, tensor: activity, 0 … 1. None for what the driver does not tell."""

    index: int
    name: str
    kernel_time: float | None
    memory_bytes: int
    memory_limit_bytes: int
    power_w: float | None
    sm: float | None = None
    tensor: float | None = None


@dataclass(frozen=True, kw_only=True)
class RankFigures(NamedFigures):
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
class Snapshot(NamedFigures):
    """Figures since the running pipeline was started, or of the last that ran.

    at: when, in seconds since 1970. waited: the share of the time that the consumer waited for data. wait: how long it waited for each batch; step: how long it worked on each, both after the
    first one, which `first_batch_s` tells. steady_s, steady_samples_per_s: the time since the first batch came, without pauses between passes, and the rate of
    what the consumer took in it. step_cpu: the share of its steps in which the consumer's thread had a CPU. ready: the share of the times that a batch was asked for at which one was ready. room_waited_s: how long items waited for room in the
    memory that the loader may hold. lost_events: of the recorder, whose ring was full.
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
    steady_s: float = 0.0
    steady_samples_per_s: float = 0.0
    waited: float = 0.0
    waited_s: float = 0.0
    wait: Times = Times()
    step: Times = Times()
    step_cpu: float = 0.0
    ready: float = 0.0
    verdict: str = "No batch was made yet."
    bottleneck: str = "nothing"
    advice: tuple[Advice, ...] = ()
    decoders: dict[str, int] = field(default_factory=dict)
    storage: StorageFigures | None = None
    room_waited_s: float = 0.0
    memory: MemoryFigures = field(default_factory=MemoryFigures)
    errors: ErrorFigures = field(default_factory=ErrorFigures)
    stalls: int = 0
    tuning: TuningFigures = field(default_factory=TuningFigures)
    cache: tuple[CacheFigures, ...] = ()
    functions: tuple[FunctionFigures, ...] = ()
    stages: tuple[StageFigures, ...] = ()
    machine: Machine = Machine()
    plan: PlanFacts = PlanFacts()
    gpus: tuple[Gpu, ...] = ()
    ranks: tuple[RankFigures, ...] = ()
    exporters: dict[str, ExporterFigures] = field(default_factory=dict)
    lost_events: int = 0
    ray: RayFigures | None = None
