"""One peer's first pass over a data set in S3, as cold as it comes; each peer runs in its own environment.

python feed_s3.py --peer mosaicml --workload packed --seconds 20: prints one line of JSON. The endpoint and the keys are in the environment.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

#: Names of the workloads' data sets in the bucket, by what reads them.
BATCH = {"packed": 64, "large": 64, "small": 256}
SMALL = os.environ.get("PENSTOCK_BENCH_SMALL", "small-20000")
WORKERS = int(os.environ.get("PENSTOCK_BENCH_WORKERS", "8"))

#: What tf.data reads at once of a file, of how many files, and how many there are.
TF_BUFFER_BYTES, TF_FILES = 8 << 20, 32
TF_SHARDS = {"packed": 256, "large": 2}
#: How often tf.data goes through all of them, without a pause between.
PASSES = int(os.environ.get("PENSTOCK_BENCH_PASSES", "1"))

#: Yields the bytes of one batch after the other.
Feed = Iterator[int]


def loaded(dataset: Any, batch: int, *, shuffle: bool = False, loader: Any = None) -> Feed:
    """Under a DataLoader: samples are bytes, batches lists of them."""
    import torch
    from torch.utils.data import DataLoader

    torch.set_num_threads(1)
    made = (loader or DataLoader)(
        dataset, batch_size=batch, num_workers=WORKERS, collate_fn=rows_of, prefetch_factor=4, shuffle=shuffle or None
    )
    for rows in made:
        yield sum(map(len, rows))


def rows_of(samples: list[Any]) -> list[bytes]:
    """A batch that can go from process to process: LitData gives views of memory."""
    return list(map(bytes, samples))


def mosaicml(workload: str, scratch: str) -> Feed:
    """StreamingDataset from MDS, with its own local copies; a sample is its bytes."""
    from streaming import StreamingDataset
    from streaming.base.util import clean_stale_shared_memory

    clean_stale_shared_memory()

    class Bytes(StreamingDataset):
        def __getitem__(self, at: int) -> Any:
            return super().__getitem__(at)["data"]

    batch = BATCH[workload]
    remote = f"s3://bench/{workload}-mds"
    dataset = Bytes(remote=remote, local=scratch, shuffle=True, batch_size=batch, predownload=32 * batch)
    # The index was fetched in this process; workers forked from it would share that connection and mix up each other's answers.
    for stream in dataset.streams:
        stream._downloader.clean_up()  # noqa: SLF001
    return loaded(dataset, batch)


def litdata(workload: str, scratch: str) -> Feed:
    """StreamingDataset from LitData's chunks."""
    import litdata as peer
    from litdata.streaming import downloader

    downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True  # noqa: SLF001  # it refuses a plain-HTTP endpoint
    dataset = peer.StreamingDataset(
        f"s3://bench/{workload}-litdata", cache_dir=scratch, shuffle=True, max_pre_download=16
    )
    return loaded(dataset, BATCH[workload], loader=peer.StreamingDataLoader)


def webdataset(workload: str, scratch: str) -> Feed:
    """Tar files by `pipe:curl` of signed URLs, which stand in a file."""
    import webdataset as peer

    with open(os.environ["PENSTOCK_BENCH_URLS"]) as file:
        urls = [f"pipe:curl -s -f '{url.strip()}'" for url in file]
    dataset = peer.WebDataset(urls, shardshuffle=len(urls), empty_check=False, nodesplitter=None).shuffle(64)
    return loaded(dataset.map(lambda row: row["bin"]), BATCH[workload])


