"""Resuming reads the rest of the epoch, and no more again than what was carried over: by the bytes that a storage gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import penstock as ps
from penstock.lower import lanes as lower
from support.cases import MemoryStorage

LANES, BLOCK_ROWS, WINDOW_BLOCKS, PACKED_ROWS, ROWS_AT_ONCE = 16, 4, 2, 20, 64
STEPS, PIECES_AHEAD = 100, 10
LINES = [
    f'{{"x": {row:6}, "tokens": [{", ".join(f"{row % 97:4}" for _ in range(8))}]}}\n'.encode() for row in range(9_000)
]


def odd(batch: Any) -> Any:
    return batch["x"] % 2 == 1


def numbers(batch: Any) -> Any:
    return {"x": batch["x"]}


def packed(rows: ps.Dataset) -> ps.Dataset:
    return rows.pack("tokens", length=32, window=PACKED_ROWS)


#: Stages, and how many rows of a lane they hold together at most.
STAGES: dict[str, tuple[Callable[[ps.Dataset], ps.Dataset], int]] = {
    "filter": (lambda rows: rows.filter(odd), 1),
    "flat_map": (lambda rows: rows.flat_map(numbers, rows=5), 5),
    "pack": (packed, PACKED_ROWS),
    "pack by concat": (lambda rows: rows.pack("tokens", length=32, strategy="concat"), 4),
    "pack what was filtered": (lambda rows: packed(rows.filter(odd)), 2 * PACKED_ROWS),
}


def bytes_of(storage: MemoryStorage) -> int:
    return sum(size for _, _, size in storage.reads)


@pytest.mark.slow
@pytest.mark.parametrize("name", STAGES)
def test_no_more_is_read_again_than_what_was_carried_over(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Pieces that stay as small as they begin, so that what is read ahead is always as much.
    for setting in ("_FIRST_LANE_ROWS", "_MOST_LANE_ROWS"):
        monkeypatch.setattr(lower, setting, ROWS_AT_ONCE)
    storage = MemoryStorage({"data/0.jsonl": b"".join(LINES)})
    make, together = STAGES[name]
    rows = ps.read("data/", format="jsonl", storage=storage).shuffle(
        seed=1, block_rows=BLOCK_ROWS, window_blocks=WINDOW_BLOCKS
    )
    plan = make(rows).batch(LANES, lanes=LANES, steps=STEPS)
    whole, state = to_the_end(plan, storage, None)
    rest, _ = to_the_end(plan, storage, state)
    carried = ROWS_AT_ONCE + LANES * (together + BLOCK_ROWS * WINDOW_BLOCKS)
    # How far a feed is ahead of its stage when the epoch ends varies, up to its queues.
    ahead = PIECES_AHEAD * ROWS_AT_ONCE * (2 if name == "pack what was filtered" else 1)
    assert rest <= whole / 2 + (carried + ahead) * len(LINES[0])


def test_without_lane_stages_nothing_is_read_again() -> None:
    """But for blocks whose rows are taken in part."""
    storage = MemoryStorage({"data/0.jsonl": b"".join(LINES)})
    rows = ps.read("data/", format="jsonl", storage=storage).shuffle(
        seed=1, block_rows=BLOCK_ROWS, window_blocks=WINDOW_BLOCKS
    )
    plan = rows.batch(LANES, lanes=LANES)
    whole, state = to_the_end(plan, storage, None)
    rest, _ = to_the_end(plan, storage, state)
    assert len(json.dumps(state)) < 1 << 10
    assert whole == sum(map(len, LINES))
    assert rest <= whole / 2 + LANES * BLOCK_ROWS * WINDOW_BLOCKS * len(LINES[0])


def to_the_end(plan: ps.Dataset, storage: MemoryStorage, state: Any) -> tuple[int, Any]:
    """Bytes read up to the end of the epoch, and the state in its middle."""
    storage.reads.clear()
    with ps.Loader(plan, rank=0, world_size=1, epochs=1) as loader:
        if state is not None:
            loader.load_state_dict(state)
        for _ in loader:
            if loader.step == len(loader) // 2:
                state = json.loads(json.dumps(loader.state_dict()))
    return bytes_of(storage), state
