"""Whether an expression could be true of a row, where bounds of its columns' values are known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock.core.columns.spec import Spec
from penstock.plan.expression import Expression

#: Comparisons, and what they are with both sides exchanged.
_TURNED = {"==": "==", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def may_be_true(expression: Any, bounds: Mapping[str, tuple[Any, Any]], spec: Spec) -> bool:
    """False only if it is false, or missing, for every row within bounds: may_be_true(col("x") > 3, {"x": (0, 2)}, spec) is False.

    It looks at comparisons of a column with a value, `is_in`, & and |; of all else it says True. A NaN, which is within no bounds, meets none of them.
    """
    if not isinstance(expression, Expression):
        return True
    operation, operands = expression.operation, expression.operands
    if operation == "&":
        return all(may_be_true(one, bounds, spec) for one in operands)
    if operation == "|":
        return any(may_be_true(one, bounds, spec) for one in operands)
    if operation == "is_in":
        column, values = operands
        return not values or any(_may_be("==", column, value, bounds, spec) for value in values)
    if operation not in _TURNED:
        return True
    first, second = operands
    if isinstance(second, Expression):
        return _may_be(_TURNED[operation], second, first, bounds, spec)
    return _may_be(operation, first, second, bounds, spec)


def _may_be(operation: str, column: Any, value: Any, bounds: Mapping[str, tuple[Any, Any]], spec: Spec) -> bool:
    if not isinstance(column, Expression) or column.operation != "column" or column.operands[0] not in bounds:
        return True
    name = column.operands[0]
    low, high = bounds[name]
    compared = _as_compared(value, low, spec[name].dtype)
    if compared is None:
        return True
    below = low < compared if operation == "<" else low <= compared
    above = high > compared if operation == ">" else high >= compared
    return bool((below or operation in (">", ">=")) and (above or operation in ("<", "<=")))


def _as_compared(value: Any, low: Any, dtype: str) -> Any:
    """The value as rows are compared with it; None where that may be another one."""
    if isinstance(value, (bool, Expression)) or isinstance(low, bool):
        return None
    if isinstance(low, float) and isinstance(value, (int, float)):
        with np.errstate(over="ignore"):
            number = float(np.float32(value)) if dtype == "float32" else float(value)
        is_exact = dtype == "float32" or number == value
        return number if is_exact and not math.isnan(number) else None
    return value if type(value) is type(low) else None
