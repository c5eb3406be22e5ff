"""What becomes of a node: its stages behind those of its inputs, and what comes out of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from penstock.core.columns.spec import Field, Spec
from penstock.core.limits import Limits, tightest
from penstock.plan.nodes import Map, MapRows, Read
from penstock.runtime.stage import Stage
from penstock.stages.moved_ops import MovedOps
from penstock.transform.function import BatchFunction


@dataclass(frozen=True, kw_only=True)
class Branch:
    """What comes out of a node: rows of the sources numbered [sources[0], sources[1]), by stages that work on what was read of them.

    spec: the columns; None behind a user's function, which alone knows them. limits: the tightest of the sources. leaf: the first source;
    leaf_of: the sources of columns that come from another one. indices: the columns that hold indices of a palette.

    widest: the columns at their widest on the way here; beside_bytes: of a row, what is in memory beside them while they change.
    functions: the users' functions on the way here. images: how many each transform decoded so far, by decoder. moved: the ops that are left to a device, by column.
    """

    stages: tuple[Stage, ...] = ()
    sources: tuple[int, int]
    spec: Spec | None
    limits: Limits
    leaf: Read
    leaf_of: Mapping[str, Read]
    indices: frozenset[str] = frozenset()
    widest: Spec
    beside_bytes: int = 0
    functions: tuple[tuple[Map | MapRows, BatchFunction], ...] = ()
    images: tuple[Callable[[], Counter[str]], ...] = ()
    moved: Mapping[str, MovedOps]

    @property
    def is_one_source(self) -> bool:
        """Whether all rows come from one source."""
        return self.sources[1] - self.sources[0] == 1

    @property
    def row_bytes(self) -> int:
        """Bytes of a row's columns at their widest, but for those of no fixed shape."""
        return sum(field.row_bytes for field in self.widest.values())

    def then(self, stage: Stage, fields: Spec | None = None) -> Branch:
        """Behind one stage more. fields: the columns that it adds, or makes anew."""
        added = fields or {}
        spec = None if self.spec is None else {**self.spec, **added}
        return replace(self, stages=(*self.stages, stage), spec=spec, widest={**self.widest, **added})


def together(branches: Sequence[Branch]) -> Branch:
    """What several branches make, before anything joins it; the spec is that of the first."""
    widest = dict[str, Field]()
    for name, field in chain.from_iterable(branch.widest.items() for branch in branches):
        if name not in widest or field.row_bytes > widest[name].row_bytes:
            widest[name] = field
    return replace(
        branches[0],
        stages=tuple(chain.from_iterable(branch.stages for branch in branches)),
        sources=(branches[0].sources[0], branches[-1].sources[1]),
        limits=tightest([branch.limits for branch in branches]),
        indices=frozenset[str]().union(*(branch.indices for branch in branches)),
        widest=widest,
        beside_bytes=sum(branch.beside_bytes for branch in branches),
        functions=tuple(chain.from_iterable(branch.functions for branch in branches)),
        images=tuple(chain.from_iterable(branch.images for branch in branches)),
        moved={name: moved for branch in branches for name, moved in branch.moved.items()},
    )
