"""TensorFlow datasets of loaders: the same batches, memory that is shared, resuming, Keras, strategies. test_tensorflow.py runs these."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.core.errors import DataError, PlanError

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
import penstock.tensorflow as pt  # noqa: E402  # after its import was tried

ROWS, SIZE = 203, 16


def data() -> ps.Dataset:
    draw = np.random.default_rng(0)
    return ps.from_arrays(
        {
            "x": draw.random((ROWS, 7), dtype=np.float32),
            "image": draw.integers(0, 255, (ROWS, 60, 50, 3), dtype=np.uint8),
            "flag": np.arange(ROWS) % 2 == 0,
            "half": draw.random(ROWS).astype(np.float16),
            "text": pa.array([f"row {number} ☃" for number in range(ROWS)]),
            "ragged": pa.array([list(range(number % 5)) for number in range(ROWS)], pa.large_list(pa.int32())),
        }
    ).shuffle(seed=3)


def plain(batch: Any) -> dict[str, Any]:
    found = dict[str, Any]()
    for name, column in batch.items():
        if isinstance(column, tf.RaggedTensor):
            found[name] = column.to_list()
        elif isinstance(column, pa.Array):
            found[name] = column.to_pylist()
        else:
            values = np.asarray(column)
            found[name] = (
                [one.decode() for one in values] if values.dtype == object else (values.dtype, values.tolist())
            )
    return found


def test_the_same_batches_and_the_spec() -> None:
    with ps.Loader(data().batch(SIZE)) as loader, ps.Loader(data().batch(SIZE)) as wanted:
        made = pt.as_dataset(loader)
        assert made.element_spec["image"] == tf.TensorSpec([None, 60, 50, 3], tf.uint8)
        assert made.element_spec["text"] == tf.TensorSpec([None], tf.string)
        assert made.element_spec["ragged"] == tf.RaggedTensorSpec([None, None], tf.int32, 1)
        for _ in range(2):
            assert [plain(batch) for batch in made] == [plain(batch) for batch in wanted]
            assert loader.state_dict() == wanted.state_dict()


def test_memory_is_shared_and_not_written_while_a_tensor_lives() -> None:
    rows = np.random.default_rng(0).random((40, 300_000), dtype=np.float32)
    plan = ps.from_arrays({"x": rows}).shuffle(seed=3).batch(8)
    with ps.Loader(plan, prefetch=1) as loader, ps.Loader(plan) as wanted:
        kept = [batch["x"] for batch in pt.as_dataset(loader)]
        for found, batch in zip(kept, wanted, strict=True):
            assert np.array_equal(found, batch["x"])

    class Watched(ps.Loader[Any]):
        """Tells where its batches lie."""

        def __iter__(self) -> Any:
            for batch in super().__iter__():
                addresses.append(batch["x"].ctypes.data)
                yield batch

    addresses = list[int]()
    with Watched(plan) as loader:
        lie = [np.asarray(memoryview(batch["x"])).ctypes.data for batch in pt.as_dataset(loader)]
    assert lie == addresses[-len(lie) :]


def test_a_pass_goes_on_where_a_state_was_taken() -> None:
    plan = data().batch(SIZE)
    with ps.Loader(plan) as loader, ps.Loader(plan) as wanted:
        for _, _ in zip(range(5), pt.as_dataset(loader), strict=False):
            pass
        for step, _ in enumerate(wanted):
            if step == 4:
                break
        state = json.loads(json.dumps(wanted.state_dict()))
    with ps.Loader(plan) as loader, ps.Loader(plan) as wanted:
        wanted.load_state_dict(state)
        loader.load_state_dict(state)
        made = pt.as_dataset(loader)
        assert [plain(batch) for batch in made] == [plain(batch) for batch in wanted]
        assert len(list(made)) == len(wanted)


def model_of() -> Any:
    model = tf.keras.Sequential([tf.keras.Input([7]), tf.keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    return model


def pair(batch: Any) -> Any:
    return batch["x"], tf.cast(batch["flag"], tf.float32)


@pytest.mark.parametrize("mirrored", [False, True])
def test_keras_fits(*, mirrored: bool) -> None:
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]) if mirrored else tf.distribute.get_strategy()
    with strategy.scope():
        model = model_of()
    with ps.Loader(data().batch(SIZE)) as loader:
        history = model.fit(pt.as_dataset(loader, pair), epochs=3, verbose=0, shuffle=False).history["loss"]
        assert len(history) == 3
        assert loader.epoch >= 3  # a strategy takes batches ahead
        assert history[-1] < history[0]


@pytest.mark.parametrize("from_function", [False, True])
def test_replicas_get_the_rows_of_a_batch(*, from_function: bool) -> None:
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with ps.Loader(data().batch(SIZE)) as loader, ps.Loader(data().batch(SIZE)) as wanted:
        made = pt.as_dataset(loader, lambda batch: batch["x"])
        spread = (
            strategy.distribute_datasets_from_function(lambda _: made)
            if from_function
            else strategy.experimental_distribute_dataset(made)
        )
        found = [strategy.experimental_local_results(one) for one in spread]
        rows = np.concatenate([np.asarray(part) for parts in found for part in parts])
        assert np.array_equal(rows, np.concatenate([batch["x"] for batch in wanted]))
        assert len(found[0]) == 2


@pytest.mark.parametrize(
    ("column", "found"),
    [
        (np.ones((4, 3), np.float32), r"column 'x' has float32\[4, 3\], where the first batch had float32\[None, 7\]"),
        (np.ones((4, 7)), "column 'x' has float64"),
    ],
)
def test_another_shape_or_dtype_is_an_error(column: Any, found: str) -> None:
    with pytest.raises(DataError, match=found):
        pt._arrays_of("x", column, tf.TensorSpec([None, 7], tf.float32))


@pytest.mark.parametrize("column", [pa.array(["a", None]), pa.array([[1], None]), pa.array([[1], [None]])])
def test_missing_values_are_an_error(column: Any) -> None:
    with pytest.raises(DataError, match="column 'y' has missing values"):
        pt._arrays_of("y", column, pt._spec_of("y", column))


@pytest.mark.parametrize("size", [ROWS, 150])
def test_epochs_of_one_and_of_two_batches(size: int) -> None:
    with ps.Loader(data().batch(size)) as loader, ps.Loader(data().batch(size)) as wanted:
        made = pt.as_dataset(loader)
        for _ in range(3):
            assert [plain(batch) for batch in made] == [plain(batch) for batch in wanted]
            assert loader.state_dict() == wanted.state_dict()


def test_an_error_of_a_function_comes_through() -> None:
    def bad(batch: dict[str, Any]) -> dict[str, Any]:
        if 40 in batch["x"]:
            raise RuntimeError("row 40 is bad")
        return batch

    with (
        ps.Loader(ps.from_arrays({"x": np.arange(64)}).map(bad).batch(8)) as loader,
        pytest.raises(tf.errors.OpError, match="row 40 is bad"),
    ):
        list(pt.as_dataset(loader))


def test_a_second_iterator_is_not_given_the_firsts_batches() -> None:
    with ps.Loader(ps.from_arrays({"x": np.arange(64)}).batch(8)) as loader:
        made = pt.as_dataset(loader)
        first = iter(made)
        next(first)
        assert [batch["x"][0].numpy() for batch in made] == [*range(0, 64, 8)]
        with pytest.raises(tf.errors.OpError, match="a newer iterator uses the loader"):
            next(first)


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (lambda: [1, 2], "no loader"),
        (
            lambda: ps.Loader(ps.from_arrays({"x": np.arange(9)}).batch(3), structure="tuple"),
            "no dicts of NumPy arrays",
        ),
        (lambda: ps.Loader(ps.from_arrays({"x": pa.array([[[1]], [[2], [3]]])}).batch(1)), "'x' is of .*pad it"),
    ],
)
def test_what_cannot_be_a_dataset(make: Callable[[], Any], found: str) -> None:
    with pytest.raises(PlanError, match=found):
        pt.as_dataset(make())


# Datasets of TensorFlow as a source


def test_elements_become_rows() -> None:
    numbers = tf.data.Dataset.range(20)
    named = numbers.map(lambda x: {"x": x, "deep": {"y": tf.cast(x, tf.float32) / 2, "text": tf.strings.as_string(x)}})
    plan = ps.from_tf_data(named).shuffle(seed=0).batch(5)
    with ps.Loader(plan) as loader:
        rows = [
            row
            for batch in loader
            for row in zip(
                *(column.tolist() if hasattr(column, "tolist") else column for column in batch.values()), strict=True
            )
        ]
        state = loader.state_dict()
        assert len(list(loader)) == 4
    assert sorted(rows) == [(x, x / 2, str(x).encode()) for x in range(20)]
    with ps.Loader(plan) as again:
        again.load_state_dict(state)
    for elements, wanted in (
        (numbers, {"0": [*range(20)]}),
        (numbers.map(lambda x: (x, -x)), {"0": [*range(20)], "1": [-x for x in range(20)]}),
        (numbers.batch(4).unbatch(), {"0": [*range(20)]}),
        (numbers.filter(lambda x: x % 2 == 0), {"0": [*range(0, 20, 2)]}),
    ):
        with ps.Loader(ps.from_tf_data(elements).batch(20)) as loader:
            (batch,) = loader
            assert {name: column.tolist() for name, column in batch.items()} == wanted
    ragged = tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[1], [2, 3], [], [4]]))
    with ps.Loader(ps.from_tf_data(ragged).batch(4)) as loader:
        (batch,) = loader
        assert batch["0"].to_pylist() == [[1], [2, 3], [], [4]]


def test_what_is_no_source() -> None:
    numbers = tf.data.Dataset.range(3)
    sparse = tf.data.Dataset.from_tensors(tf.sparse.eye(3))
    for elements, said in ((numbers.repeat(), "no end"), (sparse, "SparseTensorSpec"), ([1, 2], "no tf.data.Dataset")):
        with pytest.raises(PlanError, match=said):
            ps.from_tf_data(elements)
    broken = numbers.map(lambda x: tf.debugging.check_numerics(1 / (tf.cast(x, tf.float32) - 1), "divided by nothing"))
    with pytest.raises(tf.errors.InvalidArgumentError):
        ps.from_tf_data(broken)
