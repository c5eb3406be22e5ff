"""Nodes with files of their own: each makes its part of every batch out of them, and all end their epochs together."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from support import promises as contracts

COUNTS = (61, 40)
BATCH = 16


@pytest.fixture(params=["natural", "blocks", "global"])
def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> list[ps.Dataset]:
    """What each of two nodes opens: text files of its own, at the same path as far as it knows."""
    made = []
    for node, count in enumerate(COUNTS):
        (tmp_path / str(node)).mkdir()
        for file, rows in enumerate(np.array_split(np.arange(count), 3)):
            lines = "".join(f"{node} {row}\n" for row in rows.tolist())
            (tmp_path / str(node) / f"{file}.txt").write_text(lines)
        dataset = ps.read(tmp_path / str(node)).shard(COUNTS)
        order = {"blocks": {"block_rows": 5}, "global": {"mode": "global"}}.get(request.param)
        made.append(dataset if order is None else dataset.shuffle(seed=4, **order))
    return made


def epochs(dataset: ps.Dataset, node: int, ranks: int, count: int = 2) -> list[list[dict[str, Any]]]:
    """The batches of a node's ranks, joined, by epoch."""
    loaders = [ps.Loader(dataset, rank=node * ranks + rank, world_size=2 * ranks) for rank in range(ranks)]
    found = []
    for _ in range(count):
        parts = zip(*([contracts.keep(batch) for batch in loader] for loader in loaders), strict=True)
        found.append([contracts.join(part) for part in parts])
    for loader in loaders:
        loader.close()
    return found


