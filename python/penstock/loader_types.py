"""How type checkers see a Loader: what it is made with, and what its batches are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from penstock.observe.bad_samples import OnError

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # where type checkers are, with defaults; Python has them since 3.13

    BatchT = TypeVar("BatchT", default=dict[str, Any])
else:
    from typing import TypeVar

    BatchT = TypeVar("BatchT")

To: TypeAlias = Literal["numpy", "torch", "jax"]
Structures: TypeAlias = Literal["dict", "tuple", "namedtuple", "tensordict", "arrow", "pandas", "polars"]


class LoaderOptions(TypedDict, total=False):
    """The arguments of Loader that do not decide the type of its batches."""

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
