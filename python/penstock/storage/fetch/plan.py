"""Which requests to make for byte ranges: neighbours merged, long ones split. Numbers in, numbers out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.core.columns.spec import Ids

#: A gap up to this size is cheaper to read than another request. For one connection even longer gaps would be, but there are many
#: connections, and the bytes of the gap are often requested later: then the line carries them twice.
GAP_BYTES = 128 << 10
#: The longest request. It keeps a connection of 30 MB/s and 30 ms of latency busy for 95 % of the time. Longer ones gain little, and
#: a failed request is repeated whole.
LONGEST_BYTES = 16 << 20
#: Sharing work among connections makes no shorter requests than this.
SHARED_BYTES = 1 << 20


@dataclass(frozen=True, eq=False)
class Requests:
    """Requests, and the destinations of their bytes.

    shard, offset, length: int64, one entry a request. first_copy: int64, one entry more than there are requests: request r feeds
    the copies first_copy[r] … first_copy[r + 1] - 1. source, at, size: int64, one entry a copy: bytes [source, source + size) of
    the request's response go to offset `at`.
    """

    shard: Ids
    offset: Ids
    length: Ids
    first_copy: Ids
    source: Ids
    at: Ids
    size: Ids

    def __len__(self) -> int:
        return len(self.shard)


def shared_bytes(size: int, connections: int, longest_bytes: int) -> int:
    """The longest request for `size` bytes if all connections are free: equal shares, but at least 1 MiB.

    shared_bytes(96 << 20, 32, 16 << 20) == 3 << 20
    """
    return min(longest_bytes, max(SHARED_BYTES, -(-size // connections)))


def plan(
    shard: Ids,
    offset: Ids,
    length: Ids,
    at: Ids,
    *,
    gap_bytes: int = GAP_BYTES,
    longest_bytes: int = LONGEST_BYTES,
) -> Requests:
    """Requests for ranges [offset[i], offset[i] + length[i]) of shard[i], whose bytes go to offset at[i].

    Ranges of one shard no more than `gap_bytes` apart are read together; no request is longer than `longest_bytes`.

    Two neighbours of 10 bytes, and one far away, make two requests:
    plan(*np.array([[0, 0, 0], [0, 10, 9 * 10**9], [10, 10, 5], [0, 10, 20]])).length == [20, 5]
    """
    some = np.flatnonzero(length)
    turn = some[np.lexsort((offset[some], shard[some]))]
    shard, offset, length, at = shard[turn], offset[turn], length[turn], at[turn]
    if not len(turn):
        none = np.empty(0, dtype=np.int64)
        return Requests(none, none, none, np.zeros(1, dtype=np.int64), none, none, none)
    group = _groups(shard, offset, offset + length, gap_bytes)
    firsts = np.flatnonzero(np.diff(group, prepend=-1))
    begin = offset[firsts]
    end = np.maximum.reduceat(offset + length, firsts)
    pieces = -(-(end - begin) // longest_bytes)
    first_piece = np.cumsum(pieces) - pieces
    owner = np.repeat(np.arange(len(firsts)), pieces)
    number = np.arange(len(owner)) - first_piece[owner]
    step = -(-(end - begin) // pieces)  # equal pieces: no short one at the end
    request_offset = begin[owner] + number * step[owner]
    request_length = np.minimum(request_offset + step[owner], end[owner]) - request_offset
    return _with_copies(
        shard[firsts][owner], request_offset, request_length, (group, begin, step, first_piece), (offset, length, at)
    )


def _groups(shard: Ids, begin: Ids, end: Ids, gap_bytes: int) -> Ids:
    """The number of the group of each range (sorted by shard and begin); a group is read together."""
    new_shard = np.diff(shard, prepend=shard[0] - 1) != 0
    # The furthest end so far within the shard: ends are lifted by shard, so that one running maximum serves all shards.
    lift = np.cumsum(new_shard) * (int(end.max()) + gap_bytes + 1)
    reached = np.maximum.accumulate(end + lift) - lift
    apart = np.empty(len(begin), dtype=bool)
    apart[0] = True
    apart[1:] = begin[1:] > reached[:-1] + gap_bytes
    return np.cumsum(apart | new_shard) - 1


def _with_copies(
    shard: Ids, offset: Ids, length: Ids, grouped: tuple[Ids, Ids, Ids, Ids], ranges: tuple[Ids, Ids, Ids]
) -> Requests:
    group, begin, step, first_piece = grouped
    range_offset, range_length, range_at = ranges
    first = first_piece[group] + (range_offset - begin[group]) // step[group]
    last = first_piece[group] + (range_offset + range_length - 1 - begin[group]) // step[group]
    counts = last - first + 1
    of_range = np.repeat(np.arange(len(group)), counts)
    request = first[of_range] + np.arange(len(of_range)) - np.repeat(np.cumsum(counts) - counts, counts)
    low = np.maximum(range_offset[of_range], offset[request])
    high = np.minimum(range_offset[of_range] + range_length[of_range], offset[request] + length[request])
    turn = np.argsort(request, kind="stable")
    request, low, high, of_range = request[turn], low[turn], high[turn], of_range[turn]
    return Requests(
        shard,
        offset,
        length,
        np.searchsorted(request, np.arange(len(shard) + 1)),
        low - offset[request],
        range_at[of_range] + low - range_offset[of_range],
        high - low,
    )


def distinct(numbers: Ids) -> Ids:
    """The distinct numbers, sorted; np.unique imports NumPy's masked arrays on first use, which takes as long as a request."""
    ordered = np.sort(numbers)
    first = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]
