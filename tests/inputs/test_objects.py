"""Map-style objects: what comes out, and what is said about objects that cannot work."""

from __future__ import annotations

import threading
import traceback
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image

import penstock as ps
from penstock.inputs import objects
from support.seams import lowered_of


class Items:
    """An object out of a function of the number."""

    def __init__(self, item: Any, length: int = 10) -> None:
        self.item, self.length = item, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, number: int) -> Any:
        return self.item(number)


class Together(Items):
    """An object whose items come together; `asked` holds what was asked for."""

    def __init__(self, items: Any, length: int = 10) -> None:
        super().__init__(None, length)
        self.items, self.asked = items, []

    def __getitems__(self, numbers: list[int]) -> Any:
        self.asked.append(numbers)
        return self.items(numbers)


def only(dataset: ps.Dataset, size: int = 10) -> dict[str, Any]:
    with ps.Loader(dataset.batch(size), to="numpy") as loader:
        return next(iter(loader))


class Pair(NamedTuple):
    left: int
    right: str


@pytest.mark.parametrize(
    ("item", "wanted"),
    [
        (lambda i: {"x": i, "y": i / 2}, {"x": np.arange(10), "y": np.arange(10) / 2}),
        (lambda i: (np.full(3, i, np.float32), i), {"0": np.tile(np.arange(10, dtype=np.float32)[:, None], 3), "1": np.arange(10)}),
        (np.int16, {"data": np.arange(10, dtype=np.int16)}),
        (lambda i: i % 2 == 0, {"data": np.arange(10) % 2 == 0}),
        (lambda i: Pair(i, f"t{i}"), {"left": np.arange(10), "right": [f"t{i}" for i in range(10)]}),
        (lambda i: {"a": {"b": i, "c": bytes([i])}}, {"a.b": np.arange(10), "a.c": [bytes([i]) for i in range(10)]}),
        (lambda i: torch.full((2, 2), i), {"data": np.tile(np.arange(10)[:, None, None], (1, 2, 2))}),
        (lambda i: {"x": [[i, 1], [2, 3]]}, {"x": np.array([[[i, 1], [2, 3]] for i in range(10)])}),
        (lambda i: np.array([i], ">i4"), {"data": np.arange(10, dtype=np.int32)[:, None]}),
        (lambda i: np.zeros((0, 3)), {"data": np.zeros((10, 0, 3))}),
        (lambda i: "é" * i, {"data": ["é" * i for i in range(10)]}),
    ],
)  # fmt: skip
def test_items_become_columns(item: Any, wanted: dict[str, Any]) -> None:
    found = only(ps.from_dataset(Items(item)))
    assert list(found) == list(wanted)
    for name, column in wanted.items():
        if isinstance(column, list):
            assert found[name].to_pylist() == column
        else:
            assert found[name].dtype == column.dtype
            assert np.array_equal(found[name], column)


def test_pictures_are_height_width_channels() -> None:
    found = only(ps.from_dataset(Items(lambda i: (Image.new("RGB", (5, 4), (i, 1, 2)), Image.new("L", (5, 4), i)))))
    assert found["0"].shape == (10, 4, 5, 3)
    assert found["0"].dtype == np.uint8
    assert found["0"][7, 0, 0].tolist() == [7, 1, 2]
    assert found["1"].shape == (10, 4, 5, 1)
    with pytest.raises(ps.PlanError, match=r"palette.*convert\('RGB'\)"):
        ps.from_dataset(Items(lambda i: Image.new("P", (5, 4), i)))


