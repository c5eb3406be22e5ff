"""The verbs that look at columns once, when they are written, and from then on choose rows by arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.batch.stack import mask_of
from penstock.core.arguments import check_flags, is_one_of, is_whole
from penstock.core.columns.picked_rows import RowNumbers
from penstock.core.columns.spec import Ids
from penstock.core.errors import PlanError
from penstock.core.files.byte_ranges import Progress
from penstock.core.messages import quoted
from penstock.looking.categories import with_categories
from penstock.looking.column_values import check_expression, row_values
from penstock.looking.computed import MadeColumns
from penstock.looking.row_keys import row_keys, value_keys
from penstock.looking.rows import Looking, digest
from penstock.order.choose import balanced, drawn_again, drawn_once, part_rows, split_by_key, split_classes
from penstock.plan.columns import check_names, spec_of
from penstock.plan.expression import Expression, expression_of, written_out
from penstock.plan.function_parts import function_parts
from penstock.plan.nodes import Node, check_seed, classes_of
from penstock.plan.nodes.functions import check_text
from penstock.plan.nodes.picked import Balance, Filter, Sample, Sort, Split
from penstock.plan.tree import leaves
from penstock.resolve.resolved import keeps_all_rows
from penstock.transform.function import name_of, wants_generator
from penstock.transform.function_text import with_text

#: Shares of parts add up to 1 but for rounding.
_ROUNDING = 1e-9
#: The numbers of the rows that `sample` draws are held, 8 bytes each.
_MOST_DRAWN = 1 << 30


def filter_rows(root: Node, predicate: Expression, progress: Progress | None) -> Filter:
    """The rows for which a predicate is true."""
    looking, predicate = Looking("filter", root, progress), with_categories("filter", root, predicate)
    kind = check_expression("filter", root, predicate)
    if isinstance(kind, pa.Array) or kind.dtype != np.bool_:
        found = getattr(kind, "dtype", None) or kind.type
        raise PlanError(
            f"filter: {quoted(predicate)} gives {found}, where true or false belongs; compare it with something"
        )
    (picked,) = looking.picked([repr(predicate)], lambda: [looking.true_rows(predicate)])
    if not len(picked):
        raise PlanError(
            f"filter: {quoted(predicate)} is true for none of the {looking.rows:,} rows that were looked at; look at values of its columns"
        )
    return Filter(input=root, predicate=repr(predicate), picked=picked)


def filter_rows_ahead(
    root: Node,
    function: Callable[..., Any],
    columns: tuple[str, ...] | None,
    progress: Progress | None,
    text: str = "arrow",
) -> Filter:
    """The rows for which a user's function says True, looked at now. columns: those that it gets, None for all; text: how it gets text."""
    check_text("filter", text)
    looking, name = Looking("filter", root, progress), f"filter({name_of(function)})"
    if not callable(function):
        raise PlanError(
            f"filter: {quoted(function)} cannot be called; pass a function, or an expression such as penstock.col('width') >= 64"
        )
    if wants_generator(function):
        raise PlanError(
            f"{name}: draws random numbers, and what is looked at ahead is the same in every epoch; leave out ahead=True"
        )
    names = {*spec_of(root)} if columns is None else {*columns}
    check_names("filter", names, root)
    words = digest(" ".join(f"{part.name} {part.digest.hex()}" for part in function_parts(function)))
    if columns is not None:
        words = digest(f"{words} of {columns}")
    if text != "arrow":
        words = digest(f"{words} {text}")

    made = MadeColumns("filter", root, names, sees_nulls=False)

    def make() -> list[Ids]:
        mask = row_values(
            root,
            made.needed,
            lambda columns, rows: mask_of(function(with_text(made.of(columns, rows), text)), rows, name),
            np.zeros(0, dtype=bool),
            progress,
        )
        return [np.flatnonzero(mask)]

    (picked,) = looking.picked([f"{name} {words}"], make)
    if not len(picked):
        raise PlanError(f"{name}: is true for none of the {looking.rows:,} rows that were looked at")
    return Filter(input=root, predicate=f"{name} {words[:8]}", picked=picked)


