"""What was counted of a plan whose epochs end where its data does, by data, plan and functions: kept from counting ahead, or from a pass on one rank."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TypeAlias

from penstock.core.columns.spec import Ids
from penstock.core.functions.held_generators import HeldGenerators
from penstock.core.functions.random_use import mentions_generators
from penstock.core.kernels import native_version
from penstock.derived.row_counts import RowCount, keep_count, kept_count
from penstock.order.rows.lane_rows import LANE_ROWS
from penstock.plan.nodes import Node, Read, describe, digest
from penstock.plan.plain_values import digest_of
from penstock.plan.tree import flow, leaves
from penstock.plan.verb_parts import parts_of
from penstock.resolve.cut import cut
from penstock.source.protocol import Access
from penstock.stages.cached.key import pieces_of_source
from penstock.stages.lanes.all_feeds import EpochEnds, LaneFeeds
from penstock.stages.lanes.states import Place
from penstock.transform.function import wants_generator

LanePlaces: TypeAlias = Mapping[int, list[Place]]
_NO_PLACES: LanePlaces = MappingProxyType({})
#: Another way to count gets another number.
_VERSION = 1


class CountedEpochs:
    """The counts of a plan, one of each stage. root: the plan as it runs; lanes: its lane stages, which are told what is known."""

    def __init__(self, root: Node, lanes: LaneFeeds) -> None:
        self._stages: list[Node] = [one.node for one in flow(cut(root)) if not one.below]  # type: ignore[attr-defined]  # LaneOutputs: the plan's checks say so
        self._lanes = lanes

    @property
    def is_named(self) -> bool:
        """Whether a key tells the data from other: streams that have no name give whatever they give."""
        sources = [leaf.opened.source for stage in self._stages for leaf in leaves(stage)]
        return all(source.access is not Access.FORWARD or getattr(source, "identity", None) for source in sources)

    @cached_property
    def are_alike(self) -> bool:
        """Whether every epoch gives the same rows: nothing shuffles, mixes, repeats or draws."""
        return not any(_differs(node) for stage in self._stages for node in flow(stage))

    @cached_property
    def _plan_key(self) -> str:
        shape = self._lanes.order_of(0).rows.shape
        begin = f"{_VERSION} {native_version} {sys.implementation.cache_tag} {shape.lanes} {shape.rows_per_lane}"
        return digest_of([begin.encode(), *(piece for stage in self._stages for piece in _pieces(stage))]).hex()

    def key(self, epoch: int, number: int = 0) -> str:
        """Names the counts of a stage in an epoch: another one where data, plan or functions differ."""
        of_stage = f"-{number}" if number else ""
        return f"{self._plan_key}-{'every' if self.are_alike else epoch}{of_stage}"

    def tell(self, epoch: int) -> bool:
        """Tells the lanes what is kept of an epoch; whether that is all of it."""
        if not self.is_named:
            return False
        known, left = self._lanes.order_of(epoch).ends.copy(), list[Mapping[int, list[Place]]]()
        for number in range(len(known)):
            found = kept_count(self.key(epoch, number))
            if found is not None and found.step is None and len(found.ends) == known.shape[1]:
                known[number] = [found.ends[str(lane)] for lane in range(known.shape[1])]
                left.append({int(lane): [*places] for lane, places in found.left.items()})
            elif (known[number] < LANE_ROWS).all():
                left.append({})
            else:
                return False
        self._lanes.know_ends(epoch, EpochEnds(known, _joined(left)))
        return True

    def keep(self, epoch: int) -> None:
        """Keeps what a pass found out of an epoch on one rank."""
        for number, ends in enumerate(self._lanes.order_of(epoch).ends):
            left = {lane: [places[number]] for lane, places in self._lanes.left.get(epoch, {}).items()}
            self.keep_stage(epoch, number, ends, left)

    def keep_stage(
        self,
        epoch: int,
        number: int,
        ends: Ids,
        left: LanePlaces,
        step: int | None = None,
        lanes: LanePlaces = _NO_PLACES,
    ) -> None:
        """Keeps what is known of a stage in an epoch, of all of it or up to a step."""
        if self.is_named:
            known = {str(lane): rows for lane, rows in enumerate(ends.tolist()) if rows < LANE_ROWS}
            count = RowCount(step=step, ends=known, lanes=_by_text(lanes), left=_by_text(left))
            keep_count(self.key(epoch, number), count)


def _joined(left: Sequence[LanePlaces]) -> dict[int, list[Place]]:
    """The places of all stages, lane by lane; none where those of a stage are not known."""
    return {lane: [one[lane][0] for one in left] for lane in left[0] if all(lane in one for one in left)}


def _by_text(places: LanePlaces) -> dict[str, list[Place]]:
    return {str(lane): one for lane, one in places.items()}


def _differs(node: Node) -> bool:
    """Whether a verb makes other rows of the same ones in another epoch."""
    function = node.user_function
    draws = function is not None and (
        wants_generator(function) or mentions_generators(function) or bool(HeldGenerators(function))
    )
    is_random = any(getattr(op, "is_random", False) for _, ops in node.chains for op in ops)
    return bool(node.ordered_as) or node.own_epochs or draws or is_random


def _pieces(stage: Node) -> Iterator[bytes]:
    for node in flow(stage):
        if isinstance(node, Read):
            yield from pieces_of_source(node)
            yield str(getattr(node.opened.source, "identity", None)).encode()
            continue
        yield f"{describe(node)} {digest(node)}".encode("utf-8", "surrogatepass")
        for part in parts_of(node):
            yield part.name.encode()
            yield part.digest
