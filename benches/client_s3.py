"""What the machine and the line carry for benches/s3.py: ranges by obstore alone, each copied once to memory; nothing is made of them.

python client_s3.py --workload large --bytes 1000000 --requests 96 --seconds 8: prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import islice
from pathlib import Path
from threading import local

import numpy as np
import obstore
from obstore.store import from_url

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

from common import cpu_seconds
from feed_s3 import measure


def main() -> None:
    """One line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workload", choices=("packed", "large"), required=True)
    parser.add_argument("--bytes", type=int, required=True)
    parser.add_argument("--requests", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=20.0)
    arguments = parser.parse_args()
    store = from_url("s3://bench/", client_options={"allow_http": True, "timeout": timedelta(minutes=1)})
    own = local()

    def get(place: tuple[str, int, int]) -> int:
        path, start, end = place
        if not hasattr(own, "memory"):
            own.memory = np.empty(arguments.bytes, dtype=np.uint8)
        answer = obstore.get(store, path, options={"range": (start, end)}).bytes()
        own.memory[: end - start] = np.frombuffer(memoryview(answer), dtype=np.uint8)
        return end - start

    def feed() -> Iterator[int]:
        pages = obstore.list(store, prefix=f"{arguments.workload}-mds/")
        objects = [one for page in pages for one in page]
        places = [
            (one["path"], start, min(start + arguments.bytes, one["size"]))
            for one in objects
            for start in range(0, one["size"], arguments.bytes)
        ]
        turn = iter(np.tile(np.random.default_rng(0).permutation(len(places)), 100).tolist())
        with ThreadPoolExecutor(arguments.requests) as threads:
            while some := list(islice(turn, 8 * arguments.requests)):
                yield from threads.map(get, [places[number] for number in some])

    line = measure(feed, arguments.seconds)
    line |= {"cpu_s": cpu_seconds()}
    named = f"{arguments.requests} of {arguments.bytes / 1e6:g} MB"
    print(json.dumps({"peer": "obstore alone", "requests": named, **line}), flush=True)


if __name__ == "__main__":
    main()
