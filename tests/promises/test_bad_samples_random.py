"""Any plan with bad samples below it, on any number of ranks, saved at any step and restored on any other number: the same global batches."""

from __future__ import annotations

import functools
import warnings
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import penstock as ps
from promises.test_random_plans import STEPS, Refused, Run, run
from support import random_plans, random_rows
from support.promises import assert_same
from support.tries import TRIES, tries

#: What is refused by design, and what is no plan any more where so much is bad.
_REFUSED = {
    "substitute": ("on_error", "fewer than the", "no accident", "that were to take its place"),
    "skip": ("on_error", "fewer than the", "no accident", "that were to take its place"),
}


def is_bad(row: int) -> bool:
    return row % 17 == 5


@functools.cache
def lines(rows: int, first: int) -> ps.Dataset:
    random_rows.lines(rows, first)
    good, folder = (
        random_rows._folder() / f"lines {rows} {first}",
        random_rows._folder() / f"bad lines {rows} {first}",
    )
    folder.mkdir()
    row = 0
    for path in sorted(good.iterdir()):
        texts = path.read_text().splitlines()
        numbered = enumerate(texts, row)
        (folder / path.name).write_text(
            "".join(f"{text[:-1]}]\n" if is_bad(at) else f"{text}\n" for at, text in numbered)
        )
        row += len(texts)
    return ps.read(folder)


def lessened(row: dict[str, Any]) -> dict[str, Any]:
    if row["id"] % 13 == 4:
        raise ps.DataError("refused")
    return {**row, "x": row["x"] - 3}


BAD = {1000 + row for row in range(40) if is_bad(row)} | {1100 + row for row in range(9) if is_bad(row)}


@pytest.mark.slow
@pytest.mark.parametrize("on_error", ["skip", "substitute"])
def test_any_plan_any_ranks_any_restart(on_error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tally = Counter[str]()
    monkeypatch.setitem(random_rows.NAMES, "lines", lines)
    monkeypatch.setitem(random_rows.NAMES, "lessened", lessened)

    @settings(
        max_examples=tries(300) if TRIES >= 1_000 else tries(100, at_least=4),
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(data=st.data())
    def test(data: st.DataObject) -> None:
        tally["cases"] += 1
        try:
            plan = data.draw(random_plans.plans(), label="plan")
        except ps.DataError:  # of a verb that looks at all rows when it is written
            return
        if plan is None:
            return
        ranks = st.sampled_from(random_plans.worlds_of(plan))
        before, after = data.draw(st.tuples(ranks, ranks), label="ranks before and after")
        stop = data.draw(st.integers(0, STEPS), label="steps before the state")
        try:
            holds(plan, (before, after), stop, on_error)
            tally["real"] += 1
        except (ps.PlanError, ps.DataError, Refused) as error:
            if not isinstance(error, Refused) and not any(words in str(error) for words in _REFUSED[on_error]):
                raise

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="penstock: .*More bad samples are counted")
        test()
    assert tally["real"] > tally["cases"] // 20 * 20 / 4, dict(tally)


def holds(plan: random_plans.Plan, worlds: tuple[int, int], stop: int, on_error: str) -> None:
    options: dict[str, Any] = {"on_error": on_error, "cpus": 1, "prefetch": 1}
    plan = replace(plan, stages=max(1, plan.stages))  # its states are as long as those of lane stages
    if on_error == "skip" and not plan.stepped:
        plan = replace(plan, natural=True)
    whole, _ = run(plan, Run(world=1, end=STEPS, changes={}, options=options))
    before, states = run(plan, Run(world=worlds[0], end=stop, changes={}, options=options))
    later = Run(world=worlds[1], first=stop, end=STEPS, changes={}, options=options)
    after, _ = run(plan, later, ps.merge_states(states))
    for step, (found, wanted) in enumerate(zip(before + after, whole, strict=True)):
        assert_same(found, wanted, f"{on_error}, {worlds} ranks, state after {stop} steps, step {step}")
        if "id" in wanted:
            assert not BAD & {*np.asarray(wanted["id"]).tolist()}, "a bad row came"