def split_rows(
    root: Node, parts: Any, by: Any, stratify: Any, seed: int, progress: Progress | None
) -> dict[str, Split]:
    """Parts of the rows."""
    looking = Looking("split", root, progress)
    names, sizes = _shares(parts)
    check_seed("split", seed)
    if by is not None and stratify is not None:
        raise PlanError("split: by= and stratify= together cannot be kept exactly; choose one")
    key, label = (None if given is None else expression_of("split", given) for given in (by, stratify))
    for expression in (key, label):
        if expression is not None:
            check_expression("split", root, expression)

    def make() -> list[Ids]:
        keys = row_keys(root) if key is None else value_keys(looking.values(key))
        if label is None:
            part = split_by_key(keys, seed, sizes)
        else:
            part = split_classes(keys, _codes(looking, label), seed, sizes)
        return [part_rows(part, number) for number in range(len(names))]

    texts = {"by": "" if key is None else repr(key), "stratify": "" if label is None else repr(label)}
    words = [f"{name} of {parts} {texts} {seed}" for name in names]
    picked = (
        [RowNumbers(rows, looking.rows) for rows in make()] if not any(texts.values()) else looking.picked(words, make)
    )
    pairs = tuple(zip(names, sizes, strict=True))
    return {
        name: Split(input=root, part=name, parts=pairs, seed=seed, picked=rows, **texts)
        for name, rows in zip(names, picked, strict=True)
    }


def balance_rows(root: Node, by: Any, mode: str, seed: int, progress: Progress | None) -> Balance:
    """As many rows of every class."""
    looking = Looking("balance", root, progress)
    if not is_one_of(mode, ("over", "under")):
        raise PlanError(f"balance: mode={quoted(mode)}; choose 'over' or 'under'")
    check_seed("balance", seed)
    label = expression_of("balance", by)
    check_expression("balance", root, label)

    def make() -> list[Ids]:
        return [balanced(row_keys(root), _codes(looking, label), seed, over=mode == "over")]

    (picked,) = looking.picked([f"{label!r} {mode} {seed} {_class_names(root)}"], make)
    return Balance(input=root, by=repr(label), mode=mode, seed=seed, picked=picked)


def sample_rows(
    root: Node, count: Any, weights: Any, seed: int, progress: Progress | None, *, replacement: bool
) -> Sample:
    """Rows drawn by weights."""
    looking = Looking("sample", root, progress)
    check_seed("sample", seed)
    check_flags("sample", replacement=replacement)
    if not is_whole(count) or not 1 <= count <= _MOST_DRAWN:
        raise PlanError(f"sample({quoted(count)}): how many rows, from 1 to {_MOST_DRAWN:,}, in whole numbers")
    if not replacement and count > looking.rows:
        raise PlanError(
            f"sample({count:,}): there are {looking.rows:,} rows, and without replacement none comes twice; draw fewer, or pass replacement=True"
        )
    is_column = isinstance(weights, (str, Expression))
    expression = expression_of("sample", weights) if is_column else None
    if expression is not None:
        check_expression("sample", root, expression)
    given = None if is_column or weights is None else _weights(looking, weights, "weights")
    text = repr(expression) if is_column else "" if given is None else f"array #{digest(given.tobytes().hex())[:8]}"

    def make() -> list[Ids]:
        found = given if expression is None else _weights(looking, looking.values(expression), repr(expression))
        if replacement:
            if not looking.rows:
                raise PlanError(f"sample({count:,}): there are no rows to draw from; leave some by what comes before")
            return [drawn_again(int(count), looking.rows, found, seed)]
        return [drawn_once(int(count), row_keys(root), found, seed)]

    (picked,) = looking.picked([f"{count} {text} {replacement} {seed}"], make)
    return Sample(input=root, count=int(count), weights=text, replacement=bool(replacement), seed=seed, picked=picked)


def sort_rows(root: Node, by: Any, progress: Progress | None, *, descending: bool) -> Sort:
    """All rows by a value; equal ones stay in order."""
    check_flags("sort", descending=descending)
    looking = Looking("sort", root, progress)
    expression = with_categories("sort", root, expression_of("sort", by))
    check_expression("sort", root, expression)

    def make() -> list[Ids]:
        values = looking.values(expression)
        if not isinstance(values, pa.Array):
            return [_sorted(values, descending=descending)]
        order = "descending" if descending else "ascending"
        return [pc.array_sort_indices(values, order=order).to_numpy().astype(np.int64)]

    (picked,) = looking.picked([f"{expression!r} {descending}"], make)
    return Sort(input=root, by=repr(expression), descending=bool(descending), picked=picked)


