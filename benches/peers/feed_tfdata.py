"""tf.data: TFRecord files, AUTOTUNE everywhere, the fused crop-and-decode, batched parsing. Settings of the "Better performance with tf.data" guide."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import tensorflow as tf
from common import BATCH, CPUS, MEAN, SIZE, STD, Feed, main
from tf_service import distributed

from work import FLOATS, INTS, TINY_SAMPLES, TITLES, Data

AUTOTUNE = tf.data.AUTOTUNE
SHARDS = 8
PHOTOGRAPH = {
    "image/encoded": tf.io.FixedLenFeature([], tf.string),
    "image/class/label": tf.io.FixedLenFeature([], tf.int64),
}
ROW = {
    "floats": tf.io.FixedLenFeature([FLOATS], tf.float32),
    "ints": tf.io.FixedLenFeature([INTS], tf.int64),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def options() -> tf.data.Options:
    """No order to keep, one thread per core."""
    chosen = tf.data.Options()
    chosen.deterministic = False
    chosen.threading.private_threadpool_size = CPUS
    chosen.threading.max_intra_op_parallelism = 1
    return chosen


def records(data: Data, workload: str, shuffle: int) -> tf.data.Dataset:
    """All records of all files, for ever, shuffled over the given number of them."""
    files = [str(path) for path in data.files(workload, "tfrecord", ".tfrecord")]
    names = tf.data.Dataset.from_tensor_slices(files).shuffle(len(files)).repeat()
    read = names.interleave(
        tf.data.TFRecordDataset, cycle_length=SHARDS, num_parallel_calls=AUTOTUNE, deterministic=False
    )
    return read.shuffle(shuffle)


def photographs(data: Data, *, antialias: bool, workload: str = "a") -> Feed:
    """Workloads (a) and (cluster-…), in NHWC, which is tf.data's own layout and the cheaper one."""

    def prepare(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        fields = tf.io.parse_single_example(record, PHOTOGRAPH)
        encoded = fields["image/encoded"]
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            tf.io.extract_jpeg_shape(encoded),
            tf.zeros([1, 0, 4]),
            min_object_covered=0.0,
            area_range=(0.08, 1.0),
            aspect_ratio_range=(3 / 4, 4 / 3),
            max_attempts=10,
            use_image_if_no_bounding_boxes=True,
        )
        window = tf.stack([begin[0], begin[1], size[0], size[1]])
        image = tf.io.decode_and_crop_jpeg(encoded, window, channels=3)
        image = tf.image.resize(image, [SIZE, SIZE], method="bilinear", antialias=antialias)
        image = tf.image.random_flip_left_right(image)
        if workload == "cluster-uint8":
            return tf.cast(tf.round(image), tf.uint8), fields["image/class/label"]
        return (image - 255 * np.float32(MEAN)) / (255 * np.float32(STD)), fields["image/class/label"]

    dataset = (
        records(data, "a", min(1_024, len(data.jpegs())))
        .map(prepare, num_parallel_calls=AUTOTUNE, deterministic=False)
        .batch(BATCH[workload], drop_remainder=True)
    )
    if workload != "a":
        dataset = distributed(dataset)
    settings = {
        "format": f"{SHARDS} TFRecord files",
        "parallel": "AUTOTUNE",
        "decode": "decode_and_crop_jpeg",
        "antialias": antialias,
    }
    return Feed(
        batches=dataset.prefetch(AUTOTUNE).with_options(options()),
        column=lambda batch: batch[0],
        settings=settings,
        note="NHWC" if antialias else "NHWC; no antialias",
    )


def rows(data: Data) -> Feed:
    """Workload (b): shuffle records, batch them, parse the whole batch at once."""
    dataset = (
        records(data, "b", 65_536)
        .batch(BATCH["b"], drop_remainder=True)
        .map(lambda batch: tf.io.parse_example(batch, ROW), num_parallel_calls=AUTOTUNE, deterministic=False)
        .prefetch(AUTOTUNE)
        .with_options(options())
    )
    settings = {
        "format": f"{SHARDS} TFRecord files",
        "parse": "parse_example on whole batches",
        "shuffle_buffer": 65_536,
    }
    return Feed(batches=dataset, column=lambda batch: batch["floats"], settings=settings)


