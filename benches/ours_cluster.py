"""Penstock's side of the cluster: batches by actors of Ray, by the loader's own process, and by processes that give them to nobody."""

from __future__ import annotations

import logging
import multiprocessing
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from common import BATCH, CPUS, SIZE, Feed, endless

import penstock as ps
from work import Data

image = ps.image
USABLE = sorted(os.sched_getaffinity(0))
#: Actors with a CPU each: as many as there are, or all but two, which are left to Ray's own processes and to the trainer.
ACTORS = CPUS if CPUS < 4 else CPUS - 2


def plan(data: Data, workload: str) -> ps.Dataset:
    """Photographs, cropped and flipped; normalised, but for uint8."""
    ops = [image.Decode(entry_points="off"), image.RandomResizedCrop(SIZE), image.RandomHorizontalFlip()]
    if workload == "cluster-float32":
        ops.append(image.Normalize(image.IMAGENET))
    return ps.read(str(data.photographs)).shuffle(seed=0).transform(image=ops).batch(BATCH[workload], drop_last=True)


def actors(data: Data, *, workload: str, count: int, trainings: int = 1) -> Feed:
    """By so many actors with a CPU each, beside Ray's own processes, which have one more where there are four or more; loops that only take batches, in turn, on what is left, or on all."""
    import ray

    import penstock.ray

    of_ray = count if CPUS < 4 else count + 1
    os.sched_setaffinity(0, USABLE[:of_ray])
    ray.init("local", num_cpus=CPUS, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    os.sched_setaffinity(0, USABLE[of_ray:] or USABLE)
    train = plan(data, workload)
    loaders = [penstock.ray.Loader(train, workers=count, cpus=1, to="torch") for _ in range(trainings)]
    batches = chain.from_iterable(zip(*(endless(lambda one=one: one) for one in loaders), strict=True))
    return Feed(batches=batches, column=lambda batch: batch["image"], settings={"actors": count})


def here(data: Data, *, workload: str, cpus: int) -> Feed:
    """By the trainer's own process, which has so many CPUs."""
    os.sched_setaffinity(0, USABLE[:cpus])
    loader = ps.Loader(plan(data, workload), cpus=cpus, to="torch")
    return Feed(batches=endless(lambda: loader), column=lambda batch: batch["image"], settings={"cpus": cpus})


class Told(NamedTuple):
    """What a process says of a batch that it made."""

    shape: tuple[int, ...]
    dtype: str


def processes(data: Data, *, workload: str, count: int) -> Feed:
    """By so many processes with a CPU each, every one for itself: what actors could make if nothing had to be sent."""
    context, readers = multiprocessing.get_context("spawn"), []
    for cpu in USABLE[:count]:
        reader, writer = context.Pipe(duplex=False)
        context.Process(target=_make, args=(data, workload, cpu, writer), daemon=True).start()
        writer.close()
        readers.append(reader)

    def told() -> Iterator[Told]:
        while True:
            yield from (reader.recv() for reader in wait(readers))

    return Feed(batches=told(), column=lambda batch: batch, settings={"processes": count})


def _make(data: Data, workload: str, cpu: int, writer: Connection) -> None:
    """Makes batches until nobody hears of them any more."""
    os.sched_setaffinity(0, [cpu])
    batches = ps.Loader(plan(data, workload), cpus=1, to="torch")
    with suppress(BrokenPipeError):
        for batch in endless(lambda: batches):
            writer.send(Told(tuple(batch["image"].shape), str(batch["image"].dtype)))


def feeds(workload: str) -> dict[str, Any]:
    """All feeds of a workload."""
    return {
        f"{ACTORS} actors": partial(actors, workload=workload, count=ACTORS),
        f"{ACTORS} actors, 2 trainings": partial(actors, workload=workload, count=ACTORS, trainings=2),
        "1 actor": partial(actors, workload=workload, count=1),
        f"{ACTORS} processes": partial(processes, workload=workload, count=ACTORS),
        "here, 1 CPU": partial(here, workload=workload, cpus=1),
    }


FEEDS = {workload: feeds(workload) for workload in ("cluster-uint8", "cluster-float32")}