def test_columns_name_select_rename_and_type() -> None:
    pairs = Items(lambda i: (i, str(i)))
    assert list(only(ps.from_dataset(pairs, columns=("number", "text")))) == ["number", "text"]
    found = only(ps.from_dataset(pairs, columns={"n": ps.Column(feature="0", dtype="float32")}))
    assert found["n"].dtype == np.float32
    assert list(only(ps.from_dataset(Items(lambda i: {"a": 1, "b": 2}), columns=["b"]))) == ["b"]
    ragged = ps.Column(feature="x", dtype="int32", shape=(None,))
    found = only(ps.from_dataset(Items(lambda i: {"x": list(range(i))}), columns={"list": ragged}))
    assert found["list"].to_pylist() == [list(range(i)) for i in range(10)]
    assert found["list"].type == pa.large_list(pa.int32())
    with pytest.raises(ps.PlanError, match=r"names 3 values, and items are tuples of 2"):
        ps.from_dataset(pairs, columns=("a", "b", "c"))
    with pytest.raises(ps.PlanError, match=r"no column 'lable'; there are image, label; did you mean 'label'"):
        ps.from_dataset(Items(lambda i: {"image": 1, "label": 2}), columns=["lable"])


def test_whole_batches_are_asked_for_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "time", SimpleNamespace(perf_counter=lambda: 0.0))  # items take no time
    data = Together(lambda ids: {"id": np.array(ids), "text": [str(i) for i in ids]}, 64)
    dataset = ps.from_dataset(data).shuffle(seed=0)
    data.asked.clear()
    with ps.Loader(dataset.batch(16), to="numpy") as loader:
        for step, batch in enumerate(loader):
            assert batch["id"].tolist() == loader.sample_ids(0, step).tolist()
            assert batch["text"].to_pylist() == [str(i) for i in batch["id"]]
    assert sum(map(len, data.asked)) % 64 == 0
    assert min(map(len, data.asked)) >= 16


def test_batches_do_not_look_into_the_objects_memory() -> None:
    held = np.arange(10)
    found = only(ps.from_dataset(Together(lambda ids: {"x": held[ids[0] : ids[-1] + 1]})))
    found["x"][:] = -1
    assert held.tolist() == list(range(10))


def test_a_list_and_a_subset_of_torch_work() -> None:
    assert only(ps.from_dataset(list("abcdefghij")))["data"].to_pylist() == list("abcdefghij")
    subset = torch.utils.data.Subset(torch.utils.data.TensorDataset(torch.arange(20)), range(10, 20))
    assert only(ps.from_dataset(subset))["0"].tolist() == list(range(10, 20))


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (lambda i: np.zeros(3 + i // 7), r"sample 7: 'data' is float64\(4\) where the first item has float64\(3\); make all items of one shape"),
        (lambda i: {"a": 1} if i < 7 else {"b": 1}, r"sample 7: an item with the keys \['b'\]; every item must have the first one's"),
        (lambda i: (1, 2) if i < 7 else (1, 2, 3), r"sample 7: an item that is a tuple of 3; the first one has 2 values"),
        (lambda i: (1, 2) if i < 7 else None, r"sample 7: an item that is a NoneType; the first one has 2 values"),
        (lambda i: i if i < 7 else 1.5, r"sample 7: 'data' is float64 where the first item has int64"),
        (lambda i: i if i < 7 else None, r"sample 7: 'data': it is a NoneType"),
        (lambda i: "a" if i < 7 else None, r"sample 7: 'data': it is a NoneType"),
        (lambda i: "a" if i < 7 else "\ud800", r"'data' cannot be held as string"),
        (lambda i: np.float32(i) if i < 7 else "a", r"sample 7: 'data' is string where the first item has float32"),
        (lambda i: np.int8(i) if i < 7 else 300, r"sample 7: 'data' is int64 where the first item has int8"),
        (lambda i: i if i < 7 else 2**63, r"sample 7: 'data' is uint64 where the first item has int64"),
        (lambda i: i if i < 7 else 2**70, r"sample 7: 'data': .*"),
        (lambda i: np.zeros(2) if i < 7 else np.zeros(2, complex), r"sample 7: 'data' is complex128\(2\)"),
        (lambda i: torch.zeros(2, requires_grad=i == 7), r"sample 7: 'data': Can't call numpy\(\) on Tensor that requires grad"),
    ],
)  # fmt: skip
def test_items_that_differ_are_named(item: Any, message: str) -> None:
    with pytest.raises(ps.DataError, match=message):
        only(ps.from_dataset(Items(item)))


