"""Plans for cleaning: the code runs, and does what its reasons say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps

ROWS = 2000


def run(table: dict[str, Any], label: str | None = None) -> tuple[str, Any, Any]:
    """The code, the recipe that it made, and the first rows behind it."""
    data = ps.from_arrays(table, nulls="arrow")
    code = ps.profile(data, label=label).recipe()
    names = dict[str, Any]()
    exec(compile(code, "plan.py", "exec"), names)
    recipe = names["recipe"]
    return code, recipe, None if recipe is None else data.transform(recipe.fit(data)).head(8)


def line_of(code: str, name: str) -> str:
    return next(line for line in code.splitlines() if line.strip().startswith((f"{name}=", f"'{name}'")))


def people() -> dict[str, Any]:
    random = np.random.default_rng(0)
    return {
        "age": np.where(random.random(ROWS) < 0.1, np.nan, random.normal(40, 10, ROWS)),
        "income": random.lognormal(10, 1, ROWS),
        "id": np.arange(ROWS),
        "city": random.choice(["Rome", "Oslo"], ROWS),
        "user": [f"u{number}" for number in random.integers(0, 300, ROWS)],
        "same": np.ones(ROWS),
        "nothing": pa.array([None] * ROWS, pa.float64()),
        "created_at": random.integers(1_600_000_000, 1_700_000_000, ROWS),
        "stars": random.integers(1, 6, ROWS),
        "price": [f"{number % 70}.5" for number in range(ROWS)],
        "heavy": random.standard_t(1.5, ROWS),
        "spikes": np.where(np.arange(ROWS) == 3, np.inf, random.normal(size=ROWS)),
        "maybe": pa.array([None if number % 9 == 0 else number % 2 == 0 for number in range(ROWS)]),
        "note": [f"{'lorem ipsum ' * 9}{number // 2}" for number in range(ROWS)],
        "day": [f"2024-01-{number % 28 + 1:02d}" for number in range(ROWS)],
        "y": random.integers(0, 2, ROWS),
    }


@pytest.mark.parametrize(
    ("name", "does"),
    [
        ("age", 'T.FillMissing("median", indicator=True), T.Standardize()'),
        ("income", "T.Log(), T.Standardize()"),
        ("city", "T.OneHot()"),
        ("user", "T.Vocabulary(min_count=2)"),
        ("created_at", 'T.DateParts(["year", "month", "day", "weekday"], unit="s")'),
        ("stars", "T.OneHot()"),
        ("price", 'T.Cast("float64"), T.Standardize()'),
        ("heavy", "T.Clip(quantile=(0.01, 0.99)), T.Standardize()"),
        ("spikes", "T.Clip(low="),
        ("maybe", 'T.FillMissing("mode")'),
        ("id", "an identifier"),
        ("same", "constant"),
        ("nothing", "no value in any row"),
        ("note", "free text"),
        ("day", "dates, written as text"),
    ],
)
def test_what_is_done_with_a_column(name: str, does: str) -> None:
    code, _, _ = PEOPLE
    line = line_of(code, name)
    assert does in line
    assert "  # " in line  # a reason


PEOPLE = run(people(), label="y")


def test_a_plan_runs_and_leaves_the_target() -> None:
    code, recipe, batch = PEOPLE
    assert "target='y'" in code
    assert recipe.target == "y"
    assert batch["city"].shape == (8, 2)
    assert batch["created_at"].shape == (8, 4)
    assert not np.isnan(batch["age"]).any()
    assert "age_missing" in batch


def test_names_that_python_has_no_word_for() -> None:
    names = ["target", "leave", "self", "my col\n#", "class", "'\"\\", "a*", "é", "x_missing", "x"]
    gaps = np.where(np.arange(60) % 3 == 0, np.nan, np.arange(60.0) % 17)
    code, _, batch = run({name: gaps + place for place, name in enumerate(names)})
    assert {*names} <= {*batch}
    assert "x_missing_missing" in batch
    assert "'self',  # no verb can name" in code
    assert not any(np.isnan(batch[name]).any() for name in names if name != "self")
    assert code.count("\n") < 30


def test_what_no_op_goes_to() -> None:
    table = {
        "flag": np.arange(40) % 2 == 0,
        "far": np.array([2**63 + 1, 0] * 20, np.uint64),
        "list": pa.array([[1]] * 40),
        "vector": np.ones((40, 2)),
        "great": np.array([1e300, -1e300] * 20),
        "infinite": np.array([np.inf] * 40),
    }
    code, recipe, _ = run(table)
    assert recipe is None
    assert code.count("# ") == 7


NUMBERS = st.none() | st.floats(width=64) | st.sampled_from([0.0, 1e300, 2.0**53])
TEXTS = st.none() | st.text(max_size=3) | st.sampled_from(["1", "2.5", "2024-01-01", "#\n"])
WHOLE = st.none() | st.integers(-(2**63), 2**63 - 1)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(NUMBERS, WHOLE, TEXTS, st.none() | st.booleans()), min_size=1, max_size=30))
def test_plans_of_odd_tables_run(rows: list[tuple[Any, ...]]) -> None:
    columns = zip(*rows, strict=True)
    kinds = (pa.float64(), pa.int64(), pa.string(), pa.bool_())
    names = ("n", "created_time", "t", "b")
    run({name: pa.array(values, kind) for name, values, kind in zip(names, columns, kinds, strict=True)})
