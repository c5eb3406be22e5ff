"""The groups of figures that a snapshot holds beside its stages: stores, memory, bad samples, what is tuned, caches, functions, exporters, and actors of Ray. Each equals the plain values that it tells."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.observe.named_figures import NamedFigures


@dataclass(frozen=True, kw_only=True, eq=False)
class StorageFigures(NamedFigures):
    """Requests to a store since the pipeline was started. in_flight: the mean; in_flight_limit: as many as may be. file_bytes: the mean size of the dataset's files.

    retries: after errors and refusals. hedges: of slow requests, made a second time. cache_…: pieces of files that the cache on the disk had or not, the bytes that
    were not downloaded, and pieces that were found damaged.
    """

    requests: int = 0
    retries: int = 0
    hedges: int = 0
    bytes: int = 0
    bytes_per_s: float = 0.0
    bytes_per_request: float = 0.0
    in_flight: float = 0.0
    in_flight_limit: int = 0
    latency_p50_s: float = 0.0
    latency_p95_s: float = 0.0
    latency_p99_s: float = 0.0
    file_bytes: float = 0.0
    cache_hits: int = 0
    cache_misses: int = 0
    cache_bytes: int = 0
    cache_damaged: int = 0
    cache_hit_rate: float = 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class MemoryFigures(NamedFigures):
    """What a loader's items hold now, the most that they held at once, and what they may hold; 0 before anything ran."""

    held_bytes: int = 0
    most_bytes: int = 0
    budget_bytes: int = 0

    def __bool__(self) -> bool:
        """Whether anything ran."""
        return bool(self.most_bytes or self.budget_bytes)


@dataclass(frozen=True, kw_only=True, eq=False)
class ErrorFigures(NamedFigures):
    """Different bad samples, how often any was met, and how many different ones each source has."""

    samples: int = 0
    met: int = 0
    sources: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class TunedNumber(NamedFigures):
    """A number that is tuned, the most that it may be, and what it counts. fixed: whether the user set it."""

    value: int = 0
    most: int = 0
    unit: str = ""
    fixed: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class TuningDecision(NamedFigures):
    """A number was changed, so long after the pipeline was started, and why."""

    at_s: float = 0.0
    knob: str = ""
    from_: int = 0
    to: int = 0
    why: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class TuningFigures(NamedFigures):
    """The numbers that are tuned, by name; how often one was changed, and the last decisions."""

    values: dict[str, TunedNumber] = field(default_factory=dict)  # type: ignore[assignment]  # a figure, as its name says
    changes: int = 0
    decisions: tuple[TuningDecision, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class CacheFigures(NamedFigures):
    """What a `cache()` holds, and where. hits: rows that came out of it; made: rows that were made for it. limit_bytes: what it may take."""

    where: str = ""
    rows: int = 0
    size_bytes: int = 0
    limit_bytes: int = 0
    hits: int = 0
    made: int = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class FunctionFigures(NamedFigures):
    """Where a function with workers="auto" runs, "thread" or "process", and why."""

    function: str = ""
    workers: str = ""
    why: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class ExporterFigures(NamedFigures):
    """What became of what an exporter was given. state: "running", "ended" or "dropped". left_out: snapshots that it was too slow for."""

    state: str = ""
    written: int = 0
    left_out: int = 0
    failures: int = 0
    error: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class RayNodeFigures(NamedFigures):
    """A machine whose actors make items: how many of both, bytes, and seconds for which its items were waited for."""

    actors: int = 0
    items: int = 0  # type: ignore[assignment]  # a figure, as its name says
    bytes: int = 0
    waited_s: float = 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class RayFigures(NamedFigures):
    """Actors of Ray, and items that they were asked for.

    users: loaders that share the actors. shared_items: items that actors gave to one more loader without making them again. leased_twice: items that another actor was asked for as well.
    """

    actors: int = 0
    actors_at_work: int = 0
    late_actors: int = 0
    lost_actors: int = 0
    users: int = 0
    leases: int = 0
    leased_twice: int = 0
    made_items: int = 0
    shared_items: int = 0
    compared_items: int = 0
    bytes_by_node: dict[str, int] = field(default_factory=dict)
    nodes: dict[str, RayNodeFigures] = field(default_factory=dict)
