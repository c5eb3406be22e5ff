"""penstock simulate: what a training run would read, without reading it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from penstock.cli.console import out, print_json, size_text, table
from penstock.cli.opening import BatchSize, Json, Ops, Paths, open_dataset, usual_plan

WorldSize = Annotated[int, typer.Option(min=1, help="Ranks, over all nodes.")]
Nodes = Annotated[int, typer.Option(min=1, help="Machines that the ranks run on.")]
Cache = Annotated[
    str | None, typer.Option(help="Limit of each machine's cache, for example 100GiB; default: no cache.")
]
Epochs = Annotated[int, typer.Option(min=1, help="Epochs to simulate.")]


def simulate(
    paths: Paths,
    world_size: WorldSize = 1,
    nodes: Nodes = 1,
    epochs: Epochs = 1,
    batch: BatchSize = 256,
    cache: Cache = None,
    as_json: Json = False,
) -> None:
    """Print how many requests and bytes each node would request from a store, epoch by epoch.

    Reads only the index: a batch is a function of its step, so all requests are known in advance. The plan is shuffle and
    batch. In Python, call dataset.simulate(world_size=…) on any dataset.

    Examples:
        penstock simulate s3://bucket/train --world-size 8 --nodes 2 --epochs 3
        penstock simulate s3://bucket/train --nodes 4 --world-size 4 --epochs 5 --cache 500GiB
        penstock simulate data/train --batch 1024 --json
    """
    plan = usual_plan(open_dataset(paths), Ops.none, batch)
    found = plan.simulate(world_size=world_size, nodes=nodes, epochs=epochs, cache=cache)
    if as_json:
        print_json(asdict(found))
        return
    what = f"{found.steps_per_epoch:,} steps an epoch on {world_size:,} ranks"
    out.print(f"{what}; up to {size_text(found.rank_bytes_in_memory)} of records in a rank's memory", soft_wrap=True)
    if found.shuffle is not None:
        out.print(str(found.shuffle), soft_wrap=True)
    from_cache = [">from the cache"] if cache else []
    shown = table(">epoch", ">node", ">requests" if found.exact else ">blocks", ">bytes", *from_cache)
    for each in found.nodes:
        spared = [size_text(each.cache_bytes)] if cache else []
        shown.add_row(str(each.epoch), str(each.node), f"{each.requests:,}", size_text(each.bytes), *spared)
    out.print(shown)
    if not found.exact:
        out.print("A library reads these files in its own way: the table counts blocks, and the bytes of their rows.")
