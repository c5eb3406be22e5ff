"""Expressions on columns: ps.col("width") >= 64. They describe; `value_of` computes them for whole columns."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.columns.spec import Field, is_bytes, is_list, is_text
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.plan.nullable import Nullable, both, either, filled, is_null, lifted, put_together, taken_apart

#: Values of `is_in` that a text shows; of more, it has a digest.
_SHOWN = 8
#: The values that a column can be compared with.
_PLAIN = (bool, int, float, str, bytes)
#: Of longer whole numbers there is no float to compare with.
_MOST_BITS = 1023


@dataclass(frozen=True, eq=False, repr=False)
class Expression:
    """What is computed of columns, row by row.

    There are all comparisons, + - * / // %, and & | ~ of what is true or false. Whole numbers are computed as int64, others as float64; text and bytes are
    compared as such. What is computed of a null is null, and a row is chosen where an expression is true (see `penstock.plan.nullable`). Two expressions are the
    same where their `repr` is.

    Example:
        large = ps.col("width") * ps.col("height") >= 4096
        few = (ps.col("label") < 3) | ps.col("tag").is_in(["a", "b"])
        repr(large & ~few) == "(((col('width') * col('height')) >= 4096) & ~((col('label') < 3) | col('tag').is_in(['a', 'b'])))"
    """

    operation: str
    operands: tuple[Any, ...]

    def __repr__(self) -> str:
        return _text(self)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __bool__(self) -> bool:
        raise PlanError(
            f"{quoted(self)} is an expression, which is neither true nor false; write & for and, | for or, ~ for not, each side in brackets, and "
            f"between(low, high) for low <= x <= high"
        )

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return _joined("==", self, other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return _joined("!=", self, other)

    def __lt__(self, other: object) -> Expression:
        return _joined("<", self, other)

    def __le__(self, other: object) -> Expression:
        return _joined("<=", self, other)

    def __gt__(self, other: object) -> Expression:
        return _joined(">", self, other)

    def __ge__(self, other: object) -> Expression:
        return _joined(">=", self, other)

    def __and__(self, other: object) -> Expression:
        return _joined("&", self, other)

    def __rand__(self, other: object) -> Expression:
        return _joined("&", other, self)

    def __or__(self, other: object) -> Expression:
        return _joined("|", self, other)

    def __ror__(self, other: object) -> Expression:
        return _joined("|", other, self)

    def __invert__(self) -> Expression:
        return Expression("~", (self,))

    def __neg__(self) -> Expression:
        return _joined("-", 0, self)

    def __add__(self, other: object) -> Expression:
        return _joined("+", self, other)

    def __radd__(self, other: object) -> Expression:
        return _joined("+", other, self)

    def __sub__(self, other: object) -> Expression:
        return _joined("-", self, other)

    def __rsub__(self, other: object) -> Expression:
        return _joined("-", other, self)

    def __mul__(self, other: object) -> Expression:
        return _joined("*", self, other)

    def __rmul__(self, other: object) -> Expression:
        return _joined("*", other, self)

    def __truediv__(self, other: object) -> Expression:
        return _joined("/", self, other)

    def __rtruediv__(self, other: object) -> Expression:
        return _joined("/", other, self)

    def __floordiv__(self, other: object) -> Expression:
        return _joined("//", self, other)

    def __rfloordiv__(self, other: object) -> Expression:
        return _joined("//", other, self)

    def __mod__(self, other: object) -> Expression:
        return _joined("%", self, other)

    def __rmod__(self, other: object) -> Expression:
        return _joined("%", other, self)

    def is_in(self, values: Iterable[Any]) -> Expression:
        """Whether the value is one of these.

        Args:
            values: numbers, text or bytes, as the column holds them.

        Raises:
            PlanError: for what is no list of values.

        Example:
            data.filter(ps.col("x").is_in([1, 2, 5])).head()["x"] == [1, 2, 5]
        """
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise PlanError(f"is_in({quoted(values)}): pass a list of values")
        return Expression("is_in", (self, tuple(map(_plain, values))))

    def between(self, low: Any, high: Any) -> Expression:
        """Whether the value lies between two others, or is one of them.

        Args:
            low: the lowest that counts.
            high: the highest that counts.

        Example:
            data.filter(ps.col("x").between(3, 5)).head()["x"] == [3, 4, 5]
        """
        return _joined("&", self >= low, self <= high)

    def is_nan(self) -> Expression:
        """Whether the number is NaN; null of a null, for which there is `is_null`."""
        return Expression("is_nan", (self,))

    def is_null(self) -> Expression:
        """Whether the value is missing: col("age").is_null(). Nulls are seen whatever `read(nulls=…)` makes of them."""
        return Expression("is_null", (self,))

    def is_not_null(self) -> Expression:
        """Whether the value is there: data.filter(ps.col("age").is_not_null())."""
        return ~self.is_null()

    def fill_null(self, value: Any) -> Expression:
        """The value, or another one where it is missing.

        Args:
            value: what stands for nulls.

        Raises:
            PlanError: for what is no value of a column.

        Example:
            people = ps.from_arrays([{"age": 20}, {"age": None}], nulls="arrow")
            people.filter(ps.col("age").fill_null(0) >= 18).head()["age"] == [20]
        """
        value = _plain(value)
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            raise PlanError(f"fill_null({quoted(value)}): a whole number of more than 64 bits is no value of a column")
        return Expression("fill_null", (self, value))

    def len(self) -> Expression:
        """Characters of a text, bytes of bytes, values of a list: col("text").len() <= 2000."""
        return Expression("len", (self,))


def col(name: str) -> Expression:
    """A column, for `filter`, `sort` and other verbs that choose rows.

    & | ~ bind tighter than comparisons, so that these need brackets. Arithmetic, `len`, `between`, `is_in`, `is_nan`, `is_null`, `is_not_null` and `fill_null`
    are there as well.

    Args:
        name: of the column.

    Raises:
        PlanError: for what is no name.

    Example:
        data.filter((ps.col("x") >= 4) & ~ps.col("label").is_in([0, 7])).head()["x"] == [5, 7, 9]
    """
    if not isinstance(name, str):
        raise PlanError(f"col({quoted(name)}): pass the name of a column")
    return Expression("column", (name,))


def expression_of(verb: str, given: Any) -> Expression:
    """What a verb was given: an expression, or the name of a column."""
    if isinstance(given, Expression):
        return given
    if isinstance(given, str):
        return col(given)
    raise PlanError(
        f"{verb}: {quoted(given)} is neither the name of a column nor an expression such as penstock.col('width') * 2"
    )


def columns_of(expression: Any) -> set[str]:
    """The names of the columns that an expression needs."""
    if not isinstance(expression, Expression):
        return set()
    if expression.operation == "column":
        return {expression.operands[0]}
    return set[str]().union(*map(columns_of, expression.operands))


def _joined(operation: str, first: object, second: object) -> Expression:
    return Expression(operation, tuple(one if isinstance(one, Expression) else _plain(one) for one in (first, second)))


def _plain(value: Any) -> Any:
    """A value as Python has it; PlanError for what no column can be compared with."""
    value = value.item() if isinstance(value, np.generic) else value
    if type(value) not in _PLAIN:
        raise PlanError(
            f"{quoted(value)} in an expression: a {type(value).__name__} is no value of a column; compare with numbers, text or bytes"
        )
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise PlanError(
            f"{quoted(value)} in an expression: a number of {value.bit_length():,} bits is no value of a column"
        )
    return value


def _text(value: Any) -> str:
    """An expression as one would write it."""
    if not isinstance(value, Expression):
        return repr(value)
    operation, operands = value.operation, value.operands
    if operation == "column":
        return f"col({operands[0]!r})"
    if operation == "is_in":
        return f"{_text(operands[0])}.is_in({_values_text(operands[1])})"
    if operation in ("is_nan", "is_null", "len", "fill_null"):
        return f"{_text(operands[0])}.{operation}({', '.join(map(repr, operands[1:]))})"
    if len(operands) == 1:
        return f"{operation}{_text(operands[0])}"
    return f"({_text(operands[0])} {operation} {_text(operands[1])})"


def _values_text(values: tuple[Any, ...]) -> str:
    shown = ", ".join(map(repr, values[:_SHOWN]))
    if len(values) <= _SHOWN:
        return f"[{shown}]"
    digest = hashlib.blake2b(repr(values).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"[{shown}, … {len(values):,} values #{digest}]"


# Values


def value_of(expression: Any, columns: Mapping[str, Any]) -> Any:
    """The value for every row: an array, or one value where no column is in it. Columns are NumPy or Arrow arrays, and so are values that are missing in some rows.

    value_of(col("x") * 2 > 3, {"x": np.array([1, 2])}) == [False, True]. Raises PlanError where types do not fit.
    """
    return put_together(_value_of(expression, columns))


def _value_of(expression: Any, columns: Mapping[str, Any]) -> Any:
    if not isinstance(expression, Expression):
        return expression
    if expression.operation == "column":
        return taken_apart(columns[expression.operands[0]])
    if expression.operation == "is_in":
        return _is_in(expression, _value_of(expression.operands[0], columns))
    values = [_value_of(operand, columns) for operand in expression.operands]
    try:
        with np.errstate(all="ignore"):
            return _OPERATIONS[expression.operation](*values)
    except (TypeError, ValueError, OverflowError, pa.ArrowException) as error:
        kinds = " and ".join(map(_kind, values))
        raise PlanError(f"{quoted(expression)} cannot be computed of {kinds}: {error}") from None


def _kind(value: Any) -> str:
    value = value.values if isinstance(value, Nullable) else value
    return str(value.type) if isinstance(value, pa.Array) else str(getattr(value, "dtype", type(value).__name__))


def _number(value: Any) -> Any:
    """As arithmetic takes it: so wide that it does not overflow soon."""
    if isinstance(value, (str, bytes, pa.Array)):
        raise TypeError("arithmetic is for numbers; len() makes a number of text, bytes and lists")
    array = np.asarray(value)
    if array.dtype.kind in "bi" or (array.dtype.kind == "u" and array.dtype.itemsize < 8):
        return array.astype(np.int64)
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _arithmetic(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def compute(first: Any, second: Any) -> Any:
        first, second = _number(first), _number(second)
        if operation in (operator.floordiv, operator.mod) and second.dtype.kind in "iu" and not np.all(second):
            raise ValueError("a whole number is divided by 0")
        return operation(first, second)

    return lifted(compute)


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
    exact = [np.asarray(column) == value for value in values] if len(values) <= _SHOWN else None
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
    return np.asarray(np.isnan(_number(value)))


def _length(value: Any) -> Any:
    if not isinstance(value, pa.Array):
        if np.ndim(value) < 2:
            raise TypeError("single values have no length")
        return np.full(len(value), value.shape[1], dtype=np.int64)
    if is_text(value.type):
        found = pc.utf8_length(value)
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
    "+": _arithmetic(operator.add),
    "-": _arithmetic(operator.sub),
    "*": _arithmetic(operator.mul),
    "/": _arithmetic(operator.truediv),
    "//": _arithmetic(operator.floordiv),
    "%": _arithmetic(operator.mod),
    "&": _logic(both),
    "|": _logic(either),
    "~": _logic(lifted(operator.invert)),
    "is_nan": lifted(_is_nan),
    "is_null": is_null,
    "fill_null": filled,
    "len": lifted(_length),
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
