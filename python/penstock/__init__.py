"""Penstock feeds deep-learning training: exact, resumable, elastic, at the hardware's limit."""

from penstock.core.errors import (
    DataError,
    PenstockError,
    PlanError,
    ProcessError,
    SourceError,
    StateError,
    StorageError,
)
from penstock.core.kernels import native_version as __version__
from penstock.core.limits import Limits
from penstock.core.options import Column
from penstock.dataset import Dataset, concat, mix
from penstock.format import register_format
from penstock.loader import Loader
from penstock.open import from_arrays, from_dataset, from_iterable, read, read_sql, read_stream
from penstock.transform import image

__all__ = [
    "Column",
    "DataError",
    "Dataset",
    "Limits",
    "Loader",
    "PenstockError",
    "PlanError",
    "ProcessError",
    "SourceError",
    "StateError",
    "StorageError",
    "__version__",
    "concat",
    "from_arrays",
    "from_dataset",
    "from_iterable",
    "image",
    "mix",
    "read",
    "read_sql",
    "read_stream",
    "register_format",
]
