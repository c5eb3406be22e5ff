"""Orders as plans of one source have them, made from their sizes."""

from __future__ import annotations

from penstock.core.errors import PlanError
from penstock.order.rows.natural import Natural
from penstock.order.rows.segments import Segments
from penstock.order.rows.shuffled import Shuffled
from penstock.order.steps.batches import BatchOrder, Last


def order_of(
    *,
    samples: int,
    batch_size: int,
    lanes: int,
    block_rows: int = 1,
    window_blocks: int = 1,
    seed: int | None = None,
    last: Last = Last.SHORT,
    steps: int | None = None,
) -> BatchOrder:
    """The order of a plan of one source; `seed` None is the natural order."""
    if batch_size % lanes:
        raise PlanError(f"lanes={lanes} does not divide the batch size {batch_size}")
    segments, rows_per_lane = Segments(((0, samples, 1),)), batch_size // lanes
    if seed is None:
        rows = Natural(segments=segments, lanes=lanes, rows_per_lane=rows_per_lane, wanted_rows=block_rows)
    else:
        rows = Shuffled(
            segments=segments,
            lanes=lanes,
            rows_per_lane=rows_per_lane,
            wanted_rows=block_rows,
            window_blocks=window_blocks,
            seed=seed,
        )
    return BatchOrder(rows=rows, last=last, steps=steps)