@pytest.mark.parametrize(("last", "steps"), [("drop_last", 5), ("pad", 8), ("wrap", 8)])
def test_all_nodes_have_equal_steps_of_their_own_samples(nodes: list[ps.Dataset], last: str, steps: int) -> None:
    for node, dataset in enumerate(nodes):
        plan = dataset.batch(BATCH, **{last: True})
        one, two = epochs(plan, node, 1), epochs(plan, node, 2)
        for epoch, (batches, again) in enumerate(zip(one, two, strict=True)):
            assert [len(batch["text"]) for batch in batches] == [BATCH // 2] * steps
            for step, (batch, same) in enumerate(zip(batches, again, strict=True)):
                contracts.assert_same(same, batch, f"two ranks, epoch {epoch}, step {step}")
            kept = [np.ones(BATCH // 2, dtype=bool) if last != "pad" else batch["valid"] for batch in batches]
            texts = [text for batch in batches for text in batch["text"].to_pylist()]
            real = [text for text, valid in zip(texts, np.concatenate(kept), strict=True) if valid]
            every = {f"{node} {row}" for row in range(COUNTS[node])}
            if last == "wrap":
                assert set(real) == every
            elif last == "pad":
                assert sorted(real) == sorted(every)
            else:
                assert len(set(real)) == len(real) == steps * BATCH // 2
                assert set(real) <= every


def test_nodes_mix_differently(nodes: list[ps.Dataset]) -> None:
    first, second = (
        [[text.split()[1] for text in batch["text"].to_pylist()] for batch in epochs(dataset, node, 1, 1)[0]]
        for node, dataset in enumerate(plan.batch(BATCH, drop_last=True) for plan in nodes)
    )
    assert (first == second) == (len(nodes[0].nodes) == 2)


@pytest.mark.parametrize("stop", [0, 3, 6, 7])
def test_a_state_goes_on_within_the_same_nodes(nodes: list[ps.Dataset], stop: int) -> None:
    plans = [dataset.batch(BATCH, pad=True) for dataset in nodes]
    for node, plan in enumerate(plans):
        with ps.Loader(plan, rank=2 * node, world_size=4) as loader:
            wanted = [contracts.keep(batch) for batch in loader]
            state = loader.state_dict()
        saved = []
        for other in (0, 1):
            with ps.Loader(plans[other], rank=other, world_size=2) as loader:  # half as many ranks
                for _ in contracts.walk(loader, stop):
                    pass
                saved.append(json.loads(json.dumps(loader.state_dict())))
        assert state["node"] == node
        for each in saved:  # also the other node's, which a trainer may have saved for all
            with ps.Loader(plan, rank=2 * node, world_size=4) as loader:
                loader.load_state_dict(each)
                found = [contracts.keep(batch) for batch in islice(loader, len(loader) - stop)]
                contracts.assert_same(loader.batch_at(0, 7), wanted[7])
            for step, batch in enumerate(found):
                contracts.assert_same(batch, wanted[stop + step], f"node {node}, step {stop + step}")


def test_a_state_of_other_nodes_or_files_is_refused(tmp_path: Path) -> None:
    def plan(count: int, *samples: int, letter: str = "x") -> ps.Dataset:
        (tmp_path / "a.txt").write_text(f"{letter * (count % 7)}\n" * count)
        return ps.read(tmp_path / "a.txt").shard(samples).batch(12, drop_last=True)

    state = ps.Loader(plan(40, 40, 50), rank=0, world_size=2).state_dict()
    with pytest.raises(
        ps.StateError, match=r"was 'shard samples=\(40, 50\)' and is 'shard samples=\(40, 50, 60\)'.*as many as"
    ):
        ps.Loader(plan(40, 40, 50, 60), rank=0, world_size=3).load_state_dict(state)
    with pytest.raises(ps.StateError, match="the state belongs to other data"):
        ps.Loader(plan(40, 40, 50, letter="other"), rank=0, world_size=2).load_state_dict(state)


def test_what_cannot_be_is_told(tmp_path: Path) -> None:
    data = ps.from_arrays({"x": np.arange(40)})
    for call, told in (
        (lambda: data.shard([41, 50]), "40 samples lie here, which none of the 2 nodes has"),
        (lambda: data.shard([40, 0]), "none of them empty"),
        (lambda: data.batch(8).shard([40]), "shard: once, and before batch"),
        (lambda: data.shard([40]).shard([40]), "shard: once, and before batch"),
        (lambda: data.shard([40, 50]).batch(8), "choose drop_last=True, pad=True or wrap=True"),
        (lambda: data.shard([40, 50]).batch(9, pad=True), "size=9 is not a multiple of the 2 nodes"),
        (lambda: data.shard([40, 50]).batch(6, pad=True, lanes=3), "lanes=3 is not a multiple of the 2 nodes"),
        (lambda: data.shard([40, 3]).batch(8, drop_last=True), "a node has 3 samples, fewer than its 4 rows"),
        (lambda: data.shard([40, 50]).batch(8, pad=True).simulate(), "leave shard"),
        (lambda: ps.Loader(data.shard([40, 50]).batch(8, pad=True)), "world_size=1 is not a multiple of the 2 nodes"),
        (
            lambda: ps.Loader(data.shard([40, 50]).batch(8, pad=True), rank=1, world_size=2),
            "node 1 has 50 samples by what was passed, and 40 lie here",
        ),
    ):
        with pytest.raises(ps.PlanError, match=told):
            call()
    assert "2 rows each" in data.shard([50, 40]).batch(4, pad=True).explain()


def test_classes_are_named_where_nodes_may_lack_some(photos: Path) -> None:
    with pytest.raises(ps.PlanError, match=r"another node may have other class folders.*read\(…, classes="):
        ps.read(photos).shard([40])
    named = ps.read(photos, classes=["horses", "dogs", "cats"])
    assert named.classes == ("horses", "dogs", "cats")
    with ps.Loader(named.shard([40]).batch(40, pad=True)) as loader:
        batch = next(iter(loader))
    assert [Path(path).parent.name for path in batch["path"].to_pylist()] == [named.classes[n] for n in batch["label"]]
    for classes, told in (
        (["cats"], "the class folder 'dogs', which is not among"),
        ("cats", "pass a list"),
        (["cats"] * 2, "once"),
    ):
        with pytest.raises(ps.PlanError, match=told):
            ps.read(photos, classes=classes)
