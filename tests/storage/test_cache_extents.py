"""The table of what a cache holds, against a search through all pieces."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.storage.cache.extents import EXTENT, Extents, gaps
from support.tries import tries

intervals = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 12)), max_size=12)


def table(pieces: list[tuple[int, int]], dropped: list[int]) -> Extents:
    """Pieces that do not overlap, added in two goes, and some of them dropped."""
    extents = Extents()
    rows = np.zeros(len(pieces), EXTENT)
    rows["begin"] = [begin for begin, _ in pieces]
    rows["end"] = [begin + length for begin, length in pieces]
    rows["pack"], rows["position"] = 3, 1000 * np.arange(len(pieces))
    rows["in_blocks"] = True
    half = len(rows) // 2
    extents.add(rows[:half])
    extents.add(rows[half:])
    live = extents.live()
    if len(live):
        extents.drop(live[np.unique(np.array(dropped, dtype=np.int64) % len(live))])
    return extents


@settings(max_examples=tries(3_000))
@given(pieces=intervals, dropped=st.lists(st.integers(0, 50), max_size=3), wanted=intervals, settled=st.booleans())
def test_pieces_and_gaps(
    pieces: list[tuple[int, int]], dropped: list[int], wanted: list[tuple[int, int]], settled: bool
) -> None:
    extents = table(pieces, dropped)
    if settled:
        extents._settle()
    begin = np.array([first for first, _ in wanted], dtype=np.int64)
    end = begin + np.array([length for _, length in wanted], dtype=np.int64)
    live = extents.live()
    held = {place: number for number in live for place in range(*extents.rows[["begin", "end"]][number])}
    which, number = extents.find(begin, end)
    there = [sorted({held[place] for place in range(*one) if place in held}) for one in zip(begin, end, strict=True)]
    assert [sorted(number[which == one].tolist()) for one in range(len(begin))] == there
    cut = (np.maximum(extents.rows["begin"][number], begin[which]), np.minimum(extents.rows["end"][number], end[which]))
    missing = [
        (one, place)
        for one, low, high in zip(*gaps(begin, end, which, *cut), strict=False)
        for place in range(low, high)
    ]
    assert missing == [
        (i, p) for i, (b, e) in enumerate(zip(begin, end, strict=False)) for p in range(b, e) if p not in held
    ]
    in_file = begin - 5, end - begin
    whole = extents.find_whole(np.array([-1, 5]), np.ones_like(begin), *in_file)
    assert (whole is not None) == (all(len(one) == 1 for one in there) and not missing)
    if whole is not None:
        assert [whole[0].tolist(), whole[2].tolist()] == [number.tolist(), begin.tolist()]
        assert whole[1].tobytes() == extents.rows[number].tobytes()
        extents.rows["alive"][number[:1]] = False
        again = extents.find_whole(np.array([-1, 5]), np.ones_like(begin), *in_file)
        assert (again is None) == (len(wanted) > 0)
    never = extents.find_whole(np.array([-1, 5]), np.zeros_like(begin), *in_file)
    assert (never is None) == (len(wanted) > 0)
