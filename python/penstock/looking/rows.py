"""How verbs look at the rows of a plan when they are written, and keep what they picked."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.arguments import check_progress
from penstock.core.columns.picked_rows import RowNumbers
from penstock.core.columns.spec import Ids
from penstock.core.errors import PlanError
from penstock.core.files.byte_ranges import Progress
from penstock.core.messages import quoted
from penstock.derived.chosen_rows import kept_choices
from penstock.looking.column_values import column_values, true_rows
from penstock.plan.check import check_picking
from penstock.plan.expression import Expression
from penstock.plan.nodes import Node, Read, describe
from penstock.plan.nullable import taken_apart
from penstock.plan.tree import flow, leaves
from penstock.resolve.resolved import resolve
from penstock.source.protocol import Access

#: Changes when other rows are picked by the same words.
_VERSION = 1


class Looking:
    """A verb that looks at the rows of a plan."""

    def __init__(self, verb: str, root: Node, progress: Progress | None) -> None:
        check_progress(verb, progress)
        check_picking(verb, root)
        for leaf in leaves(root):
            if leaf.access is Access.FORWARD:
                raise PlanError(
                    f"{verb}: {leaf.where} is drawn in one order, and nothing of it is kept; let from_iterable(…, spool=True) keep the rows"
                )
        self.verb, self.root, self._progress = verb, root, progress
        self.rows = resolve(root).rows

    def values(self, expression: Expression) -> Any:
        """The expression's value for every row; PlanError where one is missing."""
        found = column_values(self.verb, self.root, expression, self._progress)
        missing = np.flatnonzero(_is_missing(found))
        if len(missing):
            raise PlanError(
                f"{self.verb}: {quoted(expression)} is missing in {len(missing):,} of {self.rows:,} rows, first in row {missing[0]:,}; leave these "
                f"out first, by filter({_without(expression, found)}), or give the column a default, or its nulls a value: .fill_null(…)"
            )
        return taken_apart(found)

    def true_rows(self, predicate: Expression) -> Ids:
        """The rows for which a predicate is true."""
        return true_rows(self.verb, self.root, predicate, self._progress)

    def picked(
        self, words: Sequence[str], make: Callable[[], Sequence[npt.NDArray[Any] | RowNumbers]]
    ) -> list[RowNumbers]:
        """What `make` picks, one for each of `words`; kept in the cache where these and the files name it."""

        def pick() -> list[RowNumbers]:
            return [one if isinstance(one, RowNumbers) else RowNumbers(one, self.rows) for one in make()]

        data = self._data
        return pick() if data is None else kept_choices([digest(f"{data}\0{word}") for word in words], pick)

    @property
    def _data(self) -> str | None:
        """What names the rows that are looked at; None where files may change unnoticed, or there are none."""
        parts = [str(_VERSION), self.verb]
        for node in flow(self.root):
            if not isinstance(node, Read):
                parts.append(describe(node))
                continue
            source = node.opened.source
            files = source.manifest.shards.identity if len(source.manifest.shards) else None
            if files is None:
                return None
            parts += [files, source.manifest.digest, node.opened.asked, str({**source.spec})]
        return "\0".join(parts)


def digest(text: str) -> str:
    """32 hex digits of a text."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _without(expression: Expression, values: Any) -> str:
    """The predicate for rows in which a value is there."""
    return f"{quoted(expression)}.is_not_null()" if isinstance(values, pa.Array) else f"~{quoted(expression)}.is_nan()"


def _is_missing(values: Any) -> npt.NDArray[np.bool_]:
    if isinstance(values, pa.Array):
        return np.asarray(pc.is_null(values, nan_is_null=True).to_numpy(zero_copy_only=False))
    return np.isnan(values) if values.dtype.kind == "f" else np.zeros(0, dtype=bool)
