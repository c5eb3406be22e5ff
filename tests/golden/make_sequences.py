"""Writes the golden file of tf.train.SequenceExamples with TensorFlow; run it where tensorflow-cpu is installed.

    python tests/golden/make_sequences.py

Beside it lies its name with .json: the values that tf.io.parse_sequence_example gives (bytes in hex).
"""

from __future__ import annotations

import json

import numpy as np
import tensorflow as tf
from make_tfrecords import FOLDER, floats, integers, plain, texts

RNG = np.random.default_rng(21)


def sequence(row):
    """A clip of so many frames; every fifth record lacks the captions, one has no frames."""
    frames = 0 if row == 7 else 1 + row % 6
    context = {"id": integers([row]), "fps": floats([24 + row / 2]), "name": texts([f"clip {row}".encode()])}
    lists = {
        "label": [integers([frame * row]) for frame in range(frames)],
        "xy": [floats(RNG.standard_normal(3).astype(np.float32)) for _ in range(frames)],
        "frame": [texts([bytes([row, frame]) * frame]) for frame in range(frames)],
        "boxes": [integers(list(range(frame % 3))) for frame in range(frames)],
        "id": [integers([frame]) for frame in range(frames)],
    }
    if row % 5:
        lists["captions"] = [texts([f"wörd {word}".encode() for word in range(frame % 3)]) for frame in range(frames)]
    return tf.train.SequenceExample(
        context=tf.train.Features(feature=context),
        feature_lists=tf.train.FeatureLists(
            feature_list={name: tf.train.FeatureList(feature=steps) for name, steps in lists.items()}
        ),
    ).SerializeToString()


def main():
    records = [sequence(row) for row in range(20)]
    with tf.io.TFRecordWriter(str(FOLDER / "sequences.tfrecord")) as writer:
        for record in records:
            writer.write(record)
    context = {"id": tf.int64, "fps": tf.float32, "name": tf.string}
    lists = {
        "label": tf.int64,
        "xy": tf.float32,
        "frame": tf.string,
        "boxes": tf.int64,
        "id": tf.int64,
        "captions": tf.string,
    }
    found = tf.io.parse_sequence_example(
        tf.constant(records),
        context_features={name: tf.io.FixedLenFeature((), kind) for name, kind in context.items()},
        sequence_features={name: tf.io.RaggedFeature(kind) for name, kind in lists.items()},
    )
    expected = {name: plain(values.numpy().tolist()) for name, values in found[0].items()}
    for name, values in found[1].items():
        # TensorFlow gives every step as a list of values, also where each holds one.
        rows = plain(values.to_list())
        single = name in ("label", "frame", "id")
        expected[f"feature_lists/{name}" if name == "id" else name] = [
            [step[0] for step in row] if single else row for row in rows
        ]
    (FOLDER / "sequences.tfrecord.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
