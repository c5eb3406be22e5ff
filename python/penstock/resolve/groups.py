"""Rows in groups of similar length, each group in an order of its own: what `batch_bucketed` and `batch_tokens` ask of the rows below them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from penstock.core import kernels
from penstock.core.errors import PlanError
from penstock.core.verbs.lengths import Lengths
from penstock.order.keys import SOURCE_KEY
from penstock.order.protocol import RowOrder
from penstock.order.rows.chosen import Chosen, ChosenRows
from penstock.order.rows.natural import Natural
from penstock.order.rows.shuffled import Shuffled
from penstock.order.steps.bucketed import Bucketed
from penstock.order.steps.token_cut import TokenBudget, cut
from penstock.order.steps.tokens import TokenRows

if TYPE_CHECKING:
    from penstock.resolve.orders import Deal


def bucketed(codes: npt.NDArray[np.uint16], found: ChosenRows, deal: Deal) -> Bucketed:
    """The rows in buckets, each in an order of its own. codes: the bucket of every row."""
    _check_numbers("batch_bucketed", len(codes), found.rows)
    lanes, rows_per_lane, shuffle = deal.lanes, deal.rows_per_lane, deal.shuffle
    ids, inputs = found.ids(np.arange(found.rows)), list[RowOrder]()
    for code in range(int(codes.max()) + 1):
        segments = Chosen.of_ids(ids[codes == code])
        if shuffle is None:
            inputs.append(Natural(segments=segments, lanes=lanes, rows_per_lane=rows_per_lane))
            continue
        seed = deal.seed_here(kernels.mix([shuffle.seed, code, SOURCE_KEY]))
        inputs.append(Shuffled(segments=segments, lanes=lanes, rows_per_lane=rows_per_lane, seed=seed))
    bucket_of = np.zeros(int(ids.max()) + 1, dtype=np.uint16)
    bucket_of[ids] = codes
    return Bucketed(
        inputs=tuple(inputs),
        bucket_of=bucket_of,
        seed=None if shuffle is None else deal.seed_here(shuffle.seed),
    )


def in_tokens(lengths: Lengths, budget: TokenBudget, found: ChosenRows, deal: Deal) -> TokenRows:
    """The rows in groups of similar length."""
    _check_numbers("batch_tokens", len(lengths.numbers), found.rows)
    turn, groups = cut(lengths, budget)
    return TokenRows(
        chosen=Chosen.of_ids(found.ids(turn)),
        lengths=lengths.numbers[turn],
        groups=groups,
        lanes=deal.lanes,
        seed=None if deal.shuffle is None else deal.seed_here(deal.shuffle.seed),
        drop_last=budget.drop_last,
    )


def _check_numbers(verb: str, numbers: int, rows: int) -> None:
    if numbers != rows:
        raise PlanError(f"{verb}: by= has {numbers:,} numbers, and there are {rows:,} rows; give one for each")
