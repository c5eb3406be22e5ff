"""Native ops: chains on columns, and ops on whole batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from penstock.core.columns.spec import Field, Spec
from penstock.core.errors import PlanError
from penstock.lower.branch import Branch
from penstock.lower.context import Context
from penstock.lower.layouts import is_channels_first
from penstock.plan.columns import transformed
from penstock.plan.nodes import Batch, Draws, Transform, TransformBatch
from penstock.plan.tree import find
from penstock.runtime.stage import Stage
from penstock.source.protocol import Access
from penstock.stages.moved_ops import BatchDraws, MovedMix, MovedOps
from penstock.stages.transform import ApplyKernels, ApplyToBatch, ChainsKernel, look_at_first
from penstock.transform.family import Chains, DeviceKernel, FileColumn, Kernel, Site, family_of, groups_of, needs_of

#: Partners of a row are among so many neighbours, or fewer: it must divide the rows of each rank.
_NEIGHBOURS = (8, 4, 2)


def lower_transform(node: Transform, inputs: Sequence[Branch], context: Context) -> Branch:
    """Chains that share columns become a kernel, but for what a device does of them."""
    (branch,) = inputs
    every, draws = list[ChainsKernel](), dict(zip(dict(node.ops), node.draws, strict=True))
    for chains in groups_of(dict(node.ops)):
        branch, one = _compiled(node, chains, branch, context)
        if one is not None:
            every.append(one)
    if not every:
        return branch
    apply = ApplyKernels(
        branch.sources,
        context.sources.first_ids,
        context.places_of(branch),
        context.slots,
        every,
        seed=context.seed,
        draws={name: draws[name] for one in every for name in one.chains},
        budget=context.budget,
        is_frozen=context.is_frozen,
    )
    stage = context.fallible(branch.sources, Stage("transform", "cpu", apply, threads=context.threads))
    return replace(branch.then(stage), images=(*branch.images, apply.counts))


def _compiled(node: Transform, chains: Chains, branch: Branch, context: Context) -> tuple[Branch, ChainsKernel | None]:
    """The kernel of some chains, None where the device does all of it; and the branch with what comes of it."""
    draws = dict(zip(dict(node.ops), node.draws, strict=True))
    needed = tuple(dict.fromkeys(column for name, ops in chains.items() for column in needs_of(name, ops)))
    family = family_of(next(iter(chains.values())))
    site = replace(
        _site(branch, context),
        numbers={name: draws[name].ops for name in chains},
        channels_first=frozenset(node.channels_first),
    )
    branch = replace(branch, indices=branch.indices | family.indices(chains, site))
    kernel: Kernel | None = None
    is_last, free = node is context.on_device.transform, frozenset(chains) - context.on_device.excluded
    if branch.spec is None or context.is_described:
        moved = family.device_ends(chains, site, free) if is_last and branch.spec is not None else {}
        lazy = ChainsKernel(family, chains, needed, replace(site, in_file=_in_no_file), None)
        branch = branch if branch.spec is None else _with_fields(branch, _new_columns(node, branch.spec))
        return _leaving(branch, moved, draws, context), lazy
    kernel = family.compile(chains, site)
    if is_last:
        kernel, moved = kernel.on_device(free)
        branch = _leaving(branch, moved, draws, context)
    if kernel is None:
        return branch, None
    return _with_fields(branch, kernel.fields), ChainsKernel(family, chains, needed, site, kernel)


def _new_columns(node: Transform, given: Spec) -> Spec:
    """The columns that a transform makes beside these, as its ops say."""
    return {name: field for name, field in transformed(node, given).items() if name not in given}


def _leaving(branch: Branch, moved: Mapping[str, DeviceKernel], draws: Mapping[str, Draws], context: Context) -> Branch:
    """Behind ops that are left to a device."""
    ends = {
        name: MovedOps(kernel=one, seed=context.seed, draw=(draws[name].transform, draws[name].place))
        for name, one in moved.items()
    }
    return replace(branch, moved={**branch.moved, **ends})


def lower_transform_batch(node: TransformBatch, inputs: Sequence[Branch], context: Context) -> Branch:
    """An op on whole batches."""
    (branch,) = inputs
    family, chains = family_of((node.op,)), {"": (node.op,)}
    first = frozenset(name for name in branch.spec or () if is_channels_first(node.input, name))
    is_lazy = branch.spec is None or context.is_described
    fields = branch.spec or {} if is_lazy else _fields_there(branch)
    site = replace(_site(branch, context), channels_first=first, fields=fields)
    kernel = None if is_lazy else family.compile(chains, site)
    draws = BatchDraws(
        seed=context.seed, number=node.draws, together=_together(node, context), is_full=partial(_is_full, context)
    )
    branch = _mixing_there(node, kernel, draws, branch)
    apply = ApplyToBatch(
        branch.sources,
        context.places_of(branch),
        context.slots,
        ChainsKernel(family, chains, (), site, kernel),
        draws=draws,
        budget=context.budget,
    )
    branch = branch if kernel is None else _with_fields(branch, kernel.fields)
    return branch.then(Stage(f"transform {type(node.op).__name__}", "cpu", apply, threads=context.threads))


def _fields_there(branch: Branch) -> Spec:
    """The columns, those whose chains a device ends as they are behind that."""
    fields = dict(branch.spec or {})
    for name, ops in branch.moved.items():
        if name in fields:
            fields[name] = Field(ops.kernel.pixels.dtype, ops.kernel.pixels.shape(fields[name].shape))
    return fields


def _mixing_there(node: TransformBatch, kernel: Kernel | None, draws: BatchDraws, branch: Branch) -> Branch:
    """With the images that a device mixes left to it: those of float32 whose chains it ends, but for indices. kernel: None in a plan that is described only, or behind a function."""
    floats = [
        name
        for name, ops in branch.moved.items()
        if name in (branch.spec or {}) and name not in branch.indices and ops.kernel.pixels.dtype == "float32"
    ]
    names = node.op.mixed_on_device(floats)
    if not names:
        return branch
    left = None if kernel is None else kernel.mixing_on_device(frozenset(names))
    mix = MovedMix(kernel=left, draws=draws, words=type(node.op).__name__)
    return replace(branch, moved={**branch.moved, **{name: replace(branch.moved[name], mix=mix) for name in names}})


def _together(node: TransformBatch, context: Context) -> int:
    """How many neighbouring rows of a batch an op takes together: as the plan alone says. PlanError where that does not divide the rows that this rank has."""
    batch = find(context.root, Batch)
    rows = batch.size if batch is not None and batch.per_rank else context.order.batch_size
    usual = next((few for few in _NEIGHBOURS if rows % few == 0), None)
    among = node.op.among or usual or next(few for few in range(min(3, rows), rows + 1) if rows % few == 0)
    if context.rows_per_step % among:
        raise PlanError(
            f"transform: {type(node.op).__name__} takes {among} neighbouring rows of a batch together, on any number of ranks alike, and each rank has {context.rows_per_step:,} rows: "
            f"say {type(node.op).__name__}(…, among=…) with a number that divides these, or take another batch"
        )
    return int(among)


def _is_full(context: Context, step: int) -> bool:
    """Whether a step has as many rows as a batch, on all ranks."""
    ranks = context.where.world_size
    return context.order.places(step, ranks - 1, ranks)[1] == context.order.batch_size


def _site(branch: Branch, context: Context) -> Site:
    """What a family may know of what comes out of a branch."""

    def first(column: str, look: Any) -> Any:
        return look_at_first(branch.leaf_of.get(column, branch.leaf), column, look)

    return Site(
        fields=branch.spec or {},
        limits=branch.limits,
        indices=branch.indices,
        first=None if context.is_described else first,
        in_file=partial(_in_file, branch, context),
        sources=context.sources.known,
    )


def _in_file(branch: Branch, context: Context, column: str) -> FileColumn | None:
    """Where a column lies that comes from records of one source; None for others."""
    source = branch.leaf.opened.source
    is_read = column in source.spec and source.access is Access.RECORDS and branch.is_one_source
    if context.order.rows.is_listed or not is_read:
        return None
    name = dict(branch.leaf.columns).get(column, column)
    return FileColumn(source.manifest.digest, source.manifest.samples, name)


def _in_no_file(_: str) -> None:
    return None


def _with_fields(branch: Branch, fields: Spec) -> Branch:
    """Columns become others, beside which they are in memory for a while."""
    assert branch.spec is not None
    beside = sum(branch.spec[name].row_bytes for name in fields if name in branch.spec)
    return replace(
        branch,
        spec={**branch.spec, **fields},
        widest={**branch.widest, **fields},
        beside_bytes=branch.beside_bytes + beside,
    )
