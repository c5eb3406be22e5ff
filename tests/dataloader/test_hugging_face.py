"""Batches of Hugging Face's datasets.Dataset are those of PyTorch's DataLoader, bit by bit, or the dataset makes them itself and says why."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import ConcatDataset, Subset, TensorDataset
from torch.utils.data import DataLoader as TorchLoader

import penstock as ps
from penstock.torch import DataLoader
from penstock.torch.recognised import explain_refusal, from_torch, recognise
from support.tries import tries

datasets = pytest.importorskip("datasets")
FORMATS = [None, "torch", "numpy"]
NUMBERS = [
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32)),
    "int64",
    "float16",
    "float32",
    "float64",
]


def column(kind: pa.DataType, rows: int, rng: np.random.Generator) -> pa.Array:
    """Values of a type that are hard to copy by mistake: extremes, NaN, zeros at the end, long texts."""
    if pa.types.is_fixed_size_list(kind):
        return pa.FixedSizeListArray.from_arrays(column(kind.value_type, rows * kind.list_size, rng), kind.list_size)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        made = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
        length = int(rng.integers(0, 4))
        offsets = pa.array(np.arange(rows + 1) * length, pa.int64() if made is pa.LargeListArray else pa.int32())
        return made.from_arrays(offsets, column(kind.value_type, rows * length, rng))
    if pa.types.is_boolean(kind):
        return pa.array(rng.integers(0, 2, rows).astype(bool))
    if pa.types.is_integer(kind):
        info = np.iinfo(kind.to_pandas_dtype())
        return pa.array(rng.integers(info.min, info.max, rows, dtype=info.dtype, endpoint=True), kind)
    if pa.types.is_floating(kind):
        values = rng.normal(size=rows).astype(kind.to_pandas_dtype())
        values[rng.random(rows) < 0.2] = np.nan
        return pa.array(values, kind, from_pandas=False)
    texts = [rng.choice(["", "a", "zwölf", "x" * 40, "end\0", "\0"]) for _ in range(rows)]
    return pa.array([str(text) for text in texts]).cast(kind)


KINDS = [getattr(pa, name)() for name in NUMBERS]
SCALARS = [*KINDS, pa.bool_(), pa.string(), pa.large_string(), pa.binary()]
LISTS = [make(kind) for kind in KINDS for make in (pa.list_, pa.large_list, lambda one: pa.list_(one, 3))]


def table(kinds: list[pa.DataType], rows: int, *, seed: int = 0, pieces: int = 3) -> pa.Table:
    """A table in pieces, each of which begins in the midst of its buffers."""
    rng = np.random.default_rng(seed)
    names = [f"{number} {kind}" for number, kind in enumerate(kinds)]
    whole = pa.table({name: column(kind, rows + 5, rng) for name, kind in zip(names, kinds, strict=True)}).slice(5)
    edges = [0, *sorted(rng.integers(0, rows + 1, pieces - 1).tolist()), rows]
    return pa.concat_tables([whole.slice(begin, end - begin) for begin, end in pairwise(edges)])


def dataset_of(kinds: list[pa.DataType], rows: int = 23, **options: Any) -> Any:
    return datasets.Dataset(table(kinds, rows, **options))


def check_same(one: Any, other: Any) -> None:
    """The same types, keys in the same order, and values to the last bit."""
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            check_same(one[key], other[key])
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for inner, wanted in zip(one, other, strict=True):
            check_same(inner, wanted)
    elif isinstance(one, torch.Tensor):
        assert (one.dtype, one.shape, one.is_contiguous()) == (other.dtype, other.shape, other.is_contiguous())
        assert np.array_equal(one.numpy(), other.numpy(), equal_nan=one.is_floating_point())
    else:
        assert one == other


def check_loaders(dataset: Any, **options: Any) -> None:
    """Both loaders give the same epoch, and Penstock's makes it natively."""
    given = {"batch_size": 4, "shuffle": True, **options}
    assert explain_refusal(dataset) == ""
    made = []
    for kind in (DataLoader, TorchLoader):
        loader = kind(dataset, **given, generator=torch.Generator().manual_seed(5))
        made.append(list(loader))
        if kind is DataLoader:
            assert "gathered by one call a column" in loader.explain()
    assert len(made[0]) == len(made[1]) > 0
    for ours, theirs in zip(*made, strict=True):
        check_same(ours, theirs)


