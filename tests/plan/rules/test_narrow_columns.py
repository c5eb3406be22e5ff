"""Columns that nobody uses are neither read nor transformed, and what is left is the same."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from conftest import jpeg
from penstock.core.columns.spec import Columns, Field, Ids, Spans, Spec
from penstock.plan.nodes import Read, Select, describe
from penstock.plan.rules import RULES, Change, optimize
from penstock.plan.tree import find, flow, leaves
from penstock.source.manifest import Manifest
from penstock.source.protocol import Access, Allocate
from support import cases
from support.promises import assert_same, keep
from support.seams import lowered_of, with_rules

#: Of these all columns come, and the others are dropped then: objects and tables of a user's own, and keys of one JSON member.
WHOLE = {"objects", "iterable", "blocks", "tables", "tokens"}


def batches(dataset: ps.Dataset, **options: Any) -> list[dict[str, Any]]:
    with ps.Loader(dataset, **options) as loader:
        return [keep(batch) for batch in loader]


def runs(dataset: ps.Dataset) -> list[str]:
    """The plan as it runs, its verbs without what they read."""
    return [describe(node).partition(" where")[0] for node in flow(optimize(dataset.root))]


def read_columns(dataset: ps.Dataset) -> list[list[str]]:
    """The columns that each source gives."""
    return [list(leaf.opened.source.spec) for leaf in leaves(optimize(dataset.root))]


def table(rows: int = 24) -> ps.Dataset:
    return ps.from_arrays(
        {
            "id": np.arange(rows),
            "x": np.arange(rows) * 0.5,
            "tokens": pa.array([list(range(row % 5)) for row in range(rows)], pa.large_list(pa.int64())),
            "image": [jpeg(row, 20, 16) for row in range(rows)],
        }
    )


# Sources


@pytest.mark.parametrize("source", sorted(cases.SOURCES))
def test_every_source(source: str, tmp_path: Path) -> None:
    dataset = ps.Dataset(cases.SOURCES[source](40, tmp_path).nodes[0])
    names = list(dataset.spec)
    whole = batches(dataset.shuffle(seed=1).batch(16)) if source != "iterable" else batches(dataset.batch(16))
    for some in (names[::-1], names[:1], names[-1:]):
        chosen = dataset.select(*some)
        chosen = (chosen.shuffle(seed=1) if source != "iterable" else chosen).batch(16)
        for found, wanted in zip(batches(chosen), whole, strict=True):
            assert_same(found, {name: wanted[name] for name in some}, f"{source}, {some}")
        if source not in WHOLE:
            assert read_columns(chosen) == [some], "it reads what is selected"


def test_parquet_reads_the_chosen_pages_alone(tmp_path: Path) -> None:
    path = tmp_path / "0.parquet"
    data = np.random.default_rng(0)
    pq.write_table(pa.table({"id": range(1000), "noise": [data.bytes(1000) for _ in range(1000)]}), path)
    storage = cases.MemoryStorage({"0.parquet": path.read_bytes()})
    dataset = ps.read("0.parquet", storage=storage)
    storage.reads.clear()
    assert [len(batch["id"]) for batch in batches(dataset.drop("noise").batch(500))] == [500, 500]
    assert 0 < sum(size for _, _, size in storage.reads) < 200_000, "a million bytes of the other column were left out"


def test_files_are_not_opened_for_their_classes(tmp_path: Path) -> None:
    files = {f"{name}/{number}.jpg": jpeg(number, 8, 8) for name in ("cat", "dog") for number in range(4)}
    storage = cases.MemoryStorage(files)
    dataset = ps.read("", storage=storage)
    storage.reads.clear()
    (batch,) = batches(dataset.select("label").batch(8))
    assert batch["label"].tolist() == [0] * 4 + [1] * 4
    assert storage.reads == []


@dataclass(frozen=True, eq=False)
class Own:
    """A source of a format that knows nothing of some columns alone."""

    manifest: Manifest
    spec: Spec = field(default_factory=lambda: {"id": Field("int64"), "data": Field("bytes")})
    access: Access = Access.RECORDS

    def parse(self, samples: Ids, records: Spans, allocate: Allocate, *, threads: int = 1) -> Columns:
        return {"id": samples, "data": records}


def test_a_format_that_reads_all_columns(tmp_path: Path) -> None:
    files = {f"{number}.bin": bytes([number]) for number in range(8)}
    dataset = ps.read("", storage=cases.MemoryStorage(files), format=own_format())
    mixed = ps.mix([dataset, dataset]).select("id").batch(4)
    assert [find(below, Select) is not None for below in find_mix(mixed).inputs] == [True, True], (
        "dropped before they are joined"
    )
    assert [list(batch) for batch in batches(mixed)] == [["id"]] * 4


@dataclass
class Comparing:
    """A source that can be narrowed, of a class whose objects have no hash."""

    manifest: Manifest
    spec: Spec = field(default_factory=lambda: {"id": Field("int64"), "data": Field("bytes")})
    access: Access = Access.RECORDS

    def only(self, names: Any) -> Comparing:
        return Comparing(self.manifest, {name: self.spec[name] for name in names})

    def parse(self, samples: Ids, records: Spans, allocate: Allocate, *, threads: int = 1) -> Columns:
        columns: Columns = {"id": samples, "data": records}
        return {name: columns[name] for name in self.spec}


def test_a_source_without_a_hash() -> None:
    storage = cases.MemoryStorage({f"{number}.bin": bytes([number]) for number in range(8)})

    def opened(shards: Any, read: Any, options: Any) -> Comparing:
        return Comparing(Manifest("comparing", shards, np.arange(len(shards) + 1)))

    data = ps.read("", storage=storage, format=ps.source.Format(name="comparing", open=opened))
    assert read_columns(data.select("id")) == [["id"]]
    assert [list(batch) for batch in batches(data.select("id").batch(4))] == [["id"]] * 2


def own_format() -> ps.source.Format:
    def opened(shards: Any, read: Any, options: Any) -> Own:
        return Own(Manifest("own", shards, np.arange(len(shards) + 1)))

    return ps.source.Format(name="own", open=opened)


def find_mix(dataset: ps.Dataset) -> Any:
    return next(node for node in flow(optimize(dataset.root)) if node.verb == "mix")


# Work


def test_what_is_dropped_is_not_transformed() -> None:
    chosen = (
        table().transform(image=[ps.image.Decode(), ps.image.CenterCrop(8)]).shuffle(seed=0).select("x", "id").batch(8)
    )
    assert runs(chosen) == ["read", "shuffle", "batch size=8"]
    assert read_columns(chosen) == [["x", "id"]]
    with ps.Loader(chosen) as loader:
        assert [list(batch) for batch in loader] == [["x", "id"]] * 3
        assert [stage.name for stage in lowered_of(loader).stages] == ["gather", "deliver"]


@pytest.mark.parametrize("order", [["image", "other"], ["other"], ["other", "id"], ["id", "other", "image"]])
def test_random_numbers_stay(order: list[str]) -> None:
    """A chain draws the same whether others that were written before it run or not."""
    data = table()
    images = np.random.default_rng(0).integers(0, 255, (24, 9, 9, 3), np.uint8)
    data = ps.zip([data, ps.from_arrays({"other": images, "third": images})])
    flips = [ps.image.RandomHorizontalFlip(), ps.image.RandomVerticalFlip()]
    whole = (
        data.transform(image=[ps.image.Decode(), ps.image.CenterCrop(8), *flips], third=flips, draws="apart")
        .shuffle(seed=3)
        .transform(other=flips, draws="apart")
        .map_rows(noisy)
    )
    wanted = batches(whole.batch(8))
    chosen = data.transform(
        image=[ps.image.Decode(), ps.image.CenterCrop(8), *flips], third=flips, draws="apart"
    ).shuffle(seed=3)
    chosen = chosen.transform(other=flips, draws="apart").select(*order).batch(8)
    for found, other in zip(batches(chosen), wanted, strict=True):
        assert_same(found, {name: other[name] for name in order})
    with with_rules(()):
        for found, other in zip(batches(chosen), wanted, strict=True):
            assert_same(found, {name: other[name] for name in order})


def noisy(row: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    return {**row, "noise": rng.integers(1 << 40)}


def test_functions_get_all_columns_of_their_input() -> None:
    seen = set[tuple[str, ...]]()

    def look(batch: dict[str, Any]) -> dict[str, Any]:
        seen.add((*batch,))
        return {**batch, "y": batch["x"] * 2}

    data = table().select("x", "tokens", "id")
    assert [list(batch) for batch in batches(data.map(look).select("y").batch(12))] == [["y"]] * 2
    assert seen == {("x", "tokens", "id")}
    assert read_columns(data.map(look).select("y")) == [["x", "tokens", "id"]]


def test_pack_reads_its_columns() -> None:
    packed = table().shuffle(seed=0).pack("tokens", length=7).batch(2, steps=3)
    assert read_columns(packed) == [["tokens"]]
    with with_rules(()):
        wanted = batches(packed)
    for found, other in zip(batches(packed), wanted, strict=True):
        assert_same(found, other)


@pytest.mark.parametrize(
    ("chosen", "read", "pads"),
    [
        (["tokens_mask", "id"], ["tokens", "id"], ["tokens"]),
        (["x", "tokens"], ["x", "tokens"], ["tokens"]),
        (["other_lengths"], ["other"], ["other"]),
        (["id"], ["id"], []),
    ],
)
def test_padded(chosen: list[str], read: list[str], pads: list[str]) -> None:
    lists = pa.array([list(range(row % 3)) for row in range(24)], pa.large_list(pa.int32()))
    data = ps.zip([table(), ps.from_arrays({"other": lists})])
    padded = data.batch_padded(8, columns=["tokens", "other"], padding_value={"tokens": 7, "other": 3})
    wanted = batches(padded)
    plan = padded.select(*chosen)
    for found, other in zip(batches(plan), wanted, strict=True):
        assert_same(found, {name: other[name] for name in chosen})
    (first, _), made = read_columns(plan), optimize(plan.root)
    assert {*first} <= {*read} | {"id"}
    assert [list(node.columns or ()) for node in flow(made) if node.verb == "pad"] == ([pads] if pads else [])


def test_columns_of_a_mix_that_differ_in_order() -> None:
    data = table()
    mixed = ps.mix([data, data.select("image", "tokens", "x", "id")], source="source").drop("image", "tokens").batch(8)
    assert read_columns(mixed) == [["id", "x"]] * 2
    assert {tuple(batch) for batch in batches(mixed)} == {("id", "x", "source")}
    rows = ps.mix([data, data], source="source").select("source").batch(8)
    assert read_columns(rows) == [["id"]] * 2, "some column counts the rows"
    assert {tuple(batch) for batch in batches(rows)} == {("source",)}


def test_functions_in_one_dataset_of_a_mix() -> None:
    data = table()
    mixed = ps.mix([data.map(lambda batch: {**batch, "y": batch["x"]}).select("x", "id"), data.select("id", "x")])
    plan = mixed.select("x").batch(8)
    assert {tuple(batch) for batch in batches(plan)} == {("x",)}


def test_a_zip_of_which_one_side_is_not_used() -> None:
    other = ps.from_arrays({"mate": np.arange(24), "long": np.zeros((24, 100))})
    plan = ps.zip([table(), other]).select("id").batch(8)
    assert read_columns(plan) == [["id"], ["mate"]]
    assert [batch["id"].tolist() for batch in batches(plan)] == np.arange(24).reshape(3, 8).tolist()


def test_expressions_see_what_is_selected() -> None:
    data = table()
    plan = data.filter(ps.col("x") >= 4).select("id").batch(4)
    assert read_columns(plan) == [["id"]]
    assert np.concatenate([batch["id"] for batch in batches(plan)]).tolist() == list(range(8, 24))
    with pytest.raises(ps.PlanError, match="no column 'x'; there are id"):
        data.select("id").filter(ps.col("x") >= 4)
    assert len(data.select("id", "x").filter(ps.col("x") >= 4)) == 16
    bucketed = data.select("id").batch_bucketed(4, by="tokens", boundaries=[2])
    assert sum(len(batch["id"]) for batch in batches(bucketed)) == 24


def test_bad_values_that_nobody_wants(tmp_path: Path) -> None:
    (tmp_path / "0.jsonl").write_text('{"id": 1, "x": 1}\n{"id": 2}\n')
    data = ps.read(tmp_path)
    with pytest.raises(ps.DataError):
        batches(data.batch(2))
    assert batches(data.select("id").batch(2))[0]["id"].tolist() == [1, 2]
    (found,) = batches(data.drop("x").batch(2), on_error="substitute")
    assert found["id"].tolist() == [1, 2]


@pytest.mark.filterwarnings("ignore:penstock")
@pytest.mark.parametrize("on_error", ["substitute", "skip"])
def test_bad_rows_below_a_select(on_error: str) -> None:
    """Rows that take the places of bad ones, or are left out, have the selected columns as well."""
    images = [b"no picture" if row % 9 == 4 else jpeg(row, 20, 16) for row in range(24)]
    data = ps.from_arrays({"id": np.arange(24), "image": images, "x": np.arange(24)})
    decoded = data.transform(image=[ps.image.Decode(), ps.image.CenterCrop(8)])
    whole = decoded.map_rows(refusing).shuffle(seed=0).batch(6, steps=4)
    chosen = decoded.select("image", "id").map_rows(refusing).shuffle(seed=0).select("id", "image").batch(6, steps=4)
    wanted = batches(whole, on_error=on_error)
    for rules in (RULES, ()):
        with with_rules(rules):
            for found, other in zip(batches(chosen, on_error=on_error), wanted, strict=True):
                assert_same(found, {name: other[name] for name in ("id", "image")})


def refusing(row: dict[str, Any]) -> dict[str, Any]:
    if row["id"] % 7 == 3:
        raise ps.DataError("no good")
    return row


# States, explain, errors


def test_states_know_what_was_written(tmp_path: Path) -> None:
    plan = table().shuffle(seed=0).select("x", "id").batch(8)
    with ps.Loader(plan) as loader:
        next(iter(loader))
        state = loader.state_dict()
    with with_rules(()), ps.Loader(plan) as loader:
        loader.load_state_dict(state)
        rest = [keep(batch) for batch in loader]
    for found, wanted in zip(rest, batches(plan)[1:], strict=True):
        assert_same(found, wanted)
    with ps.Loader(table().shuffle(seed=0).select("id", "x").batch(8)) as loader:
        with pytest.raises(ps.StateError, match="select"):
            loader.load_state_dict(state)
        with pytest.warns(UserWarning, match="columns"):
            loader.load_state_dict(state, strict=False)


def test_explain_says_why() -> None:
    plan = table().transform(image=[ps.image.Decode()]).select("id").batch(8)
    text = plan.explain()
    assert "columns that nobody uses are not read, and nothing is made of them: " in text
    changed = text.partition("Changed\n")[2].partition("\n\n")[0].splitlines()
    assert len(changed) == 2
    assert "Decode" in changed[0]
    assert changed[0].endswith("→ read where=memory format=arrays columns=[id]")
    changes = list[Change]()
    optimize(plan.root, changes=changes)
    assert [str(change) for change in changes] == [line.strip() for line in changed]
    assert "Changed" not in table().batch(8).explain()


def test_loaders_share_what_was_decoded(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": range(100), "x": range(100)}), tmp_path / "0.parquet")
    plan = ps.read(tmp_path).select("x").batch(10)
    first, second = (find(optimize(plan.root), Read) for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.opened.source is second.opened.source


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda data: data.select("imag"), "no column 'imag'.*did you mean 'image'"),
        (lambda data: data.select(), "at least one"),
        (lambda data: data.select("x", "x"), "twice"),
        (lambda data: data.select([0, 1, 2]), "names of columns; rows are chosen by take"),
        (lambda data: data.select(0, 1), "names of columns"),
        (lambda data: data.select(3), "names of columns"),
        (lambda data: data.select(None), "names of columns"),
        (lambda data: data.select(ps.col("x") > 3), "names of columns"),
        (lambda data: data.drop("y"), "no column 'y'"),
        (lambda data: data.drop("x", "id", "tokens", "image"), "none is left"),
        (lambda data: data.map(dict).drop("x"), "write select"),
        (lambda data: data.select("x").transform(image=[ps.image.Decode()]), "no column 'image'"),
        (lambda data: data.select("x").pack("tokens", length=8), "tokens"),
        (lambda data: ps.mix([data, data.drop("x")]), "column 'x'"),
    ],
)
def test_what_cannot_be(wrong: Any, says: str) -> None:
    with pytest.raises(ps.PlanError, match=says):
        wrong(table())


def test_a_column_that_a_function_did_not_make() -> None:
    plan = table().map(lambda batch: {"y": batch["x"]}).select("yy").batch(8)
    with pytest.raises(
        ps.PlanError, match="select: no column 'yy'; the function before it returned y; did you mean 'y'"
    ):
        batches(plan)
