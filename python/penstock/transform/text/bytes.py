"""Text as its UTF-8 bytes, for byte-level models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.core.columns.rows import spans_to_arrow
from penstock.core.columns.spec import Field, Spans, Spec, is_bytes, is_text
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.transform.text.op import Step, TextOp


@dataclass(frozen=True)
class Bytes(TextOp):
    """Text, or bytes, as numbers: uint8, as many a row as its UTF-8 has bytes. Nothing is copied.

    The column becomes ragged, so that `batch_padded` and `pack` take it. A null stays a null, which they refuse: fill it where the data is read, with `Column(feature="text", default="")` for example.

    Returns:
        The op, for `Dataset.transform`.

    Raises:
        PlanError: by `transform`, for a column that holds neither text nor bytes.

    Example:
        import penstock as ps

        rows = ps.from_arrays({"text": ["héllo", ""]}).transform(text=ps.text.Bytes()).batch_padded(2)
        batch = next(iter(ps.Loader(rows)))  # of "text": [[104, 195, 169, 108, 108, 111], [0, 0, 0, 0, 0, 0]]
    """

    def output(self, name: str, given: Spec) -> Spec:
        """See `Op`."""
        field = given.get(name, Field("bytes"))  # a function's, perhaps
        if field.dtype not in ("string", "bytes") or field.shape:
            raise PlanError(f"transform: Bytes() on column {quoted(name)}, which is {field}; give it text or bytes")
        return {**given, name: Field("uint8", (None,), nullable=field.nullable)}

    def step(self, name: str, given: Spec, number: int) -> Step:
        """See `TextOp`."""
        return lambda columns, keys, work: {name: _bytes_of(columns[name])}  # noqa: ARG005


def _bytes_of(column: Any) -> pa.Array:
    """The same memory as lists of bytes."""
    texts = spans_to_arrow(column) if isinstance(column, Spans) else column
    large = {True: pa.large_string(), False: pa.large_binary()}[is_text(texts.type)]
    assert is_text(texts.type) or is_bytes(texts.type)
    valid, edges, data = texts.cast(large).buffers()
    values = pa.Array.from_buffers(pa.uint8(), 0 if data is None else data.size, [None, data or pa.py_buffer(b"")])
    return pa.Array.from_buffers(
        pa.large_list(pa.uint8()), len(texts), [valid, edges], texts.null_count, texts.offset, children=[values]
    )
