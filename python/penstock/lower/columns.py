"""Nodes that choose, add or keep columns as they are, and pad them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from penstock.batch.pad import padded_spec
from penstock.lower.branch import Branch
from penstock.lower.context import Context
from penstock.plan.nodes import Cache, Pad, Select, SourceColumn, WithColumns
from penstock.plan.tree import inputs_of, origins
from penstock.runtime.stage import Item, Stage
from penstock.stages.cached.store import KeepRows
from penstock.stages.pad import PadColumns
from penstock.stages.select import SelectColumns
from penstock.stages.source_column import SOURCE_FIELD, NumberSources
from penstock.stages.with_columns import ComputeColumns


def lower_select(node: Select, inputs: Sequence[Branch], context: Context) -> Branch:
    """Some columns: the stage before drops the others, unless bad rows are taken out of what it makes."""
    (branch,) = inputs
    stage = Stage("select", "cpu", SelectColumns(branch.sources, node.columns), is_with_one_before=context.bad is None)
    spec = None if branch.spec is None else {name: branch.spec[name] for name in node.columns}
    return replace(branch.then(stage), spec=spec)


def lower_with_columns(node: WithColumns, inputs: Sequence[Branch], context: Context) -> Branch:
    """Columns that are computed of others; what they are computed of is in memory beside them."""
    (branch,) = inputs
    fields = None if branch.spec is None else node.fields(branch.spec)
    compute = ComputeColumns(branch.sources, context.places_of(branch), context.slots, node, branch.spec, fields)
    stage = context.fallible(branch.sources, Stage(node.verb, "cpu", compute, threads=context.threads))
    beside = sum(field.row_bytes for name, field in (branch.spec or {}).items() if name in node.made)
    made = {name: field for name, field in (fields or {}).items() if field != (branch.spec or {}).get(name)}
    return replace(
        branch.then(stage, made),
        spec=fields,
        beside_bytes=branch.beside_bytes + beside,
        indices=branch.indices - node.made.keys(),
    )


def lower_source_column(node: SourceColumn, inputs: Sequence[Branch], context: Context) -> Branch:
    """The number of the dataset that each row came of."""
    (branch,) = inputs
    sources = np.cumsum([branch.sources[0], *(len(origins(below)) for below in inputs_of(node.input)[:-1])])
    first_ids = context.sources.first_ids[sources]
    number = NumberSources(branch.sources, first_ids, node.name, node.input.verb, context.slots)
    return branch.then(Stage(f"{node.verb} {node.name}", "cpu", number), {node.name: SOURCE_FIELD})


def lower_pad(node: Pad, inputs: Sequence[Branch], context: Context) -> Branch:
    """Ragged columns become dense."""
    (branch,) = inputs
    pad = PadColumns(branch.sources, node, context.places_of(branch), context.slots, context.budget)
    spec = None if branch.spec is None else padded_spec(node, branch.spec)
    return replace(branch.then(Stage("pad", "cpu", pad, threads=context.threads), spec), spec=spec)


def lower_cache(node: Cache, inputs: Sequence[Branch], context: Context) -> Branch:
    """Rows that were made are kept."""
    (branch,) = inputs
    if (reader := context.caches.get(id(node))) is not None:
        keep = KeepRows(reader.cached, branch.functions, context.slots, context.budget)
        return branch.then(Stage(node.verb, "io", keep, threads=context.threads))
    if context.is_described:
        return branch.then(Stage(node.verb, "io", _same, threads=context.threads))
    return branch


def _same(item: Item) -> Item:
    return item
