"""What becomes of columns: chosen, transformed, given to functions, kept."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.core.columns.spec import Spec
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.derived.row_cache.in_memory import MemoryCaches
from penstock.plan.columns import check_names, made_by, needed_by, spec_of, transformed
from penstock.plan.node import Known, Verb
from penstock.plan.nodes.functions import FunctionVerb
from penstock.plan.nodes.words import LATER
from penstock.plan.tree import find_where, is_column_unknown


@dataclass(frozen=True, kw_only=True)
class Select(Verb):
    """Some columns of the input, in this order."""

    columns: tuple[str, ...]
    verb: str = "select"

    column_effect = "chosen"
    keeps_steps = True
    passes_pixels = True

    def spec_of_inputs(self, below: Sequence[Spec]) -> Spec:
        """Those of the source that are selected."""
        return {name: below[0][name] for name in self.columns if name in below[0]}

    def known_of(self, below: Sequence[Known]) -> Known:
        """The columns that are selected."""
        return {name: (below[0] or {}).get(name, "") for name in self.columns}

    def said(self) -> Iterator[tuple[str, str]]:
        """Which columns there are."""
        yield "columns", ", ".join(self.columns)

    def check(self) -> None:
        """PlanError for a column that is not there."""
        check_names(self.verb, self.columns, self.input)


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
class Transform(Verb):
    """Chains of native ops, each for one column.

    drawn: "together" or "apart", as the user said. follows: what that makes of the ops, "together". draws: of each chain (see `rules.numbered`).
    channels_first: the columns of pixels that come so (see `lower.layouts`).
    """

    ops: tuple[tuple[str, tuple[Any, ...]], ...]
    drawn: str | None = field(default=None, metadata={"affects_result": False, "word": "draws"})
    follows: tuple[Follow, ...] = field(default=(), metadata={**LATER, "unsaid": True})
    draws: tuple[Draws, ...] = field(default=(), metadata={"affects_result": False})
    channels_first: tuple[str, ...] = field(default=(), metadata={"affects_result": False})
    recipes: tuple[tuple[str, Any], ...] = field(default=(), metadata={"affects_result": False, "unsaid": True})
    verb: str = "transform"

    column_effect = "changed"
    keeps_steps = True
    computes = True
    may_fail = True

    @property
    def chains(self) -> tuple[tuple[str, tuple[Any, ...]], ...]:
        """Columns with their ops."""
        return self.ops

    def spec_of_inputs(self, below: Sequence[Spec]) -> Spec:
        """What its ops make of some, as far as these know without looking at data."""
        return transformed(self, below[0])

    def known_of(self, below: Sequence[Known]) -> Known:
        """What its ops make of some."""
        return None if below[0] is None else below[0] | {one: "" for names in made_by(self).values() for one in names}

    def check(self) -> None:
        """PlanError for a column that is not there, and for an op that cannot work on its column."""
        self._check_ops()
        if is_column_unknown(self.input):
            return  # a user's function may have made the column
        known = {*spec_of(self.input)}
        for name in needed_by(self):
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                raise PlanError(f"transform: no column {quoted(name)}; there are {', '.join(sorted(known))}{hint}")
        spec_of(self)

    def _check_ops(self) -> None:
        chains = dict(self.ops)
        for op in (op for _, ops in self.ops for op in ops):
            if isinstance(op, type) and hasattr(op, "beside"):
                raise PlanError(f"transform: {op.__name__} is a class of ops; write {op.__name__}()")
            if not hasattr(op, "beside"):
                raise PlanError(
                    f"transform: {quoted(op)} is not an op; use those of penstock.image, penstock.text or penstock.table, or map()"
                )
        self._check_made()
        for name, ops in self.ops:
            for op in ops:
                op.beside(name, chains)
                if getattr(op, "on_batch", False):
                    raise PlanError(
                        f"transform: {op} works on whole batches, not on {quoted(name)} alone; write batch(…).transform({type(op).__name__}(…))"
                    )

    def _check_made(self) -> None:
        """PlanError for a column that two chains make, or two ops of one beside its own."""
        makers = dict[str, str]()
        for name, made in made_by(self).items():
            for one in made:
                if one in makers:
                    raise PlanError(
                        f"transform: the ops on {quoted(makers[one])} and on {quoted(name)} make column {quoted(one)}; say into= of one, or write two transforms"
                    )
                makers[one] = name
        for name, ops in self.ops:
            beside = [one for op in ops for one in op.makes(name) if one != name]
            for one in beside:
                if beside.count(one) > 1:
                    raise PlanError(f"transform: two ops on {quoted(name)} make column {quoted(one)}; say into= of one")


@dataclass(frozen=True, kw_only=True, eq=False)
class MapVerb(FunctionVerb):
    """A verb whose function makes other columns of as many rows. draws: keys its random numbers."""

    draws: int = field(default=0, metadata={"affects_result": False})

    column_effect = "unknown"
    keeps_steps = True

    @property
    def recipes(self) -> tuple[tuple[str, Any], ...]:
        """What a function says that is the end of recipes."""
        return getattr(self.function, "recipes", ())


@dataclass(frozen=True, kw_only=True)
class TransformBatch(Verb):
    """A native op on whole batches. draws: its number, which keys its random choices (see `rules.numbered`)."""

    op: Any
    draws: int = field(default=0, metadata={"affects_result": False})
    verb: str = "transform"

    column_effect = "changed"
    keeps_steps = True
    computes = True

    def check(self) -> None:
        """PlanError where there are no batches of equally many rows, or the op cannot work on them."""
        batch = find_where(self.input, lambda node: node.is_batch)
        if batch is None or not batch.has_equal_steps:
            other = f"{batch.verb} has as many rows as fit" if batch else "there is no batch yet"
            raise PlanError(
                f"transform: {self.op} works on whole batches of equally many rows, and {other}; write batch(…).transform({type(self.op).__name__}(…))"
            )
        if not is_column_unknown(self.input):
            self.op.output("", spec_of(self.input))


@dataclass(frozen=True, kw_only=True)
class Map(MapVerb):
    """A user's function: batch dict in, batch dict out. text: how it gets text. workers: where it runs, which changes no batch."""

    function: Callable[..., Mapping[str, Any] | Awaitable[Mapping[str, Any]]]
    text: str = field(default="arrow", metadata=LATER)
    workers: str = field(default="thread", metadata={"affects_result": False})
    verb: str = "map"


