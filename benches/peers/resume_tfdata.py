"""tf.data: TFRecord files, shard(), a shuffle buffer, tf.train.Checkpoint of the iterator, which saves the buffer too."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import tensorflow as tf
from resume_common import Run, Session, main, same_ranks

from resume_rows import FILES, LENGTH, SOURCES, WEIGHTS, rows

BUFFER = 1_000
OTHER_RANKS = "a checkpoint of the iterator is one rank's, and its guide names no other number of ranks"
FEATURES = {"id": tf.io.FixedLenFeature([], tf.int64), "tokens": tf.io.VarLenFeature(tf.int64)}


def source(run: Run, name: str) -> tf.data.Dataset:
    """One source's rows of this rank, shuffled: files first, then rows."""
    files = [str(path) for path in sorted((run.data / "tfdata" / name).glob("*.tfrecord"))]
    found = tf.data.Dataset.from_tensor_slices(files).shuffle(FILES, seed=0).shard(run.ranks, run.rank)
    found = found.interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=tf.data.AUTOTUNE)
    return found.map(lambda record: tf.io.parse_single_example(record, FEATURES)).shuffle(BUFFER, seed=0)


def planned(run: Run) -> tf.data.Dataset:
    """The plan, up to the batch."""
    if run.plan == "pack":  # concatenation; tf.data has no other packing
        tokens = source(run, "a").map(lambda row: tf.sparse.to_dense(row["tokens"]))
        return tokens.unbatch().batch(LENGTH, drop_remainder=True)
    if run.plan == "mix":
        both = [source(run, name).map(lambda row: row["id"]) for name in SOURCES]
        return tf.data.Dataset.sample_from_datasets(both, list(WEIGHTS), seed=0, stop_on_empty_dataset=True)
    numbers = source(run, "a").map(lambda row: row["id"])
    return numbers.filter(lambda row: row % 3 != 0) if run.plan == "filter" else numbers


def session(run: Run, parts: list[Any] | None) -> Session:
    """An iterator of this rank."""
    state = same_ranks(run, parts, OTHER_RANKS) if parts else None
    iterator = iter(planned(run).batch(run.batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE))
    checkpoint = tf.train.Checkpoint(iterator=iterator)
    if state:
        with tempfile.TemporaryDirectory() as folder:
            for name, content in state.items():
                (Path(folder) / name).write_bytes(content)
            checkpoint.read(f"{folder}/iterator").assert_consumed()
    return Session(steps=(step.numpy().reshape(-1) for step in iterator), state=lambda: saved(checkpoint))


def saved(checkpoint: tf.train.Checkpoint) -> dict[str, bytes]:
    """The files of a checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        checkpoint.write(f"{folder}/iterator")
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def write(data: Path) -> None:
    """TFRecord files of tf.train.Example."""
    for name in SOURCES:
        (data / "tfdata" / name).mkdir(parents=True, exist_ok=True)
        for file in range(FILES):
            with tf.io.TFRecordWriter(str(data / "tfdata" / name / f"{file}.tfrecord")) as writer:
                for row in rows(name, file):
                    writer.write(example(row).SerializeToString())


def example(row: dict[str, Any]) -> tf.train.Example:
    """A row as tf.train.Example."""
    numbers = {
        name: tf.train.Int64List(value=value) for name, value in (("id", [row["id"]]), ("tokens", row["tokens"]))
    }
    feature = {name: tf.train.Feature(int64_list=value) for name, value in numbers.items()}
    feature["payload"] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[row["payload"]]))
    return tf.train.Example(features=tf.train.Features(feature=feature))


if __name__ == "__main__":
    way = "tf.train.Checkpoint(iterator=iter(dataset)).write() on every rank; read(its own)"
    main(
        "tf.data",
        tf.__version__,
        dict.fromkeys(("shuffle", "mix", "filter", "pack"), session),
        write=write,
        ways={"": way},
    )
