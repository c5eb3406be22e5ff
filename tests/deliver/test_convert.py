"""`Loader(convert=…)`: dtypes, lists of rows, nested tensors, channels last; without a copy, and errors that come early."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.deliver.converting import PerStep

torch = pytest.importorskip("torch")

ROWS = 12
TOKENS = [list(range(row, row + row % 4)) for row in range(ROWS)]
COLUMNS = {
    "label": np.arange(ROWS, dtype=np.uint16),
    "image": np.arange(ROWS * 48, dtype=np.uint8).reshape(ROWS, 4, 4, 3),
    "tokens": pa.array(TOKENS, pa.large_list(pa.int32())),
    "caption": pa.array([f"row {row}" for row in range(ROWS)]),
}
PLAN = ps.from_arrays(COLUMNS).batch(4)
ALL = {"label": "int64", "tokens": "nested", "caption": "list", "image": "channels_last"}


def check(batch: Any, step: int) -> None:
    rows = range(4 * step, 4 * step + 4)
    assert batch["label"].dtype == torch.int64
    assert batch["label"].tolist() == [*rows]
    assert batch["caption"] == [f"row {row}" for row in rows]
    assert batch["tokens"].layout == torch.jagged
    assert [row.tolist() for row in batch["tokens"].unbind()] == [TOKENS[row] for row in rows]
    assert batch["image"].shape == (4, 3, 4, 4)
    assert batch["image"].is_contiguous(memory_format=torch.channels_last)
    assert np.array_equal(batch["image"].permute(0, 2, 3, 1).numpy(), COLUMNS["image"][rows.start : rows.stop])


@pytest.mark.parametrize("isolation", [None, pytest.param("process", marks=pytest.mark.slow)])
def test_all_of_it_at_once(isolation: Any) -> None:
    with ps.Loader(PLAN, to="torch", convert=ALL, isolation=isolation) as loader:
        for _ in range(2):
            for step, batch in enumerate(loader):
                check(batch, step)
        check(loader.batch_at(0, 2), 2)


def test_rows_that_are_left_over() -> None:
    for size in (5, 12, 1):
        found = list(ps.Loader(ps.from_arrays(COLUMNS).batch(size), to="torch", convert=ALL))
        assert [row.tolist() for batch in found for row in batch["tokens"].unbind()] == TOKENS
        assert [text for batch in found for text in batch["caption"]] == COLUMNS["caption"].to_pylist()


@pytest.mark.parametrize("to", ["numpy", "torch"])
def test_ragged_numbers_as_a_list_of_arrays(to: Any) -> None:
    for batch in ps.Loader(PLAN, to=to, convert={"tokens": "list"}):
        assert type(batch["tokens"]) is list
        assert all(hasattr(row, "data_ptr") == (to == "torch") for row in batch["tokens"])
        assert [row.tolist() for row in batch["tokens"]] == [TOKENS[row] for row in batch["label"].tolist()]


def test_nothing_is_copied() -> None:
    """Steps made together are parts of one memory, so that what is shared shows in the addresses."""
    from penstock.deliver import open_deliver, with_conversions

    column, label, image = COLUMNS["tokens"], np.arange(4), COLUMNS["image"][:4].copy()
    deliver = with_conversions(
        open_deliver("torch", None), "torch", {"tokens": "nested", "label": "int64", "image": "channels_last"}
    )
    given = {"tokens": column[4:8], "label": torch.from_numpy(label), "image": torch.from_numpy(image)}
    made = deliver.receive(deliver.finish(given, 4))
    assert made["tokens"].values().data_ptr() == column.values.buffers()[1].address + 4 * int(column.offsets[4].as_py())
    assert made["label"].data_ptr() == label.ctypes.data
    assert made["image"].data_ptr() == image.ctypes.data
    several = deliver.receive(deliver.finish({**given, "tokens": column[4:8]}, 2))["tokens"]
    assert type(several) is PerStep
    assert len(several) == 2
    rows = with_conversions(open_deliver("numpy", None), "numpy", {"tokens": "list"})
    (first, *_) = rows.receive(rows.finish({"tokens": column[1:4]}, 3))["tokens"]
    assert first.ctypes.data == column.values.buffers()[1].address


def test_batches_that_are_kept_keep_their_values() -> None:
    with ps.Loader(PLAN, to="torch", convert=ALL, prefetch=1, memory="16MB") as loader:
        kept = [batch for _ in range(20) for batch in loader]
    assert loader.stats()["memory"] is not None
    for number, batch in enumerate(kept):
        check(batch, number % 3)


def test_padded_and_differentiated() -> None:
    batch = next(iter(ps.Loader(PLAN, to="torch", convert=ALL)))
    padded = torch.nested.to_padded_tensor(batch["tokens"], -1)
    assert padded.tolist()[3] == TOKENS[3]
    embedded = torch.nn.Embedding(20, 2)(batch["tokens"])
    embedded.values().sum().backward()


@pytest.mark.parametrize(
    ("convert", "message"),
    [
        ({"labels": "int64"}, "the batch has the columns 'label', 'image', 'tokens', 'caption'; did you mean 'label'?"),
        ({"label": "in64"}, "choose 'list', 'nested', 'channels_last' or a dtype such as 'int64'; did you mean 'int64'?"),
        ({"label": None}, "'label': None}; choose"),
        ({"label": "nested"}, "the column is uint16; its rows have one shape"),
        ({"label": "channels_last"}, "images are (height, width, channels)"),
        ({"caption": "int64"}, "text, bytes and ragged columns have no other dtype"),
        ({"caption": "nested"}, "for text and bytes write 'list'"),
        ({"tokens": "int64"}, "the column is int32(?); text, bytes and ragged columns have no other dtype"),
        ("int64", "pass a dict by column"),
        ({3: "int64"}, "pass a dict by column"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said_at_once(convert: Any, message: str) -> None:
    with pytest.raises(ps.PlanError) as caught:
        ps.Loader(PLAN, to="torch", convert=convert)
    assert message in str(caught.value)


@pytest.mark.parametrize("wanted", ["nested", "channels_last"])
def test_what_pytorch_alone_has(wanted: str) -> None:
    with pytest.raises(ps.PlanError, match="write to='torch'"):
        ps.Loader(PLAN, convert={"tokens": wanted})


def test_images_with_channels_first_are_not_copied_in_silence() -> None:
    plan = ps.from_arrays({"image": np.zeros((4, 3, 8, 8), np.float32)}).batch(2)
    with pytest.raises(ps.PlanError, match=r"channels come first.*ToLayout\('NHWC'\)"):
        ps.Loader(plan, to="torch", convert={"image": "channels_last"})


@pytest.mark.parametrize("wanted", ["int64", np.int64, np.dtype("int64"), torch.int64])
def test_a_dtype_in_every_spelling(wanted: Any) -> None:
    for to in ("numpy", "torch"):
        assert str(ps.Loader(PLAN, to=to, convert={"label": wanted}).batch_at(0, 0)["label"].dtype).endswith("int64")


@pytest.mark.parametrize(
    ("values", "dtype", "bad"),
    [([1, 300], "uint8", 300), ([1, -1], "uint8", -1), ([0, 2**53 + 1], "float64", 2**53 + 1), ([0, 2], "bool", 2), ([-1, 0], "uint64", -1)],
)  # fmt: skip
def test_numbers_that_a_dtype_cannot_hold(values: list[int], dtype: str, bad: int) -> None:
    loader = ps.Loader(ps.from_arrays({"x": np.array(values)}).batch(2), to="torch", convert={"x": dtype})
    with pytest.raises(ps.DataError, match=f"{dtype} has no {bad}, which a row holds"):
        next(iter(loader))


def test_rounding_is_no_conversion() -> None:
    plan = ps.from_arrays({"x": np.zeros(4)}).batch(2)
    with pytest.raises(ps.PlanError, match="float32 cannot hold all of these numbers; use a map"):
        ps.Loader(plan, convert={"x": "float32"})
    assert ps.Loader(plan.map(lambda batch: batch), convert={"x": "float64"}).batch_at(0, 0)["x"].dtype == np.float64


def test_after_a_map_the_first_batch_tells() -> None:
    loader = ps.Loader(PLAN.map(lambda batch: {"y": batch["label"]}), to="torch", convert={"label": "int64"})
    with pytest.raises(ps.PlanError, match="the batch has the columns 'y'"):
        next(iter(loader))
    loader = ps.Loader(PLAN.map(lambda batch: {"y": batch["label"]}), to="torch", convert={"y": "list"})
    with pytest.raises(ps.PlanError, match="one array already"):
        next(iter(loader))


def test_tensordicts() -> None:
    tensordict = pytest.importorskip("tensordict")
    loader = ps.Loader(PLAN, to="torch", convert=ALL, structure="tensordict")
    for step, batch in enumerate(loader):
        assert type(batch) is tensordict.TensorDict
        assert batch.batch_size == (4,)
        assert batch["label"].tolist() == [*range(4 * step, 4 * step + 4)]
        assert [*batch["caption"]] == [f"row {row}" for row in batch["label"].tolist()]
    batch = ps.Loader(PLAN.select("label", "image"), to="torch", structure="tensordict").batch_at(0, 0)
    assert batch[1:3]["image"].data_ptr() == batch["image"].data_ptr() + 48
    with pytest.raises(ps.PlanError, match=r"column 'tokens' is of pyarrow.*'nested'"):
        next(iter(ps.Loader(PLAN, to="torch", structure="tensordict")))
    with pytest.raises(ps.PlanError, match="use to='torch'"):
        next(iter(ps.Loader(PLAN, structure="tensordict")))


def test_without_tensordict_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "tensordict", None)
    monkeypatch.delitem(sys.modules, "penstock.deliver.tensordict", raising=False)
    with pytest.raises(ps.PlanError, match="pip install tensordict"):
        ps.Loader(PLAN, to="torch", structure="tensordict")


def test_rows_of_vectors_and_rows_without_any() -> None:
    rows = [[], [], [[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]]
    points = pa.array(rows, pa.large_list(pa.list_(pa.float32(), 2)))
    plan = ps.from_arrays({"points": points}).batch(2)
    for to_what in ("nested", "list"):
        batches = [batch["points"] for batch in ps.Loader(plan, to="torch", convert={"points": to_what})]
        assert [row.tolist() for batch in batches for row in batch] == rows
        assert all(row.shape[1:] == (2,) for batch in batches for row in batch)
