"""Random plans of all verbs, for hypothesis: each is a line of code, so that a failure prints what makes it again.

`build(line)` makes the dataset; `NAMES` holds what a line may name. A verb that the library refuses is left out, and counted.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

import penstock as ps
from penstock.order.lanes import divisors
from support import tfrecords

Rows = Mapping[str, Any]
Model = Callable[[list[int]], list[int]]
Draw = Callable[[st.SearchStrategy[Any]], Any]

SIZES = (1, 2, 3, 4, 6, 8, 8, 12, 12, 16, 24, 24, 30, 48, 64)
DEPTH = 4
STAGES = 3


# Data: all of a row follows from its id, and no two leaves share one


def number_of(row: int) -> int:
    return row * 7 % 31


def text_of(row: int) -> str:
    return "word " * (row % 4) + str(row)


def tokens_of(row: int) -> list[int]:
    return list(range(row, row + row * 5 % 9))


def table(rows: int, first: int) -> pa.Table:
    ids = range(first, first + rows)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "x": pa.array(map(number_of, ids), pa.int64()),
            "text": pa.array(map(text_of, ids), pa.large_string()),
            "tokens": pa.array(map(tokens_of, ids), pa.large_list(pa.int64())),
        }
    )


@functools.cache
def memory(rows: int, first: int) -> ps.Dataset:
    columns = {name: column.combine_chunks() for name, column in zip(COLUMNS, table(rows, first).columns, strict=True)}
    return ps.from_arrays({**columns, "id": columns["id"].to_numpy(), "x": columns["x"].to_numpy()})


@functools.cache
def _folder() -> Path:
    path = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, path)
    return path


@functools.cache
def lines(rows: int, first: int) -> ps.Dataset:
    folder = _folder() / f"lines {rows} {first}"
    folder.mkdir()
    texts = [json.dumps(row) + "\n" for row in table(rows, first).to_pylist()]
    (folder / "0.jsonl").write_text("".join(texts[: rows // 3]))
    (folder / "1.jsonl").write_text("".join(texts[rows // 3 :]))
    return ps.read(folder)


@functools.cache
def parquet(rows: int, first: int) -> ps.Dataset:
    path = _folder() / f"{rows} {first}.parquet"
    pq.write_table(table(rows, first), path, row_group_size=7)
    return ps.read(path)


@functools.cache
def records(rows: int, first: int) -> ps.Dataset:
    path = _folder() / f"{rows} {first}.tfrecord"
    examples = [
        tfrecords.example(
            id=tfrecords.integers(row["id"]),
            x=tfrecords.integers(row["x"]),
            text=tfrecords.texts(row["text"].encode()),
            tokens=tfrecords.integers(*row["tokens"]),
        )
        for row in table(rows, first).to_pylist()
    ]
    tfrecords.write(path, examples)
    columns = {name: ps.Column(feature=name) for name in COLUMNS}
    columns["text"] = ps.Column(feature="text", dtype="string")
    columns["tokens"] = ps.Column(feature="tokens", shape=(None,))
    return ps.read(path, columns=columns)


COLUMNS = ("id", "x", "text", "tokens")
#: Few files, so that each is written once.
FILES = ((lines, 40, 1000), (lines, 9, 1100), (parquet, 33, 1200), (parquet, 60, 1300), (records, 29, 1400))


# Functions: what they do with a row depends on the row alone, but for those of groups


def doubled(batch: Rows) -> Rows:
    return {**batch, "x": batch["x"] * 2 + 1}


def lessened(row: Rows) -> Rows:
    return {**row, "x": row["x"] - 3}


def noisy(row: Rows, rng: np.random.Generator) -> Rows:
    return {**row, "x": row["x"] + rng.integers(1000)}


def plain(batch: Rows) -> Rows:
    return {name: batch[name] for name in COLUMNS}


def half(batch: Rows) -> Any:
    return batch["id"] * 2_654_435_761 % 64 < 32


def most(batch: Rows) -> Any:
    return batch["id"] % 7 != 0


def opening(batch: Rows) -> Any:
    return batch["tokens"][:, 0] % 5 != 1


def negative(batch: Rows) -> Rows:
    return {**batch, "tokens": -batch["tokens"]}


def _taken(batch: Rows, rows: Any) -> Rows:
    return {
        name: column.take(pa.array(rows)) if isinstance(column, pa.Array) else column[rows]
        for name, column in batch.items()
    }


def some_twice(batch: Rows) -> Rows:
    """None, one or two of each."""
    return _taken(batch, np.repeat(np.arange(len(batch["id"])), batch["id"] % 3))


def in_groups(batch: Rows) -> Rows:
    """Backwards, and without some that depend on the first: what comes out depends on which rows are together."""
    return _taken(batch, np.arange(len(batch["id"]))[int(batch["id"][0]) % 3 :][::-1])


NAMES: dict[str, Any] = {
    made.__name__: made
    for made in (memory, lines, parquet, records, doubled, lessened, noisy, plain, half, most, opening, negative, some_twice, in_groups)
} | {"ps": ps, "np": np}  # fmt: skip


def build(code: str, it: ps.Dataset | None = None) -> ps.Dataset:
    """The dataset that a line of code makes, of `it` where that is named."""
    return eval(code, {**NAMES, "it": it})


# Plans


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A dataset, the code that makes it, and what is known of it.

    row_ids: the column "id" of every row of its sources, by row id. ids: that column in an epoch, where it is known; ordered: in this order.
    """

    code: str
    dataset: ps.Dataset
    row_ids: tuple[int, ...]
    ids: tuple[int, ...] | None
    ordered: bool = True
    stages: int = 0
    packed: bool = False
    columns: tuple[str, ...] = COLUMNS
    size: int = 0
    last: Literal["", "drop_last", "pad", "wrap"] = ""
    stepped: bool = False
    refused: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return self.code

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        printer.text(self.code)  # hypothesis would print every field

    def then(self, verb: str, **known: Any) -> Plan:
        """One verb more; PlanError where the library refuses it."""
        return replace(self, dataset=build(f"it.{verb}", self.dataset), code=f"{self.code}.{verb}", **known)

    @property
    def staged(self) -> bool:
        """Whether lane stages decide which rows there are."""
        return self.stages > 0

    def known(self, model: Model) -> dict[str, Any]:
        """What is known after a verb that chooses rows by their order."""
        return {"ids": tuple(model(list(self.ids))) if self.ids is not None and self.ordered else None}


