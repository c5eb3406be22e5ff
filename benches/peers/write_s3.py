"""Writes the data sets of benches/s3.py in one format, in the environment of the peer whose format it is: python write_s3.py mds OUT SAMPLES SHARD_BYTES."""

from __future__ import annotations

import io
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

SAMPLE_BYTES = 100_000


def sample(number: int) -> dict[str, Any]:
    """Bytes that cannot be compressed."""
    return {"data": np.random.default_rng(number).bytes(SAMPLE_BYTES)}


def payload(number: int) -> bytes:
    """The bytes alone."""
    data: bytes = sample(number)["data"]
    return data


def mds(out: Path, samples: int, shard_bytes: int) -> None:
    """MosaicML's shards."""
    from streaming import MDSWriter

    with MDSWriter(out=str(out), columns={"data": "bytes"}, size_limit=shard_bytes) as writer:
        for number in range(samples):
            writer.write(sample(number))


def litdata(out: Path, samples: int, shard_bytes: int) -> None:
    """LitData's chunks."""
    import litdata as peer

    numbers = list(range(samples))
    peer.optimize(payload, numbers, str(out), num_workers=1, chunk_bytes=shard_bytes, mode="overwrite")


def tar(out: Path, samples: int, shard_bytes: int) -> None:
    """WebDataset's tar files."""
    out.mkdir(parents=True)
    each = shard_bytes // SAMPLE_BYTES
    for shard in range(-(-samples // each)):
        with tarfile.open(out / f"{shard:05}.tar", "w") as file:
            for number in range(shard * each, min(samples, (shard + 1) * each)):
                member = tarfile.TarInfo(f"{number:08}.bin")
                member.size = SAMPLE_BYTES
                file.addfile(member, io.BytesIO(payload(number)))


def tfrecord(out: Path, samples: int, shard_bytes: int) -> None:
    """TFRecord files; a record is the sample's bytes."""
    import tensorflow as tf

    out.mkdir(parents=True)
    each = shard_bytes // SAMPLE_BYTES
    for shard in range(-(-samples // each)):
        with tf.io.TFRecordWriter(str(out / f"{shard:05}.tfrecord")) as file:
            for number in range(shard * each, min(samples, (shard + 1) * each)):
                file.write(payload(number))


def small(out: Path, samples: int, shard_bytes: int) -> None:
    """A folder of pictures of so many bytes each; what they hold is not looked at."""
    rng = np.random.default_rng(0)
    for number in range(samples):
        path = out / f"class{number % 10}" / f"{number:06}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\xff\xd8\xff" + rng.bytes(shard_bytes - 3))


if __name__ == "__main__":
    name, out, samples, shard_bytes = sys.argv[1:]
    {"mds": mds, "litdata": litdata, "tar": tar, "tfrecord": tfrecord, "small": small}[name](
        Path(out), int(samples), int(shard_bytes)
    )
