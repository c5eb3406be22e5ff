"""Random plans of all verbs, for hypothesis: each is a line of code, so that a failure prints what makes it again.

`build(line)` of random_rows makes the dataset; `NAMES` holds what a line may name. A verb that the library refuses is left out, and counted.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Literal

import numpy as np
from hypothesis import strategies as st

import penstock as ps
from penstock.order.lanes import divisors
from penstock.plan.changed_weights import ChangedWeights, mixes_of
from penstock.resolve.ordering import RankSettings, has_natural_ends, order_of
from support.random_rows import COLUMNS, FILES, build, drawn, half, memory, most, number_of

Model = Callable[[list[int]], list[int]]
Draw = Callable[[st.SearchStrategy[Any]], Any]

SIZES = (1, 2, 3, 4, 6, 8, 8, 12, 12, 16, 24, 24, 30, 48, 64)
DEPTH = 4
STAGES = 3


# Plans


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A dataset, the code that makes it, and what is known of it.

    row_ids: the column "id" of every row of its sources, by row id. ids: that column in an epoch, where it is known; ordered: in this order.
    below, end: what is batched, and the batch, its size left open. natural: its epochs end where the data says.
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
    natural: bool = False
    refused: tuple[str, ...] = ()
    below: ps.Dataset | None = None
    end: str = ""

    def __repr__(self) -> str:
        return self.code

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        printer.text(self.code)  # hypothesis would print every field

    def then(self, verb: str, **known: Any) -> Plan:
        """One verb more; PlanError where the library refuses it."""
        return replace(self, dataset=build(f"it.{verb}", self.dataset), code=f"{self.code}.{verb}", **known)

    def ended(self, **known: Any) -> Plan:
        """Ends with a batch; PlanError where the library refuses it."""
        ended = replace(self.then(self.end.format(size=known["size"]), **known), below=self.dataset)
        return replace(ended, natural=not ended.stepped and ended.staged and ends_with_data(ended.dataset))

    def of(self, world: int, *, per_rank: bool) -> ps.Dataset:
        """The dataset for so many ranks, with the size of the batch given for all, or for each."""
        if not per_rank or self.below is None:
            return self.dataset
        return build(f"it.{self.end.format(size=f'{self.size // world}, per_rank=True')}", self.below)

    @property
    def settable(self) -> int:
        """The number of weights that `set_weights` takes; 0 where it cannot be."""
        root = self.dataset.root
        mixes = mixes_of(root)
        try:
            ChangedWeights.none(root).changed(root, 0, 0, [1] * len(mixes[0].inputs) if mixes else [])
        except ps.PlanError:
            return 0
        return len(mixes[0].inputs)

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
        made = draw(st.sampled_from([memory] * 6 + [drawn]))
        rows, first = draw(st.integers(1, 90)), 100 * draw(st.integers(0, 3))
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
        common = tuple(name for name in COLUMNS if all(name in one.columns for one in inputs))
        plain = "map(plain)" if common == COLUMNS and draw(st.booleans()) else _selecting(common)
        inputs = [one.then(plain, columns=common) for one in inputs]
    return list(inputs)


def _selecting(columns: Sequence[str]) -> str:
    return f"select({', '.join(map(repr, columns))})"


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
        return (_map_packed,) if plan.packed else (_map, _select)
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
    if "drawn(" in plan.code:
        return plan.then(f"shuffle({words[0]}, window={draw(st.integers(1, 60))})", ordered=False)
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


def _filter_ahead(draw: Draw, plan: Plan) -> Plan:
    function = draw(st.sampled_from([half, most]))
    known = plan.known(lambda ids: [row for row in ids if function({"id": np.array(row)})])
    return plan.then(f"filter({function.__name__}, ahead=True)", **known)


def _zip(draw: Draw, plan: Plan) -> Plan:
    """The plan's rows, and beside each one its id again."""
    if not plan.ids or not plan.ordered or "mate" in plan.columns:
        return plan
    code, mates = draw(_mates(plan.ids))
    pair = draw(st.permutations([(plan.code, plan.row_ids), (code, mates)]))
    zipped = f"ps.zip([{', '.join(one for one, _ in pair)}])"
    row_ids = tuple(row for _, rows in pair for row in rows)
    columns = (*plan.columns, "mate") if pair[0][0] == plan.code else ("mate", *plan.columns)
    return replace(plan, code=zipped, dataset=build(zipped), row_ids=row_ids, columns=columns)


