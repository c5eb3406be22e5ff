"""Columns that are computed, from a plan to batches: order, ranks, resuming, caches, processes, errors, and what the optimiser leaves out."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.dataset import with_kept_nulls
from penstock.plan.expression import Expression
from penstock.plan.nodes import WithColumns
from penstock.plan.rules import RULES, optimize
from penstock.plan.saved import SavedPlan
from penstock.plan.tree import flow
from support import promises
from support.promises import assert_same, keep
from support.seams import with_rules

ROWS = 41


def memory(rows: int = ROWS) -> ps.Dataset:
    numbers = np.arange(rows)
    return ps.from_arrays(
        {
            "id": numbers,
            "a": numbers * 1.5,
            "b": (numbers % 5).astype(np.int32),
            "s": [f"{n} é"[: n % 4 + 1] for n in range(rows)],
        }
    )


def computed(data: ps.Dataset) -> ps.Dataset:
    return data.with_columns(
        ratio=ps.col("a") / ps.col("b"),
        long=ps.col("s").str.len() > 2,
        size=ps.when(ps.col("b") > 2).then("large").otherwise(ps.col("s")),
        b=ps.col("b").cast("uint8"),
    )


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A Parquet file of 40 rows in which `age`, `city` and `f` are null now and then."""
    rows = range(40)
    columns = {
        "id": pa.array(rows),
        "age": pa.array([None if n % 7 == 3 else n for n in rows], pa.int64()),
        "city": pa.array([None if n % 5 == 4 else f"c{n % 3}" for n in rows]),
        "f": pa.array([None if n % 8 == 6 else n / 4 for n in rows], pa.float32()),
        "when": pa.array([n * 86_400_000 for n in rows], pa.timestamp("ms")),
    }
    pq.write_table(pa.table(columns), tmp_path / "table.parquet", row_group_size=9)
    return tmp_path / "table.parquet"


def deep(levels: int) -> Expression:
    """a + 1 + 1 + …"""
    found = ps.col("a")
    for _ in range(levels):
        found = found + 1
    return found


PLANS: dict[str, Callable[[ps.Dataset], ps.Dataset]] = {
    "in order": lambda data: computed(data).batch(8),
    "behind a shuffle": lambda data: computed(data.shuffle(seed=3)).batch(8),
    "below a shuffle": lambda data: computed(data).shuffle(seed=3).batch(8),
    "above a batch": lambda data: computed(data.shuffle(seed=3).batch(8)),
    "filtered": lambda data: computed(data).filter(ps.col("ratio") > 2).shuffle(seed=1).batch(4),
    "below and above a cache": lambda data: computed(computed(data).cache().with_columns(a=ps.col("a") + 1)).shuffle().batch(8),
    "behind a function": lambda data: computed(data.map(lambda batch: batch)).batch(8),
    "below a function": lambda data: computed(data).map(lambda batch: {**batch, "twice": batch["ratio"] * 2}).batch(8),
    "by a lane stage": lambda data: computed(data).filter(lambda b: b["ratio"] > 2, columns=["ratio"]).batch(4, steps=4, lanes=4),
    "sorted by one": lambda data: computed(data).sort("size").rename({"ratio": "x", "a": "ratio"}).batch(8),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANS)
def test_resuming_and_ranks(name: str) -> None:
    plan = PLANS[name](memory())
    promises.resume_is_exact(plan)
    promises.kept_batches_stay(plan)
    if name != "by a lane stage":  # a rank knows its own lanes alone
        promises.ranks_make_one_batch(plan)


def test_rows_are_those_of_numpy() -> None:
    batch = computed(memory()).head(ROWS)
    with np.errstate(all="ignore"):
        wanted = memory().head(ROWS)
        assert np.array_equal(batch["ratio"], wanted["a"] / wanted["b"], equal_nan=True)
    assert list(batch) == ["id", "a", "b", "s", "ratio", "long", "size"]
    assert batch["b"].dtype == np.uint8
    assert computed(memory()).spec["b"].dtype == "uint8"
    assert computed(memory()).head(5)["size"].to_pylist() == ["0", "1 ", "2 é", "large", "large"]