@st.composite
def plans(draw: Draw) -> Plan | None:
    """A plan that ends with a batch; None where the library refused every batch of it."""
    size = draw(st.sampled_from(SIZES))
    tree = _tree(draw, DEPTH, size)
    for few_lanes in (False, False, True, True):
        try:
            return _batched(draw, tree, size, few_lanes=few_lanes)
        except ps.PlanError as error:
            tree = replace(tree, refused=(*tree.refused, str(error)))
    return None


def worlds_of(plan: Plan) -> list[int]:
    """The numbers of ranks that share a global batch; of lane stages, each with threads of its own, not all at once."""
    return [world for world in divisors(plan.size) if world <= max(3, 64 >> (2 * plan.stages))]


def _tree(draw: Draw, depth: int, size: int) -> Plan:
    kind = draw(st.sampled_from(("leaf", "below", "concat", "mix", "mix"))) if depth else "leaf"
    if kind == "leaf":
        plan = _leaf(draw)
    elif kind == "below":
        plan = _tree(draw, depth - 1, size)
    else:
        plan = _joined(draw, kind, [_tree(draw, depth - 1, size) for _ in range(draw(st.integers(1, 3)))], size)
    for _ in range(draw(st.integers(0, 3))):
        plan = _more(draw, plan)
    return plan


