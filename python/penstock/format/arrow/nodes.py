"""Which nodes of a record batch are of which column: https://arrow.apache.org/docs/format/Columnar.html#recordbatch-message.

Each array of a batch is a node, with its number of nulls; those inside an array follow it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from penstock.source.dotted_names import Path


def nodes_of(schema: pa.Schema, path: Path) -> list[int]:
    """The numbers of the nodes that can have nulls of a column, of the structs that it lies in, and of what its lists hold."""
    nodes = [place for field in schema for place in _below(field.type, (field.name,))]
    return [number for number, place in enumerate(nodes) if path[: len(place)] == place]


def _below(kind: pa.DataType, path: Path) -> Iterator[Path]:
    if isinstance(kind, pa.BaseExtensionType):
        yield from _below(kind.storage_type, path)
        return
    yield path
    if pa.types.is_map(kind):
        yield from _below(pa.struct([kind.key_field, kind.item_field]), path)
    elif pa.types.is_struct(kind) or pa.types.is_union(kind):
        for part in kind:
            yield from _below(part.type, (*path, part.name))
    elif pa.types.is_run_end_encoded(kind):
        yield from (path, path)
    elif hasattr(kind, "value_type") and not pa.types.is_dictionary(kind):
        yield from _below(kind.value_type, path)
