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
WORKERS = int(os.environ.get("PENSTOCK_BENCH_WORKERS", "8"))

#: What tf.data reads at once of a file, and of how many files.
TF_BUFFER_BYTES, TF_FILES = 8 << 20, 32

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

    top = connect().ls("bench/small/" if workload == "small" else f"bench/{workload}-tar/", detail=True)
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
    """tf.data from TFRecord files, by tensorflow-io's S3; as many files at once as it likes, and their records mixed."""
    import tensorflow as tf

    endpoint = os.environ["AWS_ENDPOINT_URL"].removeprefix("http://")
    os.environ.update(S3_ENDPOINT=endpoint, S3_USE_HTTPS="0", S3_VERIFY_SSL="0")
    at_once: Any = {"num_parallel_calls": tf.data.AUTOTUNE, "deterministic": False}
    found = tf.data.Dataset.list_files(f"s3://bench/{workload}-tfrecord/*.tfrecord", shuffle=True, seed=0)
    records = found.interleave(
        lambda name: tf.data.TFRecordDataset(name, buffer_size=TF_BUFFER_BYTES), cycle_length=TF_FILES, **at_once
    )
    for rows in records.shuffle(1024, seed=0).batch(BATCH[workload]).prefetch(tf.data.AUTOTUNE):
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
    """The rate of one pass, or of so many seconds of it, from before the data set is opened to the last batch."""
    began_at = time.perf_counter()
    size = batches = 0
    first_s = now = 0.0
    for got in make():
        now = time.perf_counter() - began_at
        first_s = first_s or now
        size, batches = size + got, batches + 1
        if now > seconds:
            break
    return {"first_batch_s": first_s, "seconds": now, "batches": batches, "mb_per_s": size / now / 1e6}


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
