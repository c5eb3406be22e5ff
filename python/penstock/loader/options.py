"""What a loader is told: one class that checks it. The signature of `Loader` is made of it, and so is what a child process is told."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from penstock.core.arguments import is_one_of, is_whole
from penstock.core.errors import PlanError
from penstock.core.files.cache_dirs import size_of
from penstock.core.messages import quoted
from penstock.core.verbs.options_by_name import Function
from penstock.deliver.ranks import Ranks
from penstock.deliver.structure import FRAMES
from penstock.observe.bad_samples import BadSamples, OnError
from penstock.observe.exporters.protocol import Exporter
from penstock.observe.quarantine import Quarantine

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # where type checkers are, with defaults; Python has them since 3.13

    BatchT = TypeVar("BatchT", default=dict[str, Any])
else:
    from typing import TypeVar

    BatchT = TypeVar("BatchT")

To: TypeAlias = Literal["numpy", "torch", "jax"]
Structures: TypeAlias = Literal["dict", "tuple", "namedtuple", "tensordict", "arrow", "pandas", "polars"]


#: Options that whoever makes the batches must know, in a child process too. The others are of ranks, of what the user gets, and of the ledger.
_SENT = {"sent": True}


@dataclass(frozen=True, kw_only=True, eq=False)
class LoaderOptions:
    """All options of a `Loader`, in the order of its signature; its docstring says what each does. PlanError for what cannot work."""

    to: To = "numpy"
    device: Any = None
    pin_memory: bool = False
    convert: Mapping[str, Any] | None = None
    structure: Structures | type[Any] = "dict"
    rank: int | None = None
    world_size: int | None = None
    process_group: Any = None
    mesh: Any = None
    data_dims: str | Sequence[str] | None = None
    equal_parts: bool | None = None
    memory: int | str | None = field(default=None, metadata=_SENT)
    cpus: int | None = field(default=None, metadata=_SENT)
    prefetch: int | None = field(default=None, metadata=_SENT)
    epochs: int | None = field(default=None, metadata=_SENT)
    watchdog: float | None = field(default=60.0, metadata=_SENT)
    ledger: str | PathLike[str] | None = None
    on_error: OnError = field(default="raise", metadata=_SENT)
    max_errors: float = field(default=1000, metadata=_SENT)
    quarantine: str | PathLike[str] | None = field(default=None, metadata=_SENT)
    isolation: Literal["process"] | None = None
    observe: str | Exporter | Sequence[str | Exporter] = ()

    def __post_init__(self) -> None:
        if self.isolation is not None and not is_one_of(self.isolation, ("process",)):
            raise PlanError(f"isolation={quoted(self.isolation)}; choose 'process', or leave it out")
        for name, why in (
            ("cpus", "at least one thread must work"),
            ("prefetch", "at least one batch must be made ahead"),
            ("epochs", "at least one pass must be made"),
        ):
            value = getattr(self, name)
            if value is not None and (not is_whole(value) or value < 1):
                raise PlanError(f"{name}={quoted(value)}; {why}, and a whole number")
        self.exporters()
        if self.equal_parts is not None and not isinstance(self.equal_parts, bool):
            raise PlanError(f"equal_parts={quoted(self.equal_parts)}; choose True or False, or leave it out")
        if self.memory is not None and size_of(self.memory, "memory") < 1:
            raise PlanError(f"memory={quoted(self.memory)}; batches made ahead take some bytes, for example '4GB'")

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> LoaderOptions:
        """The options as they were passed, with the defaults of the others; TypeError for one that is not there."""
        known = {one.name for one in fields(cls)}
        for name in given:
            if name not in known:
                raise TypeError(f"Loader.__init__() got an unexpected keyword argument {name!r}")
        return cls(**given)

    @property
    def memory_bytes(self) -> int | None:
        """What may be held at most; None where this machine says."""
        return None if self.memory is None else size_of(self.memory, "memory")

    def bad_samples(self) -> BadSamples:
        """What notes and counts bad samples, as `on_error`, `max_errors` and `quarantine` say."""
        quarantine = None if self.quarantine is None else Quarantine(self.quarantine)
        return BadSamples(self.on_error, self.max_errors, quarantine)

    def exporters(self) -> tuple[str | Exporter, ...]:
        """What `observe` names, each once; PlanError for what is no exporter."""
        given = self.observe
        found = (given,) if isinstance(given, str) or not isinstance(given, Sequence) else tuple(given)
        for one in found:
            if not isinstance(one, str) and (
                isinstance(one, type) or not all(callable(getattr(one, name, None)) for name in ("write", "close"))
            ):
                raise PlanError(
                    f"observe={quoted(one)}; pass names of exporters, such as 'jsonl:run.jsonl', or objects with write(snapshot, events) and close()"
                )
        return tuple({one if isinstance(one, str) else id(one): one for one in found}.values())

    @property
    def is_frame(self) -> bool:
        """Whether batches are frames, which have nulls of their own."""
        return isinstance(self.structure, str) and self.structure in FRAMES

    def ranks(self, framework: Callable[[], tuple[int, int] | None]) -> Ranks:
        """What finds this rank. framework: the rank that the one which gets the batches knows."""
        return Ranks(
            rank=self.rank,
            world_size=self.world_size,
            process_group=self.process_group,
            mesh=self.mesh,
            data_dims=self.data_dims,
            framework=framework,
        )

    @property
    def sent(self) -> dict[str, Any]:
        """Those that a child process is told, by name."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.metadata.get("sent")}


class GivenOptions(TypedDict, total=False):
    """How type checkers see `LoaderOptions` in a call: they make no such class of another. tests/loader/test_options.py compares both."""

    to: To
    device: Any
    pin_memory: bool
    convert: Mapping[str, Any] | None
    rank: int | None
    world_size: int | None
    process_group: Any
    mesh: Any
    data_dims: str | Sequence[str] | None
    equal_parts: bool | None
    memory: int | str | None
    cpus: int | None
    prefetch: int | None
    epochs: int | None
    watchdog: float | None
    ledger: str | PathLike[str] | None
    on_error: OnError
    max_errors: float
    quarantine: str | PathLike[str] | None
    isolation: Literal["process"] | None
    observe: str | Exporter | Sequence[str | Exporter]


def shows_options(method: Function) -> Function:
    """The method; `help` and `inspect` show its **options one by one, with their defaults."""
    shown: Any = method
    own = [one for one in inspect.signature(method).parameters.values() if one.kind is not one.VAR_KEYWORD]
    options = [
        inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=one.type)
        for one in fields(LoaderOptions)
    ]
    shown.__signature__ = inspect.Signature([*own, *options], return_annotation="None")
    return method
