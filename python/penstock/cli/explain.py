"""penstock explain: what a plan on a dataset would do, without doing it."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.opening import BatchSize, Ops, Paths, open_dataset, suited_ops, usual_plan


def explain(
    paths: Paths,
    ops: Annotated[
        Ops | None, typer.Option(help="What is done to the pictures; default: rrc224 if there are any.")
    ] = None,
    batch: BatchSize = 256,
) -> None:
    """Print the plan before and after optimisation, its order and its stages.

    The plan is the usual one of a training: shuffle, augment, batch. In Python, every dataset has this as
    [bold]dataset.explain()[/].

    Examples:
        penstock explain data/train
        penstock explain 'data/train-*.tfrecord' --ops none --batch 1024
    """
    dataset = open_dataset(paths)
    print(usual_plan(dataset, suited_ops(dataset, ops), batch).explain())
