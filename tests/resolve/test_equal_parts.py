"""equal_parts: ranks have equally many rows of every step; what they make, joined and cut to `real_rows`, is what one rank makes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from promises.test_ledger import PLANS
from support import cases
from support.ledgers import report_of
from support.matrix import crossed

SAMPLES = 101


def of(count: int) -> ps.Dataset:
    return ps.from_arrays({"id": np.arange(count)})


def loaders(plan: ps.Dataset, ranks: int, **options: Any) -> list[ps.Loader]:
    return [ps.Loader(plan, rank=rank, world_size=ranks, **{"equal_parts": True, **options}) for rank in range(ranks)]


def gathered(ranks: list[ps.Loader]) -> list[list[int]]:
    """One pass: the ids of every step, joined in the order of the ranks, without what fills it up."""
    found = []
    for batches in zip(*ranks, strict=True):
        parts = [np.asarray(batch["id"]) for batch in batches]
        assert len({len(part) for part in parts}) == 1
        real, rows = np.concatenate([rank.is_real for rank in ranks]), ranks[0].real_rows
        assert real.tolist() == [True] * rows + [False] * (len(real) - rows)
        for batch, rank in zip(batches, ranks, strict=True):
            assert "valid" not in batch or batch["valid"].tolist() == rank.is_real.tolist()
        found.append(np.concatenate(parts)[:rows].tolist())
    return found


@pytest.mark.parametrize(("source", "order"), crossed([*cases.SOURCES], ["natural", "block"]))
def test_any_source_on_any_ranks(source: str, order: str, tmp_path: Path) -> None:
    plan = cases.ORDERS[order](cases.SOURCES[source](SAMPLES, tmp_path)).batch(12)
    with ps.Loader(plan, rank=0, world_size=1) as alone:
        wanted = [[np.asarray(batch["id"]).tolist() for batch in alone] for _ in range(2)]
    for ranks in (2, 3, 4):
        several = loaders(plan, ranks)
        assert [gathered(several), gathered(several)] == wanted
        assert {len(loader) for loader in several} == {9}
        several[-1].load_state_dict({**several[0].state_dict(), "epoch": 1, "step": 8})
        (last,) = several[-1]
        assert np.asarray(last["id"]).tolist() == np.asarray(several[-1].batch_at(1, 8)["id"]).tolist()
        for loader in several:
            loader.close()


CHAINS: dict[str, Callable[[], ps.Dataset]] = {
    "zip": lambda: ps.zip([of(101), ps.from_arrays({"other": np.arange(101)})]).batch(12),
    "mix": lambda: ps.mix([of(60), of(41)], stop="all_exhausted").batch(12),
    "concat": lambda: ps.concat([of(60), of(41)]).batch(12),
    "copies": lambda: of(37).repeat(3).batch(12),
    "cached": lambda: of(101).map(dict).cache().shuffle(seed=1).batch(12),
    "buckets": lambda: of(101).batch_bucketed(12, by=np.arange(101) * 7 % 30, boundaries=[9, 20]),
    "one lane": lambda: of(101).batch(12, lanes=1),
    "full": lambda: of(96).batch(12),
    "fewer than ranks": lambda: of(2).batch(12),
    "one more": lambda: of(97).shuffle(seed=1).batch(12),
}


@pytest.mark.parametrize("name", CHAINS)
def test_any_plan_on_any_ranks(name: str) -> None:
    plan = CHAINS[name]()
    with ps.Loader(plan, rank=0, world_size=1) as alone:
        wanted = [batch["id"].tolist() for batch in alone]
    for ranks in (1, 2, 3, 4, 6):
        assert gathered(loaders(plan, ranks)) == wanted


@pytest.mark.parametrize("last", ["pad", "wrap"])
@pytest.mark.parametrize("rows", [2, 41, 245])
def test_with_pad_and_wrap_the_rows_come_before_what_fills_up(last: str, rows: int) -> None:
    """Without it, each lane begins anew, and rows and padding take turns."""
    plan = of(rows).batch(12, **{last: True})
    for ranks in (1, 3, 4):
        several = loaders(plan, ranks)
        assert np.concatenate(gathered(several)).tolist() == [*range(rows)]
        assert all(len(several[0].sample_ids(0, step)) == 12 // ranks for step in range(len(several[0])))


def test_only_full_steps() -> None:
    assert np.concatenate(gathered(loaders(of(245).batch(30, drop_last=True), 3))).tolist() == [*range(240)]


@pytest.mark.slow
def test_in_a_process_and_with_substitutes() -> None:
    """Rows that fill up a step are made like any others."""

    def refuse(row: dict[str, Any]) -> dict[str, Any]:
        if row["id"] == 100:
            raise ps.DataError("here", "a bad row", "nothing")
        return row

    with loaders(of(31).batch(30), 1, isolation="process")[0] as loader:
        assert gathered([loader])[-1] == [30]
    plan = of(101).map_rows(refuse).batch(12)
    with pytest.warns(UserWarning, match="a bad row"):
        found = gathered(loaders(plan, 3, on_error="substitute"))
    with pytest.warns(UserWarning, match="a bad row"):
        assert found == gathered(loaders(plan, 1, on_error="substitute"))


def test_plain_loops_have_the_parts_that_they_had() -> None:
    parts = [ps.Loader(of(245).batch(30), rank=rank, world_size=2) for rank in range(2)]
    assert [part.sample_ids(0, 8).tolist() for part in parts] == [[240, 241], [242, 243, 244]]
    for part in parts:
        assert [(len(part.is_real), part.real_rows) for _ in part][-1] == (2 + part.rank, 5)
        assert all(part.is_real.all() for _ in part)
    with pytest.raises(
        ps.PlanError, match=r"1 rows, too few for 2 ranks; .* to evaluate Loader\(…, equal_parts=True\)"
    ):
        ps.Loader(of(31).batch(30), rank=0, world_size=2)


def test_what_repeats_is_drawn_like_the_row_itself() -> None:
    data = of(7).map_rows(lambda row, rng: {**row, "drawn": rng.random()}).batch(6)
    first, last = loaders(data, 3)[0::2]
    (_, one), (_, again) = first, last
    assert one["id"].tolist() == again["id"].tolist() == [6]
    assert one["drawn"].tolist() == again["drawn"].tolist()


def test_it_is_of_the_batch_that_was_taken_last() -> None:
    loader = loaders(of(13).batch(12), 2)[1]
    for ask in ("is_real", "real_rows"):
        with pytest.raises(
            ps.ProcessError, match=f"{ask} is of the batch that was taken last, and none was in this pass"
        ):
            getattr(loader, ask)
    seen = [(loader.is_real.tolist(), loader.real_rows) for _ in loader]
    assert seen == [([True] * 6, 12), ([False], 1)]
    tokens = ps.Loader(of(13).batch_tokens(max_tokens=24, by=np.arange(13) % 5 + 1, lanes=2), rank=0, world_size=1)
    assert sum(loader_rows(tokens)) == 13


def loader_rows(loader: ps.Loader) -> list[int]:
    found = []
    for batch in loader:
        assert loader.is_real.tolist() == [True] * len(batch["id"])
        found.append(loader.real_rows)
    return found


@pytest.mark.parametrize("wanted", [1, "yes", np.True_])
def test_what_is_neither_true_nor_false(wanted: Any) -> None:
    with pytest.raises(ps.PlanError, match=r"equal_parts=.*; choose True or False, or leave it out"):
        ps.Loader(of(13).batch(12), equal_parts=wanted)


def test_where_parts_cannot_be_equal() -> None:
    with pytest.raises(ps.PlanError, match="batch_tokens hold equally many tokens, not rows"):
        ps.Loader(of(13).batch_tokens(max_tokens=24, by=np.ones(13)), equal_parts=True)
    with pytest.raises(ps.PlanError, match=r"with shard\(…\) every node divides files of its own"):
        ps.Loader(of(13).shard([13, 13]).batch(12, pad=True), rank=0, world_size=2, equal_parts=True)


@pytest.mark.filterwarnings("ignore:.*bad sample")
def test_what_is_left_without_bad_rows_is_divided_equally() -> None:
    def refuse(row: dict[str, Any]) -> dict[str, Any]:
        if row["id"] % 11 == 3:
            raise ps.DataError("a bad row")
        return row

    plan = of(101).map_rows(refuse).batch(12)
    (rows,) = plan.count_rows(on_error="skip")
    assert rows < 101
    found = [row for step in gathered(loaders(plan, 3, on_error="skip")) for row in step]
    assert len({*found}) == rows
    assert found == [row for step in gathered(loaders(plan, 1, on_error="skip")) for row in step]


def train(plan: ps.Dataset, folder: Path, ranks: int, steps: int, state: Any, *, equal: bool) -> Any:
    """The state after so many steps."""
    several = loaders(plan, ranks, ledger=folder, equal_parts=equal)
    for loader in several:
        if state is not None:
            loader.load_state_dict(state)
    while True:
        for _ in zip(*several, strict=True):
            steps -= 1
            if not steps:
                return json.loads(json.dumps(several[-1].state_dict()))


@pytest.mark.parametrize("name", [name for name in PLANS if not name.startswith("tokens")])
def test_the_ledger_counts_no_row_twice(name: str, tmp_path: Path) -> None:
    """Through several epochs and numbers of ranks; where nothing is padded, also by turns with parts that are not equal."""
    plan, state = PLANS[name](), None
    is_padded = {"pad", "wrap"} & {*name.split(), *(["pad"] if name in ("parts", "balanced", "functions") else [])}
    steps = len(loaders(plan, 1)[0])
    for number, (ranks, taken) in enumerate(
        ((1, 3), (2, steps), (4, 2), (1, steps + 1), (4, 1), (8, steps), (2, steps))
    ):
        state = train(plan, tmp_path, ranks, taken, state, equal=bool(is_padded) or number % 2 > 0)
    report = report_of(tmp_path)
    assert report.is_well
    assert len({epoch.rows for epoch in report.epochs if epoch.complete_steps == epoch.steps}) == 1


def test_verify_names_the_rank_whose_equal_part_is_missing(tmp_path: Path) -> None:
    first, _, last = loaders(of(245).batch(30), 3, ledger=tmp_path)
    for loader in (first, last):
        assert len([*loader]) == 9
        loader.close()
    _, *wrong = report_of(tmp_path).wrong  # the first one is that it has no ledger
    assert [finding.rows for finding in wrong] == [80, 2]
    assert all("of rank 1 of 3" in finding.words for finding in wrong)
