"""Requests for byte ranges."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.storage.fetch.plan import Requests, plan
from support.tries import tries


def ids(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int64)


def test_neighbours_are_read_together() -> None:
    made = plan(ids(0, 0, 0), ids(10, 0, 9_000_000), ids(10, 10, 5), ids(0, 10, 20), gap_bytes=100)
    assert (made.offset.tolist(), made.length.tolist()) == ([0, 9_000_000], [20, 5])
    assert made.first_copy.tolist() == [0, 2, 3]
    assert list(zip(made.source.tolist(), made.at.tolist(), made.size.tolist(), strict=True)) == [
        (0, 10, 10),
        (10, 0, 10),
        (0, 20, 5),
    ]


@pytest.mark.parametrize(("gap", "requests"), [(0, 3), (4, 3), (5, 2), (100, 2)])
def test_gaps_up_to_the_limit_are_read_through_but_never_across_shards(gap: int, requests: int) -> None:
    assert len(plan(ids(0, 0, 1), ids(0, 15, 20), ids(10, 5, 5), ids(0, 10, 15), gap_bytes=gap)) == requests


def test_long_ranges_are_split_evenly() -> None:
    made = plan(ids(3), ids(7), ids(1001), ids(0), longest_bytes=500)
    assert made.length.tolist() == [334, 334, 333]
    assert made.offset.tolist() == [7, 341, 675]


def test_nothing_is_asked_for_nothing() -> None:
    assert len(plan(ids(), ids(), ids(), ids())) == 0
    assert len(plan(ids(1), ids(5), ids(0), ids(0))) == 0


def fetch(made: Requests, files: list[bytes], size: int) -> bytes:
    out = bytearray(size)
    for request in range(len(made)):
        start = int(made.offset[request])
        answer = files[int(made.shard[request])][start : start + int(made.length[request])]
        assert len(answer) == made.length[request], "a request past the end of the file"
        for copy in range(int(made.first_copy[request]), int(made.first_copy[request + 1])):
            source, at, length = int(made.source[copy]), int(made.at[copy]), int(made.size[copy])
            assert source + length <= len(answer)
            out[at : at + length] = answer[source : source + length]
    return bytes(out)


@settings(max_examples=tries(3_000))
@given(
    ranges=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 400), st.integers(0, 100)), max_size=40),
    gap=st.integers(0, 60),
    longest=st.integers(1, 200),
)
def test_any_ranges_arrive_where_they_belong(ranges: list[tuple[int, int, int]], gap: int, longest: int) -> None:
    files = [np.random.default_rng(shard).bytes(500) for shard in range(3)]
    columns = [np.array([one[field] for one in ranges], dtype=np.int64) for field in range(3)]
    ends = np.cumsum(columns[2]) if ranges else ids()
    made = plan(*columns, ends - columns[2], gap_bytes=gap, longest_bytes=longest)
    wanted = b"".join(files[shard][start : start + length] for shard, start, length in ranges)
    assert fetch(made, files, len(wanted)) == wanted
    assert (made.length <= longest).all()
    assert (made.length > 0).all()
    spans = sorted(zip(made.shard.tolist(), made.offset.tolist(), made.length.tolist(), strict=True))
    for (shard, start, length), (other, after, _) in pairwise(spans):
        assert shard != other or start + length <= after, "a byte is asked for twice"
