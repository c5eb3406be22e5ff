"""JAX arrays: the same batches as NumPy's, on one device, on virtual ones, and in several processes. test_jax.py runs these."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.core.errors import DataError, PlanError, StateError
from servers.free_port import free_port

os.environ.setdefault("JAX_PLATFORMS", "cpu")
jax = pytest.importorskip("jax", reason="JAX is not installed")
ocp = pytest.importorskip("orbax.checkpoint", reason="Orbax is not installed")

HERE = Path(__file__).parent
ROWS, SIZE = 203, 16


def data(columns: int = 1024) -> ps.Dataset:
    draw = np.random.default_rng(0)
    return ps.from_arrays({"id": np.arange(ROWS), "x": draw.random((ROWS, columns), dtype=np.float32)}).shuffle(seed=3)


def same(found: Any, wanted: Any) -> None:
    assert list(found) == list(wanted)
    for name, column in wanted.items():
        assert np.array_equal(np.asarray(found[name]), column), name


@pytest.mark.parametrize("columns", [2, 5_000])
def test_the_same_batches_as_numpys(columns: int) -> None:
    """Also where several steps are made together."""
    plan = data(columns).batch(SIZE)
    with ps.Loader(plan, to="jax") as loader, ps.Loader(plan) as plain:
        for _ in range(2):
            for found, wanted in zip(loader, plain, strict=True):
                assert all(isinstance(column, jax.Array) for column in found.values())
                same(found, wanted)
        same(loader.batch_at(1, 3), plain.batch_at(1, 3))


def test_memory_is_shared_and_comes_back() -> None:
    """Arrays lie in the loader's memory; it is not written again while they live, and few regions of it serve many batches."""
    rows = np.random.default_rng(0).random((40, 300_000), dtype=np.float32)
    plan = ps.from_arrays({"x": rows}).shuffle(seed=3).batch(8)  # 9.6 MB: each batch is made alone
    with ps.Loader(plan, to="jax", prefetch=1) as loader, ps.Loader(plan) as plain:
        kept, places = [], set()
        for epoch in range(6):
            for step, batch in enumerate(loader):
                places.add(batch["x"].unsafe_buffer_pointer())
                if step == 2:
                    kept.append((epoch, step, batch))
        for epoch, step, batch in kept:
            same(batch, plain.batch_at(epoch, step))
        assert len(places) < 6 * len(loader) - 10


def test_donated_memory_is_not_the_users() -> None:
    """What XLA does with donated memory changes nothing of what the user gave."""
    rows = np.arange(64 * 1024, dtype=np.float32).reshape(64, 1024)
    before = rows.copy()
    add = jax.jit(lambda x: x + 1, donate_argnums=0)
    with ps.Loader(ps.from_arrays({"x": rows}).batch(SIZE), to="jax") as loader:
        for step, batch in enumerate(loader):
            assert np.array_equal(np.asarray(add(batch["x"])), before[step * SIZE : (step + 1) * SIZE] + 1)
    assert np.array_equal(rows, before)


def test_text_and_ragged_columns_stay_arrow_and_bfloat16_is_jaxs(tmp_path: Path) -> None:
    lines = (json.dumps({"text": "a" * row, "x": row}) for row in range(8))
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    with ps.Loader(ps.read(tmp_path / "t.jsonl").batch(4), to="jax") as loader:
        batch = next(iter(loader))
    assert batch["text"].to_pylist() == ["", "a", "aa", "aaa"]
    assert isinstance(batch["x"], jax.Array)


def test_numbers_that_jax_would_cut_are_an_error() -> None:
    plan = ps.from_arrays({"id": np.array([1, 2**40])}).batch(2)
    with ps.Loader(plan, to="jax") as loader, pytest.raises(DataError, match=r"1099511627776.*jax_enable_x64"):
        next(iter(loader))


def test_names_of_devices_and_what_is_none() -> None:
    plan = data().batch(SIZE)
    with ps.Loader(plan, to="jax", device="cpu:0") as loader:
        assert next(iter(loader))["x"].devices() == {jax.devices("cpu")[0]}
    for device, said in (
        ("gpu", "no such device"),
        ("cpu:99", "counted from 0"),
        (3, "pass a jax.Device"),
        ("cpu:x", "counted"),
    ):
        with pytest.raises(PlanError, match=said):
            ps.Loader(plan, to="jax", device=device)
    mesh = jax.sharding.Mesh(jax.devices(), ("data",))
    with pytest.raises(
        PlanError, match=r"this is a jax Mesh; with to='jax' pass the sharding of the rows, device=NamedSharding"
    ):
        ps.Loader(plan, to="jax", mesh=mesh, data_dims="data")
    with pytest.raises(PlanError, match="did you mean 'jax'"):
        ps.Loader(plan, to="jaxx")  # type: ignore[call-overload]


