"""Looking at rows: dataset[i], head, show and iteration give the rows of epoch 0, in its order, and leave nothing running."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps

ROWS = 40
NOTE = "ignore:for row in dataset"


def data() -> ps.Dataset:
    lists = pa.array([[number] * (number % 4) for number in range(ROWS)], pa.large_list(pa.int64()))
    texts = [f"row {number}" for number in range(ROWS)]
    return ps.from_arrays({"x": np.arange(ROWS), "text": texts, "list": lists, "wide": np.ones((ROWS, 2), np.float32)})


def plus_one(batch: dict[str, Any]) -> dict[str, Any]:
    return {**batch, "x": batch["x"] + 1}


def even(batch: dict[str, Any]) -> Any:
    return batch["x"] % 2 == 0


def twice(batch: dict[str, Any]) -> dict[str, Any]:
    return {"x": np.repeat(batch["x"], 2)}


PLANS: dict[str, Callable[[], ps.Dataset]] = {
    "natural": data,
    "shuffled": lambda: data().shuffle(seed=3),
    "shuffled, with functions": lambda: data().shuffle(seed=3).map(plus_one).map_rows(dict),
    "concat": lambda: ps.concat([data(), data()]).shuffle(seed=1),
    "mix": lambda: ps.mix([data().shuffle(seed=1), data()], weights=[1, 2]),
    "zip": lambda: ps.zip([data(), ps.from_arrays({"y": np.arange(ROWS)})]).shuffle(seed=1),
    "chosen": lambda: data().filter(ps.col("x") > 7).shuffle(seed=2).skip(3),
    "cached": lambda: data().map(plus_one).cache().shuffle(seed=2),
}


@pytest.mark.filterwarnings(NOTE)
@pytest.mark.parametrize("name", PLANS)
def test_every_way_of_looking_shows_the_same_rows(name: str) -> None:
    plan = PLANS[name]()
    seen = [row["x"] for row in plan]
    assert len(seen) == len(plan)
    assert plan.head(len(plan) + 5)["x"].tolist() == seen
    assert plan.head(3)["x"].tolist() == seen[:3]
    for number in (0, 1, len(plan) - 1, -1, -len(plan), np.int64(5)):
        assert plan[number]["x"] == seen[number]
    with ps.Loader(plan.batch(1, lanes=1), rank=0, world_size=1) as loader:
        assert [int(batch["x"][0]) for batch in loader] == seen


def test_a_row_is_a_dict_of_plain_values() -> None:
    row = data()[3]
    assert row["text"] == "row 3"
    assert row["list"] == [3, 3, 3]
    assert row["wide"].tolist() == [1, 1]
    assert row["wide"].base is None  # the rest of the batch is not held
    assert row["x"] == 3
    assert isinstance(data().head(2)["text"], pa.Array)


def test_random_ops_show_what_training_makes(photos: Path) -> None:
    plan = ps.read(str(photos)).shuffle(seed=0).transform(image=[ps.image.Decode(), ps.image.RandomResizedCrop(32)])
    with ps.Loader(plan.batch(8, lanes=1), rank=0, world_size=1) as loader:
        batch = loader.batch_at(0, 0)
    assert np.array_equal(plan.head(8)["image"], batch["image"])
    assert np.array_equal(plan[5]["image"], batch["image"][5])


@pytest.mark.parametrize("asked", [ROWS, -ROWS - 1, 10**12])
def test_beyond_the_last_row_is_an_index_error(asked: int) -> None:
    with pytest.raises(IndexError, match=rf"dataset\[{asked}\]: the dataset has 40 rows"):
        data()[asked]


@pytest.mark.parametrize(
    ("asked", "instead"),
    [
        (slice(2, 5), r"skip\(2\)\.take\(3\)"),
        ("x", "select"),
        (["x"], "select"),
        (True, "number of one row"),
        (1.0, "number of one row"),
        (None, "number of one row"),
        ([1, 2], "number of one row"),
    ],
)
def test_what_is_no_number_is_refused_with_what_to_write(asked: Any, instead: str) -> None:
    with pytest.raises(ps.PlanError, match=instead):
        data()[asked]


@pytest.mark.parametrize("rows", [0, -1, 2.5, "3", True])
def test_head_takes_a_whole_number(rows: Any) -> None:
    with pytest.raises(ps.PlanError, match="head: n="):
        data().head(rows)


# Stages that give rows by what the data says


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (lambda: data().filter(even), list(range(0, ROWS, 2))),
        (lambda: data().filter(even).filter(lambda batch: batch["x"] > 30), [32, 34, 36, 38]),
        (lambda: data().select("x").flat_map(twice, rows=8), sorted([*range(ROWS), *range(ROWS)])),
        (lambda: data().select("x").filter(even).flat_map(twice, rows=5).map(plus_one).take(3), [1, 1, 3]),
    ],
)
def test_lane_stages_show_the_rows_of_one_epoch(plan: Callable[[], ps.Dataset], expected: list[int]) -> None:
    assert plan().head(1000)["x"].tolist() == expected
    assert plan().head(3)["x"].tolist() == expected[:3]
    with pytest.raises(ps.PlanError, match=r"dataset\[2\]: rows of this plan come one after the other.*head\(3\)"):
        plan()[2]


@pytest.mark.filterwarnings(NOTE)
def test_a_plan_with_batches_shows_its_first_batch() -> None:
    batched = data().shuffle(seed=4).batch(8)
    with ps.Loader(batched, rank=0, world_size=1) as loader:
        first = loader.batch_at(0, 0)["x"].tolist()
    assert batched.head(100)["x"].tolist() == first
    assert [row["x"] for row in batched] == first
    assert batched[-1]["x"] == first[-1]
    with pytest.raises(IndexError, match="its first batch has 8 rows"):
        batched[8]
    padded = data().select("list").batch_padded(4)
    assert padded.head()["list"].shape == (4, 3)
    packed = data().select("list").pack("list", length=16).batch(2, steps=3)
    assert packed.head()["list"].shape == (2, 16)


# Streams, and nothing


def test_streams_have_a_head_and_no_numbers() -> None:
    stream = ps.from_iterable(lambda: ({"x": number} for number in range(20)), spool=False, samples=20)
    assert stream.head(3)["x"].tolist() == [0, 1, 2]
    assert len(stream.shuffle(seed=0, window=10).head(30)["x"]) == 20
    with pytest.raises(ps.PlanError, match="one after the other"):
        stream[0]
    with ps.Loader(stream.batch(5)) as loader:  # nothing is missing
        assert next(iter(loader))["x"].tolist() == [0, 1, 2, 3, 4]


def test_looking_takes_no_rows_away_from_training() -> None:
    once = ps.from_iterable(({"x": number} for number in range(20)), spool=False, samples=20)
    with pytest.raises(ps.PlanError, match="its rows come once, and training would lack those"):
        once.head()
    with ps.Loader(once.batch(5)) as loader:
        assert next(iter(loader))["x"].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.filterwarnings(NOTE)
def test_of_no_rows_there_is_none() -> None:
    nothing = data().take(0)
    assert list(nothing) == []
    with pytest.raises(IndexError, match="0 rows"):
        nothing[0]
    with pytest.raises(ps.PlanError, match="no rows are left"):
        nothing.head()


@pytest.mark.slow
def test_nothing_runs_afterwards() -> None:
    before = {*threading.enumerate()}
    for plan in (data().shuffle(seed=0), data().filter(even), data().map(plus_one, workers="process")):
        plan.head(3)
    with pytest.warns(UserWarning, match="to look at some"):
        rows = iter(data().filter(even))
    next(rows)
    rows.close()  # type: ignore[attr-defined]
    left = {thread for thread in threading.enumerate() if thread not in before}
    assert {thread.name for thread in left if thread.name.startswith("penstock") and not thread.daemon} == set()
    assert not [thread for thread in left if "filter" in thread.name]


# Who trains gets no rows


def test_iterating_says_that_a_loader_is_for_training() -> None:
    with pytest.warns(UserWarning, match=r"to look at some; train with `for batch in penstock.Loader") as noted:
        assert next(iter(data()))["x"] == 0
    assert noted[0].filename == __file__


@pytest.mark.parametrize(
    "open_again", [ps.from_dataset, ps.from_iterable, ps.from_torch, ps.read, ps.from_arrays, ps.zip]
)
def test_a_dataset_is_not_opened_again(open_again: Callable[[Any], Any]) -> None:
    with pytest.raises(ps.PlanError):
        open_again(data())


@pytest.mark.filterwarnings(NOTE)
def test_a_dataset_in_a_dataloader_says_what_to_pass_instead() -> None:
    torch_data = pytest.importorskip("torch.utils.data")
    from penstock.torch import DataLoader

    for made in (
        torch_data.DataLoader(data(), batch_size=4),
        torch_data.DataLoader(data(), batch_size=4, shuffle=True),
        torch_data.DataLoader(data(), batch_size=None),
        torch_data.DataLoader(torch_data.Subset(data(), [1, 2]), batch_size=2),
        torch_data.DataLoader(torch_data.ConcatDataset([data(), data()]), batch_size=2),
        torch_data.DataLoader(data(), batch_size=4, num_workers=1),
        DataLoader(data(), batch_size=4),
    ):
        with pytest.raises(ps.PlanError, match=r"a Dataset is a plan(.|\n)*penstock.Loader\(dataset.batch\(32\)\)"):
            next(iter(made))


@pytest.mark.trainers
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning", "ignore::DeprecationWarning")
def test_a_dataset_in_lightning_says_what_to_pass_instead(tmp_path: Path) -> None:
    lightning = pytest.importorskip("pytorch_lightning")
    trainer = lightning.Trainer(
        max_steps=1, accelerator="cpu", logger=False, enable_checkpointing=False, default_root_dir=tmp_path
    )
    from pytorch_lightning.demos.boring_classes import BoringModel

    with pytest.raises(ps.PlanError, match="a Dataset is a plan"):
        trainer.fit(BoringModel(), data())


# Showing


def test_show_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    data().show(2)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [["x", "text"], ["int64", "str"], ["0", "0"], ["1", "1"]]
    assert "float32 (2)" in lines[1]


def test_in_a_notebook_show_displays_what_has_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    displayed: list[Any] = []
    ipython = SimpleNamespace(get_ipython=object, display=SimpleNamespace(display=displayed.append))
    monkeypatch.setitem(sys.modules, "IPython", ipython)  # type: ignore[arg-type]
    data().show(1)
    assert "<table>" in displayed[0]._repr_html_()
    ipython.get_ipython = lambda: None
    data().show(1)
    assert len(displayed) == 1
