"""penstock explain: what a plan does with a dataset, without running it."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.console import print_json
from penstock.cli.opening import BatchSize, Json, Ops, Paths, open_dataset, suited_ops, usual_plan
from penstock.tools.explain import explain_figures


def explain(
    paths: Paths,
    ops: Annotated[Ops | None, typer.Option(help="What to do with images; default: rrc224 if there are any.")] = None,
    batch: BatchSize = 256,
    as_json: Json = False,
) -> None:
    """Print the plan before and after optimisation, its order and its stages.

    The plan is the usual one for training: shuffle, augment, batch. In Python, call dataset.explain() on
    any dataset.

    Examples:
        penstock explain data/train
        penstock explain 'data/train-*.tfrecord' --ops none --batch 1024
        penstock explain data/train --json | jq .steps
    """
    dataset = open_dataset(paths)
    plan = usual_plan(dataset, suited_ops(dataset, ops), batch)
    if as_json:
        print_json(explain_figures(plan.root))
    else:
        print(plan.explain())