@st.composite
def _mates(draw: Draw, ids: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    """Code for a column of ids, in one part or two, some rows more before it; and the ids of its sources."""
    if (len(ids), ids[:1]) in {(rows, (first,)) for _, rows, first in FILES}:
        return f"mates_in_file({len(ids)}, {ids[0]})", ids
    cut, more = draw(st.integers(0, len(ids))), draw(st.integers(0, 3))
    parts = [part for part in ((-1,) * more + ids[:cut], ids[cut:]) if part]
    made = [f"mates({', '.join(_runs(part))})" for part in parts]
    return (f"ps.concat([{', '.join(made)}])" if len(made) > 1 else made[0]) + (
        f".skip({more})" if more else ""
    ), tuple(row for part in parts for row in part)


def _runs(ids: Sequence[int]) -> list[str]:
    """Numbers as code, runs of them in short."""
    runs = [[row for _, row in run] for _, run in groupby(enumerate(ids), lambda one: one[1] - one[0])]
    return [f"*range({run[0]}, {run[-1] + 1})" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]


def _map(draw: Draw, plan: Plan) -> Plan:
    return plan.then(draw(st.sampled_from(["map(doubled)", "map_rows(lessened)", "map_rows(noisy)"])))


def _compute(draw: Draw, plan: Plan) -> Plan:
    """Columns that are computed, of the values that they had."""
    same = ['x=ps.col("x") * 2 - ps.col("x")']
    if "text" in plan.columns:
        same.append('text=ps.when(ps.col("x") > 9).then(ps.col("text")).otherwise(ps.col("text"))')
    return plan.then(f"with_columns({draw(st.sampled_from(same))})")


def _select(draw: Draw, plan: Plan) -> Plan:
    """Columns in another order, mostly without those that no function needs."""
    kept = [name for name in plan.columns if name in ("id", "x", "tokens") or draw(st.booleans())]
    columns = tuple(draw(st.permutations(kept)))
    if len(columns) < len(plan.columns) and "map" not in plan.code and draw(st.booleans()):
        dropped = [name for name in plan.columns if name not in columns]
        return plan.then(
            f"drop({', '.join(map(repr, dropped))})", columns=tuple(n for n in plan.columns if n in columns)
        )
    return plan.then(_selecting(columns), columns=columns)


def _staged(draw: Draw, plan: Plan, verb: str) -> Plan:
    """One lane stage more; mostly after a shuffle, without which a lane may have no row that a filter lets through."""
    if not plan.staged and draw(st.integers(0, 4)):
        with contextlib.suppress(ps.PlanError):
            plan = _shuffle(draw, plan)
    return plan.then(verb, stages=plan.stages + 1, ids=None)


def _filter_function(draw: Draw, plan: Plan) -> Plan:
    return _staged(draw, plan, draw(st.sampled_from(["filter(half)", "filter(most)", 'filter(most, columns="id")'])))


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


def _take_made(draw: Draw, plan: Plan) -> Plan:
    """The first rows of epochs that end with their data, or all but these, now and then."""
    if plan.staged and not draw(st.integers(0, 3)):
        verb = draw(st.sampled_from([f"take({draw(st.integers(1, 90))})", f"skip({draw(st.integers(0, 20))})"]))
        with contextlib.suppress(ps.PlanError):
            return plan.then(verb)
    return plan


PACKED_VERBS = (_map_packed, _filter_packed, _repeat)
MAKING_VERBS = (_map, _compute, _select, _filter_function, _flat_map, _pack)
STAGED_VERBS = (*MAKING_VERBS, _repeat)
VERBS = (
    *(
        _shuffle,
        _shuffle,
        _shuffle,
        _take,
        _skip,
        _every,
        _repeat,
        _filter,
        _sort,
        _split,
        _balance,
        _sample,
        _zip,
        _zip,
        _filter_ahead,
        _compute,
        _select,
    ),
    *MAKING_VERBS,
)


# The end


def _batched(draw: Draw, plan: Plan, size: int, *, few_lanes: bool) -> Plan:
    if not plan.packed and draw(st.integers(0, 3)) == 3:
        others = draw(st.lists(st.sampled_from(plan.columns), unique=True))
        columns = tuple(dict.fromkeys([*others, "id"]))
        plan = plan.then(_selecting(columns), columns=columns)
    last = draw(st.sampled_from(["", "", "drop_last", "pad", "wrap"]))
    lanes = 1 if few_lanes else draw(st.sampled_from([None, None, *divisors(size)]))
    stepped = draw(st.integers(0, 5)) >= (3 if plan.staged else 5)
    plan = plan if stepped else _take_made(draw, plan)
    words = "{size}" + (f", {last}=True" if last else "") + (f", lanes={lanes}" if lanes else "")
    known = {"size": size, "last": last, "stepped": stepped}
    kind = draw(st.sampled_from(["batch", "batch", "batch", "batch_padded", "batch_bucketed", "batch_tokens"]))
    if kind == "batch_tokens" and not stepped and not plan.staged and last in ("", "drop_last"):
        return _in_tokens(draw, plan, size, drop_last=bool(last))
    if kind == "batch_bucketed" and not stepped and not plan.staged:
        buckets = draw(st.sampled_from(["boundaries=[9, 20]", "quantiles=2"]))
        by = draw(st.sampled_from([f"np.arange({len(plan.dataset)}) * 11 % 29", '"tokens"', 'ps.col("x")']))
        return replace(plan, end=f"batch_bucketed({words}, by={by}, {buckets})").ended(**known, ordered=False)
    words += f", steps={draw(st.integers(1, 9))}" if stepped else ""
    if kind == "batch" or plan.packed:
        return replace(plan, end=f"batch({words})").ended(**known)
    words += draw(st.sampled_from(["", ", multiple_of=4", ", length=6, truncate=True"]))
    return replace(plan, end=f"batch_padded({words})").ended(**known)


def _in_tokens(draw: Draw, plan: Plan, size: int, *, drop_last: bool) -> Plan:
    """Batches of so many tokens; so many ranks as divide the lanes share them."""
    lanes = draw(st.sampled_from(divisors(size)))
    words = f"{28 * lanes * draw(st.integers(1, 3))}, by=np.arange({len(plan.dataset)}) * 11 % 29, lanes={lanes}"
    words += ", padded=False" if draw(st.booleans()) else ""
    words += ", drop_last=True" if drop_last else ""
    known: dict[str, Any] = {"size": lanes, "last": "drop_last" if drop_last else "", "ordered": False}
    return replace(plan, end=f"batch_tokens({words})").ended(**known)


@st.composite
def changes(draw: Draw, plan: Plan, steps: int) -> dict[int, list[float]]:
    """Weights that are set by hand before steps; none where the plan takes none."""
    if plan.natural or not (count := plan.settable):
        return {}
    weights = st.lists(st.sampled_from([1, 2, 0.3, 7]), min_size=count, max_size=count)
    return draw(st.dictionaries(st.integers(0, steps), weights, max_size=3))


def ends_with_data(dataset: ps.Dataset) -> bool:
    """Whether epochs of a plan with lane stages end where these do."""
    return has_natural_ends(order_of(dataset.root, RankSettings()).order)


def check_epoch(found: Sequence[int], plan: Plan) -> None:
    """Whether an epoch's ids, of all ranks and steps in turn, are those that the plan has."""
    assert plan.ids is not None
    have, want = Counter(found), Counter(plan.ids)
    full = len(plan.ids) // plan.size * plan.size
    if plan.last == "drop_last":
        assert have <= want, "more than there is"
        assert "batch_" in plan.code or len(found) == full
        assert not plan.ordered or list(found) == list(plan.ids[:full])
    elif plan.last:
        assert have >= want, "some are missing"
        assert have.keys() == want.keys()
        # Lanes of copies end further apart than those of one epoch, and all are filled up.
        assert len(found) == -(-len(plan.ids) // plan.size) * plan.size or (
            "repeat" in plan.code and len(found) % plan.size == 0
        )
        assert not plan.ordered or list(found[:full]) == list(plan.ids[:full])
    else:
        assert have == want
        assert not plan.ordered or list(found) == list(plan.ids)
