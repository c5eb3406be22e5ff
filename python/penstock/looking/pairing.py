"""`zip(…, on=key)`: rows of several datasets are brought into the order of the first one's, by a column or by the names of their files."""

from __future__ import annotations

import string
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.columns.picked_rows import RowNumbers
from penstock.core.columns.spec import Ids
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.core.warnings import warn
from penstock.looking.column_values import check_expression
from penstock.looking.rows import Looking
from penstock.plan.check import check_verb
from penstock.plan.expression import col
from penstock.plan.nodes import Node, Read, Select, Subset, Zip
from penstock.plan.tree import inputs_of, leaves, with_inputs
from penstock.resolve.resolved import resolve
from penstock.resolve.row_places import RowPlaces

STEM = "stem"
#: Extensions at the end of a name: the last one, and letters between dots before it; "a.seg.png" and "2024.05.png" are "a" and "2024.05".
_EXTENSIONS = r"^(.*?[^/.])(\.[A-Za-z]+)*\.[0-9]*[A-Za-z][0-9A-Za-z]*$"
#: Keys that messages show, and names that are compared at once.
_SHOWN, _COMPARED = 3, 1 << 16


def paired(roots: Sequence[Node], on: Any, *, strict: bool) -> tuple[Node, ...]:
    """The datasets in the order of the first one, row by row of one key. Not strict: without the rows whose key is not in all of them.

    PlanError for what is no key, and for keys that are missing, come twice, or, if strict, have no partner.
    """
    if not isinstance(on, str) or not on:
        raise PlanError(f"zip: on={quoted(on)}; pass 'stem' for the names of files, or the name of a column")
    rows = [_rows_alone(root) for root in roots]
    for number, root in enumerate(rows):
        _check_key(number, root, on)
    roots = _with_one_key(roots, rows, on)
    check_verb(Zip(inputs=tuple(roots)))
    looking = Looking("zip", Zip(inputs=tuple(rows)), None)

    def make() -> list[RowNumbers]:
        keys = _alike(on, [_keys_of(root, on) for root in rows])
        for number, (some, root) in enumerate(zip(keys, rows, strict=True)):
            _check_once(on, number, some, root)
        return [
            RowNumbers(places, len(some)) for some, places in zip(keys, _matched(on, keys, strict=strict), strict=True)
        ]

    found = looking.picked([f"on {on} strict {strict} {number}" for number in range(len(rows))], make)
    return tuple(_chosen(root, picked) for root, picked in zip(roots, found, strict=True))


def warn_of_names(roots: Sequence[Node]) -> None:
    """Warns where rows are paired by their places, and their files have other names: c.png with d.png."""
    first, *others = map(_rows_alone, roots)
    for number, other in enumerate(others, 1):
        found = _first_difference(first, other)
        if found is not None:
            warn(
                f"zip pairs rows by their places, and {quoted(found[0])} of dataset 0 meets {quoted(found[1])} of dataset {number}; zip([…], on='stem') pairs files "
                f"by their names"
            )
            return


def _first_difference(one: Node, other: Node) -> tuple[str, str] | None:
    """The first two files whose names, without folders and extensions, differ; None where all are alike, or rows are no files."""
    if not all(map(_is_file_a_row, (*leaves(one), *leaves(other)))):
        return None
    mine, others = _file_names(one), _file_names(other)
    for begin in range(0, len(mine), _COMPARED):
        first, second = (side.slice(begin, _COMPARED) for side in (mine, others))
        shorter = [pc.utf8_rtrim(some, string.ascii_letters) for some in (first, second)]  # soon, and mostly enough
        if pc.all(pc.and_(pc.equal(*shorter), pc.ends_with(shorter[0], "."))).as_py():
            continue
        differs = pc.not_equal(*(pc.replace_substring_regex(_stems(some), r"^.*/", "") for some in (first, second)))
        if pc.any(differs).as_py():
            at = pc.index(differs, True).as_py()
            return first[at].as_py(), second[at].as_py()
    return None


# Keys


def _rows_alone(node: Node) -> Node:
    """The plan with the columns of its sources, and those that it computes of these: it has the same rows."""
    while node.row_effect == "same" and len(node.below) == 1 and not isinstance(node, Select) and not node.made:
        (node,) = node.below
    return with_inputs(node, [_rows_alone(below) for below in inputs_of(node)])


def _with_one_key(roots: Sequence[Node], rows: Sequence[Node], on: str) -> list[Node]:
    """The datasets, of which only the first has the column of the key."""
    made = [roots[0]] if roots else []
    for number, root in enumerate(roots[1:], 1):
        known = resolve(root).columns
        if known is None or on not in known or on not in resolve(rows[0]).spec:
            made.append(root)
            continue
        left = tuple(name for name in known if name != on)
        if not left:
            raise PlanError(
                f"zip: dataset {number} has no column but {quoted(on)}, the key; leave that dataset out, or filter by it"
            )
        made.append(Select(input=root, columns=left))
    return made


def _check_key(number: int, root: Node, on: str) -> None:
    """PlanError where a dataset has no such key, by its columns and files alone."""
    if _is_by_name(root, on):
        if not all(map(_is_file_a_row, leaves(root))):
            raise PlanError(
                f"zip: on='stem' pairs files that are a row each, and those of dataset {number} ({leaves(root)[0].where}) are not; name a column that all "
                f"datasets have, on='id', or give this one a column 'stem'"
            )
        return
    kind = check_expression("zip", root, col(on))
    if not isinstance(kind, pa.Array) and kind.dtype.kind not in "iu":
        raise PlanError(
            f"zip: on={quoted(on)} is {kind.dtype} in dataset {number}; rows are paired by whole numbers, text or bytes, which are equal or not"
        )


