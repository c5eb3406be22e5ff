"""Penstock's side of benches/tuning.py: one pipeline with one setting, one line of JSON."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from itertools import repeat
from typing import Any

import numpy as np

import penstock as ps
from tuning_work import ROWS, SERVICE_S, busy, measure, training_step
from work import Data, data_folder


def holds_interpreter(batch: dict[str, Any]) -> dict[str, Any]:
    busy()
    return batch


def asks_service(batch: dict[str, Any]) -> dict[str, Any]:
    time.sleep(SERVICE_S)
    return batch


def photographs(data: Data) -> ps.Dataset:
    return (
        ps.read(str(data.photographs))
        .shuffle(seed=0)
        .transform(
            image=[
                ps.image.Decode(entry_points="off"),
                ps.image.RandomResizedCrop(224),
                ps.image.RandomHorizontalFlip(),
                ps.image.Normalize(ps.image.IMAGENET),
            ]
        )
    )


def plan(pipeline: str, data: Data) -> ps.Dataset:
    """What a pipeline does."""
    if pipeline == "s3":
        return ps.read("s3://bench/packed-mds/").cache_local(0).shuffle(seed=0).batch(ROWS[pipeline])
    if pipeline == "function":
        rows = ps.from_arrays({"x": np.zeros((1 << 17, 32), np.float32)}).shuffle(seed=0)
        return rows.map(holds_interpreter).batch(ROWS[pipeline])
    made = photographs(data)
    if pipeline == "mixed":
        made = made.map(asks_service)
    return made.batch(ROWS[pipeline], drop_last=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pipeline", choices=ROWS, required=True)
    parser.add_argument("--setting", type=json.loads, default={}, help="options of the Loader")
    parser.add_argument("--warmup", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, default=4.0)
    asked = parser.parse_args()
    loader = ps.Loader(plan(asked.pipeline, Data(data_folder())), **asked.setting)

    def endless() -> Iterator[Any]:
        for one in repeat(loader):
            yield from one

    step = training_step() if asked.pipeline == "consumer" else None
    line = measure(endless(), ROWS[asked.pipeline], asked.warmup, asked.seconds, step)
    stats = loader.stats().as_dict()
    line |= {"tuning": stats["tuning"], "waited": stats["waited"], "first_batch_s": stats["first_batch_s"]}
    print(json.dumps(line), flush=True)
    loader.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="penstock-bench-"):
        main()