def _leaf(draw: Draw) -> Plan:
    if draw(st.integers(0, 4)) == 4:
        made, rows, first = draw(st.sampled_from(FILES))
    else:
        made, rows, first = memory, draw(st.integers(1, 90)), 100 * draw(st.integers(0, 3))
    code, ids = f"{made.__name__}({rows}, {first})", tuple(range(first, first + rows))
    return Plan(code=code, dataset=build(code), row_ids=ids, ids=ids)


def _joined(draw: Draw, verb: str, inputs: Sequence[Plan], size: int) -> Plan:
    """A concat or mix of as many of the inputs as can be."""
    refused = tuple(reason for one in inputs for reason in one.refused)
    try:
        inputs = _few_stages(_alike(draw, inputs))
        code, has_source = _join(draw, verb, inputs, size)
        dataset = build(code)
    except ps.PlanError as error:
        return replace(inputs[0], refused=(*refused, str(error)))
    known = verb == "concat" and all(one.ids is not None for one in inputs)
    return replace(
        inputs[0],
        code=code,
        dataset=dataset,
        row_ids=tuple(row for one in inputs for row in one.row_ids),
        ids=tuple(row for one in inputs for row in one.ids or ()) if known else None,
        ordered=all(one.ordered for one in inputs) and verb == "concat",
        stages=sum(one.stages for one in inputs),
        columns=(*inputs[0].columns, "source") if has_source else inputs[0].columns,
        refused=refused,
    )


def _join(draw: Draw, verb: str, inputs: Sequence[Plan], size: int) -> tuple[str, bool]:
    """A concat or mix of the inputs as code, and whether it has the column "source"."""
    words = draw(_mix_words(len(inputs), size)) if verb == "mix" else ""
    has_source = not draw(st.integers(0, 3)) and not inputs[0].packed and "source" not in inputs[0].columns
    words += ', source="source"' if has_source else ""
    return f"ps.{verb}([{', '.join(one.code for one in inputs)}]{words})", has_source


def _few_stages(inputs: Sequence[Plan]) -> Sequence[Plan]:
    """Those that have few lane stages together: each has threads of its own, on every rank."""
    total = np.cumsum([one.stages for one in inputs])
    return [one for one, stages in zip(inputs, total, strict=True) if stages <= STAGES or one is inputs[0]]


def _alike(draw: Draw, inputs: Sequence[Plan]) -> list[Plan]:
    """Inputs of the same columns: those that are packed are joined with such alone."""
    if len({one.packed for one in inputs}) > 1:
        inputs = [one for one in inputs if one.packed]
    elif not inputs[0].packed and sum(one.stages + 1 for one in inputs) <= STAGES and draw(st.integers(0, 4)) == 4:
        inputs = [_pack(draw, one) for one in inputs]
    if len({one.columns for one in inputs}) > 1 and not inputs[0].packed:
        inputs = [one.then("map(plain)", columns=COLUMNS) for one in inputs]
    return list(inputs)


@st.composite
def _mix_words(draw: Draw, count: int, size: int) -> str:
    weights = st.lists(st.sampled_from([1, 1, 2, 3, 0.3, 7]), min_size=count, max_size=count)
    kind = draw(st.sampled_from(["", "all", "rows", "rows", "changing"]))
    words = f", weights={draw(weights)}" if draw(st.booleans()) else ""
    if kind == "all":
        return f'{words}, stop="all_exhausted"'
    if kind == "rows":
        return f"{words}, rows={size * draw(st.integers(1, 9))}"
    if kind == "changing":
        steps = draw(st.integers(1, 12))
        return f", weights={{0: {draw(weights)}, {steps}: {draw(weights)}}}, rows={size * draw(st.integers(1, 9))}"
    return words


def _more(draw: Draw, plan: Plan) -> Plan:
    """The plan with one verb more: the first drawn that the library takes."""
    for _ in range(3):
        try:
            return draw(st.sampled_from(_verbs_after(plan)))(draw, plan)
        except ps.PlanError as error:
            plan = replace(plan, refused=(*plan.refused, str(error)))
    return plan