def _sorted(values: npt.NDArray[Any], *, descending: bool) -> Ids:
    if not descending:
        return np.argsort(values, kind="stable")
    return np.ascontiguousarray((len(values) - 1 - np.argsort(values[::-1], kind="stable"))[::-1])


def numbers_of_rows(verb: str, root: Node, by: Any, progress: Progress | None) -> Any:
    """A number for each row of the data below what keeps all rows: of a column of lists, texts or bytes their lengths. Arrays stay as they are."""
    if not isinstance(by, (str, Expression)):
        return by
    expression, fields = expression_of(verb, by), dict(spec_of(root))
    while keeps_all_rows(root):
        expression = written_out(expression, root.made)
        (root,) = root.below
    field = {**spec_of(root), **fields}.get(by) if isinstance(by, str) else None
    if field is not None and not field.required.is_fixed:
        expression = expression.len()
    looking = Looking(verb, root, progress)
    check_expression(verb, root, expression)
    return looking.values(expression)


# What was given


def _shares(parts: Any) -> tuple[list[str], list[float]]:
    if not isinstance(parts, Mapping) or len(parts) < 2 or not all(isinstance(name, str) for name in parts):
        raise PlanError(
            f'split({quoted(parts)}): pass names and shares of at least two parts, as {{"train": 0.9, "val": 0.1}}'
        )
    sizes = []
    for name, share in parts.items():
        is_number = isinstance(share, (int, float, np.integer, np.floating)) and not isinstance(share, bool)
        if not is_number or not 0 < share < 1:
            raise PlanError(
                f"split: {quoted(name)} has the share {quoted(share)}; shares are numbers above 0 and below 1, not counts of rows"
            )
        sizes.append(float(share))
    if not math.isclose(sum(sizes), 1, abs_tol=_ROUNDING):
        raise PlanError(
            f"split: the shares add up to {sum(sizes):g}, and every row belongs to one part; let them add up to 1"
        )
    return list(parts), sizes


def _weights(looking: Looking, given: Any, name: str) -> npt.NDArray[np.float64]:
    """Weights of all rows; PlanError for those that are none."""
    try:
        if np.shape(given)[:1] != (looking.rows,):  # before memory is taken for numbers that are of no use
            given = np.broadcast_to(0.0, np.shape(given))
        weights = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, MemoryError):
        raise PlanError(
            f"sample: {name} holds no numbers; pass an array of them, one for each row, or the name of a column"
        ) from None
    if weights.shape != (looking.rows,):
        raise PlanError(
            f"sample: {name} has the shape {weights.shape}, and there are {looking.rows:,} rows; give each row one weight"
        )
    wrong = np.flatnonzero(~((weights > 0) & (weights < math.inf)))
    if len(wrong):
        raise PlanError(
            f"sample: {name} of row {wrong[0]:,} is {weights[wrong[0]]:g} ({len(wrong):,} of {looking.rows:,} rows); a weight is a number above 0, "
            f"so leave rows out with filter instead"
        )
    return weights


def _codes(looking: Looking, label: Expression) -> Ids:
    """The class of every row as a number from 0 on; PlanError for numbers that are of no class."""
    values = looking.values(label)
    names = _class_names(looking.root)
    if names and label.operation == "column" and _is_label(looking.root, label.operands[0]):
        wrong = np.flatnonzero((values < 0) | (values >= len(names)))
        if len(wrong):
            raise PlanError(
                f"{looking.verb}: {quoted(label)} is {values[wrong[0]]} in row {wrong[0]:,}, and there are the classes 0 … {len(names) - 1} "
                f"({len(wrong):,} such rows of {looking.rows:,}); leave them out with filter"
            )
    if not isinstance(values, pa.Array):
        values = pa.array(values.astype(np.float64) + 0.0 if values.dtype.kind == "f" else values)
    codes: Ids = values.dictionary_encode().indices.to_numpy().astype(np.int64)
    return codes


def _class_names(root: Node) -> tuple[str, ...]:
    return classes_of(root)


def _is_label(root: Node, name: str) -> bool:
    having = [leaf for leaf in leaves(root) if name in leaf.opened.source.spec]
    return all(dict(leaf.columns).get(name) == "label" for leaf in having)
