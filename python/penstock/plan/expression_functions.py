"""The functions of expressions: of numbers, and the doors to those of text and of dates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.plan.expression_parts import CategoryPart, DatePart, TextPart

if TYPE_CHECKING:
    from penstock.plan.expression import Expression

_MOST_DECIMALS = 15
#: `str` is a property below.
_Name: TypeAlias = str


class Functions:
    """What an expression can be asked for by name.

    Example:
        data.with_columns(y=ps.col("x").clip(2, 4).sqrt()).head(5)["y"].max() == 2
    """

    def _made(self, operation: _Name, *operands: Any) -> Expression:
        """The expression of an operation with this one as its first operand."""
        raise NotImplementedError

    def __abs__(self) -> Expression:
        return self.abs()

    @property
    def dt(self) -> DatePart:
        """Parts of a date: col("when").from_epoch("s").dt.year()."""
        return DatePart(self._made)

    @property
    def cat(self) -> CategoryPart:
        """What is made of categories: col("kind").cat.codes()."""
        return CategoryPart(self._made)

    def fill_nan(self, value: Any) -> Expression:
        """The number, or another one where it is NaN.

        Args:
            value: what stands for NaN: a number, or an expression.

        Example:
            data.with_columns(y=(ps.col("x") / 0).fill_nan(-1)).head(2)["y"].tolist() == [-1, float("inf")]
        """
        return self._made("fill_nan", value)

    def is_finite(self) -> Expression:
        """Whether the number is neither infinite nor NaN."""
        return self._made("is_finite")

    def abs(self) -> Expression:
        """The number without its sign."""
        return self._made("abs")

    def sqrt(self) -> Expression:
        """The square root; NaN of what is below 0."""
        return self._made("sqrt")

    def exp(self) -> Expression:
        """The power of e that the number says."""
        return self._made("exp")

    def log(self, base: float | None = None) -> Expression:
        """The logarithm; -inf of 0, NaN of what is below.

        Args:
            base: of the logarithm, above 0. Default: e.

        Example:
            data.with_columns(y=(ps.col("x") + 1).log(2)).head(2)["y"].tolist() == [0, 1]
        """
        if base is not None and (isinstance(base, bool) or not isinstance(base, (int, float)) or not base > 0):
            raise PlanError(f"log({quoted(base)}): the base of a logarithm is a number above 0")
        return self._made("log", *(() if base is None else (float(base),)))

    def log1p(self) -> Expression:
        """The logarithm of 1 + the number, exact for small ones too."""
        return self._made("log1p")

    def floor(self) -> Expression:
        """The number rounded down."""
        return self._made("floor")

    def ceil(self) -> Expression:
        """The number rounded up."""
        return self._made("ceil")

    def round(self, decimals: int = 0) -> Expression:
        """The number rounded, halves to the even neighbour.

        Args:
            decimals: digits behind the point. Default: 0.

        Example:
            data.with_columns(y=(ps.col("x") / 3).round(2)).head(3)["y"].tolist() == [0, 0.33, 0.67]
        """
        if type(decimals) is not int or not 0 <= decimals <= _MOST_DECIMALS:
            raise PlanError(f"round({quoted(decimals)}): pass 0 to {_MOST_DECIMALS} digits")
        return self._made("round", decimals)

    def clip(self, low: Any = None, high: Any = None) -> Expression:
        """The number, or the nearer one of two bounds where it lies outside. NaN stays.

        Args:
            low: the lowest number, or an expression. Default: none.
            high: the highest number, or an expression. Default: none.

        Raises:
            PlanError: for no bound.

        Example:
            data.with_columns(x=ps.col("x").clip(2, 4)).head(6)["x"].tolist() == [2, 2, 2, 3, 4, 4]
        """
        if low is None and high is None:
            raise PlanError("clip(): pass the lowest number, the highest, or both")
        return self._made("clip", low, high)

    @property
    def str(self) -> TextPart:
        """What is made of text: col("name").str.lower()."""
        return TextPart(self._made)