def _verbs_after(plan: Plan) -> tuple[Callable[[Draw, Plan], Plan], ...]:
    if plan.stages >= STAGES:
        return (_map_packed,) if plan.packed else (_map,)
    return PACKED_VERBS if plan.packed else STAGED_VERBS if plan.staged else VERBS


# Verbs


def _take(draw: Draw, plan: Plan) -> Plan:
    count = draw(st.integers(1, 120))
    return plan.then(f"take({count})", **plan.known(lambda ids: ids[:count]))


def _skip(draw: Draw, plan: Plan) -> Plan:
    count = draw(st.integers(0, 30))
    return plan.then(f"skip({count})", **plan.known(lambda ids: ids[count:]))


def _every(draw: Draw, plan: Plan) -> Plan:
    count = draw(st.integers(1, 5))
    return plan.then(f"every({count})", **plan.known(lambda ids: ids[::count]))


def _repeat(draw: Draw, plan: Plan) -> Plan:
    times = draw(st.integers(1, 3))
    return plan.then(f"repeat({times})", ids=None if plan.ids is None else plan.ids * times, ordered=False)


def _shuffle(draw: Draw, plan: Plan) -> Plan:
    words = [f"seed={draw(st.integers(0, 9))}"]
    words += ['mode="global"'] if draw(st.booleans()) else []
    words += [f"block_rows={draw(st.integers(1, 12))}"] if draw(st.booleans()) else []
    words += [f"window_blocks={draw(st.integers(1, 4))}"] if draw(st.booleans()) else []
    return plan.then(f"shuffle({', '.join(words)})", ordered=False)


def _filter(draw: Draw, plan: Plan) -> Plan:
    divisor, rest = draw(st.sampled_from([(2, 0), (3, 1), (5, 4), (7, 0)]))
    equal = draw(st.booleans())
    known = plan.known(lambda ids: [row for row in ids if (number_of(row) % divisor == rest) == equal])
    return plan.then(f'filter(ps.col("x") % {divisor} {"==" if equal else "!="} {rest})', **known)


def _sort(draw: Draw, plan: Plan) -> Plan:
    down = draw(st.booleans())
    known = plan.known(lambda ids: sorted(ids, key=lambda row: -number_of(row) if down else number_of(row)))
    return plan.then(f'sort("x"{", descending=True" if down else ""})', **known)


def _split(draw: Draw, plan: Plan) -> Plan:
    how = draw(st.sampled_from(["", ', by="x"', ', stratify=ps.col("x") % 3']))
    part = draw(st.sampled_from("ab"))
    return plan.then(
        f'split({{"a": 0.7, "b": 0.3}}{how}, seed={draw(st.integers(0, 9))})["{part}"]', ids=None, ordered=False
    )


def _balance(draw: Draw, plan: Plan) -> Plan:
    mode = draw(st.sampled_from(["over", "under"]))
    return plan.then(f'balance(ps.col("x") % {draw(st.integers(2, 4))}, mode="{mode}")', ids=None, ordered=False)


def _sample(draw: Draw, plan: Plan) -> Plan:
    words = f"{draw(st.integers(1, 90))}, seed={draw(st.integers(0, 9))}"
    words += ', weights=ps.col("x") + 1' if draw(st.booleans()) else ""
    words += ", replacement=True" if draw(st.booleans()) else ""
    return plan.then(f"sample({words})", ids=None, ordered=False)


def _map(draw: Draw, plan: Plan) -> Plan:
    return plan.then(draw(st.sampled_from(["map(doubled)", "map_rows(lessened)", "map_rows(noisy)"])))


