"""tf.data's side of benches/tuning.py: the same pipelines with AUTOTUNE or with numbers; one line of JSON."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import tensorflow as tf

from tuning_work import ROWS, SERVICE_S, busy, measure, training_step
from work import Data, data_folder

SIZE = 224


def prepare(path: tf.Tensor) -> tf.Tensor:
    encoded = tf.io.read_file(path)
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        tf.io.extract_jpeg_shape(encoded),
        tf.zeros([1, 0, 4]),
        min_object_covered=0.0,
        area_range=(0.08, 1.0),
        aspect_ratio_range=(3 / 4, 4 / 3),
        use_image_if_no_bounding_boxes=True,
    )
    window = tf.stack([begin[0], begin[1], size[0], size[1]])
    image = tf.image.resize(tf.io.decode_and_crop_jpeg(encoded, window, channels=3), [SIZE, SIZE], antialias=True)
    return tf.image.random_flip_left_right(image)


def called(function: object) -> object:
    """A Python function of a batch, as tf.data calls it."""

    def call(batch: tf.Tensor) -> tf.Tensor:
        def run(rows: np.ndarray) -> np.ndarray:
            function()
            return rows

        made = tf.numpy_function(run, [batch], tf.float32)
        made.set_shape(batch.shape)
        return made

    return call


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pipeline", choices=ROWS, required=True)
    parser.add_argument("--setting", type=json.loads, default={}, help="parallel and prefetch; AUTOTUNE unless given")
    parser.add_argument("--warmup", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, default=4.0)
    asked = parser.parse_args()
    parallel = asked.setting.get("parallel", tf.data.AUTOTUNE)
    rows = ROWS[asked.pipeline]
    if asked.pipeline == "function":
        dataset = tf.data.Dataset.from_tensor_slices(np.zeros((1 << 17, 32), np.float32)).shuffle(1024).repeat()
        dataset = dataset.batch(rows, drop_remainder=True).map(called(busy), num_parallel_calls=parallel)
    else:
        paths = [str(path) for path, _ in Data(data_folder()).jpegs()]
        dataset = tf.data.Dataset.from_tensor_slices(paths).shuffle(len(paths)).repeat()
        dataset = dataset.map(prepare, num_parallel_calls=parallel).batch(rows, drop_remainder=True)
        if asked.pipeline == "mixed":
            dataset = dataset.map(called(lambda: time.sleep(SERVICE_S)), num_parallel_calls=parallel)
    dataset = dataset.prefetch(asked.setting.get("prefetch", tf.data.AUTOTUNE))
    step = training_step() if asked.pipeline == "consumer" else None
    print(json.dumps(measure(dataset, rows, asked.warmup, asked.seconds, step)), flush=True)
    os._exit(0)  # its threads are in mid-batch


if __name__ == "__main__":
    main()