def test_an_exception_keeps_its_traceback_and_names_the_sample() -> None:
    def item(number: int) -> int:
        if number == 7:
            raise KeyError("no such label")
        return number

    with pytest.raises(KeyError, match="no such label") as caught:
        only(ps.from_dataset(Items(item)))
    notes = "\n".join(caught.value.__notes__)
    assert "penstock: sample 7 of Items" in notes
    assert "epoch 0, step 0" in notes
    assert 'raise KeyError("no such label")' in "".join(traceback.format_exception(caught.value))


def test_a_length_that_changes_is_an_error() -> None:
    data = Items(lambda i: i)
    dataset = ps.from_dataset(data)
    data.length = 9
    with pytest.raises(ps.DataError, match="9 items now, 10 when it was opened; its length must stay"):
        only(dataset)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (lambda ids: list(ids)[:-1] if len(ids) > 1 else ids, "returned 9 items for 10 numbers"),
        (lambda ids: {"x": np.arange(max(1, len(ids) - 1))}, "column 'x' came with 9 values for 10 samples"),
        (lambda ids: {"x": ids} if len(ids) == 1 else {"y": ids}, "returned no x this time"),
    ],
)
def test_getitems_must_give_one_each(items: Any, message: str) -> None:
    with pytest.raises(ps.PlanError, match=message):
        only(ps.from_dataset(Together(items)))


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (iter("abc"), ps.PlanError, "it has no __getitem__"),
        ((i for i in range(3)), ps.PlanError, "it has no __getitem__"),
        ([], ps.SourceError, "it has no items"),
        ([object()], ps.PlanError, "'data' of the first item cannot be held in a batch: it is a object"),
        ([{}], ps.PlanError, "the first item is empty"),
        ([np.array(["2020-01-01"], "M8[D]")], ps.PlanError, "dtype datetime64"),
    ],
)
def test_what_is_no_dataset_is_refused(data: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ps.from_dataset(data)


@pytest.mark.parametrize("threads", [1, 4])
def test_items_are_asked_for_one_at_a_time_unless_said_otherwise(threads: int) -> None:
    inside, most, lock, together, has_many = 0, 0, threading.Lock(), threading.Event(), threading.Event()

    def item(number: int) -> int:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
            if inside > 1:
                together.set()
        together.wait(60 if has_many.is_set() else 0.001)
        with lock:
            inside -= 1
        return number

    data = ps.from_dataset(Items(item, 64), threads=threads)  # the first item is looked at on one thread
    if threads > 1:
        has_many.set()
    with ps.Loader(data.batch(16), to="numpy") as loader:
        assert [i for batch in loader for i in batch["data"].tolist()] == list(range(64))
    assert (most == 1) == (threads == 1)


def test_slow_items_come_one_batch_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def taking(seconds: float) -> Items:
        def item(number: int) -> int:
            now[0] += seconds
            return number

        return Items(item, 1000)

    monkeypatch.setattr(objects, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    slow, quick = (ps.from_dataset(taking(seconds)).batch(10) for seconds in (0.002, 1e-6))
    steps = [lowered_of(ps.Loader(dataset)).steps_per_item for dataset in (slow, quick)]
    assert steps[0] <= 3 < steps[1]


def test_the_state_knows_length_columns_and_name() -> None:
    def digest(length: int = 10, **options: Any) -> str:
        return ps.from_dataset(Items(lambda i: i, length), **options).source.manifest.digest

    assert digest() == digest()
    assert len({digest(), digest(11), digest(version="2"), digest(name="other")}) == 4


def test_two_values_of_one_name_are_refused() -> None:
    """The second would take the place of the first."""
    with pytest.raises(ps.PlanError, match=r"an item has two values for the column 'a\.b'"):
        ps.from_dataset([{"a.b": 1, "a": {"b": 2}}])