@pytest.mark.parametrize("options", [{"isolation": "process"}, {"cpus": 1}, {"memory": "1MB"}])
def test_anywhere_the_same(options: dict[str, Any]) -> None:
    plan = computed(memory().shuffle(seed=1)).batch(8)
    with ps.Loader(plan) as loader, ps.Loader(plan, **options) as other:
        for step, (one, same) in enumerate(zip(loader, other, strict=True)):
            assert_same(keep(same), keep(one), f"step {step}")


@pytest.mark.parametrize("name", PLANS)
def test_with_the_optimiser_and_without(name: str) -> None:
    plan = PLANS[name](memory())
    for one in (plan, plan.select("id", "size") if name != "sorted by one" else plan.select("id", "ratio")):
        made = []
        for rules in (RULES, ()):
            with with_rules(rules), ps.Loader(one, cpus=1) as loader:
                made.append([keep(batch) for batch, _ in zip(loader, range(4), strict=False)])
        for first, second in zip(*made, strict=True):
            assert_same(first, second)


def test_only_what_is_needed_is_read_and_computed() -> None:
    read, made, *_ = flow(optimize(computed(memory()).select("long").batch(4).root))
    assert dict(read.columns).keys() == {"s"}  # type: ignore[attr-defined]
    assert [*made.made] == ["long"]
    chosen = flow(optimize(computed(memory()).select("id").batch(4).root))
    assert not any(isinstance(node, WithColumns) for node in chosen)
    twice = (
        memory().with_columns(x=ps.col("a") * 2).with_columns(y=ps.col("x") + 1, z=ps.col("b") + 1).select("y").batch(4)
    )
    assert [(*node.made,) for node in flow(optimize(twice.root)) if node.made] == [("x",), ("y",)]


