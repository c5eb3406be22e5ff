"""The values of expressions, for whole columns: NumPy where there are numbers, Arrow where there are text, bytes, dates and lists."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.columns import compute as pc
from penstock.core.columns.spec import Field, is_bytes, is_list, is_text
from penstock.core.errors import PlanError, RowError
from penstock.core.messages import quoted
from penstock.plan.expression import Expression
from penstock.plan.nullable import Columns, Nullable, both, either, filled, is_null, lifted, put_together, taken_apart
from penstock.plan.text_rules import RULE_FUNCTIONS
from penstock.plan.value_casts import cast, codes
from penstock.plan.value_choices import chosen_by, coalesced, spread, truth_of
from penstock.plan.value_numbers import NUMBER_FUNCTIONS, check_shapes, first_row, number
from penstock.plan.value_texts import DATE_FUNCTIONS, TEXT_FUNCTIONS, characters

#: Up to so many values of `is_in` are compared one by one.
_FEW = 8


def value_of(expression: Any, columns: Mapping[str, Any]) -> Any:
    """The value for every row: an array, or one value where no column is in it. Columns are NumPy or Arrow arrays, and so are values that are missing in some rows.

    value_of(ps.col("x") * 2 > 3, {"x": np.array([1, 2])}) == [False, True]. Raises PlanError where types do not fit, and for a row of which there is no value.
    """
    try:
        return row_value_of(expression, columns)
    except RowError as error:
        raise PlanError(f"{quoted(expression)} cannot be computed: {error.found}") from None


def row_value_of(expression: Any, columns: Mapping[str, Any]) -> Any:
    """The same; RowError for a row of which there is no value."""
    with np.errstate(all="ignore"):
        return put_together(_value_of(expression, columns))


def _value_of(expression: Any, columns: Mapping[str, Any]) -> Any:
    if not isinstance(expression, Expression):
        return expression
    if expression.operation == "column":
        name = expression.operands[0]
        return columns.apart(name) if isinstance(columns, Columns) else taken_apart(columns[name])
    if expression.operation == "literal":
        return expression.operands[0]
    if expression.operation == "is_in":
        return _is_in(expression, _value_of(expression.operands[0], columns))
    if expression.operation == "when":
        return _computed(expression, lambda: _chosen(expression, columns))
    values = [_value_of(operand, columns) for operand in expression.operands]
    return _computed(expression, lambda: _OPERATIONS[expression.operation](*values), values)


def _computed(expression: Expression, compute: Callable[[], Any], values: Sequence[Any] = ()) -> Any:
    try:
        return compute()
    except (TypeError, ValueError, OverflowError, pa.ArrowException) as error:
        if isinstance(error, PlanError):
            raise
        kinds = f" of {' and '.join(map(_kind, values))}" if values else ""
        raise PlanError(f"{quoted(expression)} cannot be computed{kinds}: {error}") from None


def _chosen(expression: Expression, columns: Mapping[str, Any]) -> Any:
    """The value by conditions. A value that is impossible for some rows is computed for those that take it alone."""
    *pairs, otherwise = expression.operands
    rows = next((len(column) for column in columns.values()), 0)
    taken, choices, values = np.zeros(rows, dtype=np.bool_), list[Any](), list[Any]()
    for condition, value in [*zip(pairs[::2], pairs[1::2], strict=True), (None, otherwise)]:
        choice = ~taken if condition is None else truth_of(_value_of(condition, columns), rows) & ~taken
        taken = taken | choice
        choices.append(choice)
        try:
            values.append(None if value is None else _value_of(value, columns))
        except RowError:
            values.append(_of_some(value, columns, choice))
    return chosen_by(choices, values)


def _of_some(value: Any, columns: Mapping[str, Any], choice: npt.NDArray[np.bool_]) -> Any:
    places = np.flatnonzero(choice)
    some = {
        name: column.take(pa.array(places)) if isinstance(column, pa.Array) else column[places]
        for name, column in columns.items()
    }
    try:
        found = _value_of(value, some)
    except RowError as error:
        raise RowError(int(places[error.row]), error.found, error.do) from None
    return spread(found, places, len(choice))


def _kind(value: Any) -> str:
    value = value.values if isinstance(value, Nullable) else value
    return str(value.type) if isinstance(value, pa.Array) else str(getattr(value, "dtype", type(value).__name__))


def _arithmetic(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def compute(first: Any, second: Any) -> Any:
        first, second = number(first), number(second)
        check_shapes(first, second)
        if operation in (operator.floordiv, operator.mod) and second.dtype.kind in "iu" and not np.all(second):
            found = "a whole number is divided by 0"
            raise RowError(first_row(second == 0), found, "choose other rows by penstock.when(…), or divide with /")
        if operation is operator.pow and "f" not in first.dtype.kind + second.dtype.kind and np.any(second < 0):
            found = "a whole number to the power of a negative one"
            raise RowError(first_row(second < 0), found, "cast one of them to float64")
        return operation(first, second)

    return lifted(compute)


def _plus() -> Callable[[Any, Any], Any]:
    numbers = _arithmetic(operator.add)

    def compute(first: Any, second: Any) -> Any:
        if (
            _letters(first)
            and _letters(first) == _letters(second)
            and isinstance(first, pa.Array) | isinstance(second, pa.Array)
        ):
            texts = [one if isinstance(one, pa.Array) else pa.scalar(one, _wide(one)) for one in (first, second)]
            empty = pa.scalar(b"" if _letters(first) == "bytes" else "", next(t.type for t in texts))
            return pc.binary_join_element_wise(*texts, empty)
        return numbers(first, second)

    return compute


def _compare(operation: Callable[[Any, Any], Any], by_arrow: str) -> Callable[[Any, Any], Any]:
    def compute(first: Any, second: Any) -> Any:
        values = first, second
        if not any(isinstance(value, (str, bytes, pa.Array)) for value in values):
            return operation(first, second)
        if any(isinstance(value, pa.Array) and is_list(value.type) for value in values):
            raise TypeError("lists cannot be compared; len() is their length")
        if len({_letters(value) for value in values}) > 1:
            raise TypeError("they are of two kinds")
        arrow = [value if isinstance(value, pa.Array) else pa.scalar(value, _wide(value)) for value in values]
        return pc.call_function(by_arrow, arrow)

    return lifted(compute)


def _letters(value: Any) -> str:
    """Whether a value is text or bytes, or neither."""
    if isinstance(value, pa.Array):
        return "text" if is_text(value.type) else "bytes" if is_bytes(value.type) else ""
    return "text" if isinstance(value, str) else "bytes" if isinstance(value, bytes) else ""


def _wide(value: str | bytes) -> pa.DataType:
    return pa.large_string() if isinstance(value, str) else pa.large_binary()


def _logic(operation: Callable[..., Any]) -> Callable[..., Any]:
    def compute(*values: Any) -> Any:
        plain: list[Any] = [
            value if isinstance(value, Nullable) else np.asarray(value)
            for value in values
            if not isinstance(value, (str, bytes, pa.Array))
        ]
        if len(plain) < len(values) or any(getattr(one, "values", one).dtype != np.bool_ for one in plain):
            raise TypeError("& | ~ join what is true or false; put comparisons in brackets: (… > 1) & (… < 5)")
        return operation(*plain)

    return compute


def _is_in(expression: Expression, column: Any) -> Any:
    if isinstance(column, Nullable):
        return Nullable(_is_in(expression, column.values), column.null)
    values: Collection[Any] = expression.operands[1]
    letters = _letters(column)
    if any(_letters(value) != letters for value in values) or (isinstance(column, pa.Array) and not letters):
        raise PlanError(
            f"{quoted(expression)}: the column is {_kind(column)}, and other values are looked for; give some of its kind"
        )
    if letters:
        wanted = pa.array(list(values), column.type)
        found = np.asarray(pc.is_in(column, value_set=wanted).to_numpy(zero_copy_only=False))
        return Nullable(found, is_null(column)) if column.null_count else found
    values = [value for value in values if _has_room(value, column)]
    exact = [np.asarray(column) == value for value in values] if len(values) <= _FEW else None
    if exact is not None:  # also of integers beside floats
        return np.asarray(reduce(operator.or_, exact, np.zeros(np.shape(column), dtype=bool)))
    return np.isin(column, np.array(list(values)))


def _has_room(value: Any, column: Any) -> bool:
    """Whether a column can hold a number: 1e39 would be infinite as a float32."""
    if not isinstance(value, float) or not np.issubdtype(np.asarray(column).dtype, np.floating):
        return True
    with np.errstate(over="ignore"):
        return bool(np.isinf(value) or not np.isinf(np.asarray(column).dtype.type(value)))


def _is_nan(value: Any) -> npt.NDArray[np.bool_]:
    if isinstance(value, (str, bytes, pa.Array)):
        raise TypeError("only numbers can be NaN")
    return np.asarray(np.isnan(number(value)))


def _fill_null(value: Any, fill: Any) -> Any:
    return coalesced(value, fill) if isinstance(fill, (np.ndarray, Nullable, pa.Array)) else filled(value, fill)


def _cast(value: Any, dtype: str) -> Any:
    if isinstance(value, Nullable) and dtype not in ("string", "bytes"):
        return lifted(cast)(value, dtype)
    return cast(put_together(value), dtype)


def _codes(value: Any, categories: tuple[Any, ...]) -> Any:
    return codes(put_together(value), categories)


def _codes_of_unknown(_: Any) -> Any:
    raise TypeError(
        "with_columns, filter and sort look for the categories of columns that the data has, and nothing else does: make a column first, by with_columns(…)"
    )


def _length(value: Any) -> Any:
    if not isinstance(value, pa.Array):
        if np.ndim(value) < 2:
            raise TypeError("single values have no length")
        return np.full(len(value), value.shape[1], dtype=np.int64)
    if is_text(value.type):
        found = characters(value)
    else:
        found = pc.binary_length(value) if is_bytes(value.type) else pc.list_value_length(value)
    return found.cast(pa.int64())


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "==": _compare(operator.eq, "equal"),
    "!=": _compare(operator.ne, "not_equal"),
    "<": _compare(operator.lt, "less"),
    "<=": _compare(operator.le, "less_equal"),
    ">": _compare(operator.gt, "greater"),
    ">=": _compare(operator.ge, "greater_equal"),
    "+": _plus(),
    "-": _arithmetic(operator.sub),
    "*": _arithmetic(operator.mul),
    "/": _arithmetic(operator.truediv),
    "//": _arithmetic(operator.floordiv),
    "%": _arithmetic(operator.mod),
    "**": _arithmetic(operator.pow),
    "&": _logic(both),
    "|": _logic(either),
    "~": _logic(lifted(operator.invert)),
    "is_nan": lifted(_is_nan),
    "is_null": is_null,
    "fill_null": _fill_null,
    "len": lifted(_length),
    "cast": _cast,
    "codes": _codes,
    "cat.codes": _codes_of_unknown,
    **NUMBER_FUNCTIONS,
    **TEXT_FUNCTIONS,
    **DATE_FUNCTIONS,
    **RULE_FUNCTIONS,
}


def no_rows(field: Field) -> Any:
    """A column of a field without rows, to find out what an expression makes of it."""
    field = field.required
    dtype = np.dtype(np.float32 if field.dtype == "bfloat16" else field.numpy_dtype) if field.is_fixed else None
    if dtype is not None:
        return np.empty((0, *(axis or 0 for axis in field.shape)), dtype=dtype)
    texts = {"string": pa.large_string(), "bytes": pa.large_binary()}
    kind = texts[field.dtype] if field.dtype in texts else pa.from_numpy_dtype(field.numpy_dtype)
    for axis in reversed(field.shape):
        kind = pa.large_list(kind) if axis is None else pa.list_(kind, axis)
    return pa.array([], kind)
