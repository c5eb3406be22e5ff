"""penstock explain: what a plan does with a dataset, without running it."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.opening import BatchSize, Ops, Paths, open_dataset, suited_ops, usual_plan


def explain(
    paths: Paths,
    ops: Annotated[Ops | None, typer.Option(help="What to do with images; default: rrc224 if there are any.")] = None,
    batch: BatchSize = 256,
) -> None:
    """Print the plan before and after optimisation, its order and its stages.

    The plan is the usual one for training: shuffle, augment, batch. In Python, call dataset.explain() on
    any dataset.

    Examples:
        penstock explain data/train
        penstock explain 'data/train-*.tfrecord' --ops none --batch 1024
    """
    dataset = open_dataset(paths)
    print(usual_plan(dataset, suited_ops(dataset, ops), batch).explain())
