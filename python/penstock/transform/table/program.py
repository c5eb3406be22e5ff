"""Chains of ops become a native program, and columns what it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core import kernels
from penstock.core.columns.repeated_values import is_repeated
from penstock.core.columns.row_sources import RowSources
from penstock.core.columns.rows import spans_to_arrow
from penstock.core.columns.spec import Columns, Field, Spans, Spec, is_text
from penstock.core.errors import PlanError, RowError
from penstock.core.messages import quoted
from penstock.transform.family import Chains
from penstock.transform.table.interactions import Interactions
from penstock.transform.table.lane import Lane
from penstock.transform.table.missing import FillMissing
from penstock.transform.table.op import ColumnOp, Step, check_only_first
from penstock.transform.table.statistics.known_rows import Folds

NUMBERED_ANEW = (
    "a function leaves out some of the rows that Target was fitted on, or adds others, so that nobody knows which these are; transform before it, or choose rows by "
    "filter(…, ahead=True); recipe.without_folds() encodes every row by all rows"
)


class Input(NamedTuple):
    """A column that chains begin with. kind: as native code takes one row of it. fill: what stands for missing texts.

    folds: of one that is no column of the data, but says which version of tables counts for each row.
    """

    name: str
    kind: str
    fill: str | None = None
    folds: Folds | None = None


class Output(NamedTuple):
    """A column that comes out. array: the number of the program's array; None for text, which is its input as it is."""

    name: str
    field: Field
    array: int | None
    input: Input
    features: tuple[str, ...]


class Walked(NamedTuple):
    """A chain, gone through: its input, native steps, the lane at its end, and the folds of an op in it."""

    input: Input
    steps: list[Step]
    lane: Lane
    folds: Folds | None


@dataclass(frozen=True, eq=False)
class Compiled:
    """What chains become. program: None where all are text."""

    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    program: kernels.TableProgram | None

    def given(self, columns: Mapping[str, Any]) -> list[Any]:
        """Columns as native code takes them."""
        return [native(columns[one.name], one) for one in self.inputs]


def walk(name: str, ops: Sequence[ColumnOp], fields: Spec) -> Walked:
    """Goes through a chain; PlanError for an op that does not fit."""
    check_only_first(name, ops)
    lane, steps, fill, folds = ops[0].begin(name, fields), list[Step](), None, list[Folds]()
    column = ops[0].needs(name)[0]
    kind = {"float": lane.dtype, "integer": "int64", "text": "string"}.get(lane.kind, "float64")
    for op in ops:
        op.check_lane(name, lane)
        steps += op.steps(lane)
        folds += [op.known_folds] if op.known_folds is not None else []
        if lane.kind == "text" and isinstance(op, FillMissing) and fill is None:
            fill = str(op.fill)
        lane = op.after(lane)
    if len(folds) > 1:
        raise PlanError(
            f"recipe: two ops Target on column {quoted(name)}, and the second has no folds of its own; leave one out"
        )
    return Walked(Input(column, kind, fill), steps, lane, folds[0] if folds else None)


def last_lane(name: str, ops: Sequence[ColumnOp], fields: Spec) -> Lane:
    """What a chain ends with."""
    lane = ops[0].begin(name, fields)
    for op in ops:
        op.check_lane(name, lane)
        lane = op.after(lane)
    return lane


def compiled(chains: Chains, fields: Spec, matrix: str | None = None, sources: RowSources | None = None) -> Compiled:
    """The program of chains. matrix: the one column of float32 that all of them fill; None for a column each. sources: of the rows; None for rows of none."""
    inputs, outputs = dict[Input, int](), list[Output]()
    native_chains, arrays = list[dict[str, Any]](), list[tuple[str, int]]()
    offset = 0
    for name, ops in chains.items():
        walked = walk(name, ops, fields)
        lane = walked.lane
        features = tuple(f"{name}_{one}" for one in lane.names) if lane.kind == "vector" else (name,)
        if lane.kind == "text":
            if matrix is not None:
                raise PlanError(
                    f"matrix: column {quoted(name)} is text; encode it with OneHot, Ordinal or Target, or leave it out"
                )
            outputs.append(Output(name, lane.field, None, walked.input, ()))
            continue
        used, pairs = _used(ops[0], walked.input, fields)
        if walked.folds is not None and sources is not None:
            used += _versions(name, walked.folds, sources)
        width = len(features)
        if matrix is None:
            arrays.append((lane.dtype, width))
            outputs.append(Output(name, lane.field, len(arrays) - 1, walked.input, features))
        native_chains.append({
            "name": name,
            "inputs": [inputs.setdefault(one, len(inputs)) for one in used],
            "pairs": pairs,
            "steps": walked.steps,
            "array": 0 if matrix is not None else len(arrays) - 1,
            "offset": 0 if matrix is None else offset,
            "width": width,
        })  # fmt: skip
        if matrix is not None:
            outputs.append(Output(name, lane.field, 0, walked.input, features))
            offset += width
    if matrix is not None:
        arrays = [("float32", offset)]
        features = tuple(feature for one in outputs for feature in one.features)
        outputs = [Output(matrix, Field("float32", (offset,)), 0, outputs[0].input, features)]
    program = kernels.TableProgram([one.kind for one in inputs], native_chains, arrays) if native_chains else None
    return Compiled(tuple(inputs), tuple(outputs), program)


