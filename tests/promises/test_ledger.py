"""The ledger proves what it should: all is well on any ranks, and a row that is lost, repeated or another one is found, by name."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.observe.ledger.findings import Report
from penstock.observe.ledger.format import TakenSteps
from penstock.observe.ledger.words import resume_lines, verdict, wrong_lines
from support.ledgers import at_step, files_of, kinds, report_of, rewrite, train
from support.tries import tries


def of(count: int, first: int = 0) -> ps.Dataset:
    return ps.from_arrays({"id": np.arange(first, first + count)})


PLANS: dict[str, Callable[[], ps.Dataset]] = {
    "natural": lambda: of(101).batch(8),
    "shuffled": lambda: of(101).shuffle(seed=1, block_rows=5).batch(8),
    "drop": lambda: of(101).shuffle(seed=1).batch(8, drop_last=True),
    "pad": lambda: of(101).shuffle(seed=1, block_rows=5).batch(8, pad=True),
    "wrap": lambda: of(101).shuffle(seed=1).batch(8, wrap=True),
    "parts": lambda: of(300).skip(20).take(90).every(2).shuffle(seed=1).batch(8, pad=True),
    "concat": lambda: ps.concat([of(50).shuffle(seed=1), of(31).shuffle(seed=2)]).batch(8, drop_last=True),
    "taken of a shuffle": lambda: of(101).shuffle(seed=1).take(64).batch(8),
    "repeat": lambda: of(40).shuffle(seed=1).repeat(3).batch(8),
    "repeat, pad": lambda: of(41).shuffle(seed=1).repeat(3).batch(8, pad=True),
    "mix": lambda: ps.mix([of(64), of(40)], weights=[2, 1]).shuffle(seed=1).batch(8, drop_last=True),
    "mix all": lambda: ps.mix([of(64), of(40)], stop="all_exhausted").shuffle(seed=1).batch(8, lanes=4),
    "mix rows": lambda: ps.mix([of(64), of(40)], weights=[1, 2], rows=72).shuffle(seed=1).batch(8),
    "once beside copies": lambda: ps.concat([of(20).shuffle(seed=1), of(20).repeat(2)]).batch(8, drop_last=True),
    "in steps": lambda: of(101).shuffle(seed=1).batch(8, steps=9),
    "buckets": lambda: (
        of(101).shuffle(seed=1).batch_bucketed(8, by=np.arange(101) * 7 % 30, boundaries=[9, 20], lanes=4)
    ),
    "buckets, drop": lambda: (
        of(101).shuffle(seed=1).batch_bucketed(8, by=np.arange(101) * 7 % 30, quantiles=2, drop_last=True)
    ),
    "tokens": lambda: of(101).shuffle(seed=1).batch_tokens(max_tokens=160, by=np.arange(101) * 7 % 19, lanes=4),
    "tokens, fewer at the end than lanes": lambda: (
        of(101).shuffle(seed=1).batch_tokens(max_tokens=240, by=np.arange(101) * 7 % 19, lanes=8)
    ),
    "tokens, drop": lambda: (
        of(40)
        .sample(101, replacement=True)
        .shuffle(seed=1)
        .batch_tokens(max_tokens=160, by=np.arange(101) * 7 % 19, padded=False, lanes=4, drop_last=True)
    ),
    "filtered": lambda: of(180).filter(ps.col("id") % 5 < 3).shuffle(seed=1).batch(8, drop_last=True),
    "balanced": lambda: of(101).balance(ps.col("id") < 40).shuffle(seed=1).batch(8, pad=True),
    "sampled and repeated": lambda: (
        of(40).sample(60, replacement=True).shuffle(seed=1).repeat(2).batch(8, drop_last=True)
    ),
    "functions": lambda: of(101).shuffle(seed=1).map(dict).batch(8, pad=True),
}


@pytest.mark.parametrize("name", PLANS)
def test_all_is_well_on_any_ranks(name: str, tmp_path: Path) -> None:
    """Through several epochs, with kills in the middle of them: the loaders of a start are simply left where they are."""
    plan, state, starts = PLANS[name](), None, []
    with ps.Loader(plan, rank=0, world_size=1) as loader:
        steps = len(loader)
    for world, taken in ((1, 3), (2, steps), (4, 2), (1, steps + 1), (2, steps)):
        state, _ = train(plan, tmp_path, world, taken, state)
        _, ranks = train(plan, tmp_path, world, 2, state)  # and so many again by the next ones
        starts.append(ranks)
    report = report_of(tmp_path)
    assert report.is_well, [*wrong_lines(report)]
    assert (report.lost, report.repeated) == (0, 0)
    assert list(report.world_sizes) == [1, 2, 4]
    whole = [epoch for epoch in report.epochs if epoch.complete_steps == epoch.steps]
    assert len(whole) >= 3
    assert len({epoch.rows for epoch in whole}) == 1
    with ps.Loader(plan, rank=0, world_size=1) as loader:
        wanted = sum(int(np.sum(batch.get("valid", np.ones(len(batch["id"]))))) for batch in loader)
    assert whole[0].rows == (wanted if name != "wrap" else 101)


def test_resumes_are_reported(tmp_path: Path) -> None:
    plan = PLANS["shuffled"]()
    state, _ = train(plan, tmp_path, 1, 5)
    train(plan, tmp_path, 1, 3, state)
    train(plan, tmp_path, 4, 4, state)
    train(plan, tmp_path, 2, 4)
    assert [*resume_lines(report_of(tmp_path))] == [
        "resumed at epoch 0, step 5, on 1 rank",
        "resumed at epoch 0, step 5, on 4 ranks (3 steps taken again)",
        "started without a state at epoch 0, step 0, on 2 ranks (9 steps taken again)",
    ]


def test_a_state_that_is_loaded_in_the_same_process(tmp_path: Path) -> None:
    with ps.Loader(PLANS["shuffled"](), ledger=tmp_path) as loader:
        batches = iter(loader)
        next(batches)
        state = loader.state_dict()
        next(batches)
        loader.load_state_dict(state)
        list(loader)
    report = report_of(tmp_path)
    assert report.is_well, report.wrong
    assert [*resume_lines(report)] == ["resumed at epoch 0, step 1, on 1 rank (1 step taken again)"]
    assert report.files == 1


def test_a_pass_that_was_broken_off_is_reported_and_not_wrong(tmp_path: Path) -> None:
    with ps.Loader(PLANS["shuffled"](), ledger=tmp_path) as loader:
        for step, _ in enumerate(loader):
            if step == 4:
                break
        list(loader)
    report = report_of(tmp_path)
    assert report.is_well, report.wrong
    assert [(epoch.complete_steps, epoch.broken_off) for epoch in report.epochs] == [(5, 5), (13, None)]


def test_only_what_was_taken_is_in_it(tmp_path: Path) -> None:
    """Not what was made ahead, though these small steps were made together."""
    loader = ps.Loader(of(100_000).batch(100), ledger=tmp_path)
    for step, _ in zip(range(7), loader, strict=False):
        assert step < 7
        loader.state_dict()
    steps = sum(found.head.steps for file in files_of(tmp_path) for found in file.records if found.head)
    assert steps == 7


def test_a_slow_consumer_has_each_step_in_it_before_the_batch(tmp_path: Path) -> None:
    loader = ps.Loader(of(100_000).batch(100), ledger=tmp_path)
    for step, _ in zip(range(4), loader, strict=False):
        taken = sum(found.head.steps for file in files_of(tmp_path) for found in file.records if found.head)
        assert taken == step + 1
        time.sleep(0.03)


def test_nodes_with_files_of_their_own(tmp_path: Path) -> None:
    state: list[Any] = [None, None]
    for taken in (3, 20):
        for node, rows in enumerate((50, 41)):
            plan = of(rows, 1000 * node).shard([50, 41]).shuffle(seed=1).batch(8, pad=True)
            ranks = [ps.Loader(plan, rank=2 * node + rank, world_size=4, ledger=tmp_path) for rank in range(2)]
            left = taken
            for rank in ranks:
                if state[node] is not None:
                    rank.load_state_dict(state[node])
            while left:
                for _ in zip(*ranks, strict=True):
                    left -= 1
                    if not left:
                        break
                state[node] = ranks[0].state_dict()
    report = report_of(tmp_path)
    assert report.is_well, [*wrong_lines(report)]
    assert {epoch.node for epoch in report.epochs} == {0, 1}
    for file in files_of(tmp_path):
        if file.header.node == 1:
            Path(file.path).unlink()
    assert "missing ledger: node 1 of 2 has no ledger" in wrong(report_of(tmp_path))


def test_per_rank_batches(tmp_path: Path) -> None:
    plan = of(90).shuffle(seed=2).batch(4, per_rank=True)
    train(plan, tmp_path, 2, 14)
    assert report_of(tmp_path).is_well
    train(plan, tmp_path, 4, 2)
    report = report_of(tmp_path)
    assert kinds(report) == {"other_plan"}
    assert "not one training run" in report.wrong[0].words


# Ledgers that are wrong


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    """Three epochs of 13 steps on 2 ranks, then on 1 from step 4 of the last one, where 2 ranks had got to step 6."""
    plan = PLANS["shuffled"]()
    train(plan, tmp_path, 2, 32)
    state, _ = train(plan, tmp_path, 2, 30)
    for file in files_of(tmp_path)[:2]:
        assert file.header.world_size == 2
    train(plan, tmp_path, 1, 9, state)
    report = report_of(tmp_path)
    assert report.is_well, report.wrong
    return tmp_path


def wrong(report: Report) -> str:
    return "\n".join(wrong_lines(report))


def change(folder: Path, which: Callable[[Any], bool], steps: Callable[[TakenSteps], TakenSteps | None]) -> None:
    for file in files_of(folder):
        if which(file.header):
            rewrite(file.path, steps)


def everywhere(_: Any) -> bool:
    return True


def rank_1_of_2(header: Any) -> bool:
    return header.rank == 1 and header.world_size == 2


def row_in(folder: Path, epoch: int, step: int, place: int = 0) -> int:
    """The row that rank 1 of 2 had there."""
    file = next(file for file in files_of(folder) if rank_1_of_2(file.header))
    for steps in file.steps([found for found in file.records if found.head is not None]):
        head = steps.head
        if head.epoch == epoch and head.step <= step < head.step + head.steps:
            return int(steps.ids.reshape(head.steps, -1)[step - head.step, place])
    raise AssertionError("no such step")


def set_row(place: int, row: int) -> Callable[[Any], Any]:
    def changed(ids: Any) -> Any:
        ids[place] = row
        return ids

    return changed


def test_a_row_that_is_repeated_and_so_another_one_lost(trained: Path) -> None:
    lost, repeated = row_in(trained, 0, 5), row_in(trained, 0, 6)
    change(trained, rank_1_of_2, at_step(0, 5, set_row(0, repeated)))
    report = report_of(trained)
    assert kinds(report) == {"lost_rows", "repeated_rows"}
    assert (report.lost, report.repeated) == (1, 1)
    assert f"lost rows: epoch 0: 1 rows did not come, in an epoch of which every step was taken: row {lost}" in wrong(
        report
    )
    assert f"repeated rows: epoch 0: 1 rows came more often than the plan says: row {repeated}" in wrong(report)


def test_a_row_that_is_none(trained: Path) -> None:
    change(trained, rank_1_of_2, at_step(1, 5, set_row(0, 4000)))
    report = report_of(trained)
    assert kinds(report) == {"foreign_rows", "lost_rows"}
    assert "row 4,000" in wrong(report)


def test_steps_that_no_rank_recorded(trained: Path) -> None:
    change(trained, everywhere, lambda steps: None if steps.head.epoch == 1 and steps.head.step < 12 else steps)
    report = report_of(trained)
    assert kinds(report) == {"missing_steps", "missing_ledger"}
    assert report.lost == 96
    assert "missing steps: epoch 1: steps 0 … 11 are missing, 96 rows lost" in wrong(report)


def test_an_epoch_that_no_rank_recorded(trained: Path) -> None:
    change(trained, everywhere, lambda steps: None if steps.head.epoch == 1 else steps)
    assert "missing steps: epoch 1 was not taken: 101 rows lost" in wrong(report_of(trained))


def test_a_rank_of_which_a_step_is_missing(trained: Path) -> None:
    change(trained, rank_1_of_2, lambda steps: None if (steps.head.epoch, steps.head.step) == (0, 12) else steps)
    report = report_of(trained)
    assert "missing steps: epoch 0: step 12 is missing of rank 1 of 2, 3 rows lost" in wrong(report)
    assert report.lost == 3


def test_a_rank_without_a_ledger(trained: Path) -> None:
    for file in files_of(trained):
        if rank_1_of_2(file.header):
            Path(file.path).unlink()
    report = report_of(trained)
    assert kinds(report) == {"missing_ledger", "missing_steps"}
    assert "missing ledger: rank 1 of 2 has no ledger, of the start at epoch 0, step 0" in wrong(report)
    assert "epoch 0: steps 0 … 11 are missing of rank 1 of 2, 48 rows lost" in wrong(report)


def test_of_steps_with_different_numbers_of_rows_the_most_may_be_lost(tmp_path: Path) -> None:
    plan = PLANS["tokens"]()
    train(plan, tmp_path, 1, 9)
    for path in files_of(tmp_path):
        rewrite(path.path, lambda steps: None if steps.head.step == 2 else steps)
    (words,) = [line for line in wrong_lines(report_of(tmp_path)) if "is missing," in line]
    with ps.Loader(plan, rank=0, world_size=1) as loader:
        assert f"step 2 is missing, up to {loader.batch_size:,} rows lost" in words


def test_a_rank_without_a_ledger_after_a_resume(tmp_path: Path) -> None:
    """Though an earlier start recorded the same steps: that does not prove that this rank took them."""
    plan = PLANS["shuffled"]()
    train(plan, tmp_path, 1, 9)
    state, _ = train(plan, tmp_path / "other", 1, 4)
    state, _ = train(plan, tmp_path, 4, 3, state)
    train(plan, tmp_path, 1, 6, state)
    assert report_of(tmp_path).is_well
    next(Path(file.path) for file in files_of(tmp_path) if file.header.rank == 2).unlink()
    report = report_of(tmp_path)
    assert kinds(report) == {"missing_ledger"}
    assert "rank 2 of 4 has no ledger, of the start at epoch 0, step 4, that got to epoch 0, step 7" in wrong(report)


def test_other_rows_after_a_resume(trained: Path) -> None:
    """Two rows are swapped: all come once, but not the same global batch."""

    def swapped(ids: Any) -> Any:
        ids[[0, 7]] = ids[[7, 0]]
        return ids

    change(trained, lambda header: header.world_size == 1, at_step(2, 5, swapped))
    report = report_of(trained)
    assert kinds(report) == {"different_rows"}
    assert "different rows: epoch 2, step 5: " in wrong(report)
    assert "2 such rows in this epoch" in wrong(report)


def test_the_same_row_in_another_draw(tmp_path: Path) -> None:
    plan = PLANS["repeat"]()
    state, _ = train(plan, tmp_path, 1, 3)
    train(plan, tmp_path, 1, 4)
    first = files_of(tmp_path)[0]
    rewrite(first.path, lambda steps: replace(steps, draws=steps.draws + 7))  # type: ignore[operator]
    assert "different_rows" in kinds(report_of(tmp_path))
    assert state


def test_rows_in_places_of_another_rank(trained: Path) -> None:
    change(
        trained,
        rank_1_of_2,
        lambda steps: replace(steps, head=replace(steps.head, at=0)) if steps.head.rows == 4 else steps,
    )
    assert "other_places" in kinds(report_of(trained))


def test_processes_that_took_the_same_share_at_the_same_time(tmp_path: Path) -> None:
    """As happens where ranks do not know of each other: each takes all of every batch."""
    plan = PLANS["shuffled"]()
    train(plan, tmp_path, 1, 5)
    train(plan, tmp_path, 1, 5)
    assert report_of(tmp_path).is_well, "one after the other: a run that was started anew"
    for file in files_of(tmp_path):
        rewrite(file.path, lambda steps: replace(steps, head=replace(steps.head, time_ns=steps.head.time_ns + 10**10)))
    report = report_of(tmp_path)
    assert kinds(report) == {"overlapping_ranks"}
    assert "both take the same part of each batch; pass rank= and world_size=" in wrong(report)


def test_records_that_are_missing_in_a_file(trained: Path) -> None:
    """Even where others recorded the same steps."""
    plan = PLANS["shuffled"]()
    train(plan, trained, 1, 39)
    change(trained, rank_1_of_2, lambda steps: None if steps.head.epoch == 0 and steps.head.step == 12 else steps)
    report = report_of(trained)
    assert report.lost == 0
    assert "epoch 1, step 0 follows where epoch 0, step 12 belongs; records are missing" in wrong(report)


def test_an_epoch_with_too_few_rows_where_the_plan_chooses(tmp_path: Path) -> None:
    """Which rows a mix leaves out, it decides; how many there are is known."""
    plan = PLANS["mix"]()
    train(plan, tmp_path, 1, 20)
    (file,) = files_of(tmp_path)
    rewrite(file.path, header=lambda header: replace(header, rows=header.rows + 4))
    assert "rows came, and an epoch has" in wrong(report_of(tmp_path))


def test_rows_of_several_sources_are_named(tmp_path: Path) -> None:
    plan = PLANS["concat"]()
    train(plan, tmp_path, 1, 10)
    (file,) = files_of(tmp_path)
    rewrite(file.path, at_step(0, 1, lambda ids: np.full_like(ids, 53)))
    report = report_of(tmp_path)
    assert kinds(report) == {"repeated_rows"}, "drop_last may drop any row"
    assert "row 3 of source 1" in wrong(report)


# What cannot be


@pytest.mark.parametrize(
    ("ledger", "message"),
    [
        (7, "ledger: 7 is no path"),
        ("s3://bucket/ledger", "ledger='s3://bucket/ledger'; a ledger is written step by step"),
        ("", "ledger=''; a ledger"),
    ],
)
def test_what_is_no_folder(ledger: Any, message: str) -> None:
    with pytest.raises(ps.PlanError, match=message):
        ps.Loader(of(8).batch(4), ledger=ledger)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "ledger").write_text("")
    with pytest.raises(ps.PlanError, match="is a file; pass a folder"):
        ps.Loader(of(8).batch(4), ledger=tmp_path / "ledger")


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    loader = ps.Loader(of(8).batch(4), ledger=tmp_path / "file" / "ledger")
    with pytest.raises(ps.StorageError, match=r"cannot open the ledger \(Not a directory\)"):
        next(iter(loader))


def test_no_ledger_without_a_pass(tmp_path: Path) -> None:
    ps.Loader(of(8).batch(4), ledger=tmp_path / "ledger").close()
    assert not (tmp_path / "ledger").exists()


def test_states_are_the_same_with_a_ledger(tmp_path: Path) -> None:
    plan = PLANS["mix"]()

    def walk(**options: Any) -> Iterator[str]:
        with ps.Loader(plan, **options) as loader:
            for batch in loader:
                yield json.dumps([loader.state_dict(), batch["id"].tolist()])

    assert [*walk()] == [*walk(ledger=tmp_path)]


@pytest.mark.slow
def test_a_process_that_ends_without_close_leaves_all_of_it(tmp_path: Path) -> None:
    code = f"""if True:
        import numpy as np, penstock as ps
        loader = ps.Loader(ps.from_arrays({{"id": np.arange(100_000)}}).batch(10), ledger={str(tmp_path)!r})
        batches = iter(loader)
        for _ in range(7):
            next(batches)
    """
    subprocess.run([sys.executable, "-c", code], check=True)
    report = report_of(tmp_path)
    assert report.is_well
    assert report.epochs[0].complete_steps == 7


@pytest.mark.slow
def test_a_forked_child_writes_nothing(tmp_path: Path) -> None:
    code = f"""if True:
        import os, numpy as np, penstock as ps
        from penstock.observe.ledger.writer import Ledger, StepRows
        loader = ps.Loader(ps.from_arrays({{"id": np.arange(1000)}}).batch(10), ledger={str(tmp_path)!r})
        batches = iter(loader)
        for _ in range(7):
            next(batches)
        child = os.fork()
        if child == 0:
            raise SystemExit(0)
        os.waitpid(child, 0)
    """
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
    steps = [found.head.steps for file in files_of(tmp_path) for found in file.records if found.head]
    assert sum(steps) == 7


# In general


@settings(max_examples=tries(300), suppress_health_check=[HealthCheck.too_slow])
@given(
    samples=st.integers(1, 70),
    batch=st.sampled_from([4, 8, 12]),
    last=st.sampled_from([{}, {"pad": True}, {"wrap": True}]),
    times=st.integers(1, 3),
    block_rows=st.none() | st.integers(1, 9),
    seed=st.integers(0, 9),
    starts=st.lists(st.tuples(st.sampled_from([1, 2, 4]), st.integers(1, 12), st.integers(0, 5)), max_size=4),
    change=st.tuples(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 80)),
)
def test_any_run_is_well_and_any_row_that_is_changed_is_found(
    samples: int, batch: int, last: Any, times: int, block_rows: int | None, seed: int, starts: Any, change: Any
) -> None:
    """Whatever the plan, the ranks and the kills: `starts` are (ranks, steps up to the checkpoint, steps behind it)."""
    plan = of(samples).shuffle(seed=seed, block_rows=block_rows).repeat(times).batch(batch, **last)
    with tempfile.TemporaryDirectory() as name:
        folder, state = Path(name), None
        if not last and 0 < samples * times % batch < 4:
            starts = [(1, *rest) for _, *rest in starts]  # too few rows in the last batch for more ranks
        for world, taken, more in starts:
            before = state
            state, _ = train(plan, folder, world, taken, before)
            if more:
                train(plan, folder, world, more, state)
        with ps.Loader(plan, rank=0, world_size=1, ledger=folder) as loader:
            if state is not None:
                loader.load_state_dict(state)
            list(loader)  # to the end of an epoch: whatever is missing in it is missed
        report = report_of(folder)
        assert report.is_well, wrong(report)
        whole = [epoch for epoch in report.epochs if epoch.complete_steps == epoch.steps]
        assert all(epoch.rows == samples * times for epoch in whole)
        if last != {"wrap": True} and whole:
            _change_a_row(folder, {epoch.epoch for epoch in whole}, *change)
            assert not report_of(folder).is_well


def _change_a_row(folder: Path, epochs: set[int], which: int, where: int, row: int) -> None:
    """Another id in one place of one record of a whole epoch, in a row that is no padding."""
    files = files_of(folder)
    records = [(file, found) for file in files for found in file.records if found.head and found.head.epoch in epochs]
    file, found = records[which % len(records)]
    (steps,) = file.steps([found])
    places = np.arange(len(steps.ids)) if steps.valid is None else np.flatnonzero(steps.valid)
    if not len(places):
        return _change_a_row(folder, epochs, which + 1, where, row)
    place = int(places[where % len(places)])

    def changed(other: TakenSteps) -> TakenSteps:
        if other.head != found.head:
            return other
        ids = other.ids.copy()
        ids[place] = row if ids[place] != row else row + 1
        return replace(other, ids=ids)

    rewrite(file.path, changed)
    return None


def test_rows_of_a_lane_stage(tmp_path: Path) -> None:
    """Steps are proved, and that rows are numbered by the stage is said."""
    plan = of(400).shuffle(seed=1).filter(lambda batch: batch["id"] % 3 != 0).batch(8, lanes=8, steps=12)
    state = None
    for world, taken in ((1, 5), (2, 9), (4, 6)):
        ranks = [ps.Loader(plan, rank=rank, world_size=world, ledger=tmp_path) for rank in range(world)]
        for rank in ranks:
            if state is not None:
                rank.load_state_dict(state)
        for step, _ in enumerate(zip(*ranks, strict=True), 1):
            if step == taken:
                break
        state = ps.merge_states([rank.state_dict() for rank in ranks])
        next(zip(*ranks, strict=True))
    report = report_of(tmp_path)
    assert report.is_well, wrong(report)
    assert any("not what they were made of" in note for note in report.notes)
    assert verdict(report).endswith("of those that came out of a lane stage, by their numbers alone")
    assert "mixes like" not in plan.explain()
