"""Keras with the back end that KERAS_BACKEND names. test_keras.py runs these for each."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.core.errors import DataError, PlanError, StateError

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
keras = pytest.importorskip("keras", reason="Keras is not installed")
import penstock.keras as pk  # noqa: E402  # after its import was tried

ROWS, SIZE = 103, 10
STEPS = 11


@pytest.fixture
def loader() -> Iterator[ps.Loader[Any]]:
    rows = np.arange(ROWS)
    columns = {"x": np.eye(ROWS, dtype=np.float32), "y": rows.astype(np.float32), "text": rows.astype(str)}
    with ps.Loader(ps.from_arrays(columns).shuffle(seed=0).batch(SIZE)) as made:
        yield made


def model_of() -> Any:
    model = keras.Sequential([keras.Input([ROWS]), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


def pair(batch: Any) -> Any:
    return batch["x"], batch["y"]


def wanted(epochs: int) -> list[list[int]]:
    rows = np.arange(ROWS)
    with ps.Loader(ps.from_arrays({"y": rows}).shuffle(seed=0).batch(SIZE)) as made:
        return [batch["y"].tolist() for _ in range(epochs) for batch in made]


def rows_of(data: Any) -> list[list[int]]:
    return [y.astype(int).tolist() for _, y in data]


class Noted(pk.PyDataset):
    """Notes the rows of each batch."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.rows = list[list[int]]()

    def __getitem__(self, index: int) -> Any:
        found = super().__getitem__(index)
        self.rows.append(found[1].astype(int).tolist())
        return found


def test_fit_takes_the_loaders_batches_in_its_order(loader: ps.Loader[Any]) -> None:
    data = Noted(loader, pair)
    history = model_of().fit(data, epochs=2, verbose=0)
    assert len(history.history["loss"]) == 2
    looked_at = len(data.rows) - 2 * STEPS  # before training
    assert 0 <= looked_at <= 2
    assert data.rows[looked_at:] == wanted(2)
    assert (loader.epoch, loader.step) == (2, 0)


@pytest.mark.filterwarnings("ignore:__array__ implementation")  # of Keras with PyTorch's tensors
def test_predictions_are_in_the_order_of_the_rows() -> None:
    columns = {"x": np.eye(ROWS, dtype=np.float32)}
    model = model_of()
    with ps.Loader(ps.from_arrays(columns).batch(SIZE)) as ordered:
        data = pk.PyDataset(ordered, lambda batch: batch["x"])
        found = model.predict(data, verbose=0)
        assert np.allclose(found, model.predict(columns["x"], verbose=0), atol=1e-5)
        assert np.allclose(model.predict(data, verbose=0), found)


def test_evaluating_between_epochs(loader: ps.Loader[Any]) -> None:
    rows = np.eye(ROWS, dtype=np.float32)[:20]
    with ps.Loader(ps.from_arrays({"x": rows, "y": np.zeros(20, np.float32)}).batch(8)) as held:
        history = model_of().fit(
            pk.PyDataset(loader, pair), validation_data=pk.PyDataset(held, pair), epochs=3, verbose=0
        )
        assert held.epoch == 3
    assert len(history.history["val_loss"]) == 3


def test_training_goes_on_where_a_state_was_taken(loader: ps.Loader[Any]) -> None:
    for step, _ in enumerate(loader, 1):
        if step == 4:
            break
    state = loader.state_dict()
    loader.load_state_dict(state)
    data = Noted(loader, pair)
    assert len(data) == STEPS - 4
    model = model_of()
    model.fit(data, epochs=1, verbose=0)
    assert data.rows[-(STEPS - 4) :] == wanted(1)[4:]
    model.fit(data, initial_epoch=1, epochs=3, verbose=0)
    assert data.rows[-2 * STEPS :] == wanted(3)[STEPS:]

    loader.load_state_dict(state)
    with pytest.raises(StateError, match="began within an epoch and counts 7 steps"):
        model.fit(data, epochs=2, verbose=0)


