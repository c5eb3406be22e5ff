"""penstock count: counts ahead where the epochs of a plan end."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import Annotated

import typer

from penstock.cli.console import out, print_json, progress
from penstock.cli.opening import Json, named_in_module
from penstock.core.errors import PlanError
from penstock.dataset import Dataset

Plan = Annotated[
    str, typer.Argument(metavar="MODULE:NAME", help="A dataset that ends with batch(…), or a function that makes it.")
]
Epochs = Annotated[int, typer.Option(min=1, help="Epochs to count, from the first one on.")]
WorldSize = Annotated[int | None, typer.Option(min=1, help="Ranks, with batch(…, per_rank=True); default: any number.")]
Again = Annotated[bool, typer.Option("--again", help="Count anew what was counted before.")]


class Policy(StrEnum):
    """What is done about bad rows."""

    RAISE = "raise"
    SUBSTITUTE = "substitute"
    SKIP = "skip"


OnError = Annotated[Policy, typer.Option(help="What is done about bad rows: as the Loader does that trains.")]


def count(
    plan: Plan,
    epochs: Epochs = 1,
    world_size: WorldSize = None,
    again: Again = False,
    on_error: OnError = Policy.RAISE,
    as_json: Json = False,
) -> None:
    """Count how many rows the epochs of a plan have, before several ranks train on it.

    For plans with filter by a function, flat_map or pack, whose epochs end where their data does. All rows are made once, on all
    cores; only where lanes end is kept, in your cache. A run that was interrupted continues where it stopped. The module is looked for in the current
    folder, too. In Python, call dataset.count_rows().

    Examples:
        penstock count mine:validation
        penstock count mine:training --epochs 10
        penstock count mine:training --on-error skip
    """
    began_at = time.perf_counter()
    found = named_in_module(f"count {plan}", plan)
    dataset = found() if callable(found) and not isinstance(found, Dataset) else found
    if not isinstance(dataset, Dataset):
        raise PlanError(f"count {plan}: is a {type(dataset).__name__}; name a dataset, or a function that returns one")
    with progress("Counting") as report:
        rows = dataset.count_rows(
            epochs=epochs,
            world_size=world_size,
            again=again,
            on_error=on_error.value,
            progress=report,
        )
    if as_json:
        print_json({"plan": plan, "rows": rows, "seconds": time.perf_counter() - began_at})
        return
    for epoch, each in enumerate(rows):
        out.print(f"epoch {epoch}: {each:,} rows", soft_wrap=True)
