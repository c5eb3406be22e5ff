"""Steps of a bounded number of tokens: the budget holds on any ranks, groups leave nothing over, the forecast knows where rows are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.verbs.lengths import Lengths
from penstock.order.lanes import divisors
from penstock.order.rows.chosen import Chosen
from penstock.order.steps.batches import Last
from penstock.order.steps.token_batches import TokenBatches
from penstock.order.steps.token_cut import TokenBudget, cut, default_token_lanes
from penstock.order.steps.tokens import NO_ROW, TokenRows
from support.tries import tries


def batches(lengths: np.ndarray, budget: TokenBudget, seed: int | None = 3) -> TokenBatches:
    given_ = Lengths.of("batch_tokens", lengths)
    turn, groups = cut(given_, budget)
    rows = TokenRows(
        chosen=Chosen.of_ids(turn),
        lengths=given_.numbers[turn],
        groups=groups,
        lanes=budget.lanes,
        seed=seed,
        drop_last=budget.drop_last,
    )
    last = Last.DROP if budget.drop_last else Last.SHORT
    return TokenBatches(rows=rows, last=last, tokens=rows, budget=budget)


def realistic(rows: int = 20_000, longest: int = 1_024) -> np.ndarray:
    """Lengths of sentences and documents: log-normal, cut off."""
    drawn = np.random.default_rng(0).lognormal(4.5, 0.8, rows).astype(np.int64) + 1
    return np.minimum(drawn, longest)


def cost(order: TokenBatches, lengths: np.ndarray) -> int:
    if not order.budget.is_padded:
        return int(np.maximum(lengths, 1).sum())
    return len(lengths) * int(order.budget.costs(lengths.max(keepdims=True))[0])


@st.composite
def plans(draw: Any) -> tuple[np.ndarray, TokenBudget]:
    lengths = np.array(draw(st.lists(st.integers(0, 40), min_size=1, max_size=300)))
    multiple = draw(st.sampled_from([1, 1, 8]))
    longest = -(-int(max(1, lengths.max())) // multiple) * multiple
    return lengths, TokenBudget(
        lane_tokens=draw(st.integers(longest, 6 * longest)),
        lanes=draw(st.sampled_from([1, 2, 3, 4, 6, 8])),
        is_padded=draw(st.booleans()) or multiple > 1,
        multiple_of=multiple,
        fill=draw(st.sampled_from([0.5, 0.9, 1.0])),
        drop_last=draw(st.booleans()),
    )


@settings(max_examples=tries(2_000))
@given(plans())
def test_any_lengths_on_any_ranks(plan: tuple[np.ndarray, TokenBudget]) -> None:
    """Every row once, the same rows in a step, equally many on all ranks, and none above its part."""
    lengths, budget = plan
    if budget.drop_last and len(lengths) < budget.lanes:
        return
    order = batches(lengths, budget)
    for epoch in range(2):
        taken = []
        for step in range(order.steps_per_epoch):
            whole = order.ids(epoch, step, 1, 0, 1)
            assert len(whole) == np.count_nonzero(order.tokens.rows_at(epoch, step) != NO_ROW)
            is_short = step == order.steps_per_epoch - 1 and order.tokens.rest > 0
            for world in divisors(budget.lanes):
                parts = [order.ids(epoch, step, 1, rank, world) for rank in range(world)]
                assert np.concatenate(parts).tolist() == whole.tolist()
                counts = [len(part) for part in parts]
                assert max(counts) - min(counts) <= is_short
                assert all(
                    cost(order, lengths[part]) <= budget.lane_tokens * budget.lanes // world
                    for part in parts
                    if len(part)
                )
            taken += whole.tolist()
        assert len({*taken}) == len(taken) == order.epoch_rows
        assert budget.drop_last or len(taken) == len(lengths)
        assert len(taken) > len(lengths) - budget.lanes * budget.lane_tokens


@settings(max_examples=tries(500))
@given(plans())
def test_several_steps_are_those_one_by_one(plan: tuple[np.ndarray, TokenBudget]) -> None:
    lengths, budget = plan
    if budget.drop_last and len(lengths) < budget.lanes:
        return
    order = batches(lengths, budget)
    steps, tokens = order.steps_per_epoch, order.tokens
    one_by_one = [order.ids(1, step, 1, 0, 1) for step in range(steps)]
    assert order.ids(1, 0, steps, 0, 1).tolist() == np.concatenate(one_by_one).tolist()
    rows = int(tokens.lane_rows()[0])
    lanes = [tokens.ids(1, lane, 0, rows).reshape(steps, -1) for lane in range(budget.lanes)]
    places = np.stack([tokens.rows_at(1, step) for step in range(steps)])
    assert np.array_equal(np.stack(lanes, axis=1), np.where(places >= 0, tokens.chosen.ids(places), NO_ROW))
    assert tokens.ids(1, 0, rows - 1, 2).tolist() == [lanes[0][-1, -1], lanes[0][0, 0]]


@settings(max_examples=tries(500))
@given(plans(), st.integers(0, 3))
def test_the_forecast_knows_the_step_of_every_row(plan: tuple[np.ndarray, TokenBudget], epoch: int) -> None:
    lengths, budget = plan
    if budget.drop_last and len(lengths) < budget.lanes:
        return
    order = batches(lengths, budget)
    for world in divisors(budget.lanes):
        for rank in range(world):
            wanted = np.full(len(lengths), -1)
            for step in range(order.steps_per_epoch):
                wanted[order.ids(epoch, step, 1, rank, world)] = step
            found = order.next_uses(epoch, order.share(rank, world), np.arange(len(lengths)))
            assert found.tolist() == wanted.tolist()


def test_epochs_differ_and_long_rows_come_at_any_time() -> None:
    lengths = realistic()
    order = batches(lengths, TokenBudget(lane_tokens=4_096, lanes=8))
    longest = []
    for epoch in range(2):
        steps = [order.ids(epoch, step, 1, 0, 1) for step in range(order.steps_per_epoch)]
        longest.append([int(lengths[step].max()) for step in steps])
    assert longest[0] != longest[1]
    assert max(longest[0][: len(longest[0]) // 4]) > np.median(longest[0])
    assert order.ids(0, 0, 1, 0, 1).tolist() != order.ids(1, 0, 1, 0, 1).tolist()
    again = batches(lengths, TokenBudget(lane_tokens=4_096, lanes=8))
    assert again.ids(1, 7, 1, 0, 1).tolist() == order.ids(1, 7, 1, 0, 1).tolist()


def test_without_a_seed_the_longest_come_first() -> None:
    lengths = realistic()
    order = batches(lengths, TokenBudget(lane_tokens=4_096, lanes=8), seed=None)
    longest = [int(lengths[order.ids(0, step, 1, 0, 1)].max()) for step in range(order.steps_per_epoch)]
    assert longest[0] == lengths.max()
    assert (np.minimum.accumulate(longest) >= np.array(longest) * 0.9).all()


@pytest.mark.parametrize(("is_padded", "world"), [(True, 2), (True, 8), (False, 2), (False, 8)])
def test_steps_are_full_and_ranks_balanced(is_padded: bool, world: int) -> None:
    """On lengths like those of text, beside batches of a fixed number of shuffled rows."""
    lengths = realistic(200_000)
    order = batches(lengths, TokenBudget(lane_tokens=4_096, lanes=8, is_padded=is_padded))
    figures = order.figures(world)
    assert figures.balance < 1.01
    assert figures.used > (0.95 if is_padded else 0.9)  # of a plain sum, so much as rows of a group differ stays free
    assert figures.fill > 0.95
    assert figures.most <= figures.max_tokens
    fixed = np.random.default_rng(1).permutation(lengths)[:199_680].reshape(-1, world, 256 // world)
    counted = fixed.max(axis=2) * fixed.shape[2] if is_padded else fixed.sum(axis=2)
    assert (counted.max(axis=1) / counted.mean(axis=1)).mean() > figures.balance + 0.03
    assert not is_padded or fixed.sum() / counted.sum() < 0.5


def test_more_fill_pads_less() -> None:
    lengths = realistic(200_000)
    fills = [
        batches(lengths, TokenBudget(lane_tokens=4_096, lanes=8, fill=fill)).figures(8).fill
        for fill in (0.5, 0.8, 0.95)
    ]
    assert fills == sorted(fills)
    assert fills[0] < 0.85 < 0.96 < fills[2]


def test_the_groups_of_the_example() -> None:
    lengths = Lengths.of("batch_tokens", [2, 9, 9, 9, 9, 2, 9, 9, 9, 9, 2])
    turn, groups = cut(lengths, TokenBudget(lane_tokens=10, lanes=2))
    assert turn.tolist() == [1, 2, 3, 4, 6, 7, 8, 9, 0, 5, 10]
    assert [(group.first, group.end, group.rows_per_lane) for group in groups] == [(0, 8, 1), (8, 11, 5)]


def test_lengths_that_are_rounded_up_beyond_a_byte() -> None:
    lengths = Lengths.of("batch_tokens", [0, 255, 0, 201, 3])
    assert lengths.numbers.dtype == np.uint8
    turn, groups = cut(lengths, TokenBudget(lane_tokens=300, lanes=1, multiple_of=100))
    assert groups[0].rows_per_lane == 1
    assert {*turn[: groups[0].end].tolist()} >= {1, 3, 4}


def test_few_short_rows_at_the_end_make_a_step_of_their_own() -> None:
    lengths = np.repeat([100, 2], [800, 50])
    (full, short) = cut(Lengths.of("batch_tokens", lengths), TokenBudget(lane_tokens=400, lanes=8))[1]
    assert (full.end - full.first, full.rows_per_lane) == (800, 4)
    assert short.rows_per_lane == 200
    order = batches(lengths, TokenBudget(lane_tokens=400, lanes=8))
    assert (order.steps_per_epoch, order.tokens.rest) == (26, 50)
    dropped = batches(lengths, TokenBudget(lane_tokens=400, lanes=8, drop_last=True))
    assert (dropped.steps_per_epoch, dropped.epoch_rows) == (26, 848)
    assert len({tuple(sorted(set(range(850)) - {*dropped.ids(epoch, 0, 26, 0, 1).tolist()})) for epoch in range(5)}) > 1


def test_lanes_by_default() -> None:
    assert default_token_lanes(32_768, 1_024) == 8
    assert default_token_lanes(100, 60) == 1
    assert default_token_lanes(1 << 20, 10) == 64


def test_a_place_without_a_row_is_none() -> None:
    order = batches(np.repeat([40, 1], [16, 400]), TokenBudget(lane_tokens=40, lanes=4))
    steps = [order.tokens.rows_at(0, step) for step in range(order.steps_per_epoch)]
    assert len({step.shape for step in steps}) == 1
    assert any((step == NO_ROW).any() for step in steps)
    assert all((order.ids(0, step, 1, 0, 1) >= 0).all() for step in range(order.steps_per_epoch))
    taken = [order.is_taken(0, step, 1, 0, 1).sum() for step in range(order.steps_per_epoch)]
    assert taken == [np.count_nonzero(step != NO_ROW) for step in steps]


@settings(max_examples=tries(300))
@given(plans(), st.integers(0, 30))
def test_the_forecast_knows_copies_of_rows(plan: tuple[np.ndarray, TokenBudget], begin: int) -> None:
    """The next step, from one on, in which this share has a copy."""
    lengths, budget = plan
    lengths = np.repeat(lengths, 2)
    turn, groups = cut(Lengths.of("batch_tokens", lengths), budget)
    if budget.drop_last and len(lengths) < budget.lanes:
        return
    chosen, last = Chosen.of_ids(turn // 2), Last.DROP if budget.drop_last else Last.SHORT
    rows = TokenRows(
        chosen=chosen,
        lengths=lengths[turn].astype(np.uint8),
        groups=groups,
        lanes=budget.lanes,
        seed=5,
        drop_last=budget.drop_last,
    )
    order = TokenBatches(rows=rows, last=last, tokens=rows, budget=budget)
    drawn = order.draws(1, 0, order.steps_per_epoch, 0, 1)
    assert drawn is not None
    ids = order.ids(1, 0, order.steps_per_epoch, 0, 1)
    assert len({*zip(ids.tolist(), drawn.tolist(), strict=True)}) == len(ids)
    wanted = np.full(len(lengths) // 2, -1)
    for step in reversed(range(begin, order.steps_per_epoch)):
        wanted[order.ids(1, step, 1, 0, budget.lanes)] = step
    found = order.next_uses(1, order.share(0, budget.lanes), np.arange(len(wanted)), begin)
    found = np.where(found < begin, -1, found)
    assert found.tolist() == wanted.tolist()
