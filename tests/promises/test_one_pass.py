"""What goes together with epochs that end with their data: take and repeat, ledgers, loaders in a process of their own, bad rows, lengths that are told, and epochs of no step."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.observe.ledger.findings import Report, Wrong
from penstock.observe.ledger.verify import verify
from penstock.observe.ledger.words import epoch_state
from support.tries import tries

Rows = Mapping[str, Any]
ROWS, SIZE = 300, 24
LASTS: list[dict[str, bool]] = [{}, {"drop_last": True}, {"pad": True}, {"wrap": True}]


def numbers(rows: int = ROWS) -> ps.Dataset:
    return ps.from_arrays({"x": np.arange(rows)})


def odd(batch: Rows) -> Any:
    return batch["x"] % 2 == 1


def none(batch: Rows) -> Any:
    return batch["x"] < 0


def early(batch: Rows) -> Any:
    return batch["x"] < 40


def twice(batch: Rows) -> dict[str, Any]:
    return {"x": np.repeat(batch["x"], 2)}


def seventh_fails(row: Rows) -> Rows:
    if row["x"] % 7 == 0:
        raise ps.DataError("a seventh row")
    return row


def epochs_of(plan: ps.Dataset, epochs: int = 1, **options: Any) -> list[list[list[int]]]:
    with ps.Loader(plan, **options) as loader:
        return [[batch["x"].tolist() for batch in loader] for _ in range(epochs)]


def on_ranks(plan: ps.Dataset, ranks: int, epochs: int = 1, **options: Any) -> list[list[list[int]]]:
    loaders = [ps.Loader(plan, rank=rank, world_size=ranks, **options) for rank in range(ranks)]
    found = [
        [[x for batch in batches for x in batch["x"].tolist()] for batches in zip(*loaders, strict=True)]
        for _ in range(epochs)
    ]
    for loader in loaders:
        loader.close()
    return found


def resumed(plan: ps.Dataset, steps: int, **options: Any) -> list[list[int]]:
    """An epoch, broken off after some steps, and the rest of it by another loader."""
    with ps.Loader(plan, **options) as loader:
        batches = iter(loader)
        begun = [next(batches)["x"].tolist() for _ in range(steps)]
        state = json.loads(json.dumps(loader.state_dict()))
    with ps.Loader(plan, **options) as loader:
        loader.load_state_dict(state)
        return [*begun, *(batch["x"].tolist() for batch in loader)]


# take and repeat


TAKEN = [1, 5, 8, 20, 24, 100, 149, 150, 400]


@pytest.mark.filterwarnings("ignore:epoch .* has no batch")
@pytest.mark.parametrize("last", LASTS, ids=str)
@pytest.mark.parametrize("taken", TAKEN)
def test_take_gives_the_first_rows_of_the_same_steps(taken: int, last: dict[str, bool]) -> None:
    base = numbers().shuffle(seed=1).filter(odd)
    (whole,) = epochs_of(base.batch(8, lanes=4))
    found, again = epochs_of(base.take(taken).batch(8, lanes=4, **last), 2)
    assert len(again) == len(found)
    rows = min(taken, ROWS // 2)
    flat, wanted = [*chain.from_iterable(found)], [*chain.from_iterable(whole)][:rows]
    if last.get("drop_last"):
        assert flat == wanted[: rows - rows % 8]
        return
    assert flat[:rows] == wanted
    assert set(flat[rows:]) <= set(wanted), "the last step is filled up by its own rows"
    assert len(found) == -(-rows // 8)


@pytest.mark.filterwarnings("ignore:epoch .* has no batch")
@pytest.mark.parametrize("last", LASTS[1:], ids=str)
@pytest.mark.parametrize("taken", TAKEN[:: tries(3, at_least=1)])
def test_take_on_several_ranks_and_resumed(taken: int, last: dict[str, bool]) -> None:
    plan = numbers().shuffle(seed=1).filter(odd).take(taken).batch(8, lanes=4, **last)
    assert plan.count_rows(epochs=2) == [min(taken, 150)] * 2
    whole = epochs_of(plan, 2)
    for ranks in (2, 4, 8):
        assert on_ranks(plan, ranks, 2) == whole
    for steps in range(1, len(whole[0]), 3):
        assert resumed(plan, steps) == whole[0]


def test_take_reads_no_more_than_it_must() -> None:
    seen: list[int] = []

    def noted(batch: Rows) -> Any:
        seen.append(len(batch["x"]))
        return batch["x"] % 3 == 1  # so that all lanes have some

    (found,) = epochs_of(numbers(2_000_000).filter(noted).take(20).batch(8))
    assert sum(map(len, found)) == 20
    assert sum(seen) < 100_000


def test_where_take_cannot_be() -> None:
    taken = numbers().filter(odd).take(20)
    for wrong in (
        lambda: taken.filter(odd),
        lambda: taken.batch(8, steps=3),
        lambda: ps.mix([taken, numbers()], rows=80),
        lambda: ps.mix([numbers().filter(odd), numbers()], rows=80).take(5),
    ):
        with pytest.raises(ps.PlanError, match="take"):
            wrong()
    with pytest.raises(ps.PlanError, match="no rows are left"):
        numbers().filter(odd).take(0).batch(8)


def test_repeat_goes_below_lane_stages() -> None:
    base = numbers().shuffle(seed=1)
    (found,) = epochs_of(base.filter(odd).map(dict).repeat(3).batch(SIZE))
    assert found == epochs_of(base.repeat(3).filter(odd).map(dict).batch(SIZE))[0]
    assert sorted(chain.from_iterable(found)) == sorted([*range(1, ROWS, 2)] * 3)


@pytest.mark.parametrize(
    ("joined", "instead"),
    [
        (lambda one: ps.mix([one, numbers()], stop="all_exhausted").batch(8), r"batch\(8, steps=1000\)"),
        (lambda one: one.shuffle(seed=0), r"shuffle\(…\) before filter"),
    ],
)
def test_what_is_refused_says_what_to_write(joined: Any, instead: str) -> None:
    with pytest.raises(ps.PlanError, match=instead):
        joined(numbers().filter(odd))


# Ledgers


def states_of(report: Report) -> list[tuple[int, int | None, int, str]]:
    return [(one.epoch, one.steps, one.rows, epoch_state(one)) for one in report.epochs]


@pytest.mark.parametrize("last", LASTS, ids=str)
@pytest.mark.parametrize("taken", [None, 20, 48])
def test_a_ledger_proves_epochs_that_end(last: dict[str, bool], taken: int | None, tmp_path: Path) -> None:
    base = numbers().shuffle(seed=1).filter(odd)
    plan = (base if taken is None else base.take(taken)).batch(SIZE, lanes=6, **last)
    rows = taken or 150
    steps = rows // SIZE if last.get("drop_last") else -(-rows // SIZE)
    if not steps:
        return
    epochs_of(plan, 3, ledger=tmp_path)
    report = verify([str(tmp_path)])
    assert report.is_well, report.wrong
    rows = steps * SIZE if last.get("drop_last") else rows
    assert states_of(report) == [(epoch, steps, rows, "complete") for epoch in range(3)]


def test_a_ledger_of_other_ranks_that_resume(tmp_path: Path) -> None:
    plan = numbers().shuffle(seed=1).filter(odd).batch(SIZE, lanes=6, wrap=True)
    plan.count_rows(epochs=2)
    loaders = [ps.Loader(plan, rank=rank, world_size=4, ledger=tmp_path) for rank in range(4)]
    for epoch in range(2):
        for step, _ in enumerate(zip(*loaders, strict=True)):
            if (epoch, step) == (1, 3):
                break
    state = ps.merge_states([loader.state_dict() for loader in loaders])
    for loader in loaders:
        loader.close()
    with ps.Loader(plan, ledger=tmp_path) as loader:
        loader.load_state_dict(state)
        for _ in range(2):
            list(loader)
    report = verify([str(tmp_path)])
    assert report.is_well, report.wrong
    assert states_of(report) == [(epoch, 7, 150, "complete") for epoch in range(3)]
    assert [(one.epoch, one.step, one.world_size) for one in report.resumes] == [(1, 4, 1)]


def test_a_ledger_of_an_epoch_that_was_left(tmp_path: Path) -> None:
    plan = numbers().filter(odd).batch(SIZE, lanes=6)
    with ps.Loader(plan, ledger=tmp_path) as loader:
        next(iter(loader))
        list(loader)
        next(iter(loader))
    report = verify([str(tmp_path)])
    assert report.is_well, report.wrong
    assert [(one.epoch, one.steps, one.complete_steps, one.broken_off) for one in report.epochs] == [(0, None, 1, 1), (1, 7, 7, None), (2, None, 1, None)]  # fmt: skip


def test_epochs_that_were_left_out(tmp_path: Path) -> None:
    plan = numbers().filter(odd).batch(SIZE, lanes=6)
    with ps.Loader(plan, ledger=tmp_path) as loader:
        list(loader)
        loader.set_epoch(3)
        list(loader)
    (found,) = verify([str(tmp_path)]).wrong
    assert (found.wrong, found.epoch) == (Wrong.MISSING_STEPS, 1)
    assert "besides those of 2 whose end is not recorded" in found.words


def test_a_rank_whose_ledger_is_lost(tmp_path: Path) -> None:
    plan = numbers().filter(odd).batch(SIZE, lanes=6, wrap=True)
    plan.count_rows()
    on_ranks(plan, 2, ledger=tmp_path)
    next(path for path in tmp_path.iterdir() if "rank-00001" in path.name).unlink()
    report = verify([str(tmp_path)])
    assert {finding.wrong for finding in report.wrong} == {Wrong.MISSING_LEDGER, Wrong.MISSING_STEPS}
    assert report.lost == 75 + 9  # half of all rows, and of what fills up the last step


# A process of its own


@pytest.mark.slow
@pytest.mark.parametrize("last", LASTS[:2], ids=str)
def test_a_loader_in_a_process_of_its_own(last: dict[str, bool], tmp_path: Path) -> None:
    plan = numbers().shuffle(seed=1).filter(odd).batch(SIZE, lanes=6, **last)
    whole = epochs_of(plan, 2)
    assert epochs_of(plan, 2, isolation="process", ledger=tmp_path) == whole
    assert verify([str(tmp_path)]).is_well
    assert resumed(plan, 5, isolation="process") == whole[0]


@pytest.mark.slow
def test_ranks_in_processes_of_their_own() -> None:
    plan = numbers().shuffle(seed=1).filter(odd).batch(SIZE, lanes=6, wrap=True)
    plan.count_rows(epochs=2)
    assert on_ranks(plan, 2, 2, isolation="process") == epochs_of(plan, 2)


# Bad rows


@pytest.mark.parametrize("on_error", ["skip", "substitute"])
@pytest.mark.filterwarnings("ignore:.*bad sample")
def test_bad_rows_are_counted_as_the_loader_leaves_them_out(on_error: Any) -> None:
    plan = numbers().map_rows(seventh_fails).filter(odd).batch(SIZE, lanes=6, wrap=True)
    words = "on_error='skip'" if on_error == "skip" else "count_rows"
    with ps.Loader(plan, rank=0, world_size=2, on_error=on_error) as loader, pytest.raises(ps.PlanError, match=words):
        next(iter(loader))
    (rows,) = plan.count_rows(on_error=on_error)
    assert rows == sum(x % 2 and x % 7 > 0 for x in range(ROWS)) or on_error == "substitute"
    assert on_ranks(plan, 2, on_error=on_error) == epochs_of(plan, on_error=on_error)


def test_counting_takes_the_policies_of_a_loader() -> None:
    with pytest.raises(ps.PlanError, match="'raise', 'substitute' or 'skip'"):
        numbers().filter(odd).batch(8).count_rows(on_error="no")  # type: ignore[arg-type]
    with pytest.raises(ps.DataError, match="a seventh row"):
        numbers().map_rows(seventh_fails).filter(odd).batch(8).count_rows()


# Epochs of no step


@pytest.mark.parametrize("is_counted", [False, True])
@pytest.mark.filterwarnings("ignore:epoch .* has no batch")
def test_an_epoch_of_no_step_saves_and_resumes(tmp_path: Path, *, is_counted: bool) -> None:
    plan = numbers().filter(none).batch(SIZE, lanes=6)
    if is_counted:
        assert plan.count_rows() == [0]
    for passes in range(3):
        with ps.Loader(plan, ledger=tmp_path / str(passes)) as loader:
            for _ in range(passes):
                assert not list(loader)
            state = json.loads(json.dumps(loader.state_dict()))
            assert (state["epoch"], state["step"]) == (passes, 0)
        with ps.Loader(plan, ledger=tmp_path / str(passes)) as loader:
            loader.load_state_dict(state)
            assert (loader.epoch, loader.step) == (passes, 0)
            assert not list(loader)
            assert loader.epoch == passes + 1
            loader.set_epoch(passes + 3)
            assert not list(loader)
            if is_counted:
                assert len(loader) == 0
        report = verify([str(tmp_path / str(passes))])
        assert report.is_well, report.wrong


@pytest.mark.filterwarnings("ignore:epoch .* has no batch")
def test_empty_epochs_on_several_ranks() -> None:
    plan = numbers().filter(none).batch(SIZE, lanes=6)
    plan.count_rows()
    assert on_ranks(plan, 3, 2) == [[], []]
    with ps.Loader(plan, rank=1, world_size=3) as loader, pytest.warns(UserWarning, match="epoch 0 has no batch"):
        assert not list(loader)


def test_lanes_without_a_row() -> None:
    plan = numbers().filter(early).flat_map(twice, rows=3).batch(12, lanes=12, wrap=True)
    plan.count_rows()
    (whole,) = epochs_of(plan)
    assert {*chain.from_iterable(whole)} == {*range(40)}
    assert on_ranks(plan, 4) == [whole]
    assert resumed(plan, 3) == whole


def test_steps_win_beside_the_ends_of_the_data() -> None:
    plan = numbers().filter(odd).batch(SIZE, lanes=6, steps=10)
    assert "every epoch continues where the one before ended" in plan.explain()
    with ps.Loader(plan) as loader:
        assert len(loader) == 10
        assert len(list(loader)) == 10


# Lengths


def documents(tmp_path: Path, rows: int = 600) -> tuple[ps.Dataset, np.ndarray[Any, Any]]:
    lengths = np.random.default_rng(0).integers(0, 40, rows)
    tokens = pa.array([[row] * length for row, length in enumerate(lengths.tolist())], pa.list_(pa.int32()))
    pq.write_table(pa.table({"tokens": tokens, "count": lengths}), tmp_path / "a.parquet")
    return ps.read(tmp_path / "a.parquet"), lengths


HOWS: list[dict[str, Any]] = [{"window": 10}, {}, {"strategy": "concat"}]


@pytest.mark.parametrize("how", HOWS, ids=str)
def test_lengths_that_are_told_count_sequences(how: dict[str, Any], tmp_path: Path) -> None:
    data, lengths = documents(tmp_path)
    for base, told in (
        (data.shuffle(seed=1), "count"),
        (data.shuffle(seed=1).map(dict), lengths),
        (data.skip(7).take(500).shuffle(seed=2), ps.col("count")),
        (data.take(300), lengths[:300].tolist()),
    ):
        plan = base.pack("tokens", length=64, lengths=told, **how).batch(SIZE, lanes=8, pad=True)
        counted = base.pack("tokens", length=64, **how).batch(SIZE, lanes=8, pad=True).count_rows(epochs=2)
        assert plan.count_rows(epochs=2) == counted
        for ranks in (1, 3):
            with ps.Loader(plan, rank=0, world_size=ranks) as loader:
                assert len(loader) == len(list(loader))


def test_wrong_lengths_are_an_error_with_both_numbers(tmp_path: Path) -> None:
    data, lengths = documents(tmp_path)
    lengths[77] += 5_000
    words = r"gave \d+ rows in epoch 0, and \d+ when they were counted.*lengths="
    plan = data.pack("tokens", length=64, lengths=lengths).batch(SIZE, lanes=8)
    with ps.Loader(plan) as loader, pytest.raises(ps.DataError, match=words):
        list(loader)


def test_lengths_that_cannot_be(tmp_path: Path) -> None:
    data, lengths = documents(tmp_path)
    for base, told, words in (
        (data, lengths[:5], "5 numbers, and there are 600 rows"),
        (data, "tokenz", "no column 'tokenz'"),
        (data, [-1] * 600, "length -1"),
        (data.filter(odd_count), lengths, "filter stands between"),
        (data.filter(odd_count), "count", "filter stands between"),
        (data.shuffle(seed=0).take(300), lengths[:300], "stands between"),
        (data.repeat(2), "count", "repeat stands between"),
    ):
        with pytest.raises(ps.PlanError, match=words):
            base.pack("tokens", length=64, lengths=told)


def odd_count(batch: Rows) -> Any:
    return batch["count"] % 2 == 1


def test_rows_of_one_length_count_themselves(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(np.arange(5_000, dtype=np.uint16).tobytes())
    tokens = ps.read(str(tmp_path / "a.bin"), format="tokens", dtype="uint16", window=50)
    (name,) = tokens.spec
    plan = tokens.shuffle(seed=0).pack(name, length=128).batch(8, wrap=True)
    with ps.Loader(plan, rank=0, world_size=2) as loader:
        assert len(loader) == len(list(loader))
