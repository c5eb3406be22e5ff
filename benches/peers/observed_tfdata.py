"""tf.data: the bottleneck analysis of TensorBoard's profiler, which names an iterator of the slowest path and what to do. XProf 2.20 and later have it no more."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import tensorflow as tf
from observed import SMALL_FILES, Loop, Opens, adds, batches, decodes, made, photographs, tell
from tensorboard_plugin_profile.convert import raw_to_tool_data


def dataset(loop: Loop) -> Any:
    """The loop's pipeline with tf.data's own ops where it has them, and Python functions otherwise."""
    if loop.source_s:
        spec = tf.TensorSpec((loop.batch,), tf.int64)
        data = tf.data.Dataset.from_generator(lambda: batches(loop), output_signature=spec)
    else:
        data = tf.data.Dataset.range(1 << 16).repeat()
        if loop.function is adds:
            data = data.map(lambda row: tf.numpy_function(adds, [row], tf.int64), num_parallel_calls=loop.workers)
        if isinstance(loop.function, Opens):
            names = tf.constant([str(loop.function.path(number)) for number in range(SMALL_FILES)])
            data = data.map(lambda row: tf.io.read_file(names[row % SMALL_FILES]), num_parallel_calls=loop.workers)
        data = data.batch(loop.batch)
    if loop.function is decodes:
        stored = tf.constant(photographs())

        def decode(row: Any) -> Any:
            image = tf.io.decode_jpeg(stored[row % 64], channels=3)
            return tf.image.resize(image, (160, 160))

        data = data.map(
            lambda rows: tf.map_fn(decode, rows, fn_output_signature=tf.float32), num_parallel_calls=loop.workers
        )
    elif not (loop.function is None or isinstance(loop.function, Opens) or loop.by_row):
        data = data.map(
            lambda rows: tf.numpy_function(lambda some: made(loop, some), [rows], tf.int64),
            num_parallel_calls=loop.workers,
        )
    return data.prefetch(loop.prefetch)


def says(loop: Loop, seconds: float) -> dict[str, Any]:
    """What the analysis finds in a profile of so many seconds."""
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        until = time.perf_counter() + seconds
        for number, _ in enumerate(dataset(loop)):
            with tf.profiler.experimental.Trace("train", step_num=number, _r=1):
                loop.step()
            if time.perf_counter() > until:
                break
        tf.profiler.experimental.stop()
        found = [str(path) for path in Path(folder).rglob("*.xplane.pb")]
        told, _ = raw_to_tool_data.xspace_to_tool_data(found, "tf_data_bottleneck_analysis^", {})
    *_, latency, bottleneck = json.loads(told)
    return {
        "is_input_bound": bottleneck["p"]["is_input_bound"] == "true",
        "latency_us": dict(
            zip(("min", "mean", "max"), (one["v"] for one in latency["rows"][0]["c"][2:5]), strict=True)
        ),
        "bottleneck": [[one["v"] for one in row["c"][3:5]] for row in bottleneck["rows"]],
    }


if __name__ == "__main__":
    tell(get_context("spawn"), partial(says, seconds=float(sys.argv[1])))
