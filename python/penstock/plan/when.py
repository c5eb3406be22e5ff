"""Conditions: ps.when(…).then(…).otherwise(…)."""

from __future__ import annotations

from typing import Any

from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.plan.expression import Expression, lit


class When:
    """A condition that waits for its value: `then`.

    Args:
        condition: what is true or false.
        before: the conditions and values before it.

    Example:
        sign = ps.when(ps.col("x") > 0).then(1).otherwise(0)
    """

    def __init__(self, condition: Expression, before: tuple[Any, ...] = ()) -> None:
        if not isinstance(condition, Expression):
            raise PlanError(f"when({quoted(condition)}): pass an expression such as penstock.col('x') > 0")
        self._before = (*before, condition)

    def then(self, value: Any) -> Then:
        """What stands where the condition is true.

        Args:
            value: a value, or an expression. Text is a value here.

        Example:
            ps.when(ps.col("x") > 7).then("large")
        """
        return Then((*self._before, _whole(value)))


class Then(Expression):
    """An expression, null where no condition is true, that may go on: `when(…).then(…)`, `otherwise(…)`.

    Args:
        chosen: conditions and their values, in turn.

    Example:
        size = ps.when(ps.col("x") < 3).then("small").when(ps.col("x") < 5).then("middle").otherwise("large")
    """

    def __init__(self, chosen: tuple[Any, ...]) -> None:
        super().__init__("when", (*chosen, None))

    def __reduce__(self) -> tuple[Any, ...]:
        return Then, (self.operands[:-1],)

    def when(self, condition: Expression) -> When:
        """The next condition, for rows of which none before it is true.

        Args:
            condition: what is true or false.

        Example:
            ps.when(ps.col("x") < 3).then(0).when(ps.col("x") < 5).then(1)
        """
        return When(condition, self.operands[:-1])

    def otherwise(self, value: Any) -> Expression:
        """What stands where no condition is true.

        Args:
            value: a value, or an expression. Text is a value here.

        Example:
            half = ps.when(ps.col("x") < 5).then(0).otherwise(1)
            data.with_columns(half=half).head()["half"].tolist() == [0, 0, 0, 0, 0]
        """
        return Expression("when", (*self.operands[:-1], _whole(value)))


def when(condition: Expression) -> When:
    """A value by conditions: the first one that is true says which.

    Whole numbers come out as int64, others as float64. Where a condition is null, the next one decides. Of the values only those that are chosen have to be
    possible: when(col("b") != 0).then(col("a") // col("b")).otherwise(0).

    Args:
        condition: what is true or false.

    Raises:
        PlanError: for what is no expression.

    Example:
        size = ps.when(ps.col("x") < 3).then("small").when(ps.col("x") < 5).then("middle").otherwise("large")
        data.with_columns(size=size).head()["size"] == ["small", "small", "small", "middle", "middle"]
    """
    return When(condition)


def _whole(value: Any) -> Expression:
    return value if isinstance(value, Expression) else lit(value)