# What is made natively


@pytest.mark.parametrize("form", FORMATS)
def test_columns_of_every_type(form: str | None) -> None:
    dataset = dataset_of(SCALARS + LISTS).with_format(form)
    check_loaders(dataset)
    check_loaders(ConcatDataset([dataset]))


MADE: dict[str, Callable[[Any], Any]] = {
    "select": lambda one: one.select([3, 3, 20, 0, 7]),
    "shuffle": lambda one: one.shuffle(seed=3).select(range(2, 17)),
    "split": lambda one: one.train_test_split(0.4, seed=1)["test"],
    "concatenate": lambda one: datasets.concatenate_datasets([one, one.select([4, 2]), one.select(range(5))]),
    "side by side": lambda one: datasets.concatenate_datasets([one, one.rename_columns({name: f"{name}!" for name in one.column_names})], axis=1),
    "renamed, removed": lambda one: one.rename_column("0 int32", "label").remove_columns("1 double"),
    "added": lambda one: one.add_column("more", list(range(len(one)))),
    "filtered": lambda one: one.filter(lambda row: row["0 int32"] > 0, load_from_cache_file=False),
    "class labels": lambda one: one.add_column("label", [1] * len(one)).cast_column("label", datasets.ClassLabel(num_classes=3)),
    "subset": lambda one: Subset(one.shuffle(seed=0), [5, 0, 0, 9, 22]),
    "subset of a subset": lambda one: Subset(Subset(one, range(3, 20)), torch.tensor([1, 3, 16])),
    "concat": lambda one: ConcatDataset([one, one.select([7, 1]), Subset(one, [2])]),
    "subset of a concat": lambda one: Subset(ConcatDataset([one, one.shuffle(seed=1)]), [0, 30, 45, 22, 23]),
}  # fmt: skip
FEW = [pa.int32(), pa.float64(), pa.bool_(), pa.string(), pa.list_(pa.int8()), pa.list_(pa.float32(), 2)]


@pytest.fixture(autouse=True)
def quiet() -> None:
    datasets.disable_progress_bars()


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("case", MADE)
def test_datasets_made_of_others(case: str, form: str | None) -> None:
    check_loaders(MADE[case](dataset_of(FEW).with_format(form)))


@pytest.mark.parametrize("form", FORMATS)
def test_columns_that_are_shown(form: str | None) -> None:
    dataset = dataset_of(FEW)
    names = [dataset.column_names[place] for place in (4, 1)]
    for is_all in (False, True):
        check_loaders(dataset.with_format(form, columns=names, output_all_columns=is_all))
        check_loaders(ConcatDataset([dataset.with_format(form, columns=names, output_all_columns=is_all)]))


def test_saved_and_mapped(tmp_path: Path) -> None:
    dataset_of(FEW, rows=50).save_to_disk(tmp_path / "saved")
    check_loaders(datasets.load_from_disk(tmp_path / "saved").with_format("torch").shuffle(seed=0))


def test_made_by_hand() -> None:
    rows = {"x": [1, 2, 3, 4, 5], "y": [0.5, 1.5, 2.5, 3.5, 4.5], "text": list("abcde"), "ids": [[1, 2]] * 5}
    check_loaders(datasets.Dataset.from_dict(rows), batch_size=2)
    (batch,) = DataLoader(datasets.Dataset.from_dict(rows), batch_size=5)
    assert batch["text"] == list("abcde")
    assert [one.tolist() for one in batch["ids"]] == [[1] * 5, [2] * 5]


@settings(max_examples=tries(200))
@given(
    st.lists(st.sampled_from([*SCALARS, *LISTS]), min_size=1, max_size=5),
    st.sampled_from(FORMATS),
    st.integers(1, 40),
    st.integers(0, 1 << 30),
    st.booleans(),
    st.booleans(),
)
def test_any_schema(
    kinds: list[pa.DataType], form: str | None, rows: int, seed: int, is_shuffled: bool, is_concat: bool
) -> None:
    dataset = dataset_of(kinds, rows, seed=seed, pieces=1 + seed % 4).with_format(form)
    dataset = dataset.shuffle(seed=seed) if is_shuffled else dataset
    check_loaders(ConcatDataset([dataset, dataset]) if is_concat else dataset, batch_size=1 + seed % 9)


