"""LitData: optimised chunks on the local disk, StreamingDataLoader, torchvision's transforms."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import litdata
import numpy as np
import torch
from common import BATCH, CPUS, Feed, endless, main, version_of
from torch_photograph import preparation

from tokens import token_file
from work import TINY_SAMPLES_IN_FILES, TOKENS, WINDOW, Data

PASSES = 8
TOKEN_PARTS = 100


class Photographs(litdata.StreamingDataset):
    """JPEG bytes in, a normalised tensor out."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.prepare = preparation()

    def __getitem__(self, index: Any) -> Any:
        row = super().__getitem__(index)
        return self.prepare(row["image"]), row["label"]


def load(dataset: litdata.StreamingDataset, workload: str, workers: int) -> litdata.StreamingDataLoader:
    """The data set under LitData's own loader."""
    if workers:
        torch.set_num_threads(1)
    return litdata.StreamingDataLoader(
        dataset,
        batch_size=BATCH[workload],
        num_workers=workers,
        drop_last=True,
        persistent_workers=workers > 0,
        prefetch_factor=4 if workers else None,
    )


def photographs(data: Data, *, workers: int) -> Feed:
    """Workload (a)."""
    dataset = Photographs(str(data.place("a", "litdata")), shuffle=True, drop_last=True)
    loader = load(dataset, "a", workers)
    settings = {
        "format": "LitData chunks",
        "workers": workers,
        "transforms": "torchvision.transforms.v2 on tensors",
        "antialias": True,
    }
    return Feed(batches=endless(lambda: loader), column=lambda batch: batch[0], settings=settings)


def plain(data: Data, workload: str, column: str, *, workers: int) -> Feed:
    """Workloads (b) and (c), in LitData's chunks."""
    loader = load(
        litdata.StreamingDataset(str(data.place(workload, "litdata")), shuffle=True, drop_last=True), workload, workers
    )
    settings = {"format": "LitData chunks", "workers": workers}
    return Feed(
        batches=endless(lambda: loader),
        column=lambda batch: batch[column],
        settings=settings,
        note="from LitData chunks",
        samples=TINY_SAMPLES_IN_FILES if workload == "c" else None,
    )


def tokens(data: Data, *, workers: int) -> Feed:
    """Workload "tokens": TokensLoader on chunks of 64 MB, from mapped files."""
    folder = data.place("tokens", "litdata")
    if not (folder / "index.json").exists():
        write_tokens(data)
    dataset = litdata.StreamingDataset(
        str(folder), item_loader=litdata.TokensLoader(block_size=WINDOW), shuffle=True, drop_last=True
    )
    settings = {"format": "LitData chunks", "workers": workers, "item_loader": "TokensLoader"}
    loader = load(dataset, "tokens", workers)
    return Feed(batches=endless(lambda: loader), column=lambda batch: batch, settings=settings)


def _tokens(part: int, path: Path) -> torch.Tensor:
    count = TOKENS // TOKEN_PARTS
    return torch.from_numpy(np.fromfile(path, dtype=np.uint16, count=count, offset=2 * count * part))


def write_tokens(data: Data) -> None:
    """The tokens in chunks that hold whole windows but for their last."""
    litdata.optimize(
        functools.partial(_tokens, path=token_file(data)),
        list(range(TOKEN_PARTS)),
        str(data.place("tokens", "litdata")),
        num_workers=1,
        chunk_size=WINDOW * 16_384,
        item_loader=litdata.TokensLoader(),
        mode="overwrite",
    )


def _photograph(item: tuple[Path, int]) -> dict[str, object]:
    return {"image": item[0].read_bytes(), "label": item[1]}


@functools.cache
def _arrays(rows: Path) -> dict[str, Any]:
    with np.load(rows) as stored:
        return {name: torch.from_numpy(stored[name]) for name in stored.files}


def _row(number: int, rows: Path) -> dict[str, object]:
    arrays = _arrays(rows)
    return {
        "floats": arrays["floats"][number].clone(),
        "ints": arrays["ints"][number].clone(),
        "label": int(arrays["label"][number]),
    }


def _tiny(number: int) -> dict[str, object]:
    return {"x": number}


def write(data: Data) -> None:
    """All three workloads as LitData chunks; (a) holds every photograph PASSES times: the start of an epoch is not what is measured."""
    photos = data.jpegs()
    order = np.random.default_rng(0).permutation(PASSES * len(photos)) % len(photos)
    settings = {"num_workers": 1, "chunk_bytes": "16MB", "mode": "overwrite"}
    litdata.optimize(_photograph, [photos[n] for n in order], str(data.place("a", "litdata")), **settings)
    count = len(_arrays(data.rows)["label"])
    litdata.optimize(
        functools.partial(_row, rows=data.rows), list(range(count)), str(data.place("b", "litdata")), **settings
    )
    write_tokens(data)
    litdata.optimize(_tiny, list(range(TINY_SAMPLES_IN_FILES)), str(data.place("c", "litdata")), **settings)


if __name__ == "__main__":
    feeds = {
        "a": {
            f"workers_{CPUS}": lambda data: photographs(data, workers=CPUS),
        },
        "b": {f"workers_{CPUS}": lambda data: plain(data, "b", "floats", workers=CPUS)},
        "c": {
            f"workers_{CPUS}": lambda data: plain(data, "c", "x", workers=CPUS),
        },
        "tokens": {
            f"workers_{CPUS}": lambda data: tokens(data, workers=CPUS),
            "workers_0": lambda data: tokens(data, workers=0),
        },
    }
    main("LitData", version_of("litdata"), feeds, write={"a": write})
