"""Penstock feeds deep-learning training: exact, resumable, elastic, at the hardware's limit."""

from penstock.dataset import Dataset, from_arrays, read
from penstock.errors import DataError, PenstockError, PlanError, ProcessError, SourceError, StateError, StorageError
from penstock.format import register_format
from penstock.format.protocol import Column
from penstock.kernels import native_version as __version__
from penstock.limits import Limits
from penstock.loader import Loader
from penstock.sources import from_dataset, from_iterable, read_sql, read_stream
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
    "from_arrays",
    "from_dataset",
    "from_iterable",
    "image",
    "read",
    "read_sql",
    "read_stream",
    "register_format",
]
