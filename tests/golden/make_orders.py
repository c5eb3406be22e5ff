"""Writes tests/golden/orders.json: the rows that composed plans take, and a digest of what random ops draw for them.

    python tests/golden/make_orders.py

A plan that is there is never written again: saved states mean nothing if its order changes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps
from penstock.plan.nodes import LaneNode

FILE = Path(__file__).parent / "orders.json"


def _drawn(pixels: Any) -> Iterator[dict[str, Any]]:
    return ({"image": image} for image in pixels)


def plans() -> dict[str, ps.Dataset]:
    """A plan for every node that changes which rows come when."""
    pixels = (np.arange(30 * 8 * 8 * 3) % 251).astype(np.uint8).reshape(30, 8, 8, 3)
    parts = [ps.from_arrays({"image": pixels[low:high]}) for low, high in ((0, 8), (8, 20), (20, 30))]
    a, b, c = parts
    crop = {"image": ps.image.RandomResizedCrop(4)}
    batched = {
        "concat": ps.concat(parts).shuffle(seed=3, block_rows=2),
        "concat of shuffled": ps.concat([one.shuffle(seed=seed, block_rows=2) for seed, one in enumerate(parts)]),
        "take and skip": ps.concat(parts).shuffle(seed=3, block_rows=2).skip(4).take(20),
        "every": ps.concat(parts).every(3).shuffle(seed=1),
        "repeat": b.shuffle(seed=5).repeat(2),
        "mix": ps.mix(parts, weights=[0.5, 0.3, 0.2]).shuffle(seed=7),
        "mix, all exhausted": ps.mix([a.shuffle(seed=1), b.shuffle(seed=2)], weights=[2, 1], stop="all_exhausted"),
        "mix, rows": ps.mix([b, c], weights=[1, 2], rows=16).shuffle(seed=7, mode="global"),
        "mix, weights that change": ps.mix([b, c], weights={0: [1, 2], 3: [5, 1]}, rows=16).shuffle(seed=7),
        "mix of mixes": ps.mix([ps.mix([a, b]), c.repeat(2)], weights=[0.4, 0.6]).shuffle(seed=2),
    }
    counted = np.arange(30)
    columns = {
        "image": pixels,
        "n": counted,
        "label": counted * counted % 7 % 3,
        "user": [f"u{n // 4}" for n in counted],
    }
    data, shares = ps.from_arrays(columns), {"train": 0.6, "val": 0.4}
    again = data.sample(40, weights=ps.col("n") + 1, replacement=True, seed=2)
    batched |= {
        "filter": data.filter((ps.col("n") % 5 != 2) & (ps.col("n") > 3)).shuffle(seed=1, block_rows=8),
        "split": data.split(shares, seed=5)["train"].shuffle(seed=1, block_rows=2),
        "split by a column": data.split(shares, by="user")["train"],
        "split, stratified": data.split(shares, stratify="label")["val"],
        "balance over": data.balance("label").shuffle(seed=3),
        "balance under": data.balance("label", mode="under", seed=1),
        "sample": data.sample(17, weights=counted + 1.0, seed=2),
        "sample of all alike": data.sample(13),
        "sample again": again.shuffle(seed=4).repeat(2),
        "sort": data.sort(ps.col("n") * 7 % 11, descending=True),
        "mix of filtered": ps.mix([data.filter(ps.col("n") < 12), data.sort("label")], weights=[2, 1]).shuffle(seed=6),
    }
    half = ps.from_arrays({"half": counted[:15]})
    images = ps.concat(parts)
    batched |= {
        "slice of a mix": ps.mix([a, b], weights=[1, 2]).shuffle(seed=2).skip(4).take(8),
        "concat of mixes": ps.concat([ps.mix([a, b]).shuffle(seed=2), ps.mix([c, a], rows=8).shuffle(seed=3)]),
        "zip": ps.zip([ps.from_arrays({"n": counted}), images]).shuffle(seed=8, block_rows=3),
        "zip of parts": ps.zip([half, images.every(2)]).shuffle(seed=8).repeat(2),
    }
    made = {name: plan.transform(**crop).batch(4, lanes=4) for name, plan in batched.items()}
    numbers = [number * 7 % 30 for number in range(30)]
    bucketed = ps.concat(parts).shuffle(seed=3).transform(**crop)
    below = ps.zip([half, images.skip(15).transform(**crop)]).shuffle(seed=8)
    made["zip, ops below"] = below.batch(4, lanes=4)
    made["steps"] = data.shuffle(seed=4).transform(**crop).batch(4, lanes=2, steps=11)
    made["repeat, padded"] = c.shuffle(seed=4).repeat(3).transform(**crop).batch(4, lanes=4, pad=True)
    made["bucket, by quantiles"] = data.transform(**crop).batch_bucketed(
        4, by="n", quantiles=3, lanes=2, drop_last=True
    )
    made |= lane_stages(data.shuffle(seed=1, block_rows=4), crop)
    made["tokens"] = bucketed.batch_tokens(max_tokens=120, by=numbers, lanes=2)
    made["tokens, plain sum"] = images.transform(**crop).batch_tokens(
        max_tokens=90, by=numbers, padded=False, lanes=2, drop_last=True
    )
    drawn = ps.from_iterable(partial(_drawn, pixels), samples=30, spool=False, name="drawn")
    made["stream"] = drawn.shuffle(seed=4, window=16).transform(**crop).batch(4, lanes=4)
    return made | {"bucket": bucketed.batch_bucketed(4, by=numbers, boundaries=[6, 17], lanes=4)}


def lane_stages(data: ps.Dataset, crop: dict[str, Any]) -> dict[str, ps.Dataset]:
    """A plan for every lane stage, and for orders above and below them."""
    some = data.filter(lambda batch: batch["n"] % 3 != 1)
    tokens = [list(range(100 * row, 100 * row + row * 5 % 9)) for row in range(30)]
    texts = ps.from_arrays({"tokens": pa.array(tokens, pa.large_list(pa.int64()))}).shuffle(seed=2)
    made = {
        "lanes, filter": some,
        "lanes, flat_map": data.flat_map(_backwards, rows=3),
        "lanes, mix below": ps.mix([some, data], weights=[2, 1], rows=8).flat_map(_backwards, rows=2),
        "lanes, mix above": ps.mix([some, data.flat_map(_backwards, rows=5)], weights=[1, 2]),
    }
    made = {name: plan.transform(**crop) for name, plan in made.items()}
    half = ps.from_arrays({"half": np.arange(30)}).filter(lambda batch: batch["half"] % 3 != 1)
    joined = {
        "lanes, concat": ps.concat([some, data.flat_map(_backwards, rows=5), data]).transform(**crop),
        "lanes, mix": ps.mix([some, data], weights=[2, 1]).transform(**crop),
        "lanes, cut": some.skip(5).take(13).transform(**crop),
        "lanes, zip": ps.zip([half, ps.from_arrays({"n": np.arange(30)}).filter(lambda batch: batch["n"] % 3 != 1)]),
    }
    made["lanes, pack"] = texts.pack("tokens", length=7, window=5)
    made["lanes, pack, concat"] = texts.pack("tokens", length=7, strategy="concat")
    ended = {name: made[name] for name in ("lanes, filter", "lanes, pack, concat")} | joined
    ended = {f"{name}, to the end": plan.batch(4, lanes=4) for name, plan in ended.items()}
    return {name: plan.batch(4, lanes=4, steps=40) for name, plan in made.items()} | ended


def _backwards(batch: Any) -> Any:
    return {name: column[::-1][int(batch["n"][0]) % 2 :] for name, column in batch.items()}


def figures(plan: ps.Dataset) -> dict[str, Any]:
    """The row ids of three epochs, and the digest of their images; behind lane stages what the rows say, since that decides."""
    if any(isinstance(node, LaneNode) for node in plan.nodes):
        return _figures_of_lanes(plan)
    drawn = hashlib.sha256()
    with ps.Loader(plan, rank=0, world_size=1) as loader:
        ids = [
            [number for step in range(len(loader)) for number in loader.sample_ids(epoch, step).tolist()]
            for epoch in range(3)
        ]
        for _ in range(3):
            for batch in loader:
                drawn.update(batch["image"].tobytes())
    return {"ids": ids, "sha256_of_images": drawn.hexdigest()}


def _figures_of_lanes(plan: ps.Dataset) -> dict[str, Any]:
    seen, rows = hashlib.sha256(), []
    with ps.Loader(plan, rank=0, world_size=1) as loader:
        for _ in range(3):
            for batch in loader:
                rows += batch["n" if "n" in batch else "tokens"].tolist()
                for column in batch.values():
                    seen.update(repr(column.to_pylist()).encode() if isinstance(column, pa.Array) else column.tobytes())
    return {"rows": json.dumps(rows), "sha256_of_columns": seen.hexdigest()}


def places(plan: ps.Dataset) -> dict[str, Any]:
    """What a state says of where lanes stand after 42 steps; nothing without lane stages. Others may say the same."""
    with ps.Loader(plan, rank=0, world_size=1) as loader:
        for _ in range(2):
            for _ in loader:
                if (loader.epoch, loader.step) == (1, 2):
                    break
        state = loader.state_dict()
    return {name: state[name] for name in ("epoch", "step", "lanes")} if "lanes" in state else {}


def _saved(plan: ps.Dataset) -> dict[str, Any]:
    return {"saved": json.dumps(found)} if (found := places(plan)) else {}


def main() -> None:
    """Adds the plans that are missing."""
    known = json.loads(FILE.read_text()) if FILE.exists() else {}
    made = {name: known.get(name) or figures(plan) | _saved(plan) for name, plan in plans().items()}
    FILE.write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
