"""TensorFlow: the batches of a loader as a `tf.data.Dataset`, for `model.fit` and distribution strategies.

with ps.Loader(train) as loader:
    model.fit(penstock.tensorflow.as_dataset(loader, lambda batch: (batch["image"], batch["label"])), epochs=3)
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.core.errors import DataError, PlanError
from penstock.core.installing import pip_install
from penstock.core.messages import quoted
from penstock.core.verbs.options import Column
from penstock.dataset import Dataset
from penstock.loader import Loader
from penstock.open import from_iterable

try:
    tf: Any = importlib.import_module("tensorflow")
except ImportError:
    raise PlanError(f"penstock.tensorflow: TensorFlow is not installed; run {pip_install('tensorflow')}") from None

__all__ = ["as_dataset", "from_tf_data"]

Batch: TypeAlias = dict[str, Any]


def as_dataset(loader: Loader[Any], select: Callable[[Batch], Any] | None = None) -> Any:
    """A `tf.data.Dataset` of a loader's batches: iterating it once is one pass, the rest of an epoch after a resume, as with the loader itself.

    Arrays become tensors without a copy, where TensorFlow takes their memory. Text becomes `tf.string`, lists of numbers `tf.RaggedTensor`. Shapes come from the
    first batch, which is made when this is called.

    Its cardinality is that of an epoch, and unknown where the loader stands within one: a first pass that is shorter than the others is one `fit` of its own.
    Only one iterator at a time continues: a second one begins a new pass of the loader, and the first raises.

    Args:
        loader: a `penstock.Loader` whose batches are dicts of NumPy arrays.
        select: what the model gets of a batch, a dict of tensors by column name, in TensorFlow's structures. Default: the dict.

    Returns:
        The dataset; its `element_spec` has the columns' dtypes and shapes, with None for rows, which the last batch may have fewer of.

    Raises:
        PlanError: for a loader that does not give dicts of NumPy arrays.
        DataError: in `tf.errors.UnknownError`, for a batch that has other columns, dtypes or shapes than the first.

    Example:
        import penstock.tensorflow

        loader = ps.Loader(data.select("x", "label").batch(4))
        batches = penstock.tensorflow.as_dataset(loader, lambda batch: (batch["x"], batch["label"]))
        [len(x) for x, label in batches] == [4, 4, 2]
    """
    if not isinstance(loader, Loader):
        raise PlanError(f"as_dataset: {quoted(loader)} is no loader; pass a penstock.Loader")
    passes = _Passes(loader)
    spec = passes.spec

    def next_batch(number: Any) -> Any:
        arrays = iter(
            tf.numpy_function(passes.next_batch, [number], [part for one in spec.values() for part in _parts(one)])
        )
        batch = dict[str, Any]()
        for name, one in spec.items():
            batch[name] = next(arrays)
            if isinstance(one, tf.RaggedTensorSpec):
                splits = next(arrays)
                splits.set_shape([None])
                batch[name].set_shape([None])
                batch[name] = tf.RaggedTensor.from_row_splits(batch[name], splits, validate=False)
            else:
                batch[name].set_shape(one.shape)
        return batch if select is None else select(batch)

    def one_pass(_: Any) -> Any:
        number, batches = tf.numpy_function(passes.begin, [], [tf.int64, tf.int64])
        number.set_shape([])
        batches.set_shape([])
        return tf.data.Dataset.range(batches).map(lambda _: next_batch(number))

    made = tf.data.Dataset.from_tensors(0).flat_map(one_pass)
    if not loader.step:  # else the first pass is shorter
        made = made.apply(tf.data.experimental.assert_cardinality(len(loader)))
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = (
        False  # the loader prefetches, and its state is that of the batch that was taken
    )
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.OFF
    )  # the loader shares rows among ranks
    return made.with_options(options)


class _Passes:
    """Passes of a loader, by number. TensorFlow calls these functions, in threads of its own."""

    def __init__(self, loader: Loader[Any]) -> None:
        self._loader, self._lock = loader, threading.Lock()
        self._number = self._left = 0
        self._batches: Iterator[Any] = iter(())
        self._first: Any = None
        first = self._first_batch()
        if not isinstance(first, dict) or not all(isinstance(one, (np.ndarray, pa.Array)) for one in first.values()):
            raise PlanError(
                "as_dataset: the loader's batches are no dicts of NumPy arrays; leave to= and structure= out"
            )
        self.spec = {name: _spec_of(name, column) for name, column in first.items()}

    def _first_batch(self) -> Any:
        """The batch that comes first; the loader's position stays."""
        state, batches = self._loader.state_dict(), iter(self._loader)
        try:
            first = next(batches, None)
        finally:
            batches.close()  # type: ignore[attr-defined]
        self._loader.load_state_dict(state)
        return first

    def begin(self) -> tuple[Any, Any]:
        """Begins a pass: its number, and how many batches it has."""
        with self._lock:
            self._number += 1
            self._batches = iter(self._loader)
            self._first = next(self._batches, None)  # which begins the pass
            self._left = 0 if self._first is None else len(self._loader) - self._loader.step + 1
            return np.int64(self._number), np.int64(self._left)

    def next_batch(self, number: Any) -> list[Any]:
        """The arrays of the next batch: one of each column, of ragged ones the values and the splits."""
        with self._lock:
            if int(number) != self._number:
                raise PlanError("as_dataset: a newer iterator uses the loader; use one at a time, or a loader for each")
            batch, self._first = next(self._batches) if self._first is None else self._first, None
            self._left -= 1
            if not self._left:
                next(self._batches, None)  # ends the pass
        if batch.keys() != self.spec.keys():
            raise DataError(f"as_dataset: a batch has the columns {[*batch]}, the first had {[*self.spec]}")
        return [array for name, column in batch.items() for array in _arrays_of(name, column, self.spec[name])]


