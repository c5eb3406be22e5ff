"""What was counted of a plan whose epochs end where its data does, by data, plan and functions: kept from counting ahead, or from a pass on one rank."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cached_property

import numpy as np

from penstock.core.functions.held_generators import HeldGenerators
from penstock.core.functions.random_use import mentions_generators
from penstock.core.kernels import native_version
from penstock.derived.row_counts import RowCount, keep_count, kept_count
from penstock.order.rows.lane_rows import LANE_ROWS
from penstock.order.steps.cursor import Position
from penstock.plan.nodes import Node, Read, describe, digest
from penstock.plan.plain_values import digest_of
from penstock.plan.tree import flow, leaves
from penstock.plan.verb_parts import parts_of
from penstock.resolve.cut import cut
from penstock.source.protocol import Access
from penstock.stages.cached.key import pieces_of_source
from penstock.stages.lanes.all_feeds import LaneFeeds
from penstock.transform.function import wants_generator

#: Another way to count gets another number.
_VERSION = 1


class CountedEpochs:
    """The counts of a plan. root: the plan as it runs; lanes: its lane stages, which are told what is known."""

    def __init__(self, root: Node, lanes: LaneFeeds) -> None:
        (output,) = [one for one in flow(cut(root)) if not one.below]
        self._stage: Node = output.node  # type: ignore[attr-defined]  # a LaneOutput: the plan's checks say so
        self._lanes = lanes

    @property
    def is_named(self) -> bool:
        """Whether a key tells the data from other: streams that have no name give whatever they give."""
        sources = [leaf.opened.source for leaf in leaves(self._stage)]
        return all(source.access is not Access.FORWARD or getattr(source, "identity", None) for source in sources)

    @cached_property
    def are_alike(self) -> bool:
        """Whether every epoch gives the same rows: nothing shuffles, mixes, repeats or draws."""
        return not any(map(_differs, flow(self._stage)))

    @cached_property
    def _plan_key(self) -> str:
        shape = self._lanes.order_of(0).rows.shape
        begin = f"{_VERSION} {native_version} {sys.implementation.cache_tag} {shape.lanes} {shape.rows_per_lane}"
        return digest_of([begin.encode(), *_pieces(self._stage)]).hex()

    def key(self, epoch: int) -> str:
        """Names the counts of an epoch: another one where data, plan or functions differ."""
        return f"{self._plan_key}-{'every' if self.are_alike else epoch}"

    def tell(self, epoch: int) -> bool:
        """Tells the lanes what is kept of an epoch; whether that is all of it."""
        found = kept_count(self.key(epoch)) if self.is_named else None
        if found is None or found.step is not None or len(found.ends) != self._lanes.order_of(epoch).lanes:
            return False
        self._lanes.know(epoch, np.array([found.ends[str(lane)] for lane in range(len(found.ends))], dtype=np.int64))
        self._lanes.left[epoch] = {int(lane): [*places] for lane, places in found.left.items()}
        return True

    def keep(self, epoch: int, step: int | None = None) -> bool:
        """Keeps what is known of an epoch, of all of it or up to a step; whether there is a cache for it."""
        if not self.is_named:
            return False
        ends = self._lanes.order_of(epoch).rows.lane_rows().tolist()
        lanes = {} if step is None else self._lanes.places(Position(epoch, step))
        count = RowCount(
            step=step,
            ends={str(lane): rows for lane, rows in enumerate(ends) if rows < LANE_ROWS},
            lanes=_by_text(lanes),
            left=_by_text(self._lanes.left.get(epoch, {})),
        )
        return keep_count(self.key(epoch), count)


def _by_text(places: Mapping[int, list[list[object]]]) -> dict[str, list[list[object]]]:
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
