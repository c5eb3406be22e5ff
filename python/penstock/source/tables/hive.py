"""Folders that hold a column's value (`year=2024/…`, as Hive, Spark and pyarrow write them): one constant column a file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.errors import DataError
from penstock.core.files.shards import Shards

#: What Hive calls the folder of rows that have no value.
_NULL = "__HIVE_DEFAULT_PARTITION__"
_WHOLE = re.compile(r"-?(0|[1-9]\d{0,17})")


@dataclass(frozen=True)
class Folders:
    """Columns whose values stand in the names of folders: int64 where all of them are whole numbers, text otherwise.

    values: by column, one for each file; None for null.
    """

    schema: pa.Schema = field(default_factory=lambda: pa.schema([]))
    values: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def add_to(self, table: pa.Table, shard: int) -> pa.Table:
        """A table of a file's rows with the columns that its folders give."""
        for column in self.schema:
            value = pa.scalar(self.values[column.name][shard], column.type)
            table = table.append_column(column, pa.repeat(value, table.num_rows))
        return table

    def known(self, shard: int) -> pc.Expression:
        """What is true of all rows of a file."""
        known = pc.scalar(True)
        for column in self.schema:
            value = pa.scalar(self.values[column.name][shard], column.type)
            field = pc.field(column.name)
            known &= field == value if value.is_valid else field.is_null()
        return known

    def select(self, names: Sequence[str]) -> Folders:
        """Only those of these columns."""
        kept = [column for column in self.schema if column.name in names]
        return Folders(pa.schema(kept), {column.name: self.values[column.name] for column in kept})


def folder_columns(shards: Shards, stored: pa.Schema) -> Folders:
    """The columns that the folders below the place that was named give; those that the files hold themselves are left out.

    Raises DataError if the files lie in folders of different columns.
    """
    found = [_pairs(shards.path(shard)[len(shards.root) :]) for shard in range(len(shards))]
    names = list(found[0])
    for shard, pairs in enumerate(found):
        if list(pairs) != names:
            raise DataError(
                f"{shards.path(shard)}: lies in folders of the columns {list(pairs)}, {shards.path(0)} in those of {names}; name "
                "the files of one kind, for example by a glob"
            )
    values = {name: _typed([pairs[name] for pairs in found]) for name in names if name not in stored.names}
    kinds = {name: pa.infer_type(column) for name, column in values.items()}
    return Folders(
        pa.schema([(name, kind if pa.types.is_integer(kind) else pa.large_string()) for name, kind in kinds.items()]),
        values,
    )


def _pairs(path: str) -> dict[str, str | None]:
    """What the folders of a path say: _pairs("year=2024/part=a%2Fb/0.parquet") == {"year": "2024", "part": "a/b"}."""
    said = [folder.partition("=") for folder in path.split("/")[:-1] if "=" in folder]
    return {unquote(name): None if value == _NULL else unquote(value) for name, _, value in said if name}


def _typed(column: list[str | None]) -> list[Any]:
    if all(value is None or _WHOLE.fullmatch(value) for value in column):
        return [None if value is None else int(value) for value in column]
    return column
