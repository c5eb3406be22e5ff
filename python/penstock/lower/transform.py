"""Native ops on columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from penstock.core.spec import EntryPoints, Field
from penstock.lower.branch import Branch
from penstock.lower.context import Context
from penstock.plan.nodes import Draws, Transform
from penstock.runtime.stage import Stage
from penstock.source.jpeg_index import Growing, index_path, load
from penstock.source.protocol import Access
from penstock.stages.moved_ops import MovedOps
from penstock.stages.transform import ApplyKernels, ColumnKernel, FirstImage
from penstock.transform.image import as_first_is, fuse, gives_indices
from penstock.transform.image.device import split


def lower_transform(node: Transform, inputs: Sequence[Branch], context: Context) -> Branch:
    """Each column's chain of ops becomes a kernel, but for what a device does of it."""
    (branch,) = inputs
    kernels, draws = dict[str, ColumnKernel](), list[Draws]()
    for (name, ops), draw in zip(node.ops, node.draws, strict=True):
        branch, kernel = _chain(node, name, ops, draw, branch, context)
        if kernel is not None:
            kernels[name] = kernel
            draws.append(draw)
    if not kernels:
        return branch
    apply = ApplyKernels(
        branch.sources,
        context.sources.first_ids,
        context.places_of(branch),
        context.slots,
        kernels,
        seed=context.seed,
        draws=draws,
        budget=context.budget,
        is_frozen=context.is_frozen,
    )
    stage = context.fallible(branch.sources, Stage("transform", "cpu", apply, threads=context.threads))
    return replace(branch.then(stage), images=(*branch.images, apply.images))


def _chain(
    node: Transform, name: str, ops: tuple[Any, ...], draw: Draws, branch: Branch, context: Context
) -> tuple[Branch, ColumnKernel | None]:
    """One column's kernel, None where the device does all of its ops; and the branch with what comes of it."""
    first = FirstImage(branch.leaf_of.get(name, branch.leaf), name, ops)
    if not context.is_described:
        ops = as_first_is(ops, first.mode)  # the same, with a mode
    if gives_indices(ops, from_indices=name in branch.indices):
        branch = replace(branch, indices=branch.indices | {name})
    is_first = name in node.channels_first
    stays = is_first or node is not context.on_device.transform or name in context.on_device.excluded
    if branch.spec is not None and not stays:
        branch, ops = _on_host(name, ops, draw, branch, context)
        if not ops:
            return branch, None
    if branch.spec is None or context.is_described:
        return branch, ColumnKernel(ops, first, branch.limits, numbers=draw.ops, channels_first=is_first)
    field = branch.spec[name]
    kernel = fuse(ops, field, first.size, limits=branch.limits, numbers=draw.ops, channels_first=is_first)
    made = ColumnKernel(ops, first, branch.limits, kernel, _entry_points(branch, name, ops, context))
    return _with_field(branch, name, kernel.field), made


def _with_field(branch: Branch, name: str, field: Field) -> Branch:
    """A column becomes another one, beside which it is in memory for a while."""
    assert branch.spec is not None
    return replace(
        branch,
        spec={**branch.spec, name: field},
        widest={**branch.widest, name: field},
        beside_bytes=branch.beside_bytes + branch.spec[name].row_bytes,
    )


def _on_host(
    name: str, ops: tuple[Any, ...], draw: Draws, branch: Branch, context: Context
) -> tuple[Branch, tuple[Any, ...]]:
    """The ops that stay on the host, of a chain whose end the device does."""
    assert branch.spec is not None
    found = split(ops, branch.spec[name], op_numbers=draw.ops)
    if found is None:
        return branch, ops
    moved = MovedOps(split=found, seed=context.seed, draw=(draw.transform, draw.place))
    return replace(branch, moved={**branch.moved, name: moved}), found.host


def _entry_points(branch: Branch, name: str, ops: tuple[Any, ...], context: Context) -> EntryPoints | Growing | None:
    """The JPEG index for a column that comes from files of one source, as its Decode asks for it."""
    wish, source = getattr(ops[0], "entry_points", "off") if ops else "off", branch.leaf.opened.source
    if (
        wish == "off"
        or context.order.rows.is_listed
        or not branch.is_one_source
        or name not in source.spec
        or source.access is not Access.RECORDS
    ):
        return None
    path = index_path(source.manifest.digest, dict(branch.leaf.columns).get(name, name))
    found = load(path)
    return found if found is not None or wish == "auto" else Growing(source.manifest.samples, path)