# Batches that PyTorch makes an error of


def error_of(call: Callable[[], Any]) -> tuple[type, str]:
    try:
        call()
    except Exception as error:
        return type(error), str(error).splitlines()[0]
    return type(None), ""


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
@pytest.mark.parametrize("form", FORMATS)
def test_lists_of_several_lengths(form: str | None) -> None:
    rows = datasets.Dataset.from_dict({"ids": [[1], [2], [3, 4], [5, 6], [], [7]]}).with_format(form)
    assert recognise(rows) is not None
    check_loaders(rows, batch_sampler=[[0, 1], [3, 2], [5], [4]], batch_size=1, shuffle=False)
    errors = [error_of(lambda kind=kind: list(kind(rows, batch_size=3))) for kind in (TorchLoader, DataLoader)]
    assert errors[0] == errors[1]
    assert errors[0][0] is RuntimeError


@pytest.mark.parametrize("form", FORMATS)
def test_indices_that_are_none(form: str | None) -> None:
    for rows in (dataset_of(FEW), dataset_of(FEW).shuffle(seed=0), Subset(dataset_of(FEW), [1, -1])):
        dataset: Any = rows if isinstance(rows, Subset) else rows.with_format(form)
        for wrong in ([99], [0, -1], [-99], ["a"], [1.5], [True], [None], [[0]]):
            made = [error_of(lambda kind=kind, one=dataset, wrong=wrong: list(kind(one, batch_sampler=[wrong]))) for kind in (TorchLoader, DataLoader)]  # fmt: skip
            assert made[0] == made[1]


# What is not recognised


def refused() -> list[tuple[Any, str]]:
    plain = datasets.Dataset.from_dict({"x": [1, 2, 3]})
    images = datasets.Dataset.from_dict(
        {"image": [np.zeros((4, 4, 3), np.uint8)] * 2}, datasets.Features({"image": datasets.Image()})
    )
    arrays = datasets.Dataset.from_dict(
        {"a": [np.zeros((2, 2))] * 2}, datasets.Features({"a": datasets.Array2D((2, 2), "float32")})
    )

    class Mine(datasets.Dataset):  # type: ignore[misc, name-defined]
        pass

    hidden = datasets.Dataset.from_dict({"x": [1, 2, 3]})
    hidden.__getitems__ = lambda numbers: [{"x": 7} for _ in numbers]
    bare = datasets.Dataset.from_dict({"x": [1, 2, 3]})
    bare._info.features = None
    return [
        (plain.with_transform(lambda rows: rows), "Python function"),
        (plain.with_format("arrow"), "'arrow'"),
        (plain.with_format("pandas"), "'pandas'"),
        (plain.with_format("torch", dtype=torch.float16), "dtype"),
        (plain.remove_columns("x"), "without"),
        (plain.select([]), "without rows"),
        (plain.with_format("torch", columns=[]), "without columns"),
        (Mine(plain.data), "no dataset that is known"),
        (hidden, "methods of its own"),
        (bare, "not laid out as known"),
        (images, "Image"),
        (arrays, "Array2D"),
        (datasets.Dataset.from_dict({"x": [1, None]}), "missing values"),
        (datasets.Dataset.from_dict({"x": [[1], [None]]}), "missing values"),
        (datasets.Dataset.from_dict({"x": [[1], None]}), "missing values"),
        (datasets.Dataset.from_dict({"x": [None, None]}), "null"),
        (datasets.Dataset.from_dict({"x": [[[1]], [[2]]]}), "list"),
        (datasets.Dataset.from_dict({"x": [{"y": 1}]}), "dict"),
        (datasets.Dataset.from_dict({"x": [["a"], ["b"]]}), "list"),
        (datasets.Dataset(pa.table({"x": pa.array([1], pa.uint64())})), "uint64"),
        (datasets.Dataset(pa.table({"x": pa.array([1], pa.timestamp("us"))})), "timestamp"),
        (datasets.Dataset(pa.table({"x": pa.array([[True]])})), "bool"),
        (ConcatDataset([plain, plain.with_format("torch")]), "not alike"),
        (ConcatDataset([plain, TensorDataset(torch.ones(3))]), "not alike"),
        (Subset(plain, [0, -1]), "beyond"),
        (datasets.DatasetDict({"train": plain}), "no dataset that is known"),
    ]  # fmt: skip


