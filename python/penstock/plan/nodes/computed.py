"""Columns that are computed of others, row by row, by expressions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.core.columns.spec import Spec
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.plan.columns import spec_of
from penstock.plan.expression import Expression, columns_of
from penstock.plan.node import Known, Verb
from penstock.plan.tree import is_column_unknown
from penstock.source.nulls import NullRule


@dataclass(frozen=True, kw_only=True, eq=False)
class WithColumns(Verb):
    """The columns of the input, and others, which may take the place of some: each is an expression of the input's columns.

    nulls: what becomes of nulls that are left, by column: the rules that were put off when rows were read, so that expressions see the nulls.
    """

    expressions: tuple[tuple[str, Expression], ...]
    nulls: tuple[tuple[str, str], ...] = field(default=(), metadata={"unsaid": True})
    verb: str = "with_columns"

    column_effect = "computed"
    keeps_steps = True
    computes = True
    may_fail = True

    @property
    def made(self) -> Mapping[str, Expression]:
        """The expressions by their columns."""
        return dict(self.expressions)

    def seen(self, below: Spec) -> Spec:
        """The columns with their nulls, by those of the input."""
        from penstock.plan.computing import computed_spec

        return computed_spec(self.verb, self.expressions, below)

    def rules(self, seen: Spec) -> dict[str, NullRule]:
        """What becomes of the nulls of columns that may have some."""
        return {
            name: NullRule(name, seen[name], rule) for name, rule in self.nulls if name in seen and seen[name].nullable
        }

    def fields(self, below: Spec) -> Spec:
        """The columns as batches have them, by those of the input."""
        seen = dict(self.seen(below))
        for rule in self.rules(seen).values():
            seen |= rule.fields
        return seen

    def spec_of_inputs(self, below: Sequence[Spec]) -> Spec:
        """Those of the input, and those that are made of them."""
        return below[0] if is_column_unknown(self.input) else self.fields(below[0])

    def known_of(self, below: Sequence[Known]) -> Known:
        """The same by their names."""
        if below[0] is None:
            return None
        return below[0] | {name: "" for name, _ in self.expressions}

    def said(self) -> Iterator[tuple[str, str]]:
        """What each column is."""
        for name, expression in self.expressions:
            yield name, repr(expression)
        for name, rule in self.nulls:
            yield f"nulls of {name}", rule

    def check(self) -> None:
        """PlanError for a column that is not there, and for what cannot be computed of it."""
        for name, expression in self.expressions:
            if not isinstance(expression, Expression):
                raise PlanError(f"{self.verb}: {name}={quoted(expression)} is no expression; write penstock.col(…)")
        if not is_column_unknown(self.input):
            self.seen(spec_of(self.input))

    def columns_needed(self, wanted: Sequence[str]) -> tuple[str, ...]:
        """The columns of the input that some columns are made of, or are."""
        made = self.made
        found = dict.fromkeys(name for name in wanted if name not in made)
        for name in wanted:
            found |= dict.fromkeys(sorted(columns_of(made.get(name))))
        return tuple(found)