def _parts(spec: Any) -> list[Any]:
    """The dtypes of the arrays that a column is handed over in."""
    return [spec.dtype, tf.int64] if isinstance(spec, tf.RaggedTensorSpec) else [spec.dtype]


def _spec_of(name: str, column: Any) -> Any:
    if isinstance(column, np.ndarray):
        return tf.TensorSpec([None, *column.shape[1:]], _dtype_of(name, column.dtype))
    kind = column.type
    if _is_text(kind):
        return tf.TensorSpec([None], tf.string)
    depth = 0
    while pa.types.is_list(kind) or pa.types.is_large_list(kind):
        kind, depth = kind.value_type, depth + 1
    if depth != 1 or not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise PlanError(
            f"as_dataset: column {quoted(name)} is of {column.type}, which is no tensor; pad it, or leave it out with columns="
        )
    return tf.RaggedTensorSpec([None, None], _dtype_of(name, np.dtype(kind.to_pandas_dtype())), ragged_rank=1)


def _dtype_of(name: str, dtype: Any) -> Any:
    try:
        return tf.as_dtype(dtype)
    except TypeError:
        raise PlanError(
            f"as_dataset: TensorFlow has no {dtype}, of which column {quoted(name)} is; cast it, or leave it out"
        ) from None


def _is_text(kind: pa.DataType) -> bool:
    return any(
        is_it(kind)
        for is_it in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    )


def _arrays_of(name: str, column: Any, spec: Any) -> list[Any]:
    """What TensorFlow takes without a copy, where its memory begins at a multiple of 64 bytes; the memory is not used again as long as a tensor lives."""
    if isinstance(column, np.ndarray):
        if _dtype_of(name, column.dtype) != spec.dtype or not spec.shape.is_compatible_with(column.shape):
            raise DataError(
                f"as_dataset: column {quoted(name)} has {column.dtype}{list(column.shape)}, where the first batch had {spec.dtype.name}{spec.shape.as_list()}; "
                "resize, crop or pad its values to one shape"
            )
        return [column]
    edges = None if _is_text(column.type) else column.offsets.to_numpy()
    values = column if edges is None else column.values.slice(int(edges[0]), int(edges[-1] - edges[0]))
    if column.null_count or values.null_count:
        raise DataError(
            f"as_dataset: column {quoted(name)} has missing values, which TensorFlow has not; fill or filter them"
        )
    if edges is None:
        return [np.array(values.cast(pa.large_binary()).to_pylist(), dtype=object)]
    return [values.to_numpy().astype(spec.dtype.as_numpy_dtype, copy=False), (edges - edges[0]).astype(np.int64)]


def from_tf_data(
    data: Any, *, samples: int | None = None, spool: bool = True, name: str | None = None, version: str = ""
) -> Dataset:
    """See `penstock.from_tf_data`."""
    if not isinstance(data, tf.data.Dataset):
        raise PlanError(f"from_tf_data: {quoted(data)} is no tf.data.Dataset")
    if not tf.executing_eagerly():
        raise PlanError(
            "from_tf_data: elements are drawn eagerly; call it outside of tf.function and of TensorFlow 1 graphs"
        )
    columns = dict[str, str | Column]()
    for column, spec in _columns("", data.element_spec):
        if not isinstance(spec, tf.TensorSpec | tf.RaggedTensorSpec):
            raise PlanError(
                f"from_tf_data: {quoted(column)} is {type(spec).__name__}; map it to a dense tensor, for example by tf.sparse.to_dense"
            )
        shape = spec.shape.as_list() if spec.shape.rank else []
        columns[column] = Column(feature=column, shape=(None, *shape[1:])) if None in shape[:1] else column
    known = int(data.cardinality())
    if known == tf.data.INFINITE_CARDINALITY:
        raise PlanError("from_tf_data: the dataset has no end; take(…) as many elements as an epoch shall have")
    return from_iterable(
        _Elements(data),
        samples=known if samples is None and known >= 0 else samples,
        spool=spool,
        name=name,
        version=version,
        columns=columns,
    )


class _Elements:
    """Rows of a `tf.data.Dataset`; each pass is one of its own."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for element in self._data:
            yield {name: _value(part) for name, part in _columns("", element)}


def _value(part: Any) -> Any:
    return part.to_list() if isinstance(part, tf.RaggedTensor) else part.numpy()


def _columns(name: str, element: Any) -> Iterator[tuple[str, Any]]:
    """The parts of an element, or of its spec, by the names of their columns."""
    if isinstance(element, dict):
        parts = element
    elif isinstance(element, tuple):
        parts = element._asdict() if hasattr(element, "_asdict") else dict(enumerate(element))
    else:
        yield name or "0", element
        return
    for part, value in parts.items():
        yield from _columns(f"{name}/{part}" if name else str(part), value)
