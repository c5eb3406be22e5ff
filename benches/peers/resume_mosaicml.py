"""MosaicML Streaming: MDS shards on the local disk, StreamingDataset under StreamingDataLoader, whose state is the same on every rank."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from resume_common import NoFeature, Run, Session, main
from streaming import MDSWriter, Stream, StreamingDataLoader, StreamingDataset
from streaming.base.util import clean_stale_shared_memory

from resume_rows import FILES, SOURCES, WEIGHTS, rows

SHARD_BYTES = 1 << 20


def folder(data: Path, name: str) -> str:
    """One source's shards."""
    return str(data / "mosaicml" / name)


def session(run: Run, parts: list[Any] | None) -> Session:
    """A loader of this rank; the ranks find each other by torch.distributed."""
    torch.distributed.init_process_group("gloo")
    clean_stale_shared_memory()
    if run.plan == "mix":
        streams = [Stream(local=folder(run.data, name), proportion=w) for name, w in zip(SOURCES, WEIGHTS, strict=True)]
        dataset = StreamingDataset(streams=streams, shuffle=True, batch_size=run.batch)
    else:
        dataset = StreamingDataset(local=folder(run.data, "a"), shuffle=True, batch_size=run.batch)
    loader = StreamingDataLoader(dataset, batch_size=run.batch, drop_last=True)
    if parts:
        loader.load_state_dict(parts[0])
    return Session(steps=(batch["id"].numpy() for batch in loader), state=loader.state_dict)


def write(data: Path) -> None:
    """MDS, in shards of 1 MiB."""
    for name in SOURCES:
        columns = {"id": "int64", "payload": "bytes"}
        with MDSWriter(out=folder(data, name), columns=columns, size_limit=SHARD_BYTES, exist_ok=True) as writer:
            for file in range(FILES):
                for row in rows(name, file):
                    writer.write({"id": np.int64(row["id"]), "payload": row["payload"]})


if __name__ == "__main__":
    plans = {
        "shuffle": session,
        "mix": session,
        "filter": NoFeature("StreamingDataset addresses samples by number and has no filter"),
        "pack": NoFeature("Streaming has no packing; llm-foundry packs inside the collate function"),
    }
    way = "StreamingDataLoader.state_dict() of rank 0; StreamingDataLoader.load_state_dict(state) on every rank"
    main(
        "MosaicML Streaming",
        version("mosaicml-streaming"),
        plans,
        write=write,
        ways={"": way},
        done=torch.distributed.barrier,
    )
