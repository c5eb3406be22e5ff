"""What a plan would ask for is what it asks for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.lower import lowered as lowering
from penstock.storage.cache.storage import CachedStorage
from penstock.storage.fetch import scheduler
from servers.s3 import CREDENTIALS, s3_server
from support.cli_runner import invoke
from support.faulty_proxy import Faults, proxy


@pytest.fixture(scope="module")
def counted() -> Iterator[Faults]:
    """A store with tokens and small files behind a proxy that counts."""
    faults = Faults()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        with s3_server() as server, proxy(server.port, faults) as port:
            rng = np.random.default_rng(0)
            server.put({f"tokens/{number}.bin": rng.bytes(900_000) for number in range(4)})
            server.put(
                {f"small/{number % 2}/{number:03}.jpg": b"\xff\xd8\xff" + rng.bytes(500) for number in range(60)}
            )
            server.put({f"big/{number:03}.jpg": b"\xff\xd8\xff" + rng.bytes(20_000) for number in range(128)})
            patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
            yield faults


def tokens() -> ps.Dataset:
    return ps.read("s3://data/tokens/", format="tokens", dtype="uint16", window=50)


@pytest.fixture
def no_hedges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which requests are late, and so made twice, is for the machine's load to say."""
    monkeypatch.setattr(scheduler, "_HEDGED_SHARE", -1.0)


@pytest.fixture
def no_reading_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is downloaded for the next epoch, while nothing else is, is for the machine's load to say."""
    monkeypatch.setattr(CachedStorage, "read_ahead", lambda *_: None)


