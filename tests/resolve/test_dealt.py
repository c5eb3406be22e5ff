"""To how many lanes rows are dealt where blocks are large, and that a state goes on with the lanes that it was saved with."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.observe.ledger.verify import verify
from penstock.resolve import dealt
from support.seams import lowered_of

ROWS = 1_500


@contextmanager
def open_bytes(most: int) -> Iterator[None]:
    """Another rule, as an earlier version has it that knows none: then with more than there is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dealt, "OPEN_BYTES", most)
        yield


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> ps.Dataset:
    """Blocks of 10 rows and 40 kB: 192 of them would be open in 64 lanes, 7.7 MB."""
    where = tmp_path_factory.mktemp("dealt") / "rows.h5"
    with h5py.File(where, "w") as file:
        file.create_dataset("n", data=np.arange(ROWS))
        values = np.broadcast_to(np.arange(ROWS, dtype=np.float32)[:, None], (ROWS, 1_000))
        file.create_dataset("x", data=values, chunks=(10, 1_000), compression="gzip", compression_opts=1)
    return ps.read(where)


def plan_of(rows: ps.Dataset, kind: str = "rows") -> ps.Dataset:
    shuffled = rows.shuffle(seed=3, block_rows=10)
    if kind == "stage":
        return shuffled.filter(odd).batch(64)
    if kind == "mix":
        return ps.mix([shuffled, rows.shuffle(seed=4, block_rows=10)], weights=[2, 1]).batch(64)
    if kind == "steps":
        return shuffled.batch(64, steps=9)
    return shuffled.batch(64)


def odd(batch: Any) -> Any:
    return batch["n"] % 2 == 1


def ids(loader: ps.Loader[Any], epochs: int = 1) -> list[list[int]]:
    return [batch["n"].tolist() for _ in range(epochs) for batch in loader]


def shape_of(plan: ps.Dataset, **options: Any) -> tuple[int, int]:
    with ps.Loader(plan, **options) as loader:
        order = lowered_of(loader).order
        if lowered_of(loader).lanes:
            below = lowered_of(loader).lanes.feeds[0].order.rows.shape
            return order.lanes, below.window_blocks
        return order.lanes, order.rows.shape.window_blocks


KINDS = ["rows", "stage", "mix", "steps"]


def test_large_blocks_are_dealt_to_fewer_lanes(rows: ps.Dataset) -> None:
    plan = plan_of(rows)
    assert shape_of(plan) == (64, 2)
    for most, found in (
        (8_000_000, (64, 2)),
        (5_900_000, (32, 2)),
        (5_000_000, (16, 2)),
        (1_200_000, (8, 2)),
        (900_000, (8, 1)),
        (1, (8, 1)),
    ):
        with open_bytes(most):
            assert shape_of(plan) == found
            assert shape_of(plan, rank=1, world_size=4) == found  # whatever the ranks are


