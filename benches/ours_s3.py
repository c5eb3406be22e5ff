"""Our side of benches/s3.py: the first pass over a data set in S3; the public API, nothing tuned."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from itertools import chain, repeat
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

from common import cpu_seconds
from feed_s3 import BATCH

import penstock as ps

COLUMNS = {"packed": "data", "large": "data", "small": "image"}


def size_of(column: Any) -> int:
    """Bytes of an Arrow column of bytes, without its offsets."""
    ends = column.offsets if hasattr(column, "offsets") else column.buffers()[1]
    return int(ends[-1].as_py() - ends[0].as_py()) if hasattr(ends, "type") else column.nbytes


def main() -> None:
    """One line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workload", choices=BATCH, required=True)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--requests", type=int, help="requests in flight, fixed")
    parser.add_argument("--passes", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.requests:
        fix(arguments.requests)
    began_at = time.perf_counter()
    where = "s3://bench/small/" if arguments.workload == "small" else f"s3://bench/{arguments.workload}-mds/"
    dataset = ps.read(where).shuffle(seed=0).batch(BATCH[arguments.workload])
    opened_s = time.perf_counter() - began_at
    loader = ps.Loader(dataset)
    size = batches = 0
    first_s = now = middle_s = middle_bytes = 0.0
    for batch in chain.from_iterable(repeat(loader, arguments.passes)):
        now = time.perf_counter() - began_at
        first_s = first_s or now
        size, batches = size + batch[COLUMNS[arguments.workload]].nbytes, batches + 1
        if not middle_s and now - first_s > 2.0:
            middle_s, middle_bytes = now, size
        if now > arguments.seconds:
            break
    line = {
        "peer": "penstock",
        "opened_s": opened_s,
        "first_batch_s": first_s,
        "seconds": now,
        "bytes": size,
        "batches": batches,
        "mb_per_s": size / now / 1e6,
        "steady_mb_per_s": (size - middle_bytes) / max(1e-9, now - middle_s) / 1e6,
        "cpu_s": cpu_seconds(),
        "report": loader.report(),
        "storage": loader.stats().get("storage"),
    }
    print(json.dumps(line), flush=True)
    loader.close()


def fix(requests: int) -> None:
    """So many requests in flight, no more and no fewer."""
    from penstock.storage import pace

    pace.Pace.__init__.__defaults__ = (requests, requests, requests)


if __name__ == "__main__":
    os.environ.setdefault("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
    main()
