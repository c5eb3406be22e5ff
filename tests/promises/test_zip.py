"""zip keeps every promise: rows stay paired through all that follows, ranks, resuming, blocks read once, clear errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.order.steps.cursor import Work
from support import promises
from support.cases import MemoryStorage
from support.ledgers import report_of, train
from support.seams import lowered_of

pytestmark = pytest.mark.slow

ROWS = 60
#: What numbers are multiples of the row's.
FACTORS = {"id": 1, "n": 3, "m": 5, "twice": 6}


def lines(rows: range) -> str:
    return "".join(json.dumps({"id": number, "text": f"row {number}"}) + "\n" for number in rows)


def texts(folder: Path) -> ps.Dataset:
    """Records in two files."""
    if not (folder / "a.jsonl").exists():  # what is written anew must be opened anew
        (folder / "a.jsonl").write_text(lines(range(23)))
        (folder / "b.jsonl").write_text(lines(range(23, ROWS)))
    return ps.read([folder / "a.jsonl", folder / "b.jsonl"])


def numbers(folder: Path) -> ps.Dataset:
    """Blocks of columns: n = 3 · id."""
    path = folder / "c.parquet"
    if not path.exists():
        pq.write_table(pa.table({"n": np.arange(ROWS) * 3, "label": np.arange(ROWS) % 3}), path, row_group_size=7)
    return ps.read(path)


def memory(_: Path) -> ps.Dataset:
    """m = 5 · id."""
    return ps.from_arrays({"m": np.arange(ROWS) * 5})


def single(folder: Path) -> ps.Dataset:
    """A file a row, which are read one by one: file = "7" of row 7."""
    if not (folder / "files").exists():
        (folder / "files").mkdir()
        for number in range(ROWS):
            (folder / "files" / f"{number:03}.txt").write_text(str(number))
    return ps.read(folder / "files", columns={"file": "text"})


def of(count: int = ROWS, name: str = "id", first: int = 0) -> ps.Dataset:
    return ps.from_arrays({name: np.arange(first, first + count)})


def all_of(folder: Path) -> ps.Dataset:
    return ps.zip([texts(folder), numbers(folder), memory(folder)])


def twice(batch: Mapping[str, Any]) -> dict[str, Any]:
    return {**batch, "twice": 2 * batch["n"]}


PLANS: dict[str, Callable[[Path], ps.Dataset]] = {
    "in memory": lambda folder: ps.zip([of(), memory(folder)]).shuffle(seed=1).batch(8, lanes=4),
    "files and memory": lambda folder: ps.zip([texts(folder), memory(folder)]).shuffle(seed=1, block_rows=4).batch(8, lanes=4),
    "memory and files": lambda folder: ps.zip([memory(folder), texts(folder)]).shuffle(seed=1, block_rows=4).batch(8, pad=True, lanes=4),
    "files of two formats": lambda folder: ps.zip([texts(folder), numbers(folder)]).shuffle(seed=1, block_rows=4).batch(8, lanes=4),
    "the other one first": lambda folder: ps.zip([numbers(folder), texts(folder)]).shuffle(seed=1, block_rows=4).batch(8, drop_last=True, lanes=4),
    "natural": lambda folder: all_of(folder).batch(8),
    "single rows": lambda folder: all_of(folder).shuffle(seed=1, mode="global").batch(8),
    "a file a row": lambda folder: ps.zip([single(folder), texts(folder), numbers(folder)]).shuffle(seed=1).batch(8, lanes=4),
    "behind it, a file a row": lambda folder: ps.zip([texts(folder), single(folder)]).shuffle(seed=1, block_rows=4).batch(8, lanes=4),
    "slices below": lambda folder: ps.zip([texts(folder).skip(10).take(42), numbers(folder).skip(10).take(42)]).shuffle(seed=2, block_rows=5).batch(8, lanes=4),
    "every second below": lambda folder: ps.zip([texts(folder).every(2), numbers(folder).every(2), memory(folder).every(2)]).shuffle(seed=2, block_rows=3).batch(6, lanes=2),
    "filtered below": lambda folder: ps.zip([texts(folder).filter(ps.col("id") % 5 != 1), numbers(folder).filter(ps.col("n") % 5 != 3)]).shuffle(seed=2, block_rows=4).batch(6, lanes=2),
    "sorted below": lambda folder: ps.zip([texts(folder).sort("id", descending=True), numbers(folder).sort("n", descending=True)]).shuffle(seed=2, block_rows=4).batch(6, lanes=2),
    "one of them concat": lambda folder: ps.zip([numbers(folder), ps.concat([texts(folder).take(30), texts(folder).skip(30)])]).shuffle(seed=2, block_rows=4).batch(8, lanes=4),
    "first of them concat": lambda folder: ps.zip([ps.concat([texts(folder).take(30), texts(folder).skip(30)]), numbers(folder)]).shuffle(seed=2, block_rows=4).batch(8, lanes=4),
    "a slice": lambda folder: all_of(folder).skip(7).take(40).shuffle(seed=1, block_rows=4).batch(8, lanes=4),
    "a slice of the order": lambda folder: all_of(folder).shuffle(seed=1, block_rows=4).skip(7).take(40).batch(8, lanes=4),
    "every third": lambda folder: all_of(folder).every(3).shuffle(seed=1, block_rows=3).batch(4, wrap=True),
    "filtered": lambda folder: all_of(folder).filter((ps.col("label") != 1) & (ps.col("id") > 5)).shuffle(seed=1, block_rows=4).batch(8, lanes=4),
    "filtered ahead by a function": lambda folder: all_of(folder).filter(lambda batch: (batch["n"] + batch["m"] + batch["id"]) % 2 == 0, ahead=True).shuffle(seed=1, block_rows=4).batch(6, lanes=2),
    "split": lambda folder: all_of(folder).split({"a": 0.6, "b": 0.4}, stratify="label")["a"].shuffle(seed=1, block_rows=4).batch(8, lanes=4),
    "sorted": lambda folder: all_of(folder).sort("m", descending=True).batch(8, lanes=4),
    "balanced": lambda folder: all_of(folder).filter(ps.col("n") < 100).balance("label").shuffle(seed=3).batch(8, lanes=4),
    "repeated": lambda folder: all_of(folder).shuffle(seed=2, block_rows=4).repeat(2).batch(8, lanes=4),
    "concat of zips": lambda folder: ps.concat([all_of(folder).take(25), all_of(folder).skip(25)]).shuffle(seed=2, block_rows=4).batch(8, lanes=4),
    "mix of zips": lambda folder: ps.mix([all_of(folder).take(25), all_of(folder).skip(25)], weights=[1, 2], rows=48).shuffle(seed=2, block_rows=4).batch(8, lanes=4),
    "zip of zips": lambda folder: ps.zip([ps.zip([texts(folder), numbers(folder)]), memory(folder)]).shuffle(seed=2, block_rows=4).batch(8, lanes=4),
    "a zip behind another": lambda folder: ps.zip([memory(folder), ps.zip([numbers(folder), texts(folder)])]).shuffle(seed=2, block_rows=4).batch(8, lanes=4),
    "zips all over": lambda folder: ps.zip([single(folder), ps.concat([ps.zip([texts(folder), memory(folder)]).take(31), ps.zip([texts(folder), memory(folder)]).skip(31)]), numbers(folder)]).filter(ps.col("m") > 40).shuffle(seed=2, block_rows=4).batch(8, lanes=4),
    "functions of each": lambda folder: ps.zip([texts(folder).map(dict), numbers(folder).map(twice)]).shuffle(seed=2, block_rows=4).batch(8, lanes=4),
    "buckets": lambda folder: all_of(folder).shuffle(seed=1).batch_bucketed(8, by=np.arange(ROWS) * 7 % 30, boundaries=[9, 20], lanes=4),
    "in steps": lambda folder: all_of(folder).shuffle(seed=1, block_rows=4).batch(8, lanes=4, steps=9),
    "cut to the shortest": lambda folder: ps.zip([texts(folder), of(44, "short"), numbers(folder)], strict=False).shuffle(seed=1, block_rows=4).batch(8, lanes=4),
}  # fmt: skip


#: Each is much like another.
LONG = ("memory and files", "the other one first", "behind it, a file a row", "sorted below", "first of them concat", "a slice of the order", "every third", "a zip behind another")  # fmt: skip


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.long) if name in LONG else name for name in PLANS])
def plan(request: pytest.FixtureRequest, tmp_path: Path) -> ps.Dataset:
    return PLANS[request.param](tmp_path)


def row_numbers(batch: Mapping[str, Any]) -> list[int]:
    """The number of each row, in which all columns agree."""
    found = [(batch[name] // factor).tolist() for name, factor in FACTORS.items() if name in batch]
    if "text" in batch:
        found.append([int(text.split()[1]) for text in batch["text"].to_pylist()])
    if "file" in batch:
        found.append([int(text) for text in batch["file"].to_pylist()])
    assert len(found) > 1
    assert all(some == found[0] for some in found)
    return found[0]


def test_rows_stay_paired(plan: ps.Dataset) -> None:
    with ps.Loader(plan, rank=0, world_size=1) as loader:
        for _ in range(2):
            found = [number for batch in loader for number in row_numbers(batch)]
            assert len(found) > 15
            assert {*found} <= {*range(ROWS)}


def test_resume(plan: ps.Dataset) -> None:
    promises.resume_is_exact(plan)


@pytest.mark.slow
def test_elastic(plan: ps.Dataset) -> None:
    promises.ranks_make_one_batch(plan)


def test_any_step_whatever_the_threads(plan: ps.Dataset) -> None:
    promises.any_step_can_be_made(plan)
    promises.epochs_differ_and_seeds_repeat(plan, shuffled="shuffle" in repr(plan))


@pytest.mark.parametrize("name", ["natural", "files of two formats", "a slice", "repeated", "concat of zips"])
def test_every_rank_has_its_part(name: str, tmp_path: Path) -> None:
    """Each row once an epoch (twice, repeated), and sample_ids are those of the first dataset."""
    plan = PLANS[name](tmp_path)
    for world in (1, 2, 4):
        found: list[int] = []
        for rank in range(world):
            with ps.Loader(plan, rank=rank, world_size=world) as loader:
                for step, batch in enumerate(loader):
                    found += row_numbers(batch)
                    if name != "concat of zips":
                        assert row_numbers(batch) == loader.sample_ids(0, step).tolist()
        first, times = 7 if name == "a slice" else 0, 2 if name == "repeated" else 1
        assert sorted(found) == sorted([*range(first, first + len(plan) // times)] * times)


def test_the_order_is_that_of_the_first_alone(tmp_path: Path) -> None:
    """Where both are read in blocks of one size."""
    verbs: Callable[[ps.Dataset], ps.Dataset] = lambda data: data.shuffle(seed=4, block_rows=6).batch(8, lanes=4)  # noqa: E731
    alone, zipped = (verbs(some) for some in (texts(tmp_path), ps.zip([texts(tmp_path), numbers(tmp_path)])))
    with ps.Loader(alone) as first, ps.Loader(zipped) as second:
        for one, both in zip([*first, *first], [*second, *second], strict=True):
            assert one["id"].tolist() == both["id"].tolist()


@pytest.mark.parametrize("name", ["shuffled", "mixed", "concat", "sliced", "filtered", "run ends"])
def test_no_block_is_read_twice(name: str) -> None:
    """Of both files as much is read as is drawn, windows hold no more than the loader says, and simulate says so."""
    rows = 800
    files = [
        {"data/0.jsonl": "".join(f'{{"id": {row}, "text": "{"x" * 40}"}}\n' for row in range(rows)).encode()},
        {"data/0.jsonl": "".join(f'{{"n": {row}, "more": "{"y" * 90}"}}\n' for row in range(rows)).encode()},
    ]
    storages = [MemoryStorage(some) for some in files]
    left, right = (ps.read("data/", format="jsonl", storage=storage) for storage in storages)
    data = ps.zip([left, right])
    if name == "run ends":
        data = ps.zip([left.take(790), ps.concat([right.skip(400), right.take(390)])])
    plans = {
        "mixed": lambda: ps.mix([data.take(300), data.skip(300)], weights=[3, 5]).shuffle(seed=1, block_rows=10),
        "concat": lambda: ps.concat([data.take(300).shuffle(seed=1, block_rows=10), data.skip(300).shuffle(seed=1, block_rows=10)]),
        "sliced": lambda: data.skip(33).take(640).shuffle(seed=1, block_rows=10),
        "filtered": lambda: data.filter(ps.col("n") % 2 == 0).shuffle(seed=1, block_rows=10),
    }  # fmt: skip
    shuffled = plans.get(name, lambda: data.shuffle(seed=1, block_rows=10))()
    plan = shuffled.batch(16, lanes=4)
    simulated = plan.simulate()
    with ps.Loader(plan, rank=0, world_size=1) as loader:
        lowered, held = lowered_of(loader), []
        for storage in storages:
            storage.reads.clear()
        for step in range(len(loader)):
            lowered.stages[0].work(Work(0, step, 1))
            held.append(lowered.budget.kept_bytes)
    drawn = len(loader) * 16 / rows * (2 if name == "filtered" else 1)
    read = [sum(size for _, _, size in storage.reads) for storage in storages]
    for size, some in zip(read, files, strict=True):
        assert 0.93 * drawn <= size / len(some["data/0.jsonl"]) <= 1.05 * drawn
    room = {"filtered": 2.1, "concat": 1.2}.get(
        name, 1.05
    )  # between chosen rows, and where two orders meet; and room is taken in steps
    assert 0 < max(held) <= lowered.window_bytes * room
    assert simulated.nodes[0].bytes >= sum(read)


def test_files_of_a_row_each_are_read_alone(tmp_path: Path) -> None:
    """They take no memory while windows are open, and the others are read in blocks that suit these."""
    plan = ps.zip([single(tmp_path), texts(tmp_path)]).shuffle(seed=1).batch(4, lanes=4)
    with ps.Loader(plan) as loader:
        lowered = lowered_of(loader)
        rows = lowered.order.rows
        assert [rows.block_rows_at(0), rows.block_rows_at(ROWS) > 1] == [1, True]
        window_bytes = lowered.window_bytes
    with ps.Loader(texts(tmp_path).shuffle(seed=1).batch(4, lanes=4)) as loader:
        assert window_bytes == lowered_of(loader).window_bytes


def drawn(name: str) -> Callable[..., dict[str, Any]]:
    def function(row: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        return {**row, name: rng.random()}

    return function


def test_random_functions_draw_by_their_own_rows() -> None:
    """Below a zip a dataset draws as it would alone with the ids that are its own, above it as the first one does."""
    with pytest.warns(UserWarning, match="each for its own dataset"):
        both = ps.zip([of().map_rows(drawn("a")), of(name="n").map_rows(drawn("b"))]).map_rows(drawn("c"))
    with pytest.warns(UserWarning, match="draw after the zip"):
        other = ps.zip([of().map_rows(drawn("a")), of(name="n", first=9).map_rows(drawn("b"))]).map_rows(drawn("c"))
    batches = [next(iter(ps.Loader(plan.batch(ROWS, lanes=1)))) for plan in (both, other)]
    for name in "abc":
        assert len({*batches[0][name].tolist()}) == ROWS
        assert batches[0][name].tolist() == batches[1][name].tolist()
    alone = next(iter(ps.Loader(of().map_rows(drawn("a")).batch(ROWS, lanes=1))))
    assert batches[0]["a"].tolist() == alone["a"].tolist()
    shuffled = next(iter(ps.Loader(both.shuffle(seed=0).batch(ROWS, lanes=1))))
    turn = shuffled["id"]
    for name in "abc":
        assert shuffled[name].tolist() == batches[0][name][turn].tolist()


def test_ops_work_on_columns_of_all(tmp_path: Path) -> None:
    """Below and above, on images that come second, and draw for a row what they draw in any order."""
    pixels = np.random.default_rng(0).integers(0, 256, (ROWS, 12, 12, 3), dtype=np.uint8)
    images, crop = ps.from_arrays({"image": pixels}), {"image": ps.image.RandomResizedCrop(6)}
    for data in (
        ps.zip([texts(tmp_path), images]).transform(**crop),
        ps.zip([texts(tmp_path), images.transform(**crop)]),
    ):
        natural = next(iter(ps.Loader(data.batch(ROWS, lanes=1))))
        with ps.Loader(data.shuffle(seed=0).batch(6)) as loader:
            assert natural["image"].shape == (ROWS, 3, 6, 6)
            for batch in loader:
                assert (batch["image"] == natural["image"][batch["id"]]).all()


def test_a_bad_image_is_named_with_what_it_came_with(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    for number in range(3):
        (tmp_path / "images" / f"{number}.jpg").write_bytes(b"\xff\xd8 no image")
    captions = ps.from_arrays({"caption": [f"caption {number}" for number in range(3)]})
    images = ps.read(tmp_path / "images")
    for data in (
        ps.zip([captions, images]).transform(image=ps.image.Decode()),
        ps.zip([captions, images.transform(image=ps.image.Decode())]),
    ):
        with pytest.raises(ps.DataError, match=r"0\.jpg"):
            list(ps.Loader(data.batch(3)))


def test_lane_stages_above(tmp_path: Path) -> None:
    plan = (
        all_of(tmp_path)
        .shuffle(seed=1, block_rows=4)
        .filter(lambda batch: batch["n"] % 2 == 0)
        .batch(6, steps=8, lanes=2)
    )
    promises.resume_is_exact(plan)
    with ps.Loader(plan) as loader:
        found = [number for batch in loader for number in row_numbers(batch)]
    assert all(number % 2 == 0 for number in found)
    assert {*found} == {*range(0, ROWS, 2)}


def test_a_source_that_is_read_forward_follows() -> None:
    def rows() -> Iterator[dict[str, int]]:
        return ({"n": 3 * number} for number in range(ROWS))

    forward = ps.from_iterable(rows, spool=False, samples=ROWS)
    plan = ps.zip([of(), forward]).batch(8, lanes=4)
    for world in (1, 2):
        found = []
        for rank in range(world):
            with ps.Loader(plan, rank=rank, world_size=world) as loader:
                found += [number for batch in loader for number in row_numbers(batch)]
        assert sorted(found) == [*range(ROWS)]
    with pytest.raises(ps.PlanError, match=r"shuffle: mode='global', and this source can only be read in one order"):
        ps.zip([of(), forward]).shuffle(mode="global")


@pytest.mark.parametrize("name", ["files of two formats", "filtered", "mix of zips", "repeated", "buckets"])
def test_the_ledger_proves_it(name: str, tmp_path: Path) -> None:
    plan = PLANS[name](tmp_path)
    with ps.Loader(plan, rank=0, world_size=1) as loader:
        steps = len(loader)
    state, ranks = train(plan, tmp_path / "ledger", 2, steps // 2)
    for rank in ranks:
        rank.close()
    _, ranks = train(plan, tmp_path / "ledger", 1, 2 * steps - steps // 2, state)
    for rank in ranks:
        rank.close()
    report = report_of(tmp_path / "ledger")
    assert not report.wrong, report


def test_classes_and_labels(tmp_path: Path) -> None:
    """Those of the dataset that has classes, wherever it stands."""
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        for number in range(4):
            (tmp_path / name / f"{number}.jpg").write_bytes(b"\xff\xd8")
    data = ps.zip([of(8), ps.read(tmp_path)])
    assert data.classes == ("cat", "dog")
    assert {*data.spec} >= {"id", "image", "label"}
    assert len(data.balance("label")) == 8
    assert ps.concat([data, data]).classes == ("cat", "dog")


def test_what_came_of_which_dataset_below() -> None:
    named = ps.concat([of(20, "n"), of(40, "n")], source="of")
    with ps.Loader(ps.zip([of(), named]).shuffle(seed=1).batch(12)) as loader:
        for batch in loader:
            assert batch["of"].tolist() == (batch["id"] >= 20).astype(int).tolist()
            assert batch["n"].tolist() == np.where(batch["id"] < 20, batch["id"], batch["id"] - 20).tolist()


def test_counts_that_differ() -> None:
    with pytest.raises(
        ps.PlanError,
        match=r"zip: dataset 0 has 60 rows and dataset 1 has 1,044, so that some would have no counterpart",
    ):
        ps.zip([of(), of(1044, "n")])
    assert [
        len(ps.zip([of(), of(44, "n")], strict=False)),
        ps.zip([of(), of(44, "n")], strict=False).nodes[1].verb,
    ] == [44, "take"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ps.zip([]), r"zip: no datasets; pass a list of at least two"),
        (lambda: ps.zip([of()]), r"zip: one dataset; pass a list of at least two"),
        (lambda: ps.zip(of()), r"zip: one dataset; pass a list of at least two"),
        (lambda: ps.zip([of(), [1]]), r"zip: entry 1 is list; pass a list of datasets"),
        (lambda: ps.zip([of(), of()]), r"zip: datasets 0 \(memory\) and 1 \(memory\) both have a column 'id'; rename one, for example read\(…, columns=\{'id_1': 'id'\}\)"),
        (lambda: ps.zip([of(), ps.zip([of(name="a"), of()])]), r"datasets 0 \(memory\) and 1 \(memory, memory\) both have a column 'id'"),
        (lambda: ps.zip([of(), of(name="n").shuffle()]), r"zip: dataset 1 has a shuffle already, and rows are paired by their places in the data; write zip\(\[…\]\)\.shuffle\(…\)"),
        (lambda: ps.zip([ps.mix([of(), of()]), of(name="n")]), r"zip: dataset 0 has a mix already"),
        (lambda: ps.zip([of().repeat(2), of(120, "n")]), r"zip: dataset 0 has a repeat already"),
        (lambda: ps.zip([of().batch(2), of(name="n")]), r"zip: dataset 0 has a batch already"),
        (lambda: ps.zip([of(), of(name="n").filter(lambda batch: batch["n"] > 0)]).batch(4, steps=3), r"zip\(…\) after filter"),
        (lambda: ps.zip([of(), of(40, "n").sample(60, replacement=True)]), r"zip: dataset 1 has a sample already"),
        (lambda: ps.zip([of(), of(name="n")]).shuffle().shuffle(), r"shuffles already"),
        (lambda: ps.zip([of(), of(name="n")]).filter(ps.col("nn") > 1), r"filter: no column 'nn'; there are id, n; did you mean 'n'"),
        (lambda: ps.zip([of(), of(name="n")]).transform(nn=ps.image.Decode()), r"transform: no column 'nn'"),
        (lambda: ps.concat([ps.zip([of(), of(name="n")]), of()]), r"dataset 0 \(memory, memory\) has a column 'n', and dataset 1 \(memory\) has none"),
        (lambda: ps.zip([of(), of(name="n")], of()), r"zip: .* is passed by position"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ps.PlanError, match=message):
        make()


def test_functions_that_return_the_same_column_are_refused() -> None:
    plan = ps.zip([of(), of(name="n").map(lambda batch: {"id": batch["n"]})]).batch(6)
    with pytest.raises(ps.PlanError, match="zip: dataset 1 and one before it have a column 'id'; let a function"):
        list(ps.Loader(plan))


def test_the_same_files_twice_with_other_names(tmp_path: Path) -> None:
    data = texts(tmp_path)
    again = ps.read([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], columns={"id_again": "id"})
    with ps.Loader(ps.zip([data, again]).shuffle(seed=1, block_rows=4).batch(8)) as loader:
        for batch in loader:
            assert batch["id_again"].tolist() == batch["id"].tolist()


def test_a_state_belongs_to_these_datasets() -> None:
    plan = ps.zip([of(), of(name="n")]).shuffle(seed=1).batch(8)
    with ps.Loader(plan) as loader:
        next(iter(loader))
        state = loader.state_dict()
    for other in (of().shuffle(seed=1).batch(8), ps.zip([of(), of(name="n", first=5)]).shuffle(seed=1).batch(8)):
        with ps.Loader(other) as loader, pytest.raises(ps.StateError):
            loader.load_state_dict(state)
