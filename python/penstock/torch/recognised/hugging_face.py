"""What a `datasets.Dataset` of Hugging Face holds. The library is looked for among what was imported; nobody has a dataset of it otherwise."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from penstock.core.columns.spec import Ids
from penstock.core.messages import quoted
from penstock.torch.recognised.transforms import NotKnown

#: The classes that make items of each format, as the library comes; programs may register others.
_FORMATTERS = {
    "python": "datasets.formatting.formatting.PythonFormatter",
    "torch": "datasets.formatting.torch_formatter.TorchFormatter",
    "numpy": "datasets.formatting.np_formatter.NumpyFormatter",
}
#: Features whose values are those in the table; all others decode them.
_PLAIN, _LISTS = ("Value", "ClassLabel"), ("List", "LargeList", "Sequence")
#: What a dataset may hide behind attributes of its own.
_METHODS = ("__getitems__", "_getitem")


@dataclass(frozen=True)
class Shown:
    """A column of the items. form: whose values they are: "python", "torch" or "numpy"; dtype: of a batch's tensors, None for text."""

    name: str
    kind: pa.DataType
    form: str
    dtype: torch.dtype | None

    def __str__(self) -> str:
        what = "text" if self.dtype is None else str(self.dtype).removeprefix("torch.")
        return f"{self.name} ({what}{'[]' if is_list(self.kind) else ''})"


@dataclass(frozen=True)
class ItemTable:
    """A table, and the columns of it that items have. Two are equal if they are of the same table."""

    table: pa.Table
    columns: tuple[Shown, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ItemTable) and self.table is other.table and self.columns == other.columns

    def __hash__(self) -> int:
        return hash((id(self.table), self.columns))

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __str__(self) -> str:
        return f"datasets.Dataset: {len(self):,} rows of {', '.join(map(str, self.columns))}, gathered by one call a column"

    def one_by_one(self) -> ItemTable:
        """The same for a dataset that is asked for single rows. NumPy's numbers then keep the dtypes of the table."""
        columns = [
            replace(one, dtype=_own_dtype(one.kind)) if one.form == "numpy" and pa.types.is_primitive(one.kind) else one
            for one in self.columns
        ]
        return replace(self, columns=tuple(columns))


def is_hugging_face(dataset: Any) -> bool:
    """Whether it is a `datasets.Dataset`, and no subclass."""
    module = sys.modules.get("datasets.arrow_dataset")
    return module is not None and type(dataset) is getattr(module, "Dataset", None)


def table_of(dataset: Any) -> tuple[ItemTable, Ids | None]:
    """What its items have, and which rows of the table it has, None for all; NotKnown where items may be anything else."""
    try:
        return _table(dataset), _rows(dataset)
    except (AttributeError, KeyError, TypeError, ValueError) as error:  # of another version, or changed from outside
        raise NotKnown(f"datasets.Dataset that is not laid out as known: {type(error).__name__}: {error}") from None


def _table(dataset: Any) -> ItemTable:
    if any(name in vars(dataset) or not hasattr(dataset, name) for name in _METHODS):
        raise NotKnown("datasets.Dataset with methods of its own")
    if torch.get_default_device().type != "cpu":
        raise NotKnown(f"datasets.Dataset while torch's default device is {torch.get_default_device()}")
    table, features, form = dataset.data.table, dataset.features, _form(dataset)
    if not isinstance(table, pa.Table) or list(features) != table.column_names:
        raise NotKnown("datasets.Dataset whose features are not the columns of its table, in their order")
    formatted = [name for name in table.column_names if name in dataset.format["columns"]]
    columns = [_shown(name, table, features, form) for name in formatted]
    if dataset.format["output_all_columns"]:
        columns += [_shown(name, table, features, "python") for name in table.column_names if name not in formatted]
    if not columns:
        raise NotKnown("datasets.Dataset without columns")
    return ItemTable(table, tuple(columns))


def _form(dataset: Any) -> str:
    found = dataset.format
    form = "python" if found["type"] is None else found["type"]
    if form == "custom":
        raise NotKnown("datasets.Dataset with a transform, which is a Python function")
    if form not in _FORMATTERS:
        raise NotKnown(f"datasets.Dataset in the format {quoted(form)}; None, 'torch' and 'numpy' are known")
    if found["format_kwargs"]:
        raise NotKnown(f"datasets.Dataset whose format has arguments: {', '.join(map(str, found['format_kwargs']))}")
    made = type(sys.modules["datasets.formatting"].get_formatter(found["type"], features=dataset.features))
    if f"{made.__module__}.{made.__qualname__}" != _FORMATTERS[form]:
        raise NotKnown(f"datasets.Dataset with a formatter of its own, {made.__qualname__}")
    return form


def _shown(name: str, table: pa.Table, features: Any, form: str) -> Shown:
    kind, feature = table.schema.field(name).type, features[name]
    if not _is_plain(feature):
        raise NotKnown(f"column {quoted(name)}: a feature {type(feature).__name__}, whose values are decoded")
    if _is_text(kind):
        return Shown(name, kind, form, None)
    inner = kind.value_type if is_list(kind) else kind
    is_number = pa.types.is_integer(inner) or pa.types.is_floating(inner)
    if not (is_number or pa.types.is_boolean(kind)) or pa.types.is_uint64(inner):
        raise NotKnown(
            f"column {quoted(name)} of {kind}; known are numbers, booleans, text, bytes and lists of numbers"
        )
    if pa.types.is_boolean(inner):
        return Shown(name, kind, form, torch.bool)
    of_floats = torch.float64 if form == "python" else torch.float32
    return Shown(name, kind, form, torch.int64 if pa.types.is_integer(inner) else of_floats)


def _is_plain(feature: Any) -> bool:
    known = sys.modules["datasets.features"]
    kind = type(feature)
    if kind is list:  # of old versions
        return len(feature) == 1 and _is_plain(feature[0])
    if any(kind is getattr(known, name, None) for name in _LISTS):
        return _is_plain(feature.feature)
    return any(kind is getattr(known, name, None) for name in _PLAIN)


def is_list(kind: pa.DataType) -> bool:
    """Whether values are lists, of a fixed length or not."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _is_text(kind: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(test(kind) for test in tests)


def _own_dtype(kind: pa.DataType) -> torch.dtype:
    return torch.from_numpy(np.empty(0, kind.to_pandas_dtype())).dtype


def _rows(dataset: Any) -> Ids | None:
    indices = dataset._indices  # noqa: SLF001  # which nothing public gives
    if indices is None:
        return None
    column = indices.table.column(0)
    rows: Ids = (column.chunk(0) if column.num_chunks == 1 else column).to_numpy().view(np.int64)
    if len(rows) and (rows.min() < 0 or rows.max() >= dataset.data.num_rows):
        raise NotKnown("datasets.Dataset whose indices lie outside its table")
    return rows