def test_what_is_not_recognised_says_why_and_is_as_pytorchs() -> None:
    for dataset, why in refused():
        assert recognise(dataset) is None, why
        assert why in explain_refusal(dataset)
        found = []
        for kind in (TorchLoader, DataLoader):
            batches = list[Any]()
            error = error_of(lambda kind=kind, dataset=dataset, to=batches: to.extend(kind(dataset, batch_size=2)))
            found.append((error, batches))
        assert found[0][0] == found[1][0]
        check_same(found[0][1], found[1][1])


def test_a_formatter_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    formatting = pytest.importorskip("datasets.formatting")
    numpy = formatting._FORMAT_TYPES["numpy"]
    monkeypatch.setitem(formatting._FORMAT_TYPES, "numpy", type("Mine", (numpy,), {}))
    dataset = dataset_of(FEW)
    assert "Mine" in explain_refusal(dataset.with_format("numpy"))
    assert recognise(dataset) is not None


def test_another_default_device() -> None:
    with torch.device("meta"):
        assert "meta" in explain_refusal(dataset_of(FEW))


# Changes, states, plans


def become(dataset: Any, other: Any) -> None:
    """Everything of another dataset, in place."""
    vars(dataset).update(vars(other))


def test_what_is_changed_counts_from_the_next_pass() -> None:
    dataset = dataset_of(FEW)
    known = recognise(dataset)
    assert known is not None
    changes: list[Callable[[], Any]] = [
        lambda: dataset.set_format("torch"),
        lambda: dataset.set_format("numpy", columns=dataset.column_names[:2]),
        lambda: dataset.set_transform(lambda rows: {"n": [1] * len(next(iter(rows.values())))}),
        dataset.reset_format,
        lambda: become(dataset, dataset.select([4, 9, 5])),
        lambda: become(dataset, datasets.Dataset.from_dict({"x": [1, 2, None]})),
        lambda: become(dataset, dataset_of(FEW, seed=8)),
    ]
    for change in changes:
        change()
        check_same(next(known.batches([[1, 0]])), next(iter(TorchLoader(dataset, batch_sampler=[[1, 0]]))))


def test_a_state_goes_on_where_it_was() -> None:
    def loader() -> Any:
        return DataLoader(dataset_of(FEW).with_format("torch"), batch_size=4, shuffle=True)

    torch.manual_seed(3)
    first = loader()
    batches = iter(first)
    next(batches), next(batches)
    state = first.state_dict()
    again = loader()
    again.load_state_dict(state)
    for one, other in zip(batches, again, strict=True):
        check_same(one, other)


@pytest.mark.parametrize("form", FORMATS)
def test_plans_have_the_rows_of_the_dataset(form: str | None) -> None:
    dataset = dataset_of([pa.int32(), pa.float32(), pa.bool_(), pa.string(), pa.list_(pa.int64(), 3)]).with_format(form)
    dataset = dataset.shuffle(seed=4)
    theirs = ps.from_dataset(dataset).batch(5)
    ours = from_torch(dataset).batch(5)
    for one, other in zip(ps.Loader(ours, to="torch"), ps.Loader(theirs, to="torch"), strict=True):
        assert list(one) == list(other)
        for name in one:
            if isinstance(one[name], torch.Tensor):
                check_same(one[name], other[name])
            else:
                assert list(one[name]) == list(other[name])


def test_plans_of_lists_of_several_lengths_are_ragged() -> None:
    dataset = datasets.Dataset.from_dict({"ids": [[1, 2], [], [3, 4, 5]], "x": [1, 2, 3]}).with_format("torch")
    (batch,) = ps.Loader(from_torch(ConcatDataset([dataset, dataset])).batch_padded(6), to="torch")
    assert batch["ids"].tolist() == [[1, 2, 0], [0, 0, 0], [3, 4, 5]] * 2
    assert batch["x"].tolist() == [1, 2, 3] * 2
