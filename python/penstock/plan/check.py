"""What can be known to be wrong before anything runs."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence

from penstock.core.errors import PlanError
from penstock.core.names import did_you_mean
from penstock.core.padding import columns_to_pad
from penstock.core.quoted import quoted
from penstock.plan.changed_weights import check_changing
from penstock.plan.columns import known_columns, needed_by, spec_of
from penstock.plan.nodes import (
    COLUMN_NODES,
    Batch,
    BatchTokens,
    Bucket,
    Cache,
    Concat,
    Every,
    FilterFunction,
    LaneNode,
    Map,
    MapRows,
    Mix,
    Node,
    Pack,
    Pad,
    Read,
    Repeat,
    Select,
    Shard,
    Shuffle,
    Skip,
    SourceColumn,
    Take,
    Transform,
    TransformBatch,
    Zip,
)
from penstock.plan.nodes.picked import Exclude, PickedRows
from penstock.plan.row_choice import RowChoice
from penstock.plan.tree import find, flow, inputs_of, leaves

#: What may stand below a zip: each row keeps its place, or a place that the plan knows.
_PAIRED = (
    Read,
    Concat,
    Zip,
    Take,
    Skip,
    Every,
    Exclude,
    PickedRows,
    Select,
    Transform,
    Map,
    MapRows,
    SourceColumn,
    Cache,
)

#: What gives datasets an order of their own, and how messages say so.
_ORDERED: dict[type[Shuffle | Mix | Repeat], str] = {Shuffle: "shuffled", Mix: "mixed", Repeat: "repeated"}


def check_verb(new: Node) -> None:
    """PlanError if the verb cannot follow its input, or names a column that is not there."""
    check_changing(new)
    if isinstance(new, (Concat, Mix)):
        _check_joined(new)
        return
    if isinstance(new, Zip):
        _check_zipped(new)
        return
    (input_,) = inputs_of(new)
    _check_lanes(new, input_)
    _check_source_name(new)
    if isinstance(new, Cache) and (batch := find(input_, Batch)) is not None:
        raise PlanError(
            f"cache: must come before {batch.verb}, since rows are kept one by one; write cache().{batch.verb}(…)"
        )
    if type(new) is Batch and find(input_, Batch):
        raise PlanError("batch: the plan has a batch already; a plan has one")
    if isinstance(new, Shuffle):
        if find(input_, Shuffle):
            raise PlanError("shuffle: the plan shuffles already; once is enough, every epoch has another order")
        _check_shuffled_mix(input_)
        if find(input_, Batch):
            raise PlanError("shuffle: must come before batch, since it decides which samples make a batch")
    if isinstance(new, (RowChoice, Repeat)) and find(input_, Batch):
        raise PlanError(f"{new.verb}: must come before batch, since it counts rows and not batches")
    if isinstance(new, (RowChoice, Repeat)) and find(input_, Shard):
        raise PlanError(f"{new.verb}: must come before shard, which says how many rows each node has")
    if isinstance(new, Shard) and (mixed := find(input_, Mix)) is not None and mixed.rows is None:
        raise PlanError(
            "shard: nodes agree on rows before they have lanes, and a mix ends by its lanes; write mix(…, rows=…)"
        )
    if isinstance(new, Shard) and (find(input_, Shard) or find(input_, Batch)):
        raise PlanError("shard: once, and before batch, since it decides which samples make a batch")
    _check_verb_names(new)


def _check_verb_names(new: Node) -> None:
    """PlanError where a verb names a column that is not there."""
    if isinstance(new, Transform):
        _check_columns(new)
    if isinstance(new, TransformBatch):
        _check_op_on_batch(new)
    if isinstance(new, Select) or (isinstance(new, FilterFunction) and new.columns is not None):
        check_names(new.verb, new.columns or (), new.input)
    if isinstance(new, Pad):
        _check_padded(new)
    if isinstance(new, Bucket):
        _check_grouped("batch_bucketed", new)
    if isinstance(new, BatchTokens):
        _check_grouped(new.verb, new)
    if isinstance(new, Pack) and not any(isinstance(node, COLUMN_NODES) for node in flow(new.input)):
        new.spec_of(spec_of(new.input))


def check_names(verb: str, names: Collection[str], below: Node) -> None:
    """PlanError for a column that is not there."""
    known = known_columns(below)
    if known is None:
        return  # a user's function may have made the column
    for name in names:
        if name not in known:
            raise PlanError(
                f"{verb}: no column {quoted(name)}; there are {', '.join(known)}{did_you_mean(name, known)}"
            )


def _check_grouped(verb: str, new: Bucket | BatchTokens) -> None:
    for node in flow(new.input):
        if isinstance(node, Batch):
            raise PlanError(f"{verb}: the plan has a batch already; write {verb}(…) in its place")
        if isinstance(node, (LaneNode, Mix, Repeat, Shard)):
            raise PlanError(
                f"{verb}: cannot follow {node.verb}, whose rows have no fixed places in the data; bucket what is below it"
            )


def _check_padded(new: Pad) -> None:
    if find(new.input, Batch):
        raise PlanError("batch_padded: the plan has a batch already; write batch_padded(…) in its place")
    if not any(isinstance(node, COLUMN_NODES) for node in flow(new.input)):  # a function may make other columns
        columns_to_pad(new, spec_of(new.input))


def _check_lanes(new: Node, input_: Node) -> None:
    """How many rows come out of a lane stage is not known before: nothing above it may count on it."""
    if isinstance(new, LaneNode) and (found := find(input_, Batch) or find(input_, Shard)) is not None:
        raise PlanError(f"{new.verb}: must come before {found.verb}, since it decides which rows there are")
    staged = next((node for node in flow(input_) if isinstance(node, LaneNode)), None)
    if staged is None:
        return
    if isinstance(new, (RowChoice, Repeat, Shuffle, Shard)):
        raise PlanError(
            f"{new.verb}: cannot follow {staged.verb}, whose number of rows is not known in advance; write {new.verb}(…) before {staged.verb}(…)"
        )
    if type(new) is Batch and new.steps is None and not _has_end(input_):
        raise PlanError(
            f"batch: the number of rows that {staged.verb} gives is not known in advance, and all ranks must end an epoch together; say after how "
            f"many steps: batch({new.size}, steps=1000). The next epoch goes on from there"
        )


def _has_end(node: Node) -> bool:
    """Whether a number of rows says where an epoch ends, above whatever has an end that nobody knows."""
    if isinstance(node, Mix) and node.rows is not None:
        return True
    return (
        not isinstance(node, (LaneNode, Mix, Concat)) and all(map(_has_end, inputs_of(node))) and bool(inputs_of(node))
    )


def _check_source_name(new: Node) -> None:
    if isinstance(new, SourceColumn) and new.name in (known_columns(new.input) or {}):
        raise PlanError(
            f"{new.input.verb}: source={quoted(new.name)} names a column that the datasets have already; choose another name"
        )


def check_picking(verb: str, below: Node) -> None:
    """PlanError where rows have another order, or other columns, than their sources give, so that none can be picked by these."""
    for node in flow(below):
        if not isinstance(node, (Read, Concat, Zip, Take, Skip, Every, Exclude, PickedRows, Select, Cache)):
            other = f"{node.verb}(function)" if node.verb == verb else f"{node.verb}(…)"
            raise PlanError(
                f"{verb}: chooses among the rows as their sources have them, and {other} stands before it; put it first: {verb}(…).{other}"
            )


def _check_shuffled_mix(node: Node) -> None:
    """A shuffle of a mix, or of what is repeated, shuffles each dataset below; so nothing may choose rows of the whole before."""
    if isinstance(node, (Mix, Repeat)):
        for below in inputs_of(node):
            _check_shuffled_mix(below)
    elif found := find(node, Mix) or find(node, Repeat):
        if isinstance(node, (RowChoice, Concat)):
            raise PlanError(
                f"shuffle: {node.verb} stands between it and {found.verb}, whose datasets it shuffles; write {found.verb}(…).shuffle(…)."
                f"{node.verb}(…), or shuffle the datasets before"
            )
        for below in inputs_of(node):
            _check_shuffled_mix(below)


def _check_columns(new: Transform) -> None:
    chains = dict(new.ops)
    for name, ops in new.ops:
        if ops and hasattr(ops[0], "beside"):
            ops[0].beside(name, chains)
        for op in ops:
            if getattr(op, "on_batch", False):
                raise PlanError(
                    f"transform: {op} works on whole batches, not on {quoted(name)} alone; write batch(…).transform({type(op).__name__}(…))"
                )
    if any(isinstance(node, COLUMN_NODES) for node in flow(new.input)):
        return  # a user's function may have made the column
    known = {*spec_of(new.input)}
    for name in needed_by(new):
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise PlanError(f"transform: no column {quoted(name)}; there are {', '.join(sorted(known))}{hint}")
    spec_of(new)


def _check_op_on_batch(new: TransformBatch) -> None:
    batch = find(new.input, Batch)
    if batch is None or isinstance(batch, BatchTokens):
        other = "batch_tokens has as many rows as fit" if batch else "there is no batch yet"
        raise PlanError(
            f"transform: {new.op} works on whole batches of equally many rows, and {other}; write batch(…).transform({type(new.op).__name__}(…))"
        )
    if not any(isinstance(node, COLUMN_NODES) for node in flow(new.input)):
        new.op.output("", spec_of(new.input))


def classes_of(root: Node) -> tuple[str, ...]:
    """Names of the classes, by label: those of the first source; of a zip, of the first that names some."""
    if isinstance(root, Read):
        return tuple(getattr(root.opened.source, "classes", ()))
    some = map(classes_of, inputs_of(root))
    return next(filter(None, some), ()) if isinstance(root, Zip) else next(some, ())


def _check_zipped(new: Zip) -> None:
    if len(new.inputs) < 2:
        found = "one dataset" if new.inputs else "no datasets"
        raise PlanError(f"zip: {found}; pass a list of at least two, whose rows belong together")
    for number, branch in enumerate(new.inputs):
        for node in flow(branch):
            if not isinstance(node, _PAIRED) or (isinstance(node, PickedRows) and node.picked.repeats):
                raise PlanError(
                    f"zip: dataset {number} has a {node.verb} already, and rows are paired by their places in the data; write zip([…]).{node.verb}(…)"
                )
    known: dict[str, int] = {}
    for number, branch in enumerate(new.inputs):
        for name in known_columns(branch) or ():
            if name in known:
                raise PlanError(
                    f"zip: datasets {known[name]} ({_place(new.inputs[known[name]])}) and {number} ({_place(branch)}) both have a column {quoted(name)}; "
                    f"rename one, for example read(…, columns={{'{name}_{number}': {quoted(name)}}}), or leave it out"
                )
            known[name] = number


def _check_joined(new: Concat | Mix) -> None:
    verb = new.verb
    if not new.inputs:
        raise PlanError(f"{verb}: no datasets; pass a list of at least one")
    for number, branch in enumerate(new.inputs):
        for kind in (Batch, Shard):
            if (found := find(branch, kind)) is not None:
                raise PlanError(
                    f"{verb}: dataset {number} has a {found.verb} already; write {verb}([…]).{found.verb}(…)"
                )
    if isinstance(new, Concat) and any(isinstance(node, LaneNode) for node in flow(new)):
        raise PlanError(
            "concat: a dataset with a filter by a function, flat_map or pack has no end; write mix([…], weights=[…])"
        )
    ordered = [next((word for kind, word in _ORDERED.items() if find(branch, kind)), "") for branch in new.inputs]
    if isinstance(new, Concat) and any(ordered) and not all(ordered):
        number = next(number for number, word in enumerate(ordered) if word)
        raise PlanError(
            f"concat: dataset {number} is {ordered[number]} and dataset {ordered.index('')} is not; shuffle all of them, or none, "
            f"or what concat gives"
        )
    first, *others = (known_columns(branch) for branch in new.inputs)
    for number, other in enumerate(others, 1):
        if first is not None and other is not None:
            _check_alike(new, first, number, other)
    names = list(map(classes_of, new.inputs))
    if len({*names}) > 1:
        another = next(some for some in names if some != names[0])
        raise PlanError(
            f"{verb}: the class folders differ, {_some(names[0])} and {_some(another)}, so that one label would mean two things; name all classes, "
            f"in one order, for every dataset: read(…, classes=[…])"
        )


def _check_alike(new: Concat | Mix, first: dict[str, str], number: int, other: dict[str, str]) -> None:
    here, there = _place(new.inputs[0]), _place(new.inputs[number])
    if first.keys() != other.keys():
        lacking = sorted(first.keys() ^ other.keys())
        owner, lacks = (f"dataset 0 ({here})", f"dataset {number} ({there})")
        if lacking[0] in other:
            owner, lacks = lacks, owner
        both = [name for name in first if name in other]
        raise PlanError(
            f"{new.verb}: {owner} has a column {quoted(lacking[0])}, and {lacks} has none; select the same columns of all, for example "
            f"read(…, columns={both})"
        )
    for name, kind in first.items():
        if kind and other[name] and kind != other[name]:
            raise PlanError(
                f"{new.verb}: column {quoted(name)} is {kind} in dataset 0 ({here}) and {other[name]} in dataset {number} ({there}); make them "
                f"alike, with penstock.Column in read(…, columns=…) or with map"
            )


def _place(branch: Node) -> str:
    return ", ".join(leaf.where for leaf in leaves(branch))


def _some(names: Sequence[str]) -> str:
    return f"{', '.join(names[:4])}{', …' if len(names) > 4 else ''}" if names else "none"
