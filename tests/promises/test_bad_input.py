"""Mistakes are said at the earliest moment, with where, what was found and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps


def data(samples: int = 20) -> ps.Dataset:
    return ps.from_arrays(
        {"image": np.zeros((samples, 4, 4, 3), dtype=np.uint8), "valid": np.ones(samples, dtype=bool)}
    )


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda: ps.read(pa.table({"x": [1]})), "read: a Table is data, not a path; pass it to penstock.from_arrays"),
        (lambda: ps.read({"x": [1]}), "read: a dict is data, not a path; pass it to penstock.from_arrays"),
        (lambda: ps.read([]), "an empty list of paths; pass a path, a glob or a list"),
        (lambda: ps.read("/nowhere/at/all"), "/nowhere/at/all: no such file or folder"),
        (lambda: ps.read("/nowhere/*.jpg"), r"/nowhere/\*\.jpg: nothing matches"),
        (lambda: data().batch(0), "size=0; a batch has at least one row"),
        (lambda: data().batch(2.5), "size=2.5; .* a whole number"),
        (lambda: data().batch("8"), "size='8'; .* a whole number"),
        (lambda: data().batch(8, pad=True, wrap=True), "choose one of drop_last, pad and wrap"),
        (lambda: data().batch(8, lanes=2.0), "lanes=2.0 does not divide size=8"),
        (lambda: data().map(None), "map: None cannot be called; pass a function"),
        (lambda: data().map_rows(5), "map_rows: 5 cannot be called"),
        (lambda: ps.read(""), "an empty path; pass a path"),
        (lambda: ps.read(__file__, columns=[1]), r"columns=\[1\]: pass a list of names"),
        (lambda: ps.Column(feature="x", shape=2), r"shape=2; write a tuple"),  # type: ignore[arg-type]
        (lambda: data().batch(8, lanes=3), "lanes=3 does not divide size=8"),
        (lambda: data().batch(21, drop_last=True), r"batch size 21 is larger than the dataset \(20 samples\).*use a smaller batch or pad=True"),
        (lambda: data().batch(4).batch(4), "a batch already"),
        (lambda: data().batch(4).shuffle(), "must come before batch"),
        (lambda: data().shuffle().shuffle(), "shuffles already"),
        (lambda: data().shuffle(mode="rows"), "mode='rows'; choose 'block' or 'global'"),
        (lambda: data().shuffle(1000), r"shuffle: 1000 is passed by position.*no buffer to size; write shuffle\(seed=…\)"),
        (lambda: data().batch(4, True), r"batch: True is passed by position.*batch\(size, drop_last=True\)"),
        (lambda: data().map(len, 8), r"map: 8 is passed by position.*threads is found automatically"),
        (lambda: data().map_rows(len, 8), r"map_rows: 8 is passed by position"),
        (lambda: data().shard(4, 0), r"shard\(4, 0\): takes the sample counts of nodes.*the Loader finds its rank"),  # type: ignore[arg-type]
        (lambda: data().shard(4), r"shard\(4\): takes the sample counts of nodes"),  # type: ignore[arg-type]
        (lambda: ps.Loader(data(), 32), r"Loader: 32 is passed by position.*Loader\(dataset.batch\(size\)\)"),
        (lambda: ps.Loader([1]), r"Loader\(list\): takes a Dataset; make one with penstock.read"),  # type: ignore[arg-type]
        (lambda: ps.Dataset([1]), r"Dataset\(list\): datasets are not made by hand; make one with penstock.read"),  # type: ignore[arg-type]
        (ps.Dataset, r"Dataset\(\): datasets are not made by hand"),
        (lambda: ps.Dataset("folder", format="jpeg"), "datasets are not made by hand"),  # type: ignore[call-arg,arg-type]
        (lambda: data().shuffle(seed=-1), "seed=-1; a seed is a number from 0"),
        (lambda: data().shuffle(seed=1.5), "seed=1.5; a seed is a number from 0"),
        (lambda: data().shuffle(block_rows=0), "block_rows=0; it must be at least 1"),
        (lambda: data().shuffle(block_rows=1.5), "block_rows=1.5; it must be at least 1, and a whole number"),
        (lambda: data().shuffle(window_blocks=0), "window_blocks=0; it must be at least 1"),
        (lambda: data().transform(), "no columns; write e.g. transform"),
        (lambda: data().transform(imagee=[ps.image.CenterCrop(2)]), r"no column 'imagee'; there are image, valid; did you mean 'image'\?"),
    ],
)  # fmt: skip
def test_a_plan_that_cannot_work(write: Any, message: str) -> None:
    with pytest.raises((ps.PlanError, ps.SourceError), match=message):
        write()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prefetch": 0}, "prefetch=0; at least one batch"),
        ({"cpus": 0}, "cpus=0; at least one thread"),
        ({"cpus": 1.5}, "cpus=1.5; .* a whole number"),
        ({"epochs": "2"}, "epochs='2'; at least one pass"),
        ({"watchdog": 0}, "watchdog=0; pass seconds above 0, or None"),
        ({"watchdog": float("nan")}, "watchdog=nan; pass seconds"),
        ({"watchdog": float("inf")}, "watchdog=inf; pass seconds"),
        ({"watchdog": True}, "watchdog=True; pass seconds"),
        ({"watchdog": "60"}, "watchdog='60'; pass seconds"),
        ({"watchdog": 10**400}, "watchdog=1000.*; pass seconds"),
        ({"memory": 0}, "memory=0; batches made ahead take some bytes"),
        ({"memory": "0GB"}, "memory='0GB'; batches made ahead take some bytes"),
        ({"memory": "4 gigs"}, "memory='4 gigs' is not a size; write for example '100GiB'"),
        ({"memory": -1}, "memory=-1 is not a size"),
        ({"memory": 1.5}, "memory=1.5 is not a size"),
        ({"memory": float("nan")}, "memory=nan is not a size"),
        ({"memory": True}, "memory=True is not a size"),
        ({"to": "pytorch"}, r"to='pytorch'; choose 'numpy', 'torch' or 'jax'; did you mean 'torch'\?"),
        ({"device": "mps"}, "to='numpy' delivers to the CPU, not to device='mps'; use to='torch'"),
        ({"rank": 1}, "pass both rank and world_size"),
        (
            {"rank": 0, "world_size": 3},
            "world_size=3 does not divide the global batch of 4 rows.* it would with 2 or 4 ranks, or with 3 or 6 rows",
        ),
        ({"rank": 4, "world_size": 4}, "rank 4 is not among the 4 ranks 0 … 3"),
        ({"rank": 0, "world_size": 0}, "rank 0 is not among"),
        ({"to": "tensorfloww"}, "to='tensorfloww'; choose"),
        ({"device": "cuda"}, "to='numpy' delivers to the CPU"),
    ],
)
def test_a_loader_that_cannot_work(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ps.PlanError, match=message):
        ps.Loader(data().batch(4), **options)


@pytest.mark.parametrize("memory", ["64MB", "1 GiB", 1e8, np.int64(10**8), "100000000"])
def test_memory_is_a_size_in_words_too(memory: Any) -> None:
    with ps.Loader(data().batch(4), memory=memory) as loader:
        assert sum(len(batch["valid"]) for batch in loader) == 20


def test_no_batch() -> None:
    with pytest.raises(ps.PlanError, match=r"the plan has no batch; end it with \.batch"):
        ps.Loader(data())


def test_a_short_last_batch_and_many_ranks() -> None:
    with pytest.raises(
        ps.PlanError, match="the last global batch has 2 rows, too few for 4 ranks; choose drop_last=True"
    ):
        ps.Loader(data(18).batch(4), rank=0, world_size=4)


def test_a_second_valid_column() -> None:
    with pytest.raises(ps.PlanError, match=r"adds a column 'valid'.*rename it"):
        ps.Loader(data().batch(8, pad=True))


def test_steps_and_epochs() -> None:
    loader = ps.Loader(data().batch(4))
    for call in (loader.batch_at, loader.sample_ids):
        with pytest.raises(ps.PlanError, match="step 5: an epoch has the steps 0 … 4"):
            call(0, 5)
        with pytest.raises(ps.PlanError, match="step -1"):
            call(0, -1)
        with pytest.raises(ps.PlanError, match="epoch -1: epochs are counted from 0"):
            call(-1, 0)
    for epoch in (-1, 1.5, None):
        with pytest.raises(ps.PlanError, match=rf"set_epoch\({epoch}\)"):
            loader.set_epoch(epoch)  # type: ignore[arg-type]


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(ps.SourceError, match="the folder holds no files"):
        ps.read(tmp_path)


def test_a_damaged_first_picture_is_named(tmp_path: Path) -> None:
    (tmp_path / "1.jpg").write_bytes(b"\xff\xd8\xff nonsense")
    dataset = ps.read(tmp_path).transform(image=[ps.image.Decode()]).batch(1)
    with pytest.raises(ps.DataError, match=r"1\.jpg: "):
        ps.Loader(dataset)


def test_sizes_of_numpy_are_welcome() -> None:
    assert len(ps.Loader(data().shuffle(seed=np.uint8(3)).batch(np.int32(4)))) == 5
