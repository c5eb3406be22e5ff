"""A training in a process of its own: python -m support.ray_driver ADDRESS CALLS SECONDS-A-STEP; says how far it is, and at the end a digest of its stream, and what its actors say."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ray

import penstock.ray
from support.ray_loaders import numbers, stream_digest


def slowly(batches: Any, step_s: float) -> Iterator[Any]:
    for number, batch in enumerate(batches):
        yield batch
        time.sleep(step_s)
        if number == 0:
            print("began", flush=True)


def main() -> None:
    address, calls, step_s = sys.argv[1:4]
    ray.init(address=address, log_to_driver=False)
    with penstock.ray.Loader(numbers(960, 8, Path(calls)), workers=2, compare_every=None, epochs=1) as loader:
        print("made", flush=True)
        digest = stream_digest(slowly(loader, float(step_s)))
        print(json.dumps({"digest": digest, **loader.stats().as_dict()["ray"]}), flush=True)


if __name__ == "__main__":
    main()
