"""Ray Data's datasets as inputs and ours as its, in one process: python -m support.ray_data_cases FOLDER [CASE…]. Says "passed NAME" of each."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray
import ray.data

import penstock as ps
import penstock.ray
from penstock.ray import data as of_ray

ROWS = 500


def table() -> pa.Table:
    """Columns of many kinds."""
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "id": np.arange(ROWS),
            "text": [f"row {row}" for row in range(ROWS)],
            "bytes": [bytes([row % 256] * (row % 5)) for row in range(ROWS)],
            "tokens": [list(range(row % 4)) for row in range(ROWS)],
            "x": rng.random(ROWS, np.float32),
        }
    )


def images(block: dict[str, Any]) -> dict[str, Any]:
    return {"id": block["id"], "image": np.stack([np.full((4, 3), one, np.uint8) for one in block["id"]])}


def rows_of(dataset: ps.Dataset, size: int = 50, **options: Any) -> list[dict[str, Any]]:
    with ps.Loader(dataset.batch(size), structure="arrow", **options) as loader:
        return [row for batch in loader for row in batch.to_pylist()]


def the_rows_are_those_of_the_tables(folder: Path) -> None:
    """In their order, whatever their blocks are; as `from_arrays` has them."""
    for blocks in (1, 7):
        data = ray.data.from_arrow(table()).repartition(blocks)
        opened = ps.from_ray(data)
        assert rows_of(opened) == rows_of(ps.from_arrays(table()))
        assert opened.source.manifest.place(499).endswith("row 499" if blocks == 1 else "block 6, row 71")


def rows_of_files_come_in_their_order(folder: Path) -> None:
    """Of a dataset that has not run, whose tasks end in any order."""
    for part in range(8):
        pq.write_table(table().slice(part * 60, 60), folder / f"{part}.parquet")

    def slower(block: dict[str, Any]) -> dict[str, Any]:
        time.sleep(0.3 if block["id"][0] == 0 else 0.0)
        return block

    data = ray.data.read_parquet(str(folder), override_num_blocks=8).map_batches(slower, batch_size=None)
    opened = ps.from_ray(data)
    assert sorted(row["id"] for row in rows_of(opened)) == list(range(480))
    assert data.context.execution_options.preserve_order is False
    # Ray orders the files; the rows of each are neighbours, and both readings are alike.
    assert rows_of(opened) == rows_of(ps.from_ray(data))
    with ps.Loader(opened.batch(4)) as loader, ps.Loader(ps.from_ray(data).batch(4)) as other:
        other.load_state_dict(loader.state_dict())


def tensors_keep_their_shape(folder: Path) -> None:
    data = ray.data.range(20).map_batches(images)
    batch = ps.Loader(ps.from_ray(data).batch(20)).batch_at(0, 0)
    assert batch["image"].shape == (20, 4, 3)
    assert batch["image"].dtype == np.uint8
    assert (batch["image"][:, 0, 0] == batch["id"]).all()


def states_go_on_with_the_same_blocks_alone(folder: Path) -> None:
    data = ray.data.from_arrow(table()).repartition(3).materialize()
    with ps.Loader(ps.from_ray(data).shuffle(seed=1).batch(20)) as loader:
        batches = iter(loader)
        next(batches), next(batches)
        state, third = loader.state_dict(), next(batches)
    again = ray.data.from_arrow(table()).repartition(3)
    for rank in range(2):
        with ps.Loader(ps.from_ray(again).shuffle(seed=1).batch(20), rank=rank, world_size=2) as other:
            other.load_state_dict(state)
            assert next(iter(other))["id"].tolist() == third["id"][10 * rank : 10 * rank + 10].tolist()
    changed = table().set_column(0, "id", pa.array(np.arange(ROWS) + 1))
    for wrong in (ray.data.from_arrow(table()).repartition(4), ray.data.from_arrow(changed).repartition(3)):
        with ps.Loader(ps.from_ray(wrong).shuffle(seed=1).batch(20)) as other, pytest.raises(ps.StateError):
            other.load_state_dict(state)


def actors_read_the_blocks(folder: Path) -> None:
    plan = ps.from_ray(ray.data.from_arrow(table()).repartition(5)).shuffle(seed=2).batch(25)
    with ps.Loader(plan) as here, penstock.ray.Loader(plan, workers=1) as there:
        for one, other in zip(here, there, strict=True):
            assert one["id"].tolist() == other["id"].tolist()


def nulls_follow_their_rule(folder: Path) -> None:
    some = pa.table({"x": pa.array([1.0, None, 3.0] * 10)})
    data = ray.data.from_arrow([some, some])
    with ps.Loader(ps.from_ray(data).batch(60)) as loader, pytest.raises(ps.DataError, match="null"):
        next(iter(loader))
    with ps.Loader(ps.from_ray(data, nulls="nan").batch(60)) as loader:
        assert np.isnan(loader.batch_at(0, 0)["x"]).sum() == 20


def columns_are_chosen_and_renamed(folder: Path) -> None:
    opened = ps.from_ray(ray.data.from_arrow(table()), columns={"number": "id"})
    assert list(opened[3]) == ["number"]


def what_cannot_be_read_is_said(folder: Path) -> None:
    with pytest.raises(ps.PlanError, match="pass a ray"):
        ps.from_ray(table())
    with pytest.raises(ps.SourceError, match="no rows"):
        ps.from_ray(ray.data.from_arrow(table().slice(0, 0)))
    objects = ray.data.from_items([{"x": threading.Thread}, {"x": print}])
    with pytest.raises(ps.PlanError, match="Python objects"):
        ps.from_ray(objects)
    unlike = ray.data.from_arrow([pa.table({"x": [1]}), pa.table({"x": ["a"]})])
    with pytest.raises(ps.DataError, match="give all blocks one schema"):
        ps.from_ray(unlike)
    opened = ps.from_ray(ray.data.from_arrow(table()))
    with (
        ps.Loader(opened.batch(4), isolation="process") as loader,
        pytest.raises(ps.ProcessError, match="has not joined"),
    ):
        next(iter(loader))


@ray.remote
class Owner:
    """Owns a block, which goes with it."""

    def block(self) -> Any:
        return [ray.put(table())]


def a_lost_block_is_an_error(folder: Path) -> None:
    owner = Owner.remote()
    [ref] = ray.get(owner.block.remote())
    opened = of_ray.RaySource(
        of_ray.open_blocks(ray.data.from_arrow(table()), of_ray.Options()).manifest, (), 100, of_ray.OpenBlocks([ref])
    )
    ray.kill(owner)
    time.sleep(2.0)
    with pytest.raises(ps.DataError, match="block 0: Ray has lost it"):
        opened.load(0, 1)


def ray_reads_the_rows_of_a_plan(folder: Path) -> None:
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    plan = ps.from_arrays(table())
    back = plan.to_ray(override_num_blocks=4)
    assert back.count() == ROWS
    assert back.take_all() == rows_of(plan)
    shuffled = plan.shuffle(seed=3).batch(32)
    with ps.Loader(shuffled) as loader:
        expected = np.concatenate([batch["id"] for batch in loader])
    for blocks in (1, 5, 100):
        got = shuffled.to_ray(override_num_blocks=blocks)
        assert got.count() == ROWS
        assert [row["id"] for row in got.take_all()] == expected.tolist()
    kept = plan.batch(30, drop_last=True).to_ray()
    assert kept.count() == len(kept.take_all()) == ROWS // 30 * 30


def third(batch: dict[str, Any]) -> Any:
    return batch["id"] % 3 == 0


def ray_reads_tensors_and_what_the_data_decides(folder: Path) -> None:
    plan = ps.from_arrays({"id": np.arange(64), "image": np.arange(64 * 6, dtype=np.uint8).reshape(64, 2, 3)})
    [batch] = plan.to_ray().iter_batches(batch_size=64, batch_format="numpy")
    assert batch["image"].shape == (64, 2, 3)
    order = np.argsort(batch["id"])
    assert (batch["image"][order].reshape(-1) == np.arange(64 * 6, dtype=np.uint8)).all()
    filtered = plan.filter(third).batch(8, steps=2)
    with ps.Loader(filtered) as loader:
        expected = np.concatenate([batch["id"] for batch in loader])
    assert [row["id"] for row in filtered.to_ray(override_num_blocks=4).take_all()] == expected.tolist()


def there_and_back(folder: Path) -> None:
    plan = ps.from_arrays(table())
    assert rows_of(ps.from_ray(plan.to_ray(override_num_blocks=3))) == rows_of(plan)


CASES: list[Callable[[Path], None]] = [
    the_rows_are_those_of_the_tables,
    rows_of_files_come_in_their_order,
    tensors_keep_their_shape,
    states_go_on_with_the_same_blocks_alone,
    actors_read_the_blocks,
    nulls_follow_their_rule,
    columns_are_chosen_and_renamed,
    what_cannot_be_read_is_said,
    a_lost_block_is_an_error,
    ray_reads_the_rows_of_a_plan,
    ray_reads_tensors_and_what_the_data_decides,
    there_and_back,
]


def main(folder: str, *names: str) -> None:
    ray.init("local", num_cpus=2, object_store_memory=100 << 20, include_dashboard=False, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    assert of_ray.PenstockDatasource
    for case in [one for one in CASES if not names or one.__name__ in names]:
        place = Path(folder) / case.__name__
        place.mkdir()
        try:
            case(place)
        except BaseException:
            traceback.print_exc()
            print("failed", case.__name__, flush=True)
        else:
            print("passed", case.__name__, flush=True)
    ray.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