def _staged(draw: Draw, plan: Plan, verb: str) -> Plan:
    """One lane stage more; mostly after a shuffle, without which a lane may have no row that a filter lets through."""
    if not plan.staged and draw(st.integers(0, 4)):
        with contextlib.suppress(ps.PlanError):
            plan = _shuffle(draw, plan)
    return plan.then(verb, stages=plan.stages + 1, ids=None)


def _filter_function(draw: Draw, plan: Plan) -> Plan:
    return _staged(draw, plan, draw(st.sampled_from(["filter(half)", "filter(most)"])))


def _flat_map(draw: Draw, plan: Plan) -> Plan:
    function = draw(st.sampled_from(["some_twice", "in_groups"]))
    return _staged(draw, plan, f"flat_map({function}, rows={draw(st.integers(1, 9))})")


@st.composite
def _pack_verb(draw: Draw) -> str:
    strategy = draw(st.sampled_from(["best_fit", "concat"]))
    over_long = draw(st.sampled_from(["split", "truncate"]))
    return (
        f'pack("tokens", length=7, strategy="{strategy}", window={draw(st.integers(1, 12))}, over_long="{over_long}")'
    )


def _pack(draw: Draw, plan: Plan) -> Plan:
    return replace(_staged(draw, plan, draw(_pack_verb())), packed=True)


def _map_packed(draw: Draw, plan: Plan) -> Plan:
    return plan.then("map(negative)")


def _filter_packed(draw: Draw, plan: Plan) -> Plan:
    return _staged(draw, plan, "filter(opening)")


PACKED_VERBS = (_map_packed, _filter_packed)
STAGED_VERBS = (_map, _filter_function, _flat_map, _pack)
VERBS = (
    *(_shuffle, _shuffle, _shuffle, _take, _skip, _every, _repeat, _filter, _sort, _split, _balance, _sample),
    *STAGED_VERBS,
)


# The end


def _batched(draw: Draw, plan: Plan, size: int, *, few_lanes: bool) -> Plan:
    last = draw(st.sampled_from(["", "", "drop_last", "pad", "wrap"]))
    lanes = 1 if few_lanes else draw(st.sampled_from([None, None, *divisors(size)]))
    stepped = plan.staged or draw(st.integers(0, 5)) == 5
    words = f"{size}" + (f", {last}=True" if last else "") + (f", lanes={lanes}" if lanes else "")
    known = {"size": size, "last": last, "stepped": stepped}
    kind = draw(st.sampled_from(["batch", "batch", "batch", "batch_padded", "batch_bucketed"]))
    if kind == "batch_bucketed" and not stepped:
        buckets = draw(st.sampled_from(["boundaries=[9, 20]", "quantiles=2"]))
        by = f"by=np.arange({len(plan.dataset)}) * 11 % 29"
        return plan.then(f"batch_bucketed({words}, {by}, {buckets})", **known, ordered=False)
    words += f", steps={draw(st.integers(1, 9))}" if stepped else ""
    if kind == "batch_padded" and not plan.packed:
        words += draw(st.sampled_from(["", ", multiple_of=4", ", length=6, truncate=True"]))
        return plan.then(f"batch_padded({words})", **known)
    return plan.then(f"batch({words})", **known)


def check_epoch(found: Sequence[int], plan: Plan) -> None:
    """Whether an epoch's ids, of all ranks and steps in turn, are those that the plan has."""
    assert plan.ids is not None
    have, want = Counter(found), Counter(plan.ids)
    full = len(plan.ids) // plan.size * plan.size
    if plan.last == "drop_last":
        assert have <= want, "more than there is"
        assert "bucket" in plan.code or len(found) == full
        assert not plan.ordered or list(found) == list(plan.ids[:full])
    elif plan.last:
        assert have >= want, "some are missing"
        assert have.keys() == want.keys()
        assert len(found) == -(-len(plan.ids) // plan.size) * plan.size
        assert not plan.ordered or list(found[:full]) == list(plan.ids[:full])
    else:
        assert have == want
        assert not plan.ordered or list(found) == list(plan.ids)