def _versions(name: str, folds: Folds, sources: RowSources) -> list[Input]:
    """What says which rows of these sources were fitted on; nothing where none were. PlanError where that is not known."""
    if folds.among(sources.anew):
        raise PlanError(f"transform: column {quoted(name)}: {NUMBERED_ANEW}")
    return [Input(f"\0folds of {folds.digest}", "int64", folds=folds)] if folds.among(sources.digests) else []


def _used(first: ColumnOp, given: Input, fields: Spec) -> tuple[list[Input], list[tuple[int, int]]]:
    """The columns of a chain, and which of them are multiplied."""
    if not isinstance(first, Interactions):
        return [given], []
    lanes = [(one, Lane.of_any(one, fields[one])) for one in first.of]
    return [Input(one, lane.dtype if lane.kind == "float" else "int64") for one, lane in lanes], first.pairs


def plain(column: Any) -> Any:
    """A column as an array of NumPy's or Arrow's, with every value written out."""
    column = spans_to_arrow(column) if isinstance(column, Spans) else column
    column = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
    return column.dictionary_decode() if is_repeated(column) else column


def native(column: Any, given: Input) -> Any:
    """A column as native code takes it: an array of floats, (whole numbers, which are missing), or (edges, bytes, which are missing)."""
    column = plain(column)
    if not isinstance(column, pa.Array):
        return _numbers(np.asarray(column), None, given)
    if is_text(column.type):
        return _texts(column if given.fill is None else column.fill_null(given.fill))
    if given.kind == "string":
        raise PlanError(f"transform: column {quoted(given.name)} is {column.type}, and the recipe was fitted on text")
    if pa.types.is_floating(column.type):
        return _numbers(column.to_numpy(zero_copy_only=False), None, given)
    missing = flags(column)
    if missing is not None:
        column = column.fill_null(False if pa.types.is_boolean(column.type) else 0)
    return _numbers(column.to_numpy(zero_copy_only=False), missing, given)


def flags(column: pa.Array) -> npt.NDArray[np.bool_] | None:
    """Which values are null; None for none."""
    return np.asarray(pc.is_null(column).to_numpy(zero_copy_only=False)) if column.null_count else None


def _numbers(values: npt.NDArray[Any], missing: npt.NDArray[np.bool_] | None, given: Input) -> Any:
    if given.kind == "string" or values.dtype.kind not in "biuf":
        raise PlanError(
            f"transform: column {quoted(given.name)} is {values.dtype}, and the recipe was fitted on {'text' if given.kind == 'string' else 'numbers'}; read it as it was read then"
        )
    if values.dtype.kind == "f":
        kind = np.float64 if values.dtype.itemsize == 8 else np.float32  # bytes
        return np.ascontiguousarray(values, dtype=kind)
    if values.dtype == np.uint64 and len(values) and int(values.max()) > np.iinfo(np.int64).max:
        row = int(np.argmax(values))
        raise RowError(row, f"column '{given.name}' is {values[row]}, beyond 64 bits with a sign", "read it as float64")
    return np.ascontiguousarray(values, dtype=np.int64), missing


def _texts(column: pa.Array) -> Any:
    large = column if pa.types.is_large_string(column.type) else column.cast(pa.large_string())
    _, edges, data = large.buffers()
    places = np.frombuffer(edges or bytes(8), np.int64)[large.offset : large.offset + len(large) + 1]
    return places, np.frombuffer(data or b"", np.uint8), flags(large)


def filled_texts(columns: Columns, output: Output) -> Any:
    """A column of text, whose missing ones are filled."""
    column: Any = columns[output.input.name]
    texts = spans_to_arrow(column) if isinstance(column, Spans) else column
    return texts if output.input.fill is None else texts.fill_null(output.input.fill)
