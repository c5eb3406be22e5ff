"""What becomes of columns: chosen, transformed, given to functions, kept."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.derived.row_cache.in_memory import MemoryCaches
from penstock.plan.nodes.functions import check_function
from penstock.plan.nodes.words import LATER

if TYPE_CHECKING:
    from penstock.plan.nodes import Node


@dataclass(frozen=True, kw_only=True)
class Select:
    """Some columns of the input, in this order."""

    input: Node
    columns: tuple[str, ...]
    verb: str = "select"


class Draws(NamedTuple):
    """What keys a chain's random choices: the number of its transform, a place among the chains of that, and the numbers of its ops."""

    transform: int
    place: int
    ops: tuple[int, ...]


class Follow(NamedTuple):
    """An op that draws what an op of another column draws: column and place in its chain of both."""

    column: str
    place: int
    leader: str
    leads: int


@dataclass(frozen=True, kw_only=True)
class Transform:
    """Chains of native ops, each for one column.

    drawn: "together" or "apart", as the user said. follows: what that makes of the ops, "together". draws: of each chain (see `rules.numbered`).
    channels_first: the columns of pixels that come so (see `lower.layouts`).
    """

    input: Node
    ops: tuple[tuple[str, tuple[Any, ...]], ...]
    drawn: str | None = field(default=None, metadata={"affects_result": False, "word": "draws"})
    follows: tuple[Follow, ...] = field(default=(), metadata={**LATER, "unsaid": True})
    draws: tuple[Draws, ...] = field(default=(), metadata={"affects_result": False})
    channels_first: tuple[str, ...] = field(default=(), metadata={"affects_result": False})
    verb: str = "transform"


@dataclass(frozen=True, kw_only=True)
class TransformBatch:
    """A native op on whole batches. draws: its number, which keys its random choices (see `rules.numbered`)."""

    input: Node
    op: Any
    draws: int = field(default=0, metadata={"affects_result": False})
    verb: str = "transform"


@dataclass(frozen=True, kw_only=True)
class Map:
    """A user's function: batch dict in, batch dict out. text: how it gets text. workers: where it runs, which changes no batch. draws: keys its random numbers."""

    input: Node
    function: Callable[..., Mapping[str, Any] | Awaitable[Mapping[str, Any]]]
    text: str = field(default="arrow", metadata=LATER)
    workers: str = field(default="thread", metadata={"affects_result": False})
    draws: int = field(default=0, metadata={"affects_result": False})
    verb: str = "map"

    def __post_init__(self) -> None:
        check_function(self)


@dataclass(frozen=True, kw_only=True)
class MapRows:
    """A user's function: one row's dict in, one row's dict out. workers: as of `Map`."""

    input: Node
    function: Callable[..., Mapping[str, Any] | Awaitable[Mapping[str, Any]]]
    workers: str = field(default="thread", metadata={"affects_result": False})
    draws: int = field(default=0, metadata={"affects_result": False})
    verb: str = "map_rows"

    def __post_init__(self) -> None:
        check_function(self)


@dataclass(frozen=True, kw_only=True)
class Cache:
    """Rows that were made once are kept. folder: None in memory, "" in the user's cache. size_bytes: at most, None for what there is room for.

    freeze_random: whether random ops below give the rows of epoch 0 for ever.
    """

    input: Node
    folder: str | None = field(default=None, metadata={"affects_result": False})
    size_bytes: int | None = field(default=None, metadata={"affects_result": False})
    freeze_random: bool = False
    in_memory: MemoryCaches = field(
        default_factory=MemoryCaches, compare=False, repr=False, metadata={"affects_result": False}
    )
    verb: str = "cache"