@dataclass(frozen=True, kw_only=True)
class MapRows(MapVerb):
    """A user's function: one row's dict in, one row's dict out. workers: as of `Map`."""

    function: Callable[..., Mapping[str, Any] | Awaitable[Mapping[str, Any]]]
    workers: str = field(default="thread", metadata={"affects_result": False})
    verb: str = "map_rows"

    may_fail = True


@dataclass(frozen=True, kw_only=True)
class Cache(Verb):
    """Rows that were made once are kept. folder: None in memory, "" in the user's cache. size_bytes: at most, None for what there is room for.

    freeze_random: whether random ops below give the rows of epoch 0 for ever.
    """

    folder: str | None = field(default=None, metadata={"affects_result": False})
    size_bytes: int | None = field(default=None, metadata={"affects_result": False})
    freeze_random: bool = False
    in_memory: MemoryCaches = field(
        default_factory=MemoryCaches, compare=False, repr=False, metadata={"affects_result": False}
    )
    verb: str = "cache"

    def said(self) -> Iterator[tuple[str, str]]:
        """Whether random ops below are frozen."""
        yield "freeze_random", str(self.freeze_random)

    def check(self) -> None:
        """PlanError where rows are in batches already."""
        if (batch := find_where(self.input, lambda node: node.is_batch)) is not None:
            raise PlanError(
                f"cache: must come before {batch.verb}, since rows are kept one by one; write cache().{batch.verb}(…)"
            )