def test_the_iterator_ends_and_its_state_is_the_loaders(tmp_path: Path) -> None:
    import penstock.jax as with_jax

    loader = ps.Loader(data().batch(SIZE), to="jax")
    assert len([*with_jax.DatasetIterator(loader, epochs=2)]) == 2 * len(loader)
    batches = with_jax.DatasetIterator(ps.Loader(data().batch(SIZE), to="jax"))
    for _ in range(20):
        next(batches)
    state = batches.get_state()
    wanted = next(batches)
    batches.set_state(json.loads(json.dumps(state)))
    same(next(batches), {name: np.asarray(column) for name, column in wanted.items()})
    with ocp.CheckpointManager(tmp_path / "c") as manager:
        manager.save(0, args=ocp.args.Composite(data=with_jax.CheckpointSave(batches)))
        manager.wait_until_finished()
        (file,) = (tmp_path / "c").rglob("process_*.json")
        file.rename(file.with_name("process_0-of-2.json"))
        with pytest.raises(StateError, match="copied in part"):
            manager.restore(0, args=ocp.args.Composite(data=with_jax.CheckpointRestore(batches)))
    with pytest.raises(PlanError, match=r"pass a penstock\.Loader"):
        with_jax.CheckpointHandler().save(tmp_path, with_jax.CheckpointSave(3))  # type: ignore[arg-type]


@pytest.mark.slow
def test_processes_make_the_same_global_batches_and_checkpoints_move(tmp_path: Path) -> None:
    """Two processes with 4 devices each, then one that goes on from their checkpoint; rows divided by process, and shared by both."""
    both, alone = run(tmp_path, 2), run(tmp_path, 1)
    for name, sizes in (("data", (1, 2)), ("model", (1, 1))):
        whole, *_ = alone[0][name]
        for number, lines in enumerate(both):
            found, after = lines[name]
            assert found["sums"] == whole["sums"]
            assert after == alone[0][name][1]
            assert found["world_size"] == sizes[1], name
            assert found["rank"] == (number if sizes[1] > 1 else 0)
            for step, shards in enumerate(found["shards"]):
                full = rows_of(whole["shards"][step])
                assert all(full[int(first) : int(first) + len(ids)] == ids for first, ids in shards.items())
    counts_together(alone[0]["counted"][0], [lines["counted"][0] for lines in both])


def counts_together(alone: dict[str, Any], both: list[dict[str, Any]]) -> None:
    """Processes that have no cache in common: each counts some of the lanes, and all know what one process counts."""
    wanted = [n for n in range(3_000) if n % 7 < 3]
    assert alone["rows"] == [len(wanted)] * 2
    assert alone["called"] >= 6_000
    assert [one["rows"] for one in both] == [alone["rows"]] * 2
    assert max(one["called"] for one in both) < 0.8 * sum(one["called"] for one in both)
    assert {one["length"] for one in both} == {alone["length"]} == {len(both[0]["ids"])}
    whole = [[*first, *rest] for first, rest in zip(*(one["ids"] for one in both), strict=True)]
    assert whole == alone["ids"]
    assert sorted(row for step in whole for row in step) == wanted


def rows_of(shards: dict[str, list[int]]) -> list[int]:
    rows = [0] * 16
    for first, ids in shards.items():
        rows[int(first) : int(first) + len(ids)] = ids
    return rows


def run(folder: Path, count: int) -> list[dict[str, list[Any]]]:
    port = free_port()
    command = [sys.executable, str(HERE / "jax_run.py"), str(folder)]
    running = [
        subprocess.Popen(
            [*command, str(number), str(count), str(port)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for number in range(count)
    ]
    found = []
    for process in running:
        out, err = process.communicate(timeout=280)
        assert process.returncode == 0, err
        lines: dict[str, list[Any]] = {}
        for line in (json.loads(text) for text in out.splitlines() if text.startswith("{")):  # Gloo speaks, too
            lines.setdefault(line["name"], []).append(line)
        found.append(lines)
    return found