def tiny(_: Data) -> Feed:
    """Workload (c), sample by sample."""
    numbers = tf.data.Dataset.from_tensor_slices(np.arange(TINY_SAMPLES, dtype=np.int64)).repeat().shuffle(65_536)
    dataset = (
        numbers.batch(BATCH["c"], drop_remainder=True, num_parallel_calls=AUTOTUNE)
        .prefetch(AUTOTUNE)
        .with_options(options())
    )
    return Feed(batches=dataset, column=lambda batch: batch, settings={"shuffle_buffer": 65_536}, samples=TINY_SAMPLES)


def tiny_by_index(_: Data) -> Feed:
    """Workload (c), batches gathered by hand: index_shuffle is a permutation of the whole array."""
    numbers = tf.constant(np.arange(TINY_SAMPLES, dtype=np.int64))
    steps = TINY_SAMPLES // BATCH["c"]

    def gather(step: tf.Tensor) -> tf.Tensor:
        seed = tf.stack([step // steps, 0])
        positions = (step % steps) * BATCH["c"] + tf.range(BATCH["c"], dtype=tf.int64)
        return tf.gather(
            numbers, tf.random.experimental.index_shuffle(positions, tf.cast(seed, tf.int32), TINY_SAMPLES - 1)
        )

    dataset = tf.data.Dataset.counter().map(gather, num_parallel_calls=AUTOTUNE, deterministic=False).prefetch(AUTOTUNE)
    settings = {"order": "tf.random.experimental.index_shuffle"}
    return Feed(
        batches=dataset.with_options(options()),
        column=lambda batch: batch,
        settings=settings,
        note="batches gathered by hand",
        samples=TINY_SAMPLES,
    )


def write(data: Data) -> None:
    """(a) and (b) as TFRecord files of tf.train.Example."""
    _write(data, "a", (_example(image=path.read_bytes(), label=label) for path, label in _mixed(data)))
    if "b" not in TITLES:
        return
    arrays = np.load(data.rows)
    floats, ints, labels = arrays["floats"], arrays["ints"], arrays["label"]
    _write(data, "b", (_row(floats[n], ints[n], labels[n]) for n in range(len(labels))))


def _mixed(data: Data) -> list[tuple[object, int]]:
    photos = data.jpegs()
    return [photos[n] for n in np.random.default_rng(0).permutation(len(photos))]


def _write(data: Data, workload: str, examples: object) -> None:
    paths = [data.place(workload, f"tfrecord/part-{n:02d}.tfrecord") for n in range(SHARDS)]
    writers = [tf.io.TFRecordWriter(str(path)) for path in paths]
    for number, example in enumerate(examples):
        writers[number % SHARDS].write(example.SerializeToString())
    for writer in writers:
        writer.close()


def _ints(values: object) -> tf.train.Feature:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def _example(*, image: bytes, label: int) -> tf.train.Example:
    encoded = tf.train.Feature(bytes_list=tf.train.BytesList(value=[image]))
    return tf.train.Example(
        features=tf.train.Features(feature={"image/encoded": encoded, "image/class/label": _ints([label])})
    )


def _row(floats: object, ints: object, label: int) -> tf.train.Example:
    numbers = tf.train.Feature(float_list=tf.train.FloatList(value=floats))
    return tf.train.Example(
        features=tf.train.Features(feature={"floats": numbers, "ints": _ints(ints), "label": _ints([label])})
    )


def antialiased_or_not(workload: str) -> dict[str, Callable[[Data], Feed]]:
    """The feeds of a workload of photographs."""
    return {
        "antialias": partial(photographs, antialias=True, workload=workload),
        "plain": partial(photographs, antialias=False, workload=workload),
    }


if __name__ == "__main__":
    feeds = {
        "a": antialiased_or_not("a"),
        "cluster-uint8": antialiased_or_not("cluster-uint8"),
        "cluster-float32": antialiased_or_not("cluster-float32"),
        "b": {"parse_example": rows},
        "c": {"samples": tiny, "by_index": tiny_by_index},
    }
    main("tf.data", tf.__version__, feeds, write={"a": write})