@pytest.mark.usefixtures("no_hedges")
@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("kind", ["natural", "blocks", "global", "files"])
def test_requests_and_bytes_are_those_of_a_run(
    counted: Faults, kind: str, world: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On as many ranks as divide the lanes (16), and on as many as share some."""
    plan = (
        {
            "natural": tokens,
            "blocks": lambda: tokens().shuffle(seed=1, block_rows=400),
            "global": lambda: tokens().shuffle(seed=1, mode="global"),
            "files": lambda: ps.read("s3://data/small/").shuffle(seed=1),
        }[kind]()
        .cache_local(0)
        .batch(48, lanes=16)
    )
    works = lowering.works  # nothing is read ahead of the next epoch
    monkeypatch.setattr(lowering, "works", lambda *a, **b: takewhile(lambda work: work.epoch == 0, works(*a, **b)))
    requests = size = 0
    for rank in range(world):
        with ps.Loader(plan, rank=rank, world_size=world) as loader:
            before = sum(counted.counts.values())
            for _ in loader:
                pass
            told = loader.stats()["storage"]
            assert sum(counted.counts.values()) - before == told["requests"]
            assert (told["hedges"], told["retries"]) == (0, 0)
            requests += told["requests"]
            size += told["bytes"]
    foretold = plan.simulate(world_size=world).nodes
    assert len(foretold) == 1
    assert foretold[0].requests == requests
    assert foretold[0].bytes == size
    assert requests > 1


def test_nodes_and_epochs_share_the_whole() -> None:
    dataset = ps.read(str(Path(__file__).parent.parent / "golden" / "mds" / "numbers")).shuffle(seed=0).batch(4)
    whole = dataset.simulate(epochs=2)
    shared = dataset.simulate(world_size=4, nodes=2, epochs=2)
    assert [(each.epoch, each.node) for each in shared.nodes] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert sum(each.bytes for each in shared.nodes) >= sum(each.bytes for each in whole.nodes) > 0
    assert shared.steps_per_epoch == whole.steps_per_epoch
    assert whole.rank_bytes_in_memory > 0


def test_what_lies_in_memory_asks_for_nothing() -> None:
    found = ps.from_arrays({"x": np.arange(100)}).batch(10).simulate()
    assert (found.nodes[0].requests, found.nodes[0].bytes, found.exact) == (0, 0, True)


def test_tables_are_counted_in_blocks(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": np.arange(1000.0)}), tmp_path / "a.parquet", row_group_size=100)
    found = ps.read(str(tmp_path)).shuffle(seed=0).batch(50, drop_last=True).simulate(epochs=3)
    assert not found.exact
    assert [each.requests for each in found.nodes] == [50, 50, 50]  # blocks of 20 rows
    assert found.nodes[0].bytes == 8000


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"world_size": 3, "nodes": 2}, "cannot be spread evenly"),
        ({"epochs": 0}, "epochs=0; pass a whole number from 1"),
        ({"world_size": 7}, "divide"),
    ],
)
def test_what_cannot_be_is_told(asked: dict[str, Any], told: str) -> None:
    with pytest.raises(ps.PlanError, match=told):
        ps.from_arrays({"x": np.arange(100)}).batch(10).simulate(**asked)


def test_the_command_prints_the_same(photos: Path) -> None:
    found = json.loads(invoke("simulate", str(photos), "--batch", "8", "--epochs", "2", "--json").stdout)
    assert [node["requests"] for node in found["nodes"]] == [40, 40]
    text = invoke("simulate", str(photos), "--batch", "8", "--world-size", "2", "--nodes", "2").stdout
    assert "5 steps an epoch on 2 ranks" in text
    assert "requests" in text


def test_epochs_that_end_with_their_data(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": np.arange(4000.0)}), tmp_path / "a.parquet", row_group_size=100)
    plan = ps.read(str(tmp_path)).shuffle(seed=0, block_rows=100).filter(even).batch(40, lanes=8, wrap=True)
    with pytest.raises(ps.PlanError, match=r"epoch 0 ends where filter\(even\).*count_rows\(\) first"):
        plan.simulate()
    assert plan.count_rows(epochs=2) == [2000, 2000]
    found = plan.simulate(epochs=2)
    assert (found.steps_per_epoch, found.exact) == (50, False)
    assert [(each.requests, each.bytes) for each in found.nodes] == [(40, 32_000)] * 2, "each block once"
    assert found.rank_bytes_in_memory >= 800
    shared = plan.simulate(world_size=4, nodes=2)
    assert 40 <= sum(each.requests for each in shared.nodes) <= 80, "what is left is read by those that take it"
    with pytest.raises(ps.PlanError, match="leave steps=… out"):
        ps.read(str(tmp_path)).filter(even).batch(40, steps=9).simulate()


def even(batch: Any) -> Any:
    return batch["x"] % 2 == 0


@pytest.mark.usefixtures("no_hedges", "no_reading_ahead")
@pytest.mark.parametrize(("kind", "share"), [("blocks", 0.5), ("blocks", 0.25), ("blocks", 2.0), ("files", 0.5)])
def test_what_the_cache_will_spare_is_what_it_spares(
    counted: Faults, kind: str, share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same code decides; threads that read ahead of one another would find others in the cache, so there is one."""
    epochs = 3
    dataset = (
        tokens().shuffle(seed=1, block_rows=100) if kind == "blocks" else ps.read("s3://data/big/").shuffle(seed=1)
    )
    limit = int(dataset.source.manifest.size_bytes * share)
    plan = dataset.cache_local(limit, tmp_path / "cache").batch(32)
    storage: Any = plan.storage
    opening = storage.cache_traffic
    works = lowering.works
    monkeypatch.setattr(lowering, "works", lambda *a, **b: takewhile(lambda work: work.epoch < epochs, works(*a, **b)))
    with ps.Loader(plan, rank=0, world_size=1, cpus=1, prefetch=1) as loader:
        for _ in range(epochs):
            for _ in loader:
                pass
        found, asked = storage.cache_traffic, loader.stats()["storage"]
    foretold = plan.simulate(epochs=epochs, cache=limit).nodes
    size = epochs * dataset.source.manifest.size_bytes
    told = sum(each.cache_bytes for each in foretold)
    assert abs(told - (found.hit_bytes - opening.hit_bytes)) <= 0.05 * size
    # requests also span blocks between those that lack, or do not: that is for what was in the cache just then
    lacked = size - (found.hit_bytes - opening.hit_bytes)
    most = sum(each.bytes for each in foretold)
    assert lacked <= most + 0.05 * size
    assert lacked <= asked["bytes"] <= most + 0.1 * size
    assert foretold[0].cache_bytes <= 0.01 * size
    assert told >= 0.8 * min(share, 1) * (epochs - 1) / epochs * size
    assert abs(sum(each.cache_hits for each in foretold) - found.hits + opening.hits) <= 0.05 * (
        found.hits + found.misses
    )


def test_machines_have_caches_of_their_own(photos: Path) -> None:
    plan = ps.read(photos).shuffle(seed=0).batch(8)
    alone, four = plan.simulate(epochs=4, cache="1GB"), plan.simulate(world_size=4, nodes=4, epochs=4, cache="1GB")
    assert [each.requests for each in alone.nodes] == [40, 0, 0, 0]
    assert [each.cache_hits for each in alone.nodes] == [0, 40, 40, 40]
    later = [each for each in four.nodes if each.epoch > 0]
    assert all(each.requests + each.cache_hits == 10 for each in later)
    assert 0 < sum(each.cache_hits for each in later) < 120
    together = plan.simulate(world_size=4, epochs=2, cache="1GB").nodes
    assert [each.cache_hits for each in together] == [0, 40], "ranks of one node share a cache"
