"""Datasets of other frameworks as sources. The frameworks are imported when these are called, so that the names are there without them."""

from __future__ import annotations

import importlib
from typing import Any, cast

from penstock.core.errors import PlanError
from penstock.core.installing import pip_install
from penstock.core.verbs.options import Asked, Nulls, check_columns, check_nulls
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


def from_ray(data: Any, *, columns: Asked = None, nulls: Nulls = "error") -> Dataset:
    """The rows of a `ray.data.Dataset`, in its order; read where Ray's object store has them, block by block.

    It runs now, unless it was materialised: its blocks stay in the cluster, and a batch fetches those that hold its rows. So everything works: shuffle, any number of ranks, and
    resuming where the blocks are the same, as a saved state finds out by their rows and some values of each. A cluster that is started anew has no blocks: to resume there, make the
    dataset again in the same way.

    Args:
        data: a `ray.data.Dataset`; of columns of numbers, text, bytes, lists and tensors.
        columns: selects, renames and types, as for `read`.
        nulls: what nulls become, as for `read`. Default: an error.

    Returns:
        A dataset of one row for each row.

    Raises:
        PlanError: where Ray cannot be imported, and for columns that no batch can hold, such as Python objects.
        SourceError: for a dataset without rows.
        DataError: for blocks that have different columns, and, while you iterate, for one that Ray has lost.

    Example:
        def open(table):
            import ray.data

            return ps.from_ray(ray.data.from_arrow(table)).shuffle(seed=0).batch(32)
    """
    check_columns(columns)
    check_nulls("from_ray", nulls)
    try:
        found = importlib.import_module("penstock.ray.data")
    except ImportError as error:
        raise PlanError(f"from_ray: Ray Data cannot be imported ({error}); {pip_install('ray')}") from None
    return cast("Dataset", found.from_ray(data, columns=columns, nulls=nulls))
