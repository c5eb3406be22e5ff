"""Datasets of other frameworks as sources. The frameworks are imported when these are called, so that the names are there without them."""

from __future__ import annotations

import importlib
from typing import Any, cast

from penstock.core.errors import PlanError
from penstock.core.installing import pip_install
from penstock.dataset import Dataset


def from_torch(dataset: Any) -> Dataset:
    """A dataset of PyTorch, torchvision or Hugging Face; row i is dataset[i].

    TensorDataset, ImageFolder, DatasetFolder, datasets.Dataset, Subset and ConcatDataset become native plans, where their transforms have native
    equivalents (docs/pytorch.md has the table); of others, items are asked for as by `from_dataset`. Random transforms draw from the plan's seed: the same
    distribution, other numbers than torchvision's.

    Args:
        dataset: a map-style dataset.

    Returns:
        A dataset with the columns "0", "1", … for the places of its tuples, or those of its dicts.

    Raises:
        PlanError: where PyTorch cannot be imported, or a dataset has no length.

    Example:
        from torch import arange
        from torch.utils.data import TensorDataset

        pairs = ps.from_torch(TensorDataset(arange(6), arange(6) * 2)).shuffle(seed=0).batch(3)
        sorted(ps.Loader(pairs).batch_at(0, 0)) == ["0", "1"]
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
    """The elements of a `tf.data.Dataset` as rows.

    They are drawn once, into the user's cache, and from then on everything works: see `from_iterable`. Dicts become columns by their names, tuples the
    columns "0", "1", …, nested ones "image/pixels"; other elements the column "0". Strings are bytes; ragged tensors are lists.

    Args:
        data: a `tf.data.Dataset` of single elements: `unbatch()` it first.
        samples: how many elements there are, as for `from_iterable`. Default: found where TensorFlow knows the cardinality.
        spool: whether elements are kept, as for `from_iterable`. Default: True.
        name: what identifies the data to a saved state, as for `from_iterable`.
        version: changes with the data, as for `from_iterable`.

    Returns:
        A dataset of one row for each element.

    Raises:
        PlanError: for a dataset without an end (`take` so many), of sparse tensors, or of a graph.

    Example:
        import tensorflow as tf

        batches = tf.data.Dataset.from_tensor_slices({"x": [1, 2, 3, 4]}).batch(2)
        ps.from_tf_data(batches.unbatch()).head()["x"] == [1, 2, 3, 4]
    """
    found = importlib.import_module("penstock.tensorflow")
    return cast("Dataset", found.from_tf_data(data, samples=samples, spool=spool, name=name, version=version))
