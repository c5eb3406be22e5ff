"""Penstock feeds deep-learning training: exact, resumable, elastic, at the hardware's limit."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from penstock.core.verbs.options import Column
    from penstock.dataset import Dataset
    from penstock.format import register_format
    from penstock.from_frameworks import from_ray, from_tf_data, from_torch
    from penstock.joining import concat, mix, zip
    from penstock.loader import Loader
    from penstock.open import from_arrays, from_dataset, from_iterable, read, read_sql, read_stream
    from penstock.plan.expression import col, lit
    from penstock.plan.when import when
    from penstock.profiling import Profile, profile
    from penstock.stages.lanes.states import merge_states
    from penstock.transform import image, table, text
    from penstock.transform.row_generator import RowGenerator

__all__ = [
    "Column",
    "DataError",
    "Dataset",
    "Limits",
    "Loader",
    "PenstockError",
    "PlanError",
    "ProcessError",
    "Profile",
    "RowGenerator",
    "SourceError",
    "StateError",
    "StorageError",
    "__version__",
    "col",
    "concat",
    "from_arrays",
    "from_dataset",
    "from_iterable",
    "from_ray",
    "from_tf_data",
    "from_torch",
    "image",
    "lit",
    "merge_states",
    "mix",
    "profile",
    "read",
    "read_sql",
    "read_stream",
    "register_format",
    "table",
    "text",
    "when",
    "zip",
]

#: Modules by the names that are theirs; of the others it is `core.errors` or `open`. They are imported when a name is first used, so that a
#: program starts in an instant.
_HOMES = {
    "Column": "core.verbs.options",
    "Dataset": "dataset",
    "Limits": "core.limits",
    "Loader": "loader",
    "Profile": "profiling",
    "RowGenerator": "transform.row_generator",
    "__version__": "core.kernels",
    "col": "plan.expression",
    "concat": "joining",
    "from_ray": "from_frameworks",
    "from_tf_data": "from_frameworks",
    "from_torch": "from_frameworks",
    "image": "transform",
    "lit": "plan.expression",
    "merge_states": "stages.lanes.states",
    "mix": "joining",
    "profile": "profiling",
    "register_format": "format",
    "table": "transform",
    "text": "transform",
    "when": "plan.when",
    "zip": "joining",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    home = _HOMES.get(name, "core.errors" if name.endswith("Error") else "open")
    module = import_module(f"penstock.{home}")
    found = getattr(module, "native_version" if name == "__version__" else name, None) or import_module(
        f"penstock.{home}.{name}"
    )
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