def test_a_pass_that_was_not_finished_begins_again_unless_the_loader_was_moved(loader: ps.Loader[Any]) -> None:
    class Stop(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.model.stop_training = batch == 2

    data, model = Noted(loader, pair), model_of()
    model.fit(data, epochs=1, verbose=0, callbacks=[Stop()])
    assert rows_of(data) == wanted(1)
    data.on_epoch_begin()
    for step, _ in enumerate(data):
        if step == 2:
            break
    state = loader.state_dict()
    loader.load_state_dict(state)
    assert rows_of(data) == wanted(2)[STEPS + 3 :]


class Late(Noted):
    """What a thread of Keras's takes after the fit, it takes when the next pass has begun, or has waited long."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.is_over, self.has_begun = threading.Event(), threading.Event()

    def __getitem__(self, index: int) -> Any:
        is_main = threading.current_thread() is threading.main_thread()
        if self.is_over.is_set() and not is_main:
            self.has_begun.wait(1.0)
        found = super().__getitem__(index)
        if not is_main:
            time.sleep(0.02)  # slower than training, so that it is under way when the fit is over
        elif self.is_over.is_set():
            self.has_begun.set()
        return found


def test_a_fit_that_was_stopped_takes_no_batch_of_the_next_pass(loader: ps.Loader[Any]) -> None:
    data, model = Late(loader, pair), model_of()

    class Stop(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.model.stop_training = batch == 2
            if batch == 2:
                data.is_over.set()

    model.fit(data, epochs=1, verbose=0, callbacks=[Stop()])
    assert rows_of(data) == wanted(1)


def test_fewer_steps_than_the_pass_has(loader: ps.Loader[Any]) -> None:
    data = Noted(loader, pair)
    model_of().fit(data, steps_per_epoch=4, epochs=2, verbose=0)
    taken = [rows for rows in data.rows if rows not in wanted(1)[:2]]
    assert taken[:6] == wanted(1)[2:8]
    assert rows_of(data) == wanted(1)


@pytest.mark.skipif(keras.backend.backend() == "torch", reason="Keras has it for the other back ends")
def test_several_steps_in_one_call(loader: ps.Loader[Any]) -> None:
    model = keras.Sequential([keras.Input([ROWS]), keras.layers.Dense(1)])
    model.compile("sgd", "mse", steps_per_execution=3)
    data = Noted(loader, pair)
    model.fit(data, epochs=2, verbose=0)
    assert data.rows[-2 * STEPS :] == wanted(2)


def test_functional_models_take_inputs_by_name(loader: ps.Loader[Any]) -> None:
    inputs = keras.Input([ROWS], name="x")
    model = keras.Model({"x": inputs}, keras.layers.Dense(1)(inputs))
    model.compile("sgd", "mse")
    model.fit(pk.PyDataset(loader, lambda batch: ({"x": batch["x"]}, batch["y"])), verbose=0)


def test_what_keras_cannot_take(loader: ps.Loader[Any]) -> None:
    with pytest.raises(DataError, match=r"text is .*Array.*pad or encode"):
        pk.PyDataset(loader)[0]
    with pytest.raises(PlanError, match="is no loader"):
        pk.PyDataset([1, 2])  # type: ignore[arg-type]
    data = pk.PyDataset(loader, pair)
    assert len([*data]) == STEPS
    with pytest.raises(IndexError, match="batch 11 was asked for"):
        data[11]


def test_training_after_a_step_that_failed(loader: ps.Loader[Any]) -> None:
    class Fail(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            raise ValueError("of the callback")

    state, data, model = loader.state_dict(), Noted(loader, pair), model_of()
    for _ in range(2):
        with pytest.raises(ValueError, match="of the callback"):
            model.fit(data, epochs=2, verbose=0, callbacks=[Fail()])
    loader.load_state_dict({**state, "step": 5})
    model.fit(data, epochs=1, verbose=0)
    assert data.rows[-(STEPS - 5) :] == wanted(1)[5:]


def test_errors_of_the_pipeline_come_through() -> None:
    def fails(row: Any) -> Any:
        if row["x"] == 17:
            raise ValueError("seventeen")
        return row

    plan = ps.from_arrays({"x": np.arange(40.0), "y": np.arange(40.0)}).map_rows(fails).batch(4)
    model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    with ps.Loader(plan) as broken, pytest.raises(Exception, match="seventeen"):
        model.fit(pk.PyDataset(broken, lambda batch: (batch["x"][:, None], batch["y"])), verbose=0)
