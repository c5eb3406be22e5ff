"""Writes tests/golden/timm.json, the numbers that timm's steps make of a level: python tests/golden/make_timm.py, where timm is installed.

By configuration and step, every one of its two numbers where a sign is drawn, or its one.
"""

from __future__ import annotations

import json
from pathlib import Path

CONFIGS = ("rand-m9-n1-p1", "rand-m9-n1-p1-inc1", "rand-m3-n1-p1", "rand-m15-n1-p1-inc1", "rand-m15-mmax30-n1-p1")


def arguments(config: str) -> dict[str, list[float]]:
    """By the names that torchvision has for the steps."""
    from timm.data.auto_augment import rand_augment_transform

    found = {}
    for op in rand_augment_transform(config).ops:
        most = op.magnitude_max or 10
        level = max(0.0, min(op.magnitude, most))
        every = {op.level_fn(level, op.hparams)[0] for _ in range(60)} if op.level_fn else {0.0}
        name = op.name.removesuffix("Increasing").removesuffix("Rel")
        found[name] = sorted(round(float(number), 9) for number in every)
    return found


if __name__ == "__main__":
    found = {config: arguments(config) for config in CONFIGS}
    Path(__file__).with_name("timm.json").write_text(json.dumps(found, indent=1) + "\n")
