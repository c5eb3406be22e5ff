"""Who asks: code that trains takes other things than somebody who looks."""

from __future__ import annotations

import sys

from penstock.core.errors import PlanError

#: Packages that would take rows one by one, and train on them.
_TRAINERS = (
    "accelerate",
    "grain",
    "keras",
    "lightning",
    "penstock",
    "pytorch_lightning",
    "tensorflow",
    "torch",
    "transformers",
)


def refuse_trainers() -> None:
    """PlanError if the caller's caller is code that trains: rows of a plan one by one are slow, and no epoch, rank or state is known there."""
    module = str(sys._getframe(2).f_globals.get("__name__", ""))  # noqa: SLF001
    if any(module == name or module.startswith(f"{name}.") for name in _TRAINERS):
        raise PlanError(
            f"{module.partition('.')[0]} asks a penstock Dataset for its rows one by one, as of data that is not opened yet; a Dataset is a plan, whose batches a "
            f"Loader makes: pass penstock.Loader(dataset.batch(32)) where batches are wanted, in place of a DataLoader too"
        )