def test_columns_that_nobody_reads_are_not_counted(rows: ps.Dataset, tmp_path: Path) -> None:
    """Blocks of 10 rows and 80 bytes are read behind a select of one column, in the order of the blocks that they are."""
    numbers = pa.array(np.arange(ROWS))
    table = pa.table(
        {"n": numbers, "x": pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(ROWS * 1_000, "f4")), 1_000)}
    )
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=10)
    with pa.ipc.new_file(tmp_path / "x.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=10)
    for data in (rows, ps.read(tmp_path / "x.parquet"), ps.read(tmp_path / "x.arrow")):
        shuffled = data.shuffle(seed=3, block_rows=10)
        with open_bytes(1_200_000):
            assert shape_of(shuffled.batch(64)) == (8, 2)
            assert shape_of(shuffled.map(dict).select("n").batch(64)) == (8, 2)  # a function gets all columns
            for plan in (
                shuffled.select("n").batch(64),
                shuffled.filter(odd, columns=["n"]).select("n").batch(64),
                ps.mix([shuffled, shuffled], weights=[1, 1]).select("n").batch(64),
            ):
                assert shape_of(plan)[0] == 64
                assert "blocks are large" not in plan.explain()
        with ps.Loader(shuffled.select("n").batch(64)) as loader:
            found = ids(loader)
        with ps.Loader(shuffled.batch(64)) as loader:
            assert ids(loader) == found


def test_what_is_written_stays(rows: ps.Dataset) -> None:
    with open_bytes(1):
        shuffled = rows.shuffle(seed=3, block_rows=10)
        assert shape_of(shuffled.batch(64, lanes=32)) == (32, 2)
        assert shape_of(rows.shuffle(seed=3, block_rows=10, window_blocks=3).batch(64)) == (8, 3)
        assert shape_of(shuffled.batch(12)) == (12, 1)  # half of which would be fewer than eight
        assert shape_of(shuffled.batch(7)) == (7, 1)
        assert shape_of(rows.batch(64))[0] == 64  # which is not shuffled, and holds two blocks
        in_memory = ps.from_arrays({"n": np.arange(100)}).shuffle(seed=0)
        assert shape_of(in_memory.batch(64)) == (64, 2)


def test_a_batch_of_each_rank_is_dealt_by_all_of_them(rows: ps.Dataset) -> None:
    with open_bytes(5_900_000):
        plan = rows.shuffle(seed=3, block_rows=10).batch(16, per_rank=True)
        assert shape_of(plan, rank=0, world_size=4) == (32, 2)
        assert shape_of(plan, rank=0, world_size=1) == (16, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_of_before_goes_on_in_its_order(rows: ps.Dataset, kind: str) -> None:
    plan = plan_of(rows, kind)
    with open_bytes(1 << 60), ps.Loader(plan, rank=0, world_size=1) as before:
        steps = iter(before)
        for _ in range(4):
            next(steps)
        state = json.loads(json.dumps(before.state_dict()))
        wanted = [batch["n"].tolist() for batch in steps] + ids(before)
        assert state["version"] == 2
        assert "dealt" not in state
    with open_bytes(1):
        with ps.Loader(plan, rank=0, world_size=1) as anew:
            other = ids(anew, 2)
        with ps.Loader(plan, rank=0, world_size=1) as loader:
            loader.load_state_dict(state)
            assert loader.state_dict() == state
            found = ids(loader, 2)
            assert "dealt" not in loader.state_dict()
            assert "64 lanes" in loader.explain() or "lanes=64" in loader.explain()
    assert found == wanted
    assert other[-len(wanted) :] != wanted


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("most", [5_000_000, 1])
def test_a_state_of_fewer_lanes_goes_on_whatever_the_rule_says_later(rows: ps.Dataset, kind: str, most: int) -> None:
    plan = plan_of(rows, kind)
    with open_bytes(most), ps.Loader(plan, rank=0, world_size=1) as before:
        steps = iter(before)
        for _ in range(4):
            next(steps)
        state = json.loads(json.dumps(before.state_dict()))
        wanted = [batch["n"].tolist() for batch in steps] + ids(before)
    assert state["version"] == 3  # which versions of before refuse, since they would go on in another order
    assert state["dealt"] == ([8, 1] if most == 1 else [8, None] if kind == "mix" else [16, None])
    with ps.Loader(plan, rank=0, world_size=1) as loader:
        loader.load_state_dict(state)
        assert loader.state_dict() == state
        assert ids(loader, 2) == wanted
        loader.load_state_dict(state)  # and again
        assert loader.state_dict()["dealt"] == state["dealt"]


def test_a_state_goes_on_on_other_ranks_and_in_a_process_of_its_own(rows: ps.Dataset) -> None:
    plan = plan_of(rows)
    with open_bytes(1), ps.Loader(plan, rank=0, world_size=1) as before:
        steps = iter(before)
        next(steps)
        state = before.state_dict()
        whole = [batch["n"].tolist() for batch in steps]
    parts = []
    for rank in range(4):
        with ps.Loader(plan, rank=rank, world_size=4, isolation="process" if rank == 3 else None) as loader:
            loader.load_state_dict(state)
            parts.append(ids(loader))
    assert [[*chain.from_iterable(step)] for step in zip(*parts, strict=True)] == whole


def test_a_process_of_its_own_deals_as_it_is_told(rows: ps.Dataset) -> None:
    """The child knows another rule than this process, as if it counted otherwise."""
    plan = plan_of(rows)
    with open_bytes(1):
        with ps.Loader(plan) as loader:
            wanted = ids(loader)
        with ps.Loader(plan, isolation="process") as loader:
            assert ids(loader) == wanted
            state = loader.state_dict()
            assert state["dealt"] == [8, 1]


def test_a_state_that_was_changed_is_refused(rows: ps.Dataset) -> None:
    plan = plan_of(rows)
    with open_bytes(1), ps.Loader(plan, rank=0, world_size=1) as loader:
        state = loader.state_dict()
        for wrong in ([3, 1], [0, 1], [8], 8, [8, 0], ["8", 1], [8, 1.5], [True, 1], {"8": 1}):
            with pytest.raises(ps.StateError, match="of its lanes; it was changed"):
                loader.load_state_dict({**state, "dealt": wrong})
        assert loader.state_dict() == state
        with pytest.raises(ps.StateError, match="reads 1 to 3"):
            loader.load_state_dict({**state, "version": 4})


def test_ranks_that_loaded_other_states_do_not_agree(rows: ps.Dataset) -> None:
    plan = plan_of(rows)
    with open_bytes(1), ps.Loader(plan, rank=0, world_size=1) as loader:
        new = loader._rank._plan()
        state = {key: value for key, value in loader.state_dict().items() if key != "dealt"}
        loader.load_state_dict(state)
        words, is_wrong = loader._rank._plan().difference(new.text)
    assert is_wrong
    assert "dealt was [8, 1] and is None" in words


def test_a_ledger_is_of_one_order(rows: ps.Dataset, tmp_path: Path) -> None:
    plan = plan_of(rows)
    with open_bytes(1):
        with ps.Loader(plan, rank=0, world_size=1, ledger=tmp_path / "new") as loader:
            ids(loader)
        assert verify([str(tmp_path / "new")]).is_well
        with ps.Loader(plan, rank=0, world_size=1, ledger=tmp_path / "both") as loader:
            next(iter(loader))
    with open_bytes(1 << 60), ps.Loader(plan, rank=0, world_size=1, ledger=tmp_path / "both") as loader:
        ids(loader)
    assert not verify([str(tmp_path / "both")]).is_well


def test_counted_epochs_are_those_that_ranks_take(
    rows: ps.Dataset, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    plan = plan_of(rows, "stage")
    for most in (1 << 60, 1):
        with open_bytes(most):
            assert plan.count_rows() == [ROWS // 2]
            parts = [ids(ps.Loader(plan, rank=rank, world_size=2)) for rank in range(2)]
            assert sorted(row for part in parts for step in part for row in step) == [*range(1, ROWS, 2)]
            assert plan.simulate(world_size=2).steps_per_epoch == len(parts[0])


def test_bad_rows_change_no_lanes(rows: ps.Dataset) -> None:
    plan = plan_of(rows).map_rows(dict)
    with open_bytes(1):
        assert shape_of(plan, on_error="skip") == (8, 1)
        with ps.Loader(plan, on_error="skip") as skipping, ps.Loader(plan) as loader:
            assert ids(skipping) == ids(loader)


def test_explain_says_lanes_and_why(rows: ps.Dataset) -> None:
    plan = plan_of(rows)
    assert "blocks are large" not in plan.explain()
    with open_bytes(1_200_000):
        words = plan.explain()
        assert "8 lanes, not 64, since blocks are large: 64 lanes would hold" in words
        assert "batch(…, lanes=64) mixes rows of more blocks, for that memory" in words
        assert "blocks are large" not in rows.shuffle(seed=3, block_rows=10).batch(64, lanes=64).explain()
    with open_bytes(1):
        assert "8 lanes and windows of 1 block, not 64" in plan.explain()


def test_more_ranks_than_lanes_are_told_what_it_costs(rows: ps.Dataset) -> None:
    plan = plan_of(rows)
    told = r"16 ranks share 8 lanes, about 2 each, and read blocks of these 2 times; batch\(…, lanes=64\), which is another order, .* holds up to [\d,]+ bytes of them open on each"
    with open_bytes(1):
        with pytest.warns(UserWarning, match=f"penstock: blocks are large, so {told}") as warned:
            loader = ps.Loader(plan, rank=0, world_size=16)
        assert len(warned) == 1
        assert ids(loader)  # and not again
        loader.close()
        assert re.search(told, plan.explain(world_size=16))
        for rank, ranks in ((1, 16), (0, 8), (0, 4)):  # one rank says it, and only where there are more than lanes
            with ps.Loader(plan, rank=rank, world_size=ranks):
                pass
        assert "share 8 lanes" not in plan.explain(world_size=8)
        with ps.Loader(rows.shuffle(seed=3, block_rows=10).batch(64, lanes=8), rank=0, world_size=16):
            pass  # who names lanes was told by explain()
        per_rank = rows.shuffle(seed=3, block_rows=10).batch(3, per_rank=True, drop_last=True)
        with pytest.warns(UserWarning, match=r"16 ranks share 8 lanes.*batch\(…, lanes=48\)"):
            ps.Loader(per_rank, rank=0, world_size=16).close()
    with ps.Loader(plan, rank=0, world_size=16):
        pass


@pytest.mark.parametrize(("block_rows", "lanes", "window"), [(17, 64, 2), (80, 64, 2), (100, 32, 2), (1_000, 8, 1)])
def test_the_sizes_of_blocks_that_people_have(tmp_path: Path, block_rows: int, lanes: int, window: int) -> None:
    """Of 1 and 5 MB, as any order had them; of 6 MB; and of 64 MB. Nothing is read: chunks were never written."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", (200_000, 16_000), "f4", chunks=(block_rows, 16_000), compression="gzip")
    plan = ps.read(tmp_path / "x.h5", limits=ps.Limits(ratio=1 << 40)).shuffle(seed=0).batch(64)
    assert shape_of(plan) == (lanes, window)
    with ps.Loader(plan, memory="1GB"):
        pass


def test_orders_of_other_options_are_as_they_were(tmp_path: Path) -> None:
    """A table in row groups of 1 MiB, as the default plan reads it: the lanes that every batch of this size ever had."""
    table = pa.table({"x": pa.array(np.arange(400_000))})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=1 << 17)
    for size, lanes in ((256, 64), (240, 48), (120, 40), (45, 45), (7, 7)):
        assert shape_of(ps.read(tmp_path / "x.parquet").shuffle(seed=0).batch(size)) == (lanes, 2)
