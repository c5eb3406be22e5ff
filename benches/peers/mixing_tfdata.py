"""tf.data: sample_from_datasets and choose_from_datasets over files of fixed-length records, the token files themselves; bucket_by_sequence_length."""

from __future__ import annotations

from functools import partial

import tensorflow as tf
from common import Feed
from feed_tfdata import AUTOTUNE, options
from mixing_common import Task, main

from mixing_rows import BATCH, BOUNDARIES, LONGEST, MAX_TOKENS, ROW_BYTES, WEIGHTS, lists, token_files

BUFFER, CHOICES = 1_000, 4_096
ROWS_OF_BUCKETS = [BATCH] * (len(BOUNDARIES) + 1)
TOKENS_OF_BUCKETS = [MAX_TOKENS // bound for bound in (*BOUNDARIES, LONGEST)]


def mixed(task: Task, *, by_hand: bool = False) -> Feed:
    """A shuffle buffer for each source; whole batches are decoded at once. by_hand: choices are drawn many at a time, not one by one."""
    sources = [
        tf.data.FixedLengthRecordDataset(str(path), ROW_BYTES).repeat().shuffle(BUFFER)
        for path in token_files(task.data)
    ]
    if by_hand:
        rows = tf.data.Dataset.choose_from_datasets(sources, choices())
    else:
        rows = tf.data.Dataset.sample_from_datasets(sources, list(WEIGHTS), seed=0)
    batches = rows.batch(BATCH, drop_remainder=True)
    decoded = batches.map(lambda batch: tf.io.decode_raw(batch, tf.uint16), num_parallel_calls=AUTOTUNE)
    return feed(decoded, format="fixed-length records", buffer=f"{BUFFER} rows a source")


def choices() -> tf.data.Dataset:
    """Numbers of sources, by weights."""
    logits = tf.math.log([WEIGHTS])
    blocks = tf.data.Dataset.counter().map(
        lambda step: tf.random.stateless_categorical(logits, CHOICES, tf.stack([0, step]))[0]
    )
    return blocks.unbatch()


def bucketed(task: Task, *, sizes: list[int]) -> Feed:
    """Row numbers are shuffled, all of them, and rows sliced from memory."""
    values, edges = (tf.constant(numbers) for numbers in lists(task.rows))
    numbers = tf.data.Dataset.range(task.rows).shuffle(task.rows).repeat()
    rows = numbers.map(lambda row: values[edges[row] : edges[row + 1]], num_parallel_calls=AUTOTUNE)
    return feed(rows.bucket_by_sequence_length(tf.size, BOUNDARIES, sizes, drop_remainder=True), sizes=sizes)


def feed(dataset: tf.data.Dataset, **settings: object) -> Feed:
    """Prefetched, with one thread per core."""
    batches = dataset.prefetch(AUTOTUNE).with_options(options())
    return Feed(batches=batches, column=lambda batch: batch, settings=settings)


if __name__ == "__main__":
    mixes = {"sample_from": mixed, "choose_from, by hand": partial(mixed, by_hand=True)}
    lengths = {
        "rows": partial(bucketed, sizes=ROWS_OF_BUCKETS),
        "tokens": partial(bucketed, sizes=TOKENS_OF_BUCKETS),
    }
    main("tf.data", tf.__version__, {"mix": mixes, "lengths": lengths})
