"""Every source, order and transform keeps the promises of contracts.py."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.order.lanes import divisors
from penstock.order.steps.cursor import Work
from penstock.runtime.slots import room_of
from support import cases
from support import promises as contracts
from support.matrix import crossed
from support.seams import lowered_of
from support.tries import TRIES, tries

SAMPLES = 61  # a prime, so that nothing fits by chance


def once_a_source(cases: list[tuple[str, ...]]) -> list[Any]:
    """`make quick` tries one plan of every source whose bytes are near; the others are slow, and what is padded besides long where another is like it."""
    quick = {"block", "plain", "short"}
    return [
        case
        if quick.issuperset(case[1:]) and case[0] != "store"
        else pytest.param(case, marks=pytest.mark.long if is_padded_like_another(*case) else pytest.mark.slow)
        for case in cases
    ]


def is_padded_like_another(source: str, _: str, transform: str, last: str = "") -> bool:
    return last == "pad" and (source not in cases.BROAD or transform != "plain")


CASES = [
    (source, order, transform)
    for source in cases.SOURCES
    for order in cases.ORDERS
    for transform in cases.TRANSFORMS
    if (transform == "plain" and source in ("arrays", "blocks", "tables"))
    or (order == "block" and source in cases.BROAD)
    or (order, transform) == ("block", "plain")
]


@pytest.fixture(params=once_a_source(CASES), ids="-".join)
def made(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[ps.Dataset, str]:
    source, order, transform = request.param
    dataset = cases.ORDERS[order](cases.SOURCES[source](SAMPLES, tmp_path))
    return cases.TRANSFORMS[transform](dataset), order


BATCHED = [
    (*case, last)
    for case in CASES
    for last in cases.LAST
    if last in ("short", "pad") or (case[0] in ("arrays", "blocks", "tables") and case[1:] == ("block", "plain"))
]


@pytest.fixture(params=once_a_source(BATCHED), ids="-".join)
def batched(request: pytest.FixtureRequest, tmp_path: Path) -> ps.Dataset:
    source, order, transform, last = request.param
    dataset = cases.ORDERS[order](cases.SOURCES[source](SAMPLES, tmp_path))
    return cases.TRANSFORMS[transform](dataset).batch(16, **cases.LAST[last])


def test_resume(batched: ps.Dataset) -> None:
    contracts.resume_is_exact(batched)


def test_elastic(batched: ps.Dataset) -> None:
    contracts.ranks_make_one_batch(batched)


@pytest.mark.slow
def test_partition(batched: ps.Dataset) -> None:
    contracts.ranks_share_every_epoch(batched, "id")


def test_repeatable(made: tuple[ps.Dataset, str]) -> None:
    contracts.epochs_differ_and_seeds_repeat(made[0].batch(16, pad=True), shuffled=made[1] != "natural")


def test_batch_at(made: tuple[ps.Dataset, str]) -> None:
    contracts.any_step_can_be_made(made[0].batch(16))


def test_kept(made: tuple[ps.Dataset, str]) -> None:
    contracts.kept_batches_stay(made[0].batch(16))


@pytest.mark.slow
@pytest.mark.parametrize("source", cases.SOURCES)
def test_nothing_stays(source: str, tmp_path: Path) -> None:
    contracts.nothing_stays(lambda: cases.SOURCES[source](SAMPLES, tmp_path).shuffle(seed=1).batch(16))


@pytest.mark.parametrize("last", ["short", pytest.param("pad", marks=pytest.mark.slow)])
def test_random_pictures(tmp_path: Path, last: str) -> None:
    """What is drawn for a picture depends on seed, epoch and sample alone."""
    dataset = cases.photographs(21, tmp_path).batch(8, **cases.LAST[last])
    contracts.resume_is_exact(dataset)
    contracts.ranks_make_one_batch(dataset)
    contracts.ranks_share_every_epoch(dataset, "id")
    contracts.epochs_differ_and_seeds_repeat(dataset, shuffled=True)
    contracts.any_step_can_be_made(dataset)
    contracts.kept_batches_stay(dataset)
    with ps.Loader(dataset) as loader:
        by_id = [
            {int(i): p.tobytes() for b in loader for i, p in zip(b["id"], b["image"], strict=True)} for _ in range(2)
        ]
    assert all(by_id[0][number] != by_id[1][number] for number in range(21)), "two epochs drew the same"


sizes = st.integers(1, 90)


@st.composite
def plans(draw: Any) -> tuple[int, dict[str, Any], dict[str, Any] | None]:
    """(samples, arguments of batch, arguments of shuffle or None) that can work."""
    samples, size = draw(sizes), draw(st.integers(1, 48))
    last = draw(st.sampled_from(sorted(cases.LAST)))
    if last == "drop":
        size = min(size, samples)
    lanes = draw(st.sampled_from([None, *divisors(size)]))
    shuffle = draw(
        st.none()
        | st.fixed_dictionaries(
            {
                "seed": st.integers(0, 2**64 - 1),
                "mode": st.sampled_from(["block", "global"]),
                "block_rows": st.none() | st.integers(1, 30),
                "window_blocks": st.none() | st.integers(1, 5),
            }
        )
    )
    return samples, {"size": size, "lanes": lanes, **cases.LAST[last]}, shuffle


@pytest.mark.parametrize("source", ["arrays", "blocks", pytest.param("tables", marks=pytest.mark.slow)])
@settings(max_examples=tries(400 if TRIES >= 1_000 else 150), suppress_health_check=[HealthCheck.too_slow])
@given(plan=plans())
def test_any_sizes(source: str, plan: tuple[int, dict[str, Any], dict[str, Any] | None]) -> None:
    samples, batch, shuffle = plan
    dataset = cases.SOURCES[source](samples, None)
    if shuffle is not None:
        dataset = dataset.shuffle(**shuffle)
    dataset = dataset.batch(**batch)
    contracts.ranks_share_every_epoch(dataset, "id", epochs=1)
    contracts.ranks_make_one_batch(dataset)


@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize(("last", "world", "window"), crossed(["short", "drop", "pad"], [1, 2, 8], [2, 1, 3]))
def test_blocks_are_read_once_by_one_rank(shards: int, last: str, world: int, window: int) -> None:
    """Every byte of the data is read by one rank only, and by it once an epoch, besides what padding repeats."""
    dataset, storage = cases.numbered(1019, shards)
    dataset = dataset.shuffle(seed=1, block_rows=13, window_blocks=window).batch(16, **cases.LAST[last])
    reader: dict[tuple[str, int], int] = {}
    for rank in range(world):
        loader = ps.Loader(dataset, rank=rank, world_size=world)
        read = lowered_of(loader).stages[0].work
        for epoch in range(2):
            storage.reads.clear()
            for step in range(lowered_of(loader).order.full_steps):
                read(Work(epoch, step, 1))
            taken = [(path, byte) for path, start, size in storage.reads for byte in range(start, start + size)]
            assert len(set(taken)) == len(taken), "a byte was read twice"
            if len(loader) > lowered_of(loader).order.full_steps:
                read(Work(epoch, len(loader) - 1, 1))
            if epoch == 0:
                read_by_rank = {
                    (path, byte) for path, start, size in storage.reads for byte in range(start, start + size)
                }
                assert reader.keys().isdisjoint(read_by_rank), "a byte was read by two ranks"
                reader.update(dict.fromkeys(read_by_rank, rank))
    heads = 4 * shards
    assert len(reader) <= sum(map(len, storage.files.values())) - heads
    if last != "drop":
        assert len(reader) == sum(map(len, storage.files.values())) - heads


def test_few_blocks_are_held(tmp_path: Path) -> None:
    """What a reader holds are the open windows of its lanes, however long the epoch."""
    dataset, _ = cases.numbered(4001, 2)
    loader = ps.Loader(dataset.shuffle(seed=1, block_rows=10, window_blocks=2).batch(8, lanes=4))
    lowered, held = lowered_of(loader), []
    block_bytes = 10 * 48  # a record has 8 to 47 bytes
    for step in range(len(loader)):
        lowered.stages[0].work(Work(0, step, 1))
        held.append(lowered.budget.kept_bytes)
    assert 0 < max(held) <= 4 * 2 * 2 * room_of(block_bytes)  # blocks that are opened together share a buffer


def test_bad_data_is_named(tmp_path: Path) -> None:
    dataset, storage = cases.numbered(40, 1)
    place = int(dataset.source.manifest.offset[17])
    damaged = bytearray(storage.files["data/0.rec"])
    damaged[place] ^= 1
    storage.files["data/0.rec"] = bytes(damaged)
    delivered = 0
    with pytest.raises(ps.DataError) as caught:  # noqa: PT012
        for batch in ps.Loader(dataset.batch(4)):
            delivered += len(batch["id"])
    assert delivered == 16, "batches before the bad one come first"
    message = str(caught.value)
    assert f"data/0.rec, record 17, byte {place:,}" in message
    assert "id 16 where 17 belongs" in message
    assert "write the file again" in message
    assert any("epoch 0, step 4" in note and "16, 17, 18, 19" in note for note in caught.value.__notes__)


def test_a_vanished_file_is_named(tmp_path: Path) -> None:
    dataset = cases.folder(12, tmp_path)
    gone = tmp_path / "class a" / "0002.jpg"
    gone.unlink()
    with pytest.raises(ps.DataError, match=r"0002\.jpg.*[Nn]o such file.*open the dataset again"):
        list(ps.Loader(dataset.batch(4)))
    gone.write_bytes(b"\xff\xd8\xfflonger than before")
    with pytest.raises(ps.DataError, match=r"0002\.jpg: 21 bytes now, \d+ when it was indexed"):
        list(ps.Loader(dataset.batch(4)))


def test_a_state_of_other_data_or_plan_is_refused() -> None:
    def state(dataset: ps.Dataset) -> dict[str, Any]:
        return ps.Loader(dataset).state_dict()

    mine = ps.from_arrays({"x": np.arange(20)}).shuffle(seed=1).batch(4)
    loader = ps.Loader(mine)
    other = ps.from_arrays({"x": np.arange(20) + 1}).shuffle(seed=1).batch(4)
    with pytest.raises(
        ps.StateError, match=r"other data: 20 samples with digest .*; open the data that was trained on"
    ):
        loader.load_state_dict(state(other))
    base = ps.from_arrays({"x": np.arange(20)})
    for changed, message in {
        base.shuffle(seed=2).batch(4): "verb 2 was 'shuffle seed=2' and is 'shuffle seed=1'",
        base.shuffle(seed=1).batch(5): "verb 3 was 'batch size=5' and is 'batch size=4'",
        mine.map(cases.doubled): r"verb 4, map of doubled, cases.py:\d+, is gone",
    }.items():
        with pytest.raises(ps.StateError, match=message):
            loader.load_state_dict(state(changed))
    good = loader.state_dict()
    for key in good:
        with pytest.raises(ps.StateError, match=f"lacks {key}"):
            loader.load_state_dict({name: value for name, value in good.items() if name != key})
    for place in ({"step": 6}, {"step": -1}, {"epoch": -1}, {"step": None}, {"epoch": "a"}, {"plan": None}):
        with pytest.raises(ps.StateError, match="it was changed"):
            loader.load_state_dict({**good, **place})
    with pytest.raises(ps.StateError, match="the state is NoneType; pass the dict"):
        loader.load_state_dict(None)  # type: ignore[arg-type]
    with pytest.raises(ps.StateError, match="version 7"):
        loader.load_state_dict({**loader.state_dict(), "version": 7})


def test_a_state_moves_with_the_data(tmp_path: Path) -> None:
    """The same files elsewhere, with other times, are the same data."""
    first = tmp_path / "here" / "data"
    cases.folder(20, first)
    second = tmp_path / "there"
    shutil.copytree(first, second)
    plans = [ps.read(str(root)).shuffle(seed=1).batch(4) for root in (first, second)]
    state = ps.Loader(plans[0]).state_dict()
    ps.Loader(plans[1]).load_state_dict(state)
    assert ps.Loader(plans[1]).state_dict() == state


def test_long_descriptions_count_in_full() -> None:
    base = ps.from_arrays({"x": np.arange(20)})
    states = [
        ps.Loader(base.shuffle(seed=2**64 - 1, block_rows=10**15, window_blocks=10**15 + n).batch(4)).state_dict()
        for n in range(2)
    ]
    assert states[0] != states[1]
