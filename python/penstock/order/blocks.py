"""Block and window sizes: from the data and the plan alone, so that the same data has the same order everywhere."""

from __future__ import annotations

#: Bytes of neighbouring records that are worth reading together.
BLOCK_BYTES = 1 << 20

#: Blocks of a lane among which rows are mixed. With 64 lanes, a batch mixes rows of 128 blocks.
WINDOW_BLOCKS = 2


def default_block_rows(samples: int, size_bytes: int, shards: int) -> int:
    """Samples that make a block: about 1 MiB, but never more than a shard holds; 1 for what has no shards (memory).

    Whether files are mapped or read by ranges makes no difference.

    default_block_rows(10_000, 10_000 * 100_000, 10) == 10
    """
    if samples == 0 or shards == 0:
        return 1
    record_bytes = max(1, size_bytes // samples)
    return max(1, min(BLOCK_BYTES // record_bytes, samples // shards))
