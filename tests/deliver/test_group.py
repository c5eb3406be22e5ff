"""Four real ranks of gloo: what each gets, also in a mesh and on other numbers of ranks, and how they fail together where they differ."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import starmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SCRIPT = Path(__file__).with_name("group_run.py")
RANKS = range(4)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each rank saw."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    folder = tmp_path_factory.mktemp("group")
    unset = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    ended = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder)],
        capture_output=True,
        check=False,
        encoding="utf-8",
        env={**environment, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"},
    )
    assert ended.returncode == 0, ended.stderr
    found = [json.loads((folder / f"{rank}.json").read_text()) for rank in RANKS]
    return [
        {**one, "ledger": sorted(path.name.split("-", 1)[1][:19] for path in (folder / "ledger").iterdir())}
        for one in found
    ]


def wanted(rank: int, world_size: int, epoch: int = 0, first: int = 0) -> list[list[int]]:
    dataset = ps.from_arrays({"id": np.arange(48)}).shuffle(seed=0).batch(12)
    with ps.Loader(dataset, rank=rank, world_size=world_size) as loader:
        return [loader.sample_ids(epoch, step).tolist() for step in range(first, len(loader))]


def of_all(found: list[list[list[int]]]) -> list[int]:
    """The rows of an epoch on several ranks."""
    return sorted(row for steps in found for step in steps for row in step)


def assert_all_fail(found: list[Any], *texts: str) -> None:
    """Each text is in the error of its rank."""
    for one, text in zip(found, texts, strict=True):
        assert one.startswith("PlanError: Loader: the ranks do not agree on data and plan: from rank")
        assert text in one


# What ranks get


def test_passes_and_set_epoch(seen: list[dict[str, Any]]) -> None:
    for rank in RANKS:
        epochs = seen[rank]["epochs"]
        assert epochs["passes"] == [wanted(rank, 4, 0), wanted(rank, 4, 1)]
        assert epochs["again"] == wanted(rank, 4, 1)
        assert f"rank {rank} of 4 (the process group)" in epochs["shown"]
        assert epochs["state"] == seen[0]["epochs"]["state"]
    assert of_all([seen[rank]["epochs"]["passes"][1] for rank in RANKS]) == [*range(48)]


@pytest.mark.parametrize("world", [1, 2])
def test_a_restart_on_another_number_of_ranks(seen: list[dict[str, Any]], world: int) -> None:
    found = [seen[rank][f"restart on {world}"] for rank in range(world)]
    assert [one["world"] for one in found] == [[rank, world] for rank in range(world)]
    assert [one["rest"] for one in found] == [wanted(rank, world, 2, first=1) for rank in range(world)]
    before = [wanted(rank, 4, 2)[:1] for rank in RANKS]
    assert of_all([*before, *(one["rest"] for one in found)]) == [*range(48)]


def test_a_group_that_changes_under_way(seen: list[dict[str, Any]]) -> None:
    for rank in range(2):
        changes = seen[rank]["changes"]
        assert changes["taken"] == wanted(rank, 4)[:1]
        assert f"this was rank {rank} of 4 when the pass began, and is rank {rank} of 2 now" in changes["error"]
        assert changes["rest"] == wanted(rank, 2, first=1)


def test_models(seen: list[dict[str, Any]]) -> None:
    assert all(one["models"] == seen[0]["models"] for one in seen)
    assert seen[0]["models"]["dp"] == 4
    assert seen[0]["models"]["ddp"] == pytest.approx(seen[0]["models"]["fsdp"], abs=1e-4)


# Meshes


def test_ranks_of_a_mesh(seen: list[dict[str, Any]]) -> None:
    for rank in RANKS:
        meshes, (dp, tp) = seen[rank]["meshes"], divmod(rank, 2)
        assert meshes["dp"] == meshes["group"] == wanted(dp, 2)
        assert meshes["tp"] == meshes["part"] == wanted(tp, 2)
        assert meshes["both"] == meshes["deep"] == wanted(rank, 4)
        assert f"rank {dp} of 2 (mesh dp=2 × tp=2, data along dp)" in meshes["shown"]
        if rank in (0, 3):
            assert meshes["half"] == wanted(rank // 3, 2)
        else:
            assert "mesh dp=2, data along dp: this process is not in the mesh; create the loader on" in meshes["half"]


def test_a_mesh_that_was_not_passed(seen: list[dict[str, Any]]) -> None:
    for rank in RANKS:
        batch, warned = seen[rank]["meshes"]["forgotten"]
        assert batch == wanted(rank, 4)[0]
        assert "a device mesh with the dimension 'tp', along which ranks get different rows here" in warned


def test_one_rank_of_a_group_writes_the_ledger(seen: list[dict[str, Any]]) -> None:
    assert seen[0]["ledger"] == ["rank-00000-of-00002", "rank-00001-of-00002"]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("no such dim", "the mesh has no dimension 'data', but dp, tp; of"),
        ("no dims", "mesh without data_dims; its dimensions are dp, tp: name"),
        ("empty", "data_dims=(); pass a name or a tuple of names out of dp, tp"),
        ("numbers", "data_dims=0; pass a name or"),
        ("twice", "names a dimension twice"),
        ("nameless", "its dimensions have no names; pass mesh_dim_names="),
        ("rank", "mesh and rank; the mesh says which rank this is"),
        ("group", "mesh and process_group; the mesh says"),
        ("no mesh", "data_dims='dp' without a mesh"),
    ],
)
def test_meshes_that_cannot_work(seen: list[dict[str, Any]], given: str, text: str) -> None:
    for one in seen:
        assert one["meshes"]["wrong"][given].startswith("PlanError: ")
        assert text in one["meshes"]["wrong"][given]


def test_ranks_that_would_see_other_batches_than_their_peers(seen: list[dict[str, Any]]) -> None:
    dp, tp = "'mesh dp=2 × tp=2, data along dp'", "'mesh dp=2 × tp=2, data along tp'"
    text = f"from rank 3 to this one, rank {{}}: division of rows was {tp} and is {dp}. Give"
    last = f"from ranks 0, 1, 2 to this one, rank 3: division of rows was {dp} and is {tp}. Give"
    assert_all_fail([one["meshes"]["other dims"] for one in seen], *map(text.format, range(3)), last)
    was = "from ranks 1, 3 to this one, rank {}: verb 2 was 'shuffle seed=1' and is 'shuffle'", "from ranks 0, 2 to"
    assert_all_fail([one["meshes"]["other data"] for one in seen], was[0].format(0), was[1], was[0].format(2), was[1])


# What differs


@pytest.mark.parametrize(
    ("what", "rank", "text"),
    [
        ("rows", 2, "the data was 49 samples with digest"),
        ("seed", 3, "verb 2 was 'shuffle seed=1' and is 'shuffle'"),
        ("size", 0, "verb 3 was 'batch size=24' and is 'batch size=12'"),
        ("policy", 1, "on_error was 'substitute' and is 'raise'"),
    ],
)
def test_ranks_that_differ_fail_on_all(seen: list[dict[str, Any]], what: str, rank: int, text: str) -> None:
    texts = [f"from rank {rank} to this one, rank {one}: {text}" if one != rank else "from ranks" for one in RANKS]
    assert_all_fail([one["differences"][what] for one in seen], *texts)


def test_where_all_differ_two_are_shown(seen: list[dict[str, Any]]) -> None:
    assert_all_fail([one["differences"]["all"] for one in seen], *["; and 1 more. Give"] * 4)


def test_a_loader_that_one_rank_cannot_make(seen: list[dict[str, Any]]) -> None:
    found = [one["differences"]["not made"] for one in seen]
    text = "PlanError: the last global batch has 1 rows, too few for 4 ranks; choose"
    assert found.pop(2).startswith(text)
    assert all(one.startswith(f"PlanError: Loader: not made on rank 2: {text[11:]}") for one in found)


def test_functions_may_hold_the_rank(seen: list[dict[str, Any]]) -> None:
    for rank, one in enumerate(seen):
        batch, warned = one["differences"]["functions"]
        assert batch == [*range(rank * 3, rank * 3 + 3)]
        assert "the ranks' functions hold other values: from rank" in warned
        assert f"`number` was {int(rank == 0)} and is {rank}" in warned


def test_a_failure_leaves_nothing_behind(seen: list[dict[str, Any]]) -> None:
    assert [one["differences"]["same after all"] for one in seen] == [wanted(rank, 4)[0] for rank in RANKS]


def test_loaders_in_any_order(seen: list[dict[str, Any]]) -> None:
    """Made alike and begun in other orders, or made by one rank besides: nobody fails, and nobody waits for ever."""
    orders = [one["orders"] for one in seen]
    assert [one["train"] for one in orders] == [*starmap(wanted, ((rank, 4) for rank in RANKS))]
    assert [len(one["validation"]) for one in orders] == [2] * 4
    assert orders[0]["look"] == wanted(0, 4)[0]
    assert sum(one["weighted"] for one in orders) == 36, "weights that are set after the loader is made"
    batch, warned = orders[1]["alone"]
    assert len(batch) == 3
    assert "ranks 0, 2, 3 of 4 did not make this loader within" in warned


def test_a_branch_that_ranks_take_differently(seen: list[dict[str, Any]]) -> None:
    text = "from rank 2 to this one, rank {}: verb 2 was 'shuffle seed=8' and is 'shuffle seed=9'"
    found = [one["orders"]["branch"] for one in seen]
    assert_all_fail(found, text.format(0), text.format(1), "from ranks 0, 1, 3 to this one, rank 2", text.format(3))
