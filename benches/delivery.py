"""What delivery costs: from a slot to the user's arrays, and through a tf.data.Dataset.

    python benches/delivery.py [--rounds 5] [--seconds 3] [--json]

- overhead: microseconds a batch of 64 images of 224×224 and their labels, from the slot that a kernel wrote to the batch that the user gets, in all threads; the median. "copied" says whether
  the images lie elsewhere than in the slot, by their addresses.
- tensorflow: batches of 64 a second from JPEG files through `penstock.tensorflow.as_dataset`, beside the loader alone; rounds alternate, and the median of the ratios counts.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps
from penstock.core.columns.spec import Field
from penstock.deliver import open_deliver
from penstock.deliver.structure import Structure
from penstock.runtime.slots import Slots

BATCH, SIZE = 64, 224
TIMES = 2000
TARGETS = (("numpy", "dict"), ("torch", "dict"), ("jax", "dict"), ("numpy", "arrow"))
#: Where the images of a batch lie.
ADDRESSES: dict[tuple[str, str], Callable[[Any], int]] = {
    ("numpy", "dict"): lambda batch: batch["image"].ctypes.data,
    ("torch", "dict"): lambda batch: batch["image"].data_ptr(),
    ("jax", "dict"): lambda batch: batch["image"].unsafe_buffer_pointer(),
    ("numpy", "arrow"): lambda batch: batch.column(0).storage.flatten().buffers()[1].address,
}


def overhead(to: str, structure: str) -> dict[str, Any]:
    """Microseconds a batch from slot to user, and whether the images were copied."""
    deliver, slots = open_deliver(to, None), Slots()
    shape = Structure(structure, ("image", "label"))
    fields = {"image": Field("uint8", (SIZE, SIZE, 3)), "label": Field("int64")}
    took, copied = list[float](), False
    for _ in range(TIMES):
        columns = {name: slots.array(field, BATCH) for name, field in fields.items()}
        columns["label"][:] = 0
        address = columns["image"].ctypes.data
        began = time.perf_counter()
        converted = {name: deliver.convert(column, fields[name]) for name, column in columns.items()}
        received = deliver.receive(deliver.finish(converted, BATCH))
        batch = shape.taking([(name, [column].pop) for name, column in received.items()])()
        took.append(time.perf_counter() - began)
        copied = copied or ADDRESSES[to, structure](batch) != address
        del columns, converted, received, batch
    return {"us": statistics.median(took) * 1e6, "copied": copied}


def photographs(folder: str, count: int) -> ps.Dataset:
    """The usual training pipeline over JPEGs of 400×300."""
    from PIL import Image

    rng = np.random.default_rng(0)
    for number in range(count):
        pixels = rng.integers(0, 255, (24, 32, 3), dtype=np.uint8)
        place = Path(folder, str(number % 4), f"{number}.jpg")
        place.parent.mkdir(exist_ok=True)
        Image.fromarray(pixels).resize((400, 300)).save(place, quality=90)
    ops = [ps.image.Decode(), ps.image.RandomResizedCrop(SIZE), ps.image.Normalize(ps.image.IMAGENET)]
    ops.append(ps.image.ToLayout("NHWC"))
    read = ps.read(folder, columns=["image", "label"]).transform(image=ops)
    return read.shuffle(seed=0).batch(BATCH, drop_last=True)


def passes(data: Iterable[Any], seconds: float) -> tuple[float, float]:
    """Batches a second, and CPU seconds for a thousand samples, of whole passes behind one that does not count: what waited for its turn has batches ready."""
    for _ in data:
        pass
    began, began_cpu, taken = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - began < seconds:
        for _ in data:
            taken += 1
    took, took_cpu = time.perf_counter() - began, time.process_time() - began_cpu
    return taken / took, took_cpu / taken / BATCH * 1000


def through_tensorflow(rounds: int, seconds: float) -> dict[str, float]:
    """The loader alone, and through a tf.data.Dataset."""
    from penstock.tensorflow import as_dataset

    found = list[tuple[tuple[float, float], tuple[float, float]]]()
    with tempfile.TemporaryDirectory() as folder:
        plan = photographs(folder, 1500)
        with ps.Loader(plan) as plain, ps.Loader(plan) as wrapped:
            made = as_dataset(wrapped)
            for _ in range(rounds + 1):
                found.append((passes(plain, seconds), passes(made, seconds)))
    del found[0]  # the tuner's first steps
    names = ("plain", "as_dataset")
    rates = {f"{name}_per_s": statistics.median(one[side][0] for one in found) for side, name in enumerate(names)}
    cpu = {
        f"{name}_cpu_s_per_1000": statistics.median(one[side][1] for one in found) for side, name in enumerate(names)
    }
    return {**rates, **cpu, "ratio": statistics.median(made[0] / plain[0] for plain, made in found)}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    costs = {f"{to} {structure}": overhead(to, structure) for to, structure in TARGETS}
    found = {"overhead": costs, "tensorflow": through_tensorflow(options.rounds, options.seconds)}
    if options.json:
        print(json.dumps(found, indent=1))
        return
    for name, cost in costs.items():
        print(f"{name:14} {cost['us']:6.1f} µs a batch, {'copied' if cost['copied'] else 'not copied'}")
    rates = found["tensorflow"]
    print(
        f"tf.data: {rates['as_dataset_per_s']:.1f} batches/s, the loader alone {rates['plain_per_s']:.1f}: {rates['ratio']:.2f}; CPU seconds for 1,000 samples "
        f"{rates['as_dataset_cpu_s_per_1000']:.2f} and {rates['plain_cpu_s_per_1000']:.2f}"
    )


if __name__ == "__main__":
    main()
