"""What is in memory already: every dtype comes back with its values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.core import kernels

DTYPES = [
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
    "longdouble",
    "complex64",
    "complex128",
]
ROWS = 37


def through(column: object) -> object:
    """The column as a loader gives it back, put in its first order again."""
    dataset = ps.from_arrays({"id": np.arange(len(column)), "x": column}).shuffle(seed=1).batch(8)  # type: ignore[arg-type]
    with ps.Loader(dataset) as loader:
        batches = list(loader)
    ids = np.concatenate([batch["id"] for batch in batches])
    back = np.argsort(ids)
    if isinstance(batches[0]["x"], pa.Array):
        return pa.concat_arrays([batch["x"] for batch in batches]).take(pa.array(back))
    return np.concatenate([batch["x"] for batch in batches])[back]


@pytest.mark.parametrize("order", ["=", ">", "<"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 5), (0,), (1, 1, 1)])
def test_every_dtype_and_shape(dtype: str, order: str, shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).integers(0, 100, (ROWS, *shape))
    column = values.astype(np.dtype(dtype).newbyteorder(order))
    found = through(column)
    assert found.dtype == np.dtype(dtype)
    assert found.dtype.isnative
    assert found.shape == column.shape
    assert (found == column).all()


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[::-1],
        lambda a: a[::2],
        lambda a: a.T,
        np.asfortranarray,
        lambda a: np.broadcast_to(a[:1], a.shape),
    ],
)
def test_arrays_that_are_not_contiguous(view) -> None:
    column = view(np.arange(400.0).reshape(20, 20))
    assert (through(column) == column).all()


def test_read_only_arrays_and_writable_batches() -> None:
    column = np.arange(50)
    column.flags.writeable = False
    batch = next(iter(ps.Loader(ps.from_arrays({"x": column}).batch(8))))
    batch["x"] += 1
    assert column[0] == 0


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", "", "später", "d" * 100] * 9),
        pa.array([b"\0\1", b"", b"x"] * 9, pa.binary()),
        pa.array([[1, 2], [], [3]] * 9, pa.list_(pa.int16())),
        pa.array([[1.5], [], [2.5, 3.5]] * 9, pa.large_list(pa.float32())),
        pa.array(["x", "y", "z"] * 9).slice(5, 11),
        pa.chunked_array([["a"], ["b", "c"], []], pa.string()),
        pa.array([True, False, True] * 9),
        pa.array([1, 2, 3] * 9, pa.uint8()).slice(4),
    ],
    ids=lambda column: str(column.type),
)
def test_arrow(column: pa.Array) -> None:
    found = through(column)
    assert (found.to_pylist() if isinstance(found, pa.Array) else found.tolist()) == column.to_pylist()


def test_fixed_size_lists_are_arrays() -> None:
    column = pa.array([[number, number + 1] for number in range(20)], pa.list_(pa.int32(), 2)).slice(3)
    found = through(column)
    assert found.dtype == np.int32
    assert found.tolist() == column.to_pylist()


def test_text_of_numpy_and_lists() -> None:
    assert through(np.array(["a", "bb", "c"] * 5)).to_pylist() == ["a", "bb", "c"] * 5
    assert through(["a", "bb"] * 5).to_pylist() == ["a", "bb"] * 5
    assert through([1, 2, 3] * 5).tolist() == [1, 2, 3] * 5


def test_bytes_keep_the_zeros_at_their_end() -> None:
    assert through([b"RIFF\0", b"", b"\0\0"] * 5).to_pylist() == [b"RIFF\0", b"", b"\0\0"] * 5
    assert through(("a\0", "bb") * 5).to_pylist() == ["a\0", "bb"] * 5


def test_tables() -> None:
    table = pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]})
    (batch,) = ps.Loader(ps.from_arrays(table).batch(4))
    assert batch["a"].tolist() == [1, 2, 3]
    assert batch["b"].to_pylist() == ["x", "y", "z"]


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    assert through(torch.arange(20.0)).tolist() == list(range(20))
    with pytest.raises(ps.PlanError, match=r"column 'x' cannot be held as an array.*convert it first"):
        ps.from_arrays({"x": torch.zeros(3, requires_grad=True)})
    with pytest.raises(ps.PlanError, match="column 'x' cannot be held"):
        ps.from_arrays({"x": torch.zeros(3, dtype=torch.bfloat16, requires_grad=True)})


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "no columns"),
        ({"x": np.zeros(3), "y": np.zeros(4)}, r"differ in length: \{'x': 3, 'y': 4\}"),
        ({"x": np.zeros(0)}, "have no rows"),
        ({"x": np.float32(3)}, "'x' is a single value"),
        ({"x": np.zeros(3, dtype=[("a", "i4")])}, r"'x' has dtype \[\('a', '<i4'\)\]; convert"),
        ({"x": np.array(["2020", "NaT"], dtype="datetime64[s]")}, r"'x' has 1 missing times \(NaT\); fill or drop"),
        ({"x": [object(), object()]}, "'x' cannot be held"),
        (
            {"x": [np.zeros((1, 4)), np.zeros((2, 5))]},
            r"'x' cannot be held as an array: shape \(2, 5\) where \(any, 4\)",
        ),
        ({"x": [[1], 2]}, "'x' cannot be held"),
        ({"x": [[1], [1, None]]}, "'x' has 1 nulls"),
        ({"x": [1, "a"]}, "'x' cannot be held"),
        ({"x": ["a", None]}, "'x' has 1 nulls; fill or drop"),
        ({"x": np.ma.masked_array([1, 2], [False, True])}, "'x' has 1 masked values; fill or drop"),
        ([1, 2], "from_arrays: list; pass a dict of columns"),
        ({"x": pa.array([1, None])}, "'x' has 1 nulls; fill or drop"),
        ({"x": pa.array([[1, None]])}, "'x' has 1 nulls"),
        ({"x": pa.array([[1, None]], pa.list_(pa.int8(), 2))}, "'x' has 1 nulls"),
        ({"x": pa.array([[{"a": 1}]])}, "'x' has Arrow type list<.*struct.*>, which no batch can hold"),
        ({"x": pa.array([{"a": 1}])}, "'x' has Arrow type struct"),
    ],
)
def test_what_cannot_be_held_is_said(columns: dict[str, object], message: str) -> None:
    with pytest.raises((ps.PlanError, ps.SourceError), match=message):
        ps.from_arrays(columns)


def digest(column: object) -> str:
    return ps.from_arrays({"x": column}).source.manifest.digest


def test_the_digest_sees_the_data_and_nothing_else() -> None:
    base = np.arange(1000)
    assert digest(base) == digest(base.copy()) == digest(base.astype(">i8")) == digest(np.arange(2000)[::2] // 2)
    others = [base + 1, base[:999], base.astype(np.int32), base.reshape(500, 2), base.astype(np.float64)]
    assert len({digest(other) for other in [base, *others]}) == 6
    text = pa.array([f"text {number}" for number in range(100)])
    assert digest(text.slice(10, 20)) == digest(pa.array(text.to_pylist()[10:30]))
    assert digest(text.slice(10, 20)) != digest(text.slice(11, 20))


def test_memory_is_not_copied_when_opened() -> None:
    column = np.zeros((100, 1000))
    assert np.shares_memory(ps.from_arrays({"x": column}).source.columns["x"], column)


@pytest.mark.parametrize("world_size", [1, 3, 4, 6, 48])
def test_short_rows_are_those_of_the_ids(world_size: int) -> None:
    columns = {"x": np.arange(1_000), "y": np.arange(3_000, dtype=np.int16).reshape(-1, 3)}
    batches = ps.from_arrays(columns).shuffle(seed=3).batch(48, drop_last=world_size == 48)
    for rank in range(world_size):
        loader = ps.Loader(batches, rank=rank, world_size=world_size)
        for step, batch in enumerate(loader):
            ids = loader.sample_ids(0, step)
            assert batch["x"].tolist() == ids.tolist()
            assert np.array_equal(batch["y"], columns["y"][ids])


def test_rows_that_are_not_there_are_refused() -> None:
    order = kernels.EpochOrder.shuffled(100, 4, 1, 1, 1, 0)
    one, out = np.zeros(8 * 99, np.uint8), np.zeros(32, np.uint8)
    with pytest.raises(ValueError, match="100 rows of 8 bytes do not lie in 792 bytes"):
        order.gather_steps((0, 4), 0, 4, [one], [8], [out])
    with pytest.raises(ValueError, match="4 rows of 4 bytes do not fill 32 bytes"):
        order.gather_steps((0, 4), 0, 4, [one], [4], [out])
    with pytest.raises(ValueError, match="equally long"):
        order.gather_steps((0, 4), 0, 4, [one], [], [out])
    with pytest.raises(ValueError, match="5 rows are no whole steps"):
        order.gather_steps((0, 4), 0, 5, [one], [8], [out])
    for share in ((0, 5), (2, 2), (3, 2)):
        with pytest.raises(ValueError, match="4 rows are no whole steps of the places"):
            order.gather_steps(share, 0, 4, [one], [8], [out])
        with pytest.raises(ValueError, match="20 rows are no whole steps of the places"):
            order.step_ids(share, 0, np.zeros(20, dtype=np.int64), 1)