def _is_by_name(root: Node, on: str) -> bool:
    return on == STEM and on not in resolve(root).spec


def _is_file_a_row(leaf: Read) -> bool:
    manifest = leaf.opened.source.manifest
    return len(manifest.shards) == manifest.samples


def _keys_of(root: Node, on: str) -> pa.Array:
    """The key of every row, in the natural order."""
    if _is_by_name(root, on):
        return _stems(_file_names(root))
    values = Looking("zip", root, None).values(col(on))
    return values if isinstance(values, pa.Array) else pa.array(values)


def _alike(on: str, keys: Sequence[pa.Array]) -> list[pa.Array]:
    """Keys of one type; PlanError where one dataset has numbers and another text."""
    kinds = [
        "whole numbers" if pa.types.is_integer(some.type) else str(some.type).removeprefix("large_") for some in keys
    ]
    for number, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise PlanError(
                f"zip: on={quoted(on)} is {kinds[0]} in dataset 0 and {kind} in dataset {number}, so that no key has a partner; make them alike, with penstock.Column "
                f"in read(…, columns=…)"
            )
    return [*keys] if len({some.type for some in keys}) == 1 else [pc.cast(some, pa.large_string()) for some in keys]


def _file_names(root: Node) -> pa.Array:
    """The name of every row's file below the folder that was read."""
    manifests = [leaf.opened.source.manifest for leaf in leaves(root)]
    rows, first_ids, parts, places = resolve(root).natural, resolve(root).first_ids.tolist(), [], []
    ids = rows.ids(np.arange(rows.rows))
    for manifest, (begin, end) in zip(manifests, pairwise(first_ids), strict=True):
        mine = np.flatnonzero((ids >= begin) & (ids < end))
        places.append(mine)
        parts.append(manifest.shards.names.take(pa.array(manifest.shard_of(ids[mine] - begin))))
    return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(places))))


def _stems(names: pa.Array) -> pa.Array:
    """Names without extensions: "cat/a.jpg" is "cat/a"."""
    return pc.replace_substring_regex(names, _EXTENSIONS, r"\1")


# Rows of one key


def _check_once(on: str, number: int, keys: pa.Array, root: Node) -> None:
    """PlanError for a key that two rows have."""
    codes = keys.dictionary_encode().indices.to_numpy()
    if len(codes) == 0 or int(codes.max()) == len(codes) - 1:
        return
    turn = np.argsort(codes, kind="stable")
    again = int(turn[1:][codes[turn[1:]] == codes[turn[:-1]]].min())
    first = int(np.flatnonzero(codes == codes[again])[0])
    rows = resolve(root).natural.ids(np.array([first, again]))
    places = RowPlaces(resolve(root).first_ids, leaves(root))
    one, other = (places(row) for row in rows.tolist())
    raise PlanError(
        f"zip: on={quoted(on)}: {one} and {other}, both of dataset {number}, have the key {quoted(keys[first].as_py())}, and a key has one row in every dataset; "
        f"leave one out, or pair by another key"
    )


def _matched(on: str, keys: Sequence[pa.Array], *, strict: bool) -> list[Ids]:
    """For each dataset, its rows in the order of the first one's."""
    partners = [_partners(keys[0], some) for some in keys]
    if strict:
        for number, some in enumerate(keys[1:], 1):
            _check_all_paired(on, number, keys[0], some, partners[number])
        return partners
    is_in_all = np.all([found >= 0 for found in partners], axis=0)
    if not is_in_all.any():
        raise PlanError(
            f"zip: on={quoted(on)}: no key is in all datasets: {'; '.join(f'dataset {number} has {_some(some)}' for number, some in enumerate(keys))}"
        )
    return [found[is_in_all] for found in partners]


def _partners(keys: pa.Array, others: pa.Array) -> Ids:
    """The place among others of each key; -1 where it is not."""
    found = pc.index_in(keys, value_set=others)
    return np.asarray(found.fill_null(-1).to_numpy(zero_copy_only=False)).astype(np.int64)


def _check_all_paired(on: str, number: int, first: pa.Array, other: pa.Array, partners: Ids) -> None:
    lonely, extra = first.filter(pa.array(partners < 0)), other.filter(pa.array(_partners(other, first) < 0))
    if len(lonely) or len(extra):
        raise PlanError(
            f"zip: on={quoted(on)}: {len(lonely):,} of the {len(first):,} rows of dataset 0 have no partner in dataset {number} ({_some(lonely)}), and "
            f"{len(extra):,} of its {len(other):,} rows have none in dataset 0 ({_some(extra)}); add what is missing, or pass strict=False to leave such rows out"
        )


def _some(keys: pa.Array) -> str:
    shown = ", ".join(quoted(key) for key in keys.slice(0, _SHOWN).to_pylist())
    return f"{shown}{', …' if len(keys) > _SHOWN else ''}" if len(keys) else "none"


def _chosen(root: Node, picked: RowNumbers) -> Node:
    """The rows that were picked, as `Subset`; the dataset as it is where these are all of them in order."""
    if len(picked) == resolve(root).rows and bool((picked.numbers == np.arange(len(picked))).all()):
        return root
    return Subset(input=root, picked=picked)
