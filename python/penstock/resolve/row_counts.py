"""How many rows a plan has, the ids of each source's, and how many are read together."""

from __future__ import annotations

import numpy as np

from penstock.core.errors import PlanError
from penstock.core.spec import Ids
from penstock.order.blocks import default_block_rows
from penstock.order.mixed import Stop, mixed_rows
from penstock.plan.nodes import (
    LaneNode,
    Mix,
    Node,
    Read,
    Repeat,
    Zip,
)
from penstock.plan.row_choice import RowChoice
from penstock.plan.tree import find, inputs_of, leaves
from penstock.resolve.cut import cut
from penstock.source.protocol import Access, AnySource, BlockSource


def first_ids_of(root: Node) -> Ids:
    """The id of the first row of every source, and the end of all: see `order.protocol.RowOrder`."""
    samples = [leaf.opened.source.manifest.samples for leaf in leaves(cut(root))]
    return np.cumsum([0, *samples], dtype=np.int64)


def rows_of(root: Node) -> int:
    """Rows of an epoch; PlanError where only a lane stage knows."""
    if isinstance(root, LaneNode):
        raise PlanError(
            f"{root.verb}: the number of rows that it gives is not known in advance; say how long an epoch is: batch(…, steps=…)"
        )
    if isinstance(root, Mix) and root.rows is not None:
        return root.rows
    if isinstance(root, Read):
        return root.opened.source.manifest.samples
    if isinstance(root, Zip):
        return rows_of(root.inputs[0])
    rows = sum(map(rows_of, inputs_of(root)))
    if isinstance(root, Repeat):
        return rows * root.times
    if isinstance(root, Mix):
        return mixed_rows(root.quotas, [rows_of(below) for below in inputs_of(root)], Stop(root.stop), root.rows)
    return root.rows(rows) if isinstance(root, RowChoice) else rows


def block_rows_of(root: Node) -> int:
    """Rows that are worth reading together: what suits the source, or the least of what suits several that are read."""
    sources = [leaf.opened.source for leaf in leaves(root)]
    read = [source for source in sources if source.access is not Access.MEMORY or len(source.manifest.shards)]
    rows = list(map(block_rows_at_source, read or sources))
    if find(root, Zip) is not None:  # files of a row each are read one by one there, whatever others like
        rows = [some for some in rows if some > 1] or rows
    return min(rows)


def block_rows_at_source(source: AnySource) -> int:
    """Rows of a source that are worth reading together."""
    if isinstance(source, BlockSource) and source.block_rows is not None:
        return source.block_rows
    manifest = source.manifest
    return default_block_rows(manifest.samples, manifest.size_bytes, len(manifest.shards))


def is_endless(root: Node) -> bool:
    """Whether some rows come out of a lane stage, which never ends."""
    return any(leaf.opened.source.access is Access.LANES for leaf in leaves(root))


def is_forward(root: Node) -> bool:
    """Whether some rows can only be read in one order."""
    return any(leaf.opened.source.access is Access.FORWARD for leaf in leaves(root))
