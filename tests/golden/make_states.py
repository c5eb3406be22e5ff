"""Writes tests/golden/states: states as Penstock saved them at the time, for plans that must load them for ever.

    python tests/golden/make_states.py version_1     # with the Penstock that writes version 1

A file that is there is never written again. Tests import `plans` as this module, `golden.make_states`, so that the functions have the same names.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps

FOLDER = Path(__file__).parent / "states"
LINES = Path(__file__).parent / "lines" / "datasets.jsonl"


def scale(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Users' functions are of any kind; this one is plain."""
    return {**batch, "image": batch["image"] * 2.0}


def row(values: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """One row."""
    return {**values, "label": values["label"] + rng.integers(2)}


def plans() -> dict[str, ps.Dataset]:
    """A plan of every verb and of files, each by a name."""
    images = (np.arange(24 * 6 * 6 * 3) % 251).astype(np.uint8).reshape(24, 6, 6, 3)
    base = ps.from_arrays({"image": images, "label": np.arange(24)})
    crop = ps.image.RandomResizedCrop(4, scale=(0.5, 1.0))
    chain = [crop, ps.image.RandomHorizontalFlip(), ps.image.Normalize(ps.image.IMAGENET)]
    return {
        "images": base.shuffle(seed=7).transform(image=chain).map(scale).batch(6),
        "verbs": base.shuffle(seed=1, mode="global")
        .shard([24])
        .map(lambda batch: batch)
        .map_rows(row)
        .batch(4, pad=True),
        "files": ps.read(LINES, columns={"number": "id", "text": "text"}).shuffle().batch(2, drop_last=True),
    }


def main(version: str) -> None:
    """States in the middle of the second epoch."""
    FOLDER.mkdir(exist_ok=True)
    states = {}
    for name, plan in plans().items():
        loader = ps.Loader(plan)
        loader.set_epoch(1)
        next(iter(loader))
        states[name] = loader.state_dict()
        loader.close()
    with (FOLDER / f"{version}.json").open("x") as file:
        file.write(json.dumps(states, indent=1) + "\n")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))
    from golden.make_states import main as as_module  # the functions' module is part of a state of version 1

    as_module(sys.argv[1])
