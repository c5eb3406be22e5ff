"""Our side of benches/s3.py: passes over a data set in S3, with an empty cache or none; the public API, nothing tuned."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

from common import cpu_seconds
from feed_s3 import BATCH, SMALL, measure

import penstock as ps

COLUMNS = {"packed": "data", "large": "data", "small": "image"}


def main() -> None:
    """One line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workload", choices=BATCH, required=True)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--requests", type=int, help="requests in flight, fixed")
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--second", action="store_true", help="with the cache, and measured from the second epoch on")
    parser.add_argument("--local", type=Path, help="the same files from this folder")
    parser.add_argument("--natural", action="store_true", help="not shuffled")
    parser.add_argument("--lanes", type=int)
    parser.add_argument("--block-rows", type=int)
    parser.add_argument("--report", action="store_true", help="print the loader's report too")
    arguments = parser.parse_args()
    if arguments.requests:
        fix(arguments.requests)
    name = SMALL if arguments.workload == "small" else f"{arguments.workload}-mds"
    opened: dict[str, Any] = {}

    def open_loader() -> ps.Loader:
        dataset = ps.read(str(arguments.local / name) if arguments.local else f"s3://bench/{name}/")
        if not arguments.second:
            dataset = dataset.cache_local(0)
        if not arguments.natural:
            dataset = dataset.shuffle(seed=0, block_rows=arguments.block_rows)
        # Of one pass the peers know that it is one.
        opened["loader"] = ps.Loader(
            dataset.batch(BATCH[arguments.workload], lanes=arguments.lanes), epochs=1 if arguments.passes == 1 else None
        )
        return opened["loader"]

    if arguments.second:
        for _ in open_loader():
            pass

    def feed() -> Iterator[int]:
        loader = opened.get("loader") or open_loader()
        for batch in chain.from_iterable(repeat(loader, arguments.passes)):
            yield batch[COLUMNS[arguments.workload]].nbytes

    line: dict[str, Any] = {"peer": "penstock", **measure(feed, arguments.seconds), "cpu_s": cpu_seconds()}
    loader = opened["loader"]
    line |= {name: loader.stats().as_dict()[name] for name in ("verdict", "storage")}
    if arguments.report:
        print(loader.report())
    print(json.dumps(line), flush=True)
    loader.close()


def fix(requests: int) -> None:
    """So many requests in flight, no more and no fewer."""
    from penstock.storage.fetch import pace

    pace.Pace.__init__.__defaults__ = (requests, requests, requests)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        os.environ["XDG_CACHE_HOME"] = scratch
        main()
