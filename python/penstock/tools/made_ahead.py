"""Numbers by which rows are put into batches, where native ops make the column: their chains run ahead, on each row once."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.columns.spec import Columns, Field, is_bytes, is_list, is_text
from penstock.core.errors import PlanError
from penstock.core.files.byte_ranges import Progress
from penstock.core.messages import quoted
from penstock.looking.rows import Looking
from penstock.looking.verbs import numbers_of_rows
from penstock.plan.columns import spec_of
from penstock.plan.expression import Expression, columns_of, expression_of
from penstock.plan.expression_values import row_value_of
from penstock.plan.nodes import Node, Select, Shuffle
from penstock.plan.tree import flow, rewrite
from penstock.resolve.resolved import below_all_rows, keeps_all_rows
from penstock.tools.few_rows import FewRows, length_of
from penstock.transform.family import needs_of

#: Rows that are made together.
_TOGETHER = 4096


def numbers_ahead(verb: str, root: Node, by: Any, progress: Progress | None) -> Any:
    """A number for each row of the data below what keeps all rows, as `numbers_of_rows` has it; of columns that native ops make, what these make of them."""
    if not isinstance(by, (str, Expression)):
        return by
    expression, below = expression_of(verb, by), below_all_rows(root)
    if not _is_made(verb, root, columns_of(expression), spec_of(below)):
        return numbers_of_rows(verb, root, by, progress)
    looking = Looking(verb, below, progress)
    numbers, done = [], 0
    for columns in _columns(root, tuple(sorted(columns_of(expression)))):
        numbers.append(_numbers(verb, by, expression, columns))
        done += length_of(columns)
        if progress is not None:
            progress(done, looking.rows)
    return np.concatenate(numbers) if numbers else np.zeros(0, np.int64)


def _is_made(verb: str, root: Node, names: set[str], given: Collection[str]) -> bool:
    """Whether ops make some of these columns. given: what sources have. PlanError for columns that nobody knows ahead."""
    wanted, is_made = set(names), False
    while keeps_all_rows(root):
        wanted = {one for name in wanted for one in (columns_of(root.made[name]) if name in root.made else {name})}
        if root.user_function is not None and (lost := sorted(wanted - {*given})):
            raise PlanError(
                f"{verb}: column {quoted(lost[0])} is made by a function, which runs while batches are made; compute it with with_columns, or pass an array with a number for each row"
            )
        chains = dict(root.chains)
        for chain, columns in _made_by(root).items():
            if not wanted.intersection(columns):
                continue
            if chain in given and getattr(chains[chain][0], "on_pixels", False):
                continue  # as it lies in the source: the bytes of an encoded image
            needed = needs_of(chain, chains[chain])
            if any(getattr(op, "is_random", False) for one in (chain, *needed) for op in chains.get(one, ())):
                raise PlanError(
                    f"{verb}: column {quoted(chain)} is drawn anew in each epoch, and rows are put into batches by what is the same in all; take a column that no random op changes"
                )
            wanted, is_made = {*wanted.difference(columns), *needed}, True
        (root,) = root.below
    for node in flow(root):
        if lost := sorted({one for columns in _made_by(node).values() for one in columns} & wanted):
            raise PlanError(
                f"{verb}: column {quoted(lost[0])} is made by ops in a dataset below {root.verb}, where columns may differ from dataset to dataset; write transform behind {root.verb}"
            )
    return is_made


def _made_by(node: Node) -> dict[str, set[str]]:
    """The columns that each chain of a transform makes or changes."""
    found = dict[str, set[str]]()
    for name, ops in node.chains:
        before: dict[str, Field] = dict(spec_of(node.below[0]))
        after = before
        for op in ops:
            after = op.output(name, after)
        found[name] = {name, *(one for one, field in after.items() if before.get(one) != field)}
    return found


def _columns(root: Node, names: tuple[str, ...]) -> Iterator[Columns]:
    """Columns of all rows, in the order of the data, many at once."""
    plan = Select(input=rewrite(root, [_unshuffled]), columns=names)
    with FewRows(plan) as rows:
        yield from rows.pieces(_TOGETHER)


def _unshuffled(node: Node) -> Node | None:
    return node.input if isinstance(node, Shuffle) else None


def _numbers(verb: str, by: Any, expression: Expression, columns: Columns) -> Any:
    """Numbers of rows; of lists, texts and bytes their lengths, where a column is named."""
    values = row_value_of(expression, columns)
    if isinstance(values, pa.Array):
        if isinstance(by, str) and (is_list(values.type) or is_text(values.type) or is_bytes(values.type)):
            values = row_value_of(expression.len(), columns)
        missing = values.null_count if isinstance(values, pa.Array) else 0
        if missing:
            raise PlanError(
                f"{verb}: {quoted(by)} is missing in some rows; give it a value, or leave these rows out first"
            )
    if np.ndim(values) != 1:
        raise PlanError(
            f"{verb}: {quoted(by)} gives {np.shape(values)[1:]} values a row, where one number belongs; take another column"
        )
    return values.astype(np.int64) if values.dtype == np.bool_ else values
