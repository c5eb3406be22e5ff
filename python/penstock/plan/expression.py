"""Expressions on columns: ps.col("width") >= 64. They describe; `plan.expression_values` computes them for whole columns."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.plan.cast_types import cast_type
from penstock.plan.expression_functions import Functions

#: Values of `is_in` that a text shows; of more, it has a digest.
_SHOWN = 8
#: The values that a column can be compared with.
_PLAIN = (bool, int, float, str, bytes)
#: What numbers that are dates count.
_UNITS = ("D", "s", "ms", "us", "ns")
#: Of longer whole numbers there is no float to compare with.
_MOST_BITS = 1023


@dataclass(frozen=True, eq=False, repr=False)
class Expression(Functions):
    """What is computed of columns, row by row.

    There are all comparisons, + - * / // % **, and & | ~ of what is true or false. Whole numbers are computed as int64, which wraps around, others as float64;
    text and bytes are compared as such, and + joins texts. What is computed of a null is null, and a row is chosen where an expression is true (see
    `penstock.plan.nullable`). Two expressions are the same where their `repr` is.

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

    def __pow__(self, other: object) -> Expression:
        return _joined("**", self, other)

    def __rpow__(self, other: object) -> Expression:
        return _joined("**", other, self)

    def _made(self, operation: str, *operands: Any) -> Expression:
        return Expression(operation, (self, *(None if one is None else _operand(one) for one in operands)))

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

    def codes(self, categories: Iterable[Any]) -> Expression:
        """The number of the value among categories: codes(frame["kind"].cat.categories) are those of a frame of pandas.

        Args:
            categories: values of the column's kind, each once, in order.

        Raises:
            PlanError: for what is no list of values, and for one that comes twice.
            DataError: from a Loader, for a value that is none of them.

        Example:
            pets = ps.from_arrays({"kind": ["cat", "dog", "cat"]})
            pets.with_columns(code=ps.col("kind").codes(["dog", "cat"])).head()["code"].tolist() == [1, 0, 1]
        """
        if isinstance(categories, (str, bytes)) or not isinstance(categories, Iterable):
            raise PlanError(f"codes({quoted(categories)}): pass a list of values")
        values = tuple(map(_plain, categories))
        if len({*values}) < len(values) or not values:
            raise PlanError(f"codes({quoted([*values])}): pass values, each once; a number or a text has one code")
        return Expression("codes", (self, values))

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
            value: what stands for nulls: a value, or an expression.

        Raises:
            PlanError: for what is no value of a column.

        Example:
            people = ps.from_arrays([{"age": 20}, {"age": None}], nulls="arrow")
            people.filter(ps.col("age").fill_null(0) >= 18).head()["age"] == [20]
        """
        value = value if isinstance(value, Expression) else _plain(value)
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            raise PlanError(f"fill_null({quoted(value)}): a whole number of more than 64 bits is no value of a column")
        return Expression("fill_null", (self, value))

    def len(self) -> Expression:
        """Characters of a text, bytes of bytes, values of a list: col("text").len() <= 2000."""
        return Expression("len", (self,))

    def cast(self, dtype: Any) -> Expression:
        """The value in another type.

        Floats become whole numbers without their fraction, text becomes the number that it says. What the type does not hold is a `DataError` that names row and
        value: NaN and 300 as uint8, "n/a" as float64. A float that is too large for float32 is infinite.

        Args:
            dtype: "int32", "float32", …, "bool", "string" or "bytes"; also int, float, bool, str, bytes, or a dtype of NumPy.

        Raises:
            PlanError: for a type that there is not.

        Example:
            data.with_columns(x=ps.col("x").cast("float32")).spec["x"].dtype == "float32"
        """
        return self._made("cast", cast_type("cast", dtype))

    def from_epoch(self, unit: str) -> Expression:
        """The date that a whole number counts from 1970 on, in UTC: dates and times of files come as such numbers.

        Args:
            unit: "D", "s", "ms", "us" or "ns", by the column's type in its file: "D" for Arrow's date32.

        Raises:
            PlanError: for a unit that there is not.
            DataError: from a Loader, for a date before the year 1 or after 9999.

        Example:
            visits = ps.from_arrays({"when": [0, 86_400]})
            visits.with_columns(day=ps.col("when").from_epoch("s").dt.day()).head()["day"].tolist() == [1, 2]
        """
        if unit not in _UNITS:
            raise PlanError(f"from_epoch({quoted(unit)}): what the numbers count is one of {', '.join(_UNITS)}")
        return self._made("from_epoch", unit)


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


def lit(value: Any) -> Expression:
    """The same value for every row, for `with_columns`: text stands alone nowhere, since it could be the name of a column.

    Args:
        value: a number, text, bytes, or true or false.

    Raises:
        PlanError: for what is no value of a column.

    Example:
        data.with_columns(source=ps.lit("web")).head(2)["source"] == ["web", "web"]
    """
    return Expression("literal", (_plain(value),))


def columns_of(expression: Any) -> set[str]:
    """The names of the columns that an expression needs."""
    if not isinstance(expression, Expression):
        return set()
    if expression.operation == "column":
        return {expression.operands[0]}
    return set[str]().union(*map(columns_of, expression.operands))


def uses(operation: str, expression: Any) -> bool:
    """Whether an operation is among those of an expression."""
    left = [expression]
    while left:
        one = left.pop()
        if isinstance(one, Expression):
            if one.operation == operation:
                return True
            left += one.operands
    return False


def written_out(expression: Any, made: Mapping[str, Expression]) -> Any:
    """The expression of the columns that others are made of: written_out(col("y") > 3, {"y": col("x") * 2}) is (col("x") * 2) > 3."""
    if not isinstance(expression, Expression):
        return expression
    if expression.operation == "column":
        return made.get(expression.operands[0], expression)
    return Expression(expression.operation, tuple(written_out(one, made) for one in expression.operands))


def _joined(operation: str, first: object, second: object) -> Expression:
    return Expression(operation, (_operand(first), _operand(second)))


def _operand(value: Any) -> Any:
    return value if isinstance(value, Expression) else _plain(value)


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
    if operation == "literal":
        return f"lit({operands[0]!r})"
    if operation in ("is_in", "codes"):
        return f"{_text(operands[0])}.{operation}({_values_text(operands[1])})"
    if operation == "when":
        pairs = zip(operands[:-1:2], operands[1::2], strict=True)
        chosen = ".".join(f"when({_text(condition)}).then({_text(one)})" for condition, one in pairs)
        return chosen if operands[-1] is None else f"{chosen}.otherwise({_text(operands[-1])})"
    if operation[0].isalpha():
        return f"{_text(operands[0])}.{operation}({', '.join(map(_text, operands[1:]))})"
    if len(operands) == 1:
        return f"{operation}{_text(operands[0])}"
    return f"({_text(operands[0])} {operation} {_text(operands[1])})"


def _values_text(values: tuple[Any, ...]) -> str:
    shown = ", ".join(map(repr, values[:_SHOWN]))
    if len(values) <= _SHOWN:
        return f"[{shown}]"
    digest = hashlib.blake2b(repr(values).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"[{shown}, … {len(values):,} values #{digest}]"
