"""Columns that nobody uses are not read, and what would be made of them is not made.

Who says what is used: `select`, and `pack`, which gives its own columns alone. A user's function gets all columns of its input, so that nothing is
dropped below it; a predicate may name those that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from penstock.core.verbs.padding import columns_to_pad, lengths_name, mask_name
from penstock.plan.columns import known_columns, made_by, needed_by, spec_of
from penstock.plan.nodes import (
    Concat,
    FilterFunction,
    InLanes,
    Mix,
    Node,
    Pack,
    Pad,
    Read,
    Select,
    SkipBad,
    SourceColumn,
    Transform,
    WithColumns,
    Zip,
)
from penstock.plan.rules.narrowed_source import narrowed_source
from penstock.plan.tree import inputs_of, is_column_unknown, with_inputs

Names = tuple[str, ...]


def narrow_columns(node: Node) -> Node | None:
    """Columns that nobody uses are not read, and nothing is made of them."""
    if not isinstance(node, (Select, Pack)):
        return None
    below = narrowed(node.input, node.columns)
    if isinstance(node, Select) and isinstance(below, Select) and below.columns == node.columns:
        below = below.input
    return None if below is node.input else replace(node, input=below)


def narrowed(node: Node, needed: Names) -> Node:
    """The node, itself if nothing can be saved, of which `needed` are used; it may give other columns besides."""
    narrow = _same if node.is_order else _NARROW.get(type(node))
    return node if narrow is None else narrow(node, needed or _one_of(node))


def _same(node: Node, needed: Names) -> Node:
    """A verb that changes no column."""
    below = inputs_of(node)
    return _on(node, [narrowed(one, needed) for one in below])


def _on(node: Node, inputs: list[Node]) -> Node:
    is_same = all(one is other for one, other in zip(inputs, inputs_of(node), strict=True))
    return node if is_same else with_inputs(node, inputs)


def _read(node: Read, needed: Names) -> Node:
    source = node.opened.source
    names = tuple(name for name in needed if name in source.spec)
    if not names or names == tuple(source.spec):
        return node
    less = narrowed_source(source, names)
    if less is not None:
        columns = dict(node.columns)
        kept = tuple((name, columns.get(name, name)) for name in names)
        return replace(node, opened=replace(node.opened, source=less), columns=kept)
    return node if {*names} == {*source.spec} else Select(input=node, columns=names)


def _select(node: Select, needed: Names) -> Node:
    names = tuple(name for name in needed if name in node.columns) or node.columns[:1]
    below = narrowed(node.input, names)
    if isinstance(below, Select) and below.columns == names:
        below = below.input
    return node if below is node.input and names == node.columns else Select(input=below, columns=names)


def _transform(node: Transform, needed: Names) -> Node:
    inputs, makes, needed = needed_by(node), made_by(node), _together(node, needed)
    wanted = {name for name, made in makes.items() if {*made} & {*needed}}
    with_others = wanted | {column for column, names in inputs.items() if {*names} & wanted}
    used = [(chain, draws) for chain, draws in zip(node.ops, node.draws, strict=True) if chain[0] in with_others]
    made = {one for name, _ in node.ops for one in makes[name]}
    others = tuple(column for column, names in inputs.items() if column not in needed and {*names} & wanted)
    below = narrowed(node.input, (*(name for name in needed if name in inputs or name not in made), *others))
    if not used:
        return below
    if len(used) == len(node.ops):
        return _on(node, [below])
    ops, draws = zip(*used, strict=True)
    return replace(node, input=below, ops=ops, draws=draws)


def _with_columns(node: WithColumns, needed: Names) -> Node:
    """Without what nobody uses; what becomes of nulls stays, whether or not they are computed with."""
    used = tuple(one for one in node.expressions if one[0] in needed)
    nulls = tuple(one for one in node.nulls if one[0] in needed)
    below = narrowed(node.input, node.columns_needed(needed))
    if not used and not nulls:
        return below
    if len(used) == len(node.expressions) and len(nulls) == len(node.nulls):
        return _on(node, [below])
    return replace(node, input=below, expressions=used, nulls=nulls)


def _together(node: Transform, needed: Names) -> Names:
    """With the columns that are made together with one of these, or with one that these need."""
    found = dict.fromkeys(needed)
    while True:
        before, inputs = len(found), {column for column, names in needed_by(node).items() if {*names} & {*found}}
        for name, ops in node.ops:
            together = ops[0].together(name) if ops and hasattr(ops[0], "together") else (name,)
            if {*together} & {*found, *inputs} and len(together) > 1:
                found.update(dict.fromkeys(together))
        if len(found) == before:
            return tuple(found)


def _filter(node: FilterFunction, needed: Names) -> Node:
    if node.columns is None:
        return node
    return _on(node, [narrowed(node.input, (*needed, *_without(node.columns, needed)))])


def _source_column(node: SourceColumn, needed: Names) -> Node:
    below = narrowed(node.input, _without(needed, [node.name]))
    return _on(node, [below]) if node.name in needed else below


def _pad(node: Pad, needed: Names) -> Node:
    if is_column_unknown(node.input):
        return node
    padded = columns_to_pad(node, spec_of(node.input))
    of_made = {made: name for name in padded for made in (name, lengths_name(name), mask_name(name))}
    below_needed = tuple(dict.fromkeys(of_made.get(name, name) for name in needed))
    used = tuple(name for name in padded if name in below_needed)
    below = narrowed(node.input, below_needed)
    if not used or used == padded:
        return _on(node, [below]) if used else below
    value = node.padding_value
    value = tuple(one for one in value if one[0] in used) if isinstance(value, tuple) else value
    return replace(node, input=below, columns=used, padding_value=value)


def _zip(node: Zip, needed: Names) -> Node:
    inputs = []
    for below in node.inputs:
        known = known_columns(below)
        mine = tuple(name for name in needed if known is not None and name in known)
        inputs.append(below if known is None else narrowed(below, mine))
    return _on(node, inputs)


def _joined(node: Concat | Mix, needed: Names) -> Node:
    """All inputs give the same columns, so that their rows can stand in one batch."""
    return _on(node, [_exactly(narrowed(below, needed), needed) for below in node.inputs])


def _exactly(node: Node, needed: Names) -> Node:
    known = known_columns(node)
    return node if known is not None and {*known} == {*needed} else Select(input=node, columns=needed)


def _one_of(node: Node) -> Names:
    """A column that costs little, where none is used: rows are counted by it."""
    spec = spec_of(node)
    return (min(spec, key=lambda name: (not spec[name].is_fixed, spec[name].row_bytes)),) if spec else ()


def _without(names: Names, others: Iterable[str]) -> Names:
    return tuple(name for name in names if name not in others)


#: How verbs pass on which columns are used, beside those of order; below others, all are.
_NARROW: dict[type, Callable[[Any, Names], Node]] = {
    Read: _read,
    Select: _select,
    Transform: _transform,
    WithColumns: _with_columns,
    FilterFunction: _filter,
    SourceColumn: _source_column,
    Pad: _pad,
    Zip: _zip,
    Concat: _joined,
    Mix: _joined,
    InLanes: _same,
    SkipBad: _same,
}
