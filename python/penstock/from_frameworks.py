"""Datasets of other frameworks as sources. The frameworks are imported when these are called, so that the names are there without them."""

from __future__ import annotations

import importlib
from typing import Any, cast

from penstock.core.errors import PlanError
from penstock.core.installing import pip_install
from penstock.dataset import Dataset


def from_torch(dataset: Any) -> Dataset:
    """A dataset of PyTorch, torchvision or Hugging Face; row i is dataset[i], with the columns "0", "1", … for the places of its tuples.

    TensorDataset, ImageFolder, DatasetFolder, datasets.Dataset, Subset and ConcatDataset become native plans, where their transforms have native
    equivalents (docs/pytorch.md has the table); of others, items are asked for as by `from_dataset`. Random transforms draw from the
    plan's seed: the same distribution, other numbers than torchvision's.

    from_torch(ImageFolder("photos", ToTensor())).shuffle(seed=0).batch(32)
    """
    try:
        found = importlib.import_module("penstock.torch.recognised.open")
    except ImportError as error:
        raise PlanError(
            f"from_torch: PyTorch cannot be imported ({error}); {pip_install('torch')}, or use from_dataset"
        ) from None
    return cast("Dataset", found.from_torch(dataset))


def from_tf_data(
    data: Any, *, samples: int | None = None, spool: bool = True, name: str | None = None, version: str = ""
) -> Dataset:
    """The elements of a `tf.data.Dataset` as rows: penstock.from_tf_data(data.unbatch()).shuffle(seed=0).batch(32).

    Dicts become columns by their names, tuples the columns "0", "1", …, nested ones "image/pixels"; other elements the column "0". Strings are bytes; ragged tensors are lists.

    The elements are drawn once, into the user's cache, and from then on everything works: see `from_iterable`, whose samples, spool, name and version these are. samples is found where
    TensorFlow knows the cardinality. PlanError for a dataset without an end (`take` so many), of sparse tensors, or of a graph.
    """
    found = importlib.import_module("penstock.tensorflow")
    return cast("Dataset", found.from_tf_data(data, samples=samples, spool=spool, name=name, version=version))