def s3fs(workload: str, scratch: str) -> Feed:
    """A map-style dataset over s3fs: one object an item where they are small, 100 KB ranges of packed ones."""
    import fsspec
    from torch.utils.data import Dataset

    def connect() -> Any:
        endpoint = {"endpoint_url": os.environ["AWS_ENDPOINT_URL"]}
        return fsspec.filesystem("s3", client_kwargs=endpoint, skip_instance_cache=True)

    top = connect().ls(f"bench/{SMALL}/" if workload == "small" else f"bench/{workload}-tar/", detail=True)
    folders = [one["name"] for one in top if one["type"] == "directory"]
    below = [one for folder in folders for one in connect().ls(folder + "/", detail=True)]
    found = {one["name"]: one for one in [*top, *below] if one["type"] == "file"}
    step = 100_000 if workload != "small" else 1 << 30
    items = [
        (name, at, min(at + step, one["size"])) for name, one in found.items() for at in range(0, one["size"], step)
    ]

    class Ranges(Dataset[Any]):
        store: Any = None

        def __len__(self) -> int:
            return len(items)

        def __getitems__(self, numbers: list[int]) -> list[bytes]:
            self.store = self.store or connect()
            names, starts, ends = zip(*(items[number] for number in numbers), strict=True)
            rows: list[bytes] = self.store.cat_ranges(list(names), list(starts), list(ends))
            return rows

    return loaded(Ranges(), BATCH[workload], shuffle=True)


def tfdata(workload: str, scratch: str) -> Feed:
    """tf.data from TFRecord files, by tensorflow-io's S3; their names are known, since its own glob asks for each file several times."""
    import tensorflow as tf

    os.environ.update(S3_ENDPOINT=os.environ["AWS_ENDPOINT_URL"], S3_DISABLE_MULTI_PART_DOWNLOAD="1")
    names = [f"s3://bench/{workload}-tfrecord/{number:05}.tfrecord" for number in range(TF_SHARDS[workload])]
    found = tf.data.Dataset.from_tensor_slices(names).shuffle(len(names), seed=0).repeat(PASSES)
    records = found.interleave(
        lambda name: tf.data.TFRecordDataset(name, buffer_size=TF_BUFFER_BYTES),
        cycle_length=TF_FILES,
        num_parallel_calls=TF_FILES,
        deterministic=False,
    )
    for rows in records.shuffle(64, seed=0).batch(BATCH[workload]).prefetch(tf.data.AUTOTUNE):
        yield sum(map(len, rows.numpy()))


PEERS: dict[str, Callable[[str, str], Feed]] = {
    "mosaicml": mosaicml,
    "litdata": litdata,
    "webdataset": webdataset,
    "s3fs": s3fs,
    "tfio": tfdata,
}


MODULES = {
    "mosaicml": ["torch", "streaming"],
    "litdata": ["torch", "litdata"],
    "webdataset": ["torch", "webdataset"],
    "s3fs": ["torch", "s3fs"],
    "tfio": ["tensorflow", "tensorflow_io"],
}


def measure(make: Callable[[], Feed], seconds: float) -> dict[str, float]:
    """The rate of one pass, or of so many seconds of it, from before the data set is opened to the last batch, and from the first on."""
    began_at = time.perf_counter()
    size = first_size = batches = 0
    first_s = now = 0.0
    for got in make():
        now = time.perf_counter() - began_at
        if not batches:
            first_s, first_size = now, got
        size, batches = size + got, batches + 1
        if now > seconds:
            break
    flowing = (size - first_size) / max(now - first_s, 1e-9)
    rates = {"mb_per_s": size / now / 1e6, "flowing_mb_per_s": flowing / 1e6}
    return {"first_batch_s": first_s, "seconds": now, "batches": batches, **rates}


def main() -> None:
    """One line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", choices=PEERS, required=True)
    parser.add_argument("--workload", choices=BATCH, required=True)
    parser.add_argument("--seconds", type=float, default=20.0)
    arguments = parser.parse_args()
    for module in MODULES[arguments.peer]:  # what a training has imported before
        importlib.import_module(module)
    scratch = tempfile.mkdtemp(prefix="penstock-bench-")
    try:
        line = measure(lambda: PEERS[arguments.peer](arguments.workload, scratch), arguments.seconds)
        print(json.dumps({"peer": arguments.peer, **line}), flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    os._exit(0)  # workers in mid-batch, and some libraries wait for them


if __name__ == "__main__":
    main()
