"""To how many lanes a plan deals its rows whose batch names none: fewer where blocks are large, so that what stays open is not.

The rule asks plan and data, and never the machine: an order is the same everywhere. A state says what it was where it is not the usual, and goes on with that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from penstock.core.errors import StateError
from penstock.core.messages import quoted
from penstock.order.blocks import WINDOW_BLOCKS
from penstock.order.lanes import default_lanes, divisors
from penstock.plan.nodes import Batch, BatchTokens, LaneOutput, Node, Shard, Shuffle
from penstock.plan.rules.narrow_columns import narrow_columns
from penstock.plan.tree import find, flow, rewrite, with_inputs
from penstock.resolve.cut import cut
from penstock.resolve.open_blocks import WindowBlocks, holds_blocks, open_blocks
from penstock.resolve.orders import Deal
from penstock.resolve.resolved import resolve

#: Bytes of blocks that all lanes together hold open at most, as long as there are more than `_FEWEST` of them.
OPEN_BYTES = 1 << 30
#: With fewer, the ranks of a machine with eight devices would read blocks of each other. Below that, windows are of one block.
_FEWEST = 8


@dataclass(frozen=True, kw_only=True)
class Dealt:
    """To how many lanes the rows of a batch are dealt. window_blocks: of every shuffle that names none; None for the usual."""

    lanes: int
    window_blocks: int | None = None

    @classmethod
    def usual(cls, batch_size: int) -> Self:
        """By the size of the batch alone."""
        return cls(lanes=default_lanes(batch_size))

    @property
    def saved(self) -> list[int | None]:
        """The same in a state."""
        return [self.lanes, self.window_blocks]

    def applied(self, root: Node) -> Node:
        """The plan, with a batch and shuffles that say so."""
        if isinstance(root, Batch):
            return replace(root, lanes=self.lanes, input=self._in_windows(root.input))
        return with_inputs(root, [self.applied(below) for below in root.below])

    def _in_windows(self, node: Node) -> Node:
        if self.window_blocks is None:
            return node
        inputs = [self._in_windows(below) for below in node.below]
        if any(one is not below for one, below in zip(inputs, node.below, strict=True)):
            node = with_inputs(node, inputs)
        if isinstance(node, Shuffle) and node.window_blocks is None:
            return replace(node, window_blocks=self.window_blocks)
        return node


def dealt_of(root: Node, world_size: int, instead: Dealt | None = None) -> Dealt | None:
    """What the rule says of a plan, or what a loader says instead, if the batch can be dealt so; None where the batch says it."""
    if (size := _free_size(root, world_size)) is None:
        return None
    if instead is not None and not size % instead.lanes:
        return instead
    usual = Dealt.usual(size)
    if find(root, Shuffle) is None or not any(holds_blocks(resolve(part).origins) for part in _parts(root)):
        return usual
    if opened_by(root, size, usual, as_read=False) <= OPEN_BYTES:
        return usual
    found, window = usual, _window_blocks(root)
    for found in _fewer(usual, window):
        if opened_by(root, size, found) <= OPEN_BYTES:
            break
    return found


def opened_by(root: Node, batch_size: int, dealt: Dealt, ranks: int = 1, *, as_read: bool = True) -> int:
    """Bytes of blocks that lanes hold open on each of so many ranks, which have equally many of them. as_read: without columns that nobody uses, which takes a look at the whole plan."""
    parts = [*_parts(root)]
    read = [*_parts(rewrite(root, [narrow_columns]))] if as_read else parts
    blocks = _blocks(parts, read, dealt, batch_size)
    return sum(replace(one, lanes=-(-one.lanes // ranks)).size_bytes for one in blocks)


def settled(root: Node, world_size: int) -> Node:
    """The plan, whose batch says to how many lanes its rows are dealt, and shuffles in which windows."""
    found = dealt_of(root, world_size)
    return root if found is None else found.applied(root)


def dealt_of_state(root: Node, world_size: int, state: Mapping[str, Any]) -> Dealt | None:
    """What a state was saved with: the usual, if it says nothing. None where the rule says the same, or the batch. StateError if it was changed."""
    rule, size = dealt_of(root, world_size), _free_size(root, world_size)
    if rule is None or size is None:
        return None
    if (said := state.get("dealt")) is None:
        found = Dealt.usual(size)
    else:
        is_pair = isinstance(said, (list, tuple)) and len(said) == 2
        lanes, window = said if is_pair else (0, None)
        is_known = type(lanes) is int and 1 <= lanes <= size and not size % lanes
        if not is_known or not (window is None or (type(window) is int and 1 <= window < 2**63)):
            raise StateError(f"the state says {quoted(said)} of its lanes; it was changed")
        found = Dealt(lanes=lanes, window_blocks=window)
    return None if found == rule else found


def _free_size(root: Node, world_size: int) -> int | None:
    """Rows of the batch, if the rule says to how many lanes they are dealt: not where it names them, or has no blocks for all; where nodes have files of their own, all need the same."""
    batch = find(root, Batch)
    if batch is None or batch.lanes is not None or isinstance(batch, BatchTokens) or find(root, Shard) is not None:
        return None
    return batch.of_all(world_size).size


def _parts(root: Node) -> Iterator[Node]:
    """A plan, cut at its lane stages, and what is below each of these."""
    above = cut(root)
    yield above
    for node in flow(above):
        if isinstance(node, LaneOutput):
            yield from _parts(node.node.below[0])


def _blocks(parts: Sequence[Node], read: Sequence[Node], dealt: Dealt, batch_size: int) -> Iterator[WindowBlocks]:
    """The blocks that each part holds open. read: the same parts as they are read; all columns say what a block is."""
    for part, as_read in zip(parts, read, strict=True):
        resolved = resolve(dealt._in_windows(part))  # noqa: SLF001  # its own
        if holds_blocks(resolved.origins):
            rows = resolved.with_links(Deal(resolved, dealt.lanes, batch_size).order)
            if rows.shape.is_shuffled and rows.shape.block_rows > 1:
                yield open_blocks(resolve(as_read), rows, dealt.lanes)


def _window_blocks(root: Node) -> int | None:
    """The smallest window of shuffles that name none; None where all do."""
    free = any(isinstance(node, Shuffle) and node.window_blocks is None for node in flow(root))
    return 1 if free and WINDOW_BLOCKS > 1 else None


def _fewer(usual: Dealt, window_blocks: int | None) -> Iterator[Dealt]:
    """The usual, and less and less."""
    lanes = [some for some in reversed(divisors(usual.lanes)) if some >= min(_FEWEST, usual.lanes)]
    yield from (replace(usual, lanes=some) for some in lanes)
    if window_blocks is not None:
        yield Dealt(lanes=lanes[-1], window_blocks=window_blocks)
