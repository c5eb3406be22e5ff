"""WebDataset: tar shards dealt to ranks, a shuffle buffer. Nothing in it has a state."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import webdataset as wds
from resume_common import NoFeature, NoWay, Run, Session, main

from resume_rows import FILES, SOURCES, WEIGHTS, rows, stays


def source(run: Run, name: str) -> Any:
    """One source's samples, shuffled."""
    files = [str(path) for path in sorted((run.data / "webdataset" / name).glob("*.tar"))]
    dataset = wds.WebDataset(files, shardshuffle=FILES, nodesplitter=wds.split_by_node, seed=0)
    return dataset.shuffle(1_000).decode().map(lambda sample: (sample["json"]["id"],))


def session(run: Run, parts: list[Any] | None) -> Session:
    """Batches of this rank, without a state to save."""
    if run.plan == "mix":
        dataset = wds.DataPipeline(wds.RandomMix([source(run, name) for name in SOURCES], list(WEIGHTS)))
    else:
        dataset = source(run, "a")
    if run.plan == "filter":
        dataset = dataset.select(lambda row: stays(row[0]))
    stages = (wds.batched(run.batch, partial=False),)
    loader = wds.WebLoader(wds.DataPipeline(dataset, *stages), batch_size=None, num_workers=0)
    if parts:
        if hasattr(dataset, "state_dict") or hasattr(loader, "state_dict"):
            raise ValueError("WebDataset has a state now: use it here")
        raise NoWay(
            "no part of a pipeline has a state; its authors advise resampled=True and starting anew (webdataset issues 234, 271)"
        )
    return Session(steps=(np.asarray(batch[0], dtype=np.int64) for batch in loader), state=lambda: None)


def write(data: Path) -> None:
    """Tar files of a JSON with the number and the payload."""
    for name in SOURCES:
        (data / "webdataset" / name).mkdir(parents=True, exist_ok=True)
        for file in range(FILES):
            with wds.TarWriter(str(data / "webdataset" / name / f"{file}.tar")) as writer:
                for row in rows(name, file):
                    writer.write({"__key__": f"{row['id']:06}", "json": {"id": row["id"]}, "bin": row["payload"]})


if __name__ == "__main__":
    plans = {"shuffle": session, "mix": session, "filter": session, "pack": NoFeature("WebDataset has no packing")}
    main("WebDataset", version("webdataset"), plans, write=write, ways={"": "none"})