def test_rows_that_are_filtered_out_are_not_computed() -> None:
    data = memory().with_columns(q=7 // ps.col("b"))
    with pytest.raises(
        ps.DataError, match=r"sample 0: column 'q', \(7 // col\('b'\)\): a whole number is divided by 0; choose"
    ):
        data.head()
    left = data.filter(ps.col("b") > 0)
    assert left.filter(ps.col("q") == 7).head(3)["b"].tolist() == [1, 1, 1]


def test_a_function_filters_before_columns_at_which_it_does_not_look() -> None:
    data = computed(memory())
    seen = flow(optimize(data.filter(lambda batch: batch["id"] % 2 == 0, columns=["id"]).batch(4).root))
    assert [node.verb for node in seen] == ["read", "filter", "with_columns", "batch"]
    stays = flow(optimize(data.filter(lambda batch: batch["long"], columns=["long"]).batch(4).root))
    assert [node.verb for node in stays] == ["read", "with_columns", "filter", "batch"]
    bad = memory().with_columns(q=7 // ps.col("b")).filter(lambda batch: batch["b"] > 0, columns=["b"]).batch(4)
    with ps.Loader(bad) as loader:
        assert sum(len(batch["q"]) for batch in loader) == sum(n % 5 > 0 for n in range(ROWS))


def test_behind_a_function_types_do_not_depend_on_the_batch() -> None:
    ages = pa.array([1, 2, 3, 4, None, 6, 7, 8])
    data = ps.from_arrays({"age": ages}, nulls="arrow").map(lambda batch: batch).with_columns(z=ps.col("age") + 1)
    with ps.Loader(data.batch(4)) as loader:
        found = [batch["z"] for batch in loader]
    assert [type(one) for one in found] == [pa.Int64Array] * 2
    assert found[1].to_pylist() == [None, 7, 8, 9]


def test_verbs_that_choose_see_what_is_computed() -> None:
    data = computed(memory()).with_columns(twice=ps.col("ratio") * 2).rename({"twice": "four", "id": "twice"})
    with np.errstate(all="ignore"):
        wanted = np.arange(ROWS) * 1.5 / (np.arange(ROWS) % 5) * 2
    chosen = data.filter((ps.col("four") > 30) & ps.col("long"))
    assert chosen.head(99)["twice"].tolist() == [n for n in range(ROWS) if wanted[n] > 30 and n % 4 >= 2]
    assert len(data.filter(ps.col("size") == "large")) == sum(n % 5 > 2 for n in range(ROWS))
    parts = data.split({"one": 0.5, "two": 0.5}, stratify="size")
    assert sum(map(len, parts.values())) == ROWS
    assert data.balance("long", mode="under").head(99)["long"].mean() == 0.5
    with pytest.raises(ps.PlanError, match=r"filter: no column 'tvice'.*did you mean 'twice'"):
        data.filter(ps.col("tvice") > 1)


def test_buckets_by_what_is_computed() -> None:
    texts = ps.from_arrays(
        {"s": ["w " * (n % 6 + 1) for n in range(24)], "tokens": [[1] * (n % 6 + 1) for n in range(24)]}
    )
    data = texts.with_columns(words=(ps.col("s").str.len() / 2).cast("int64"))
    batches = [
        batch["words"].tolist()
        for batch in ps.Loader(data.shuffle(seed=1).batch_bucketed(4, by="words", boundaries=[4]))
    ]
    assert all(max(one) < 4 or min(one) >= 4 for one in batches)
    same = [
        batch["tokens"].shape for batch in ps.Loader(data.batch_bucketed(4, by=ps.col("words") * 2, boundaries=[8]))
    ]
    assert same == [batch["tokens"].shape for batch in ps.Loader(texts.batch_bucketed(4, by="tokens", boundaries=[4]))]


def test_states_tell_other_expressions_apart() -> None:
    plan = memory().with_columns(x=ps.col("a") * 2).batch(8)
    with ps.Loader(plan) as loader:
        state = loader.state_dict()
    with ps.Loader(memory().with_columns(x=ps.col("a") * 3).batch(8)) as other, pytest.raises(ps.StateError, match="x"):
        other.load_state_dict(state)
    assert SavedPlan.of(plan.root).plan[1].startswith("with_columns ")
    assert "with_columns x=(col('a') * 2)" in plan.explain()


# Nulls


@pytest.mark.parametrize("nulls", ["error", "nan", "arrow"])
def test_expressions_see_nulls_whatever_the_rule(table: Path, nulls: Any) -> None:
    data = ps.read(table, nulls=nulls)
    made = (
        data.with_columns(none=ps.col("age").is_null(), age=ps.col("age").fill_null(-1))
        .select("id", "none", "age")
        .head(40)
    )
    assert made["none"].tolist() == [n % 7 == 3 for n in range(40)]
    assert made["age"].tolist() == [-1 if n % 7 == 3 else n for n in range(40)]
    assert made["age"].dtype == np.int64
    whole = data.fill_null({"age": 0, "city": "?"}).shuffle(seed=1).fill_null({"f": ps.col("age") / 2})
    batch = whole.select("id", "age", "city", "f").head(40)
    assert batch["city"].null_count == 0
    assert isinstance(batch["f"], np.ndarray)
    assert not np.isnan(batch["f"]).any()


def test_nulls_that_are_left_meet_the_rule(table: Path) -> None:
    place = r"table.parquet, record 3: column 'z' is null; give it a value with fill_null, or leave such rows out with drop_nulls"
    with pytest.raises(ps.DataError, match=place):
        ps.read(table).with_columns(z=ps.col("age") + 1).select("z").head(9)
    with pytest.raises(ps.DataError, match=r"record 3: column 'age' is null"):
        ps.read(table).with_columns(z=ps.col("id") + 1).select("z", "age").head(9)
    assert len(ps.read(table).with_columns(z=ps.col("age") + 1).select("id").head(9)["id"]) == 9
    floats = ps.read(table, nulls="nan").with_columns(z=ps.col("age") + 1)
    assert str(floats.spec["z"]) == str(floats.spec["age"]) == "float64"
    assert np.isnan(floats.head(4)["z"]).tolist() == [False, False, False, True]
    arrow = ps.read(table, nulls="arrow").with_columns(z=ps.col("age") + 1)
    assert arrow.head(4)["z"].to_pylist() == [1, 2, 3, None]
    assert arrow.spec["z"].nullable
    assert isinstance(arrow.head(2)["z"], pa.Array), "the type does not depend on the rows of a batch"


def test_where_nulls_became_something_else_nobody_looks_for_them(table: Path) -> None:
    told = "what becomes of nulls in 'age' was decided where it is read"
    with pytest.raises(ps.PlanError, match=told):
        ps.read(table, nulls="mask").fill_null({"age": 0})
    with pytest.raises(ps.PlanError, match=told):
        ps.concat([ps.read(table)] * 2).with_columns(z=ps.col("age").is_null())
    both = ps.concat([ps.read(table).fill_null({"age": 0}).select("id", "age")] * 2)
    assert both.with_columns(z=ps.col("age") + 1).head(80)["z"].max() == 40


def test_drop_nulls(table: Path) -> None:
    for nulls in ("error", "nan", "mask", "arrow"):
        data = ps.read(table, nulls=nulls)
        assert len(data.drop_nulls("age")) == sum(n % 7 != 3 for n in range(40))
        assert len(data.drop_nulls()) == sum(n % 7 != 3 and n % 5 != 4 and n % 8 != 6 for n in range(40))
    data = ps.read(table)
    assert data.drop_nulls("id").root is data.root
    assert len(data.fill_null({"age": 0}).drop_nulls(["age", "city"])) == sum(n % 5 != 4 for n in range(40))
    assert len(data.with_columns(z=ps.col("age") + 1).drop_nulls("z").drop_nulls().head(40)["z"]) == len(
        data.drop_nulls()
    )
    with pytest.raises(ps.PlanError, match=r"drop_nulls: no column 'agee'.*did you mean 'age'"):
        data.drop_nulls("agee")
    with pytest.raises(
        ps.PlanError,
        match=r"drop_nulls: chooses among the rows as their sources have them, and map\(…\) stands before it",
    ):
        data.map(lambda batch: batch).drop_nulls()


def test_ranks_and_resuming_over_nulls(table: Path) -> None:
    for nulls in ("nan", "arrow"):
        plan = (
            ps.read(table, nulls=nulls)
            .with_columns(z=ps.col("age") * 2, n=ps.col("city").str.len())
            .shuffle(seed=2)
            .batch(8)
        )
        promises.resume_is_exact(plan)
        promises.ranks_make_one_batch(plan)


def test_frames_keep_nulls(table: Path) -> None:
    """As they do of a plan that computes nothing: matrices for trees hold missing values."""
    kept = with_kept_nulls(ps.read(table).with_columns(z=ps.col("age") + 1))
    assert kept.head(4)["z"].to_pylist() == [1, 2, 3, None]
    assert kept.head(4)["age"].null_count == 1


# Rows that cannot be


def test_bad_rows_are_named_and_left_out(tmp_path: Path) -> None:
    texts = ["1", "2", "x", "4", "5", "", "7", "8"]
    data = ps.from_arrays({"id": np.arange(8), "s": texts}).cast({"s": "float32"})
    with pytest.raises(
        ps.DataError,
        match=r"sample 2: column 's', col\('s'\).cast\('float32'\): 'x' is no float32; leave such rows out",
    ) as caught:
        data.head(8)
    assert caught.value.sample == 2
    with (
        ps.Loader(data.batch(4), on_error="substitute") as loader,
        pytest.warns(UserWarning, match="'x' is no float32"),
    ):
        assert all(np.isfinite(batch["s"]).all() for batch in loader)
    with (
        ps.Loader(data.batch(3, drop_last=True), on_error="skip") as loader,
        pytest.warns(UserWarning, match="sample 2"),
    ):
        assert not {2, 5} & {number for batch in loader for number in batch["id"].tolist()}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda d: d.with_columns(), "with_columns: no columns"),
        (lambda d: d.with_columns(x=ps.col("aa") + 1), r"with_columns: x=\(col\('aa'\) \+ 1\): no column 'aa'; there are id, a, b, s; did you mean 'a'"),
        (lambda d: d.with_columns(x=ps.col("a") + ps.col("s")), r"cannot be computed of float64 and large_string: arithmetic is for numbers"),
        (lambda d: d.with_columns(x="s"), r"x='s' could be a column or a value; write penstock.col\('s'\) or penstock.lit\('s'\)"),
        (lambda d: d.with_columns(x=lambda batch: batch), "A function goes to map"),
        (lambda d: d.with_columns(x=np.zeros(41)), "an array to zip"),
        (lambda d: d.with_columns([ps.col("a")]), "name what is computed"),
        (lambda d: d.with_columns({"x": 1}, x=2), "'x' is given twice"),
        (lambda d: d.with_columns(x=ps.lit(1) + 1), "names no column; for one value in all rows write penstock.lit"),
        (lambda d: d.with_columns(x=ps.lit(2**64)), "which is no column; use numbers of at most 64 bits"),
        (lambda d: d.with_columns(x=ps.col("s").dt.year()), "write str.to_datetime|of text write str.to_datetime"),
        (lambda d: d.with_columns(x=ps.col("s").str.contains("(")), "cannot be computed"),
        (lambda d: d.with_columns(x=ps.col("s").str.replace("[", "")), "cannot be computed"),
        (lambda d: d.with_columns(x=deep(3000)), "too many operations inside each other"),
        (lambda d: d.rename({"c": "d"}), "rename: no column 'c'"),
        (lambda d: d.rename({"a": "b"}), "rename: 'a' and 'b' would both be 'b'"),
        (lambda d: d.rename({"a": "x", "b": "x"}), "rename: 'a' and 'b' would both be 'x'"),
        (lambda d: d.rename("a"), "pass old and new names"),
        (lambda d: d.map(lambda b: b).rename({"a": "x"}), "rename: the columns after a function are not known"),
        (lambda d: d.cast({"a": "decimal"}), "cast: no type 'decimal'"),
        (lambda d: d.cast({"z": "int32"}), "cast: z=.*no column 'z'"),
        (lambda d: d.cast("int32"), "cast.*pass columns and their types"),
        (lambda d: d.fill_null(0), "no column takes it"),
        (lambda d: d.fill_null({}), "pass a value"),
        (lambda d: d.fill_null({"z": 0}), "no column 'z'"),
        (lambda d: d.filter(ps.col("a").cast("string").str.contains("[")), "cannot be computed"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_at_once(make: Callable[[ps.Dataset], ps.Dataset], message: str) -> None:
    with pytest.raises(ps.PlanError, match=message):
        make(memory())


def test_rename_at_once() -> None:
    swapped = memory().rename({"a": "b", "b": "a"})
    assert list(swapped.head(3)) == ["id", "b", "a", "s"]
    assert swapped.head(3)["b"].tolist() == [0, 1.5, 3]
    assert (
        memory().rename({"a": "a"}).nodes == memory().rename({"a": "a"}).nodes
        or len(memory().rename({"a": "a"}).nodes) == 1
    )
    images = ps.from_arrays({"image": np.arange(24).reshape(2, 3, 4), "t": [[1], [2, 3]]}).rename(
        {"image": "pixels", "t": "tokens"}
    )
    assert images.head()["pixels"].shape == (2, 3, 4)
    assert images.head()["tokens"].to_pylist() == [[1], [2, 3]]


def test_columns_do_not_share_memory() -> None:
    data = memory().with_columns(c=ps.col("a"), d=ps.col("a").fill_null(0), e=ps.col("a").cast("float64"))
    batch = data.head(4)
    batch["a"][:] = -1
    for name in "cde":
        assert batch[name].tolist() == [0, 1.5, 3, 4.5]


def test_rows_of_several_values() -> None:
    data = ps.from_arrays({"v": np.arange(6, dtype=np.uint8).reshape(3, 2), "w": np.arange(3), "u": np.ones((3, 2))})
    assert data.with_columns(v=ps.col("v") / 255, f=ps.col("v").cast("float32")).head()["f"].shape == (3, 2)
    with pytest.raises(ps.PlanError, match="several values"):
        data.with_columns(x=ps.col("v") + ps.col("w"))
    with pytest.raises(ps.PlanError, match="several values"):
        data.with_columns(x=ps.col("v") + ps.col("u"))


@pytest.mark.parametrize("values", [[math.nan], [math.inf, -math.inf], [2.0**53, -0.0]])
def test_odd_numbers(values: list[float]) -> None:
    data = ps.from_arrays({"x": np.array(values)}).with_columns(
        y=ps.col("x") * 1, z=ps.col("x") / 0, i=ps.col("x").is_finite()
    )
    batch = data.head()
    with np.errstate(all="ignore"):
        assert np.array_equal(batch["z"], np.array(values) / 0, equal_nan=True)
    assert np.array_equal(batch["y"], values, equal_nan=True)


def test_a_column_of_nothing_but_nulls() -> None:
    data = ps.from_arrays(
        {"x": pa.array([None, None], pa.float64()), "s": pa.array([None, None], pa.string())}, nulls="arrow"
    )
    made = data.with_columns(
        y=ps.col("x") + 1, n=ps.col("s").str.len(), t=ps.when(ps.col("x") > 0).then(1).otherwise(2)
    ).head()
    assert made["y"].to_pylist() == made["n"].to_pylist() == [None, None]
    assert made["t"].tolist() == [2, 2]
    with pytest.raises(ps.PlanError, match="true for none"):
        data.drop_nulls()


def test_dates_of_a_file(table: Path) -> None:
    data = ps.read(table).with_columns(
        day=ps.col("when").from_epoch("ms").dt.day(), m=ps.col("when").from_epoch("ms").dt.month()
    )
    assert data.filter(ps.col("m") == 2).select("day").head(3)["day"].tolist() == [1, 2, 3]


# CSV


def test_missing_values_and_commas_of_csv(tmp_path: Path) -> None:
    with (tmp_path / "prices.csv").open("w", newline="") as file:
        csv.writer(file, delimiter=";").writerows(
            [("name", "price", "n"), ("a", "1,5", "1"), ("-", "-", "2"), ("c", "20,25", "unknown")]
        )
    options = {"delimiter": ";", "decimal": ",", "na_values": ["-", "unknown"]}
    data = ps.read(tmp_path / "prices.csv", **options)
    assert data.fill_null(0).select("price").head()["price"].tolist() == [1.5, 0, 20.25]
    assert data.drop_nulls().head()["n"].tolist() == [1]
    assert data.drop_nulls("name").select("name").head()["name"].to_pylist() == ["a", "c"]
    assert data.fill_null({"name": "?"}).select("name").head()["name"].to_pylist() == ["a", "?", "c"]
    with pytest.raises(ps.DataError, match=r"record 1, .*column 'name' is null"):
        data.select("name").head()
    for bad, message in (
        ({"decimal": ","}, "delimiter=';'"),
        ({"decimal": "x"}, "choose"),
        ({"na_values": "-"}, "a list of texts"),
    ):
        with pytest.raises(ps.PlanError, match=message):
            ps.read(tmp_path / "prices.csv", **bad)


def test_text_of_csv_is_missing_where_it_is_named(tmp_path: Path) -> None:
    """As pandas has it without its own list; in records behind those that types are learnt from, too."""
    texts = ["Ulm", "", "n/a", "NA", "-"] * 500
    (tmp_path / "cities.csv").write_text("city,n\n" + "".join(f"{text},{n}\n" for n, text in enumerate(texts)))
    for named in ([], ["n/a"], ["", "-"]):
        data = ps.read(tmp_path / "cities.csv", na_values=named, nulls="arrow").select("city")
        frame = pd.read_csv(tmp_path / "cities.csv", na_values=named, keep_default_na=False, dtype={"city": object})
        found = [one for batch in ps.Loader(data.batch(100)) for one in batch["city"].to_pylist()]
        assert found == frame["city"].astype(object).where(frame["city"].notna(), None).tolist(), named
    (tmp_path / "late.csv").write_text("city\n" + "Ulm\n" * 1500 + "-\n")
    late = ps.read(tmp_path / "late.csv", na_values=["-"])
    with pytest.raises(ps.DataError, match=r"record 1,500, .*column 'city' is null"):
        list(ps.Loader(late.batch(100)))
    assert len(late.drop_nulls()) == 1500
    as_bytes = {"city": ps.Column(feature="city", dtype="bytes")}
    assert (
        bytes(ps.read(tmp_path / "late.csv", na_values=["-"], columns=as_bytes).skip(1500).head(1)["city"][0].as_py())
        == b"-"
    )


# Pieces


def test_long_batches_are_computed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """With nulls in one of them, and a bad row in the last."""
    monkeypatch.setattr("penstock.stages.with_columns._PIECE_ROWS", 1 << 13)
    rows = 40_000
    ages = pa.array([None if 20_000 < n < 20_010 else n for n in range(rows)], pa.int64())
    texts = pa.array([str(n) if n != 39_990 else "x" for n in range(rows)], pa.large_string())
    data = ps.from_arrays({"age": ages, "s": texts}, nulls="arrow")
    made = data.with_columns(
        z=ps.col("age") * 2 + 1,
        n=ps.col("s").str.len() + ps.col("age").fill_null(0),
        up=ps.col("s") + "!",
        big=ps.when(ps.col("age") > 30_000).then("big").otherwise("small"),
    )
    batch = made.head(rows)
    assert batch["z"].to_pylist() == [None if n is None else 2 * n + 1 for n in ages.to_pylist()]
    assert batch["n"].tolist() == [len(s) + (n or 0) for n, s in zip(ages.to_pylist(), texts.to_pylist(), strict=True)]
    assert batch["up"].to_pylist() == [f"{s}!" for s in texts.to_pylist()]
    assert batch["big"].to_pylist() == ["big" if n and n > 30_000 else "small" for n in ages.to_pylist()]
    with pytest.raises(ps.DataError, match=r"sample 39,?990: column 'i'.*'x' is no int32"):
        data.with_columns(i=ps.col("s").cast("int32")).head(rows)


def test_columns_of_one_input_lie_apart() -> None:
    """Expressions share what they read; what they give can be written into, and no other column changes."""
    data = ps.from_arrays(pa.table({"x": pa.array([1.0, None, 3.0])}), nulls="arrow")
    x = ps.col("x")
    made = data.with_columns(
        known=x.is_not_null(), missing=x.is_null(), again=x.is_null(), twice=x * 2, filled=x.fill_null(0.0)
    )
    with ps.Loader(made.batch(3)) as loader:
        batch = next(iter(loader))
    batch["missing"][:] = False
    batch["filled"][:] = 7
    assert batch["again"].tolist() == [False, True, False]
    assert batch["known"].tolist() == [True, False, True]
    assert batch["twice"].to_pylist() == [2.0, None, 6.0]
    assert batch["x"].to_pylist() == [1.0, None, 3.0]
    nan = ps.from_arrays(pa.table({"x": pa.array([float("nan"), None, 3.0])}), nulls="arrow").with_columns(y=x + 1)
    (first, second, third) = nan.head(3)["y"].to_pylist()
    assert (str(first), second, third) == ("nan", None, 4.0)
