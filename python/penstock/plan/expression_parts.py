"""What expressions make of text, dates and categories: `col(name).str`, `.dt` and `.cat`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.core.errors import PlanError
from penstock.core.messages import quoted

if TYPE_CHECKING:
    from penstock.plan.expression import Expression

#: Makes an expression of an operation and its operands behind the first.
Make = Callable[..., "Expression"]


class TextPart:
    """Functions of text, of characters and not of bytes. Patterns are regular expressions of RE2, unless `literal` says otherwise.

    Args:
        make: makes an expression of an operation and its operands.

    Example:
        short = data.with_columns(head=ps.col("text").str.slice(0, 3).str.upper())
    """

    def __init__(self, make: Make) -> None:
        self._make = make

    def lower(self) -> Expression:
        """The text in lower case."""
        return self._make("str.lower")

    def upper(self) -> Expression:
        """The text in upper case."""
        return self._make("str.upper")

    def len(self) -> Expression:
        """Its characters; `len_bytes` counts bytes."""
        return self._make("str.len")

    def len_bytes(self) -> Expression:
        """Its bytes in UTF-8."""
        return self._make("str.len_bytes")

    def strip(self, characters: str | None = None) -> Expression:
        """The text without some characters at both ends.

        Args:
            characters: those that go. Default: white space.

        Example:
            ps.col("text").str.strip("r ")
        """
        _check_text("str.strip", characters, or_none=True)
        return self._make("str.strip", *(() if characters is None else (characters,)))

    def contains(self, pattern: str, *, literal: bool = False) -> Expression:
        """Whether a pattern is in it.

        Args:
            pattern: a regular expression.
            literal: whether the pattern is plain text. Default: False.

        Raises:
            PlanError: for what is no regular expression, when a verb gets it.

        Example:
            data.filter(ps.col("text").str.contains("[12]$")).head()["text"] == ["row 1", "row 2"]
        """
        _check_text("str.contains", pattern)
        return self._make("str.contains", pattern, bool(literal))

    def starts_with(self, prefix: str) -> Expression:
        """Whether it begins with a text.

        Args:
            prefix: the text.

        Example:
            len(data.filter(ps.col("text").str.starts_with("row"))) == 10
        """
        _check_text("str.starts_with", prefix)
        return self._make("str.starts_with", prefix)

    def ends_with(self, suffix: str) -> Expression:
        """Whether it ends with a text.

        Args:
            suffix: the text.

        Example:
            data.filter(ps.col("text").str.ends_with("7")).head()["text"] == ["row 7"]
        """
        _check_text("str.ends_with", suffix)
        return self._make("str.ends_with", suffix)

    def slice(self, offset: int, length: int | None = None) -> Expression:
        """Some of its characters.

        Args:
            offset: the first one, from 0 on; negative ones count from the end.
            length: how many, at most. Default: all that follow.

        Example:
            data.with_columns(end=ps.col("text").str.slice(-1)).head(3)["end"] == ["0", "1", "2"]
        """
        if type(offset) is not int or not (length is None or (type(length) is int and length >= 0)):
            raise PlanError(
                f"str.slice({quoted(offset)}, {quoted(length)}): pass whole numbers, and a length from 0 on"
            )
        return self._make("str.slice", offset, *(() if length is None else (length,)))

    def replace(self, pattern: str, value: str, *, literal: bool = False) -> Expression:
        r"""The text with every match of a pattern replaced.

        Args:
            pattern: a regular expression.
            value: what stands for it; \\1 is what the first group matched.
            literal: whether both are plain text. Default: False.

        Example:
            prices = ps.from_arrays({"price": ["1,5", "20,25"]})
            point = ps.col("price").str.replace(",", ".", literal=True)
            prices.with_columns(price=point.cast("float64")).head()["price"].tolist() == [1.5, 20.25]
        """
        _check_text("str.replace", pattern)
        _check_text("str.replace", value)
        return self._make("str.replace", pattern, value, bool(literal))

    def to_datetime(self, format: str) -> Expression:
        """The date and time that a text says, in UTC; in a batch the microseconds since 1970, as int64.

        Args:
            format: how it is written, as of `datetime.strptime`: "%Y-%m-%d %H:%M:%S".

        Raises:
            DataError: from a Loader, for text that is no such date.

        Example:
            visits = ps.from_arrays({"when": ["2024-02-29"]})
            visits.with_columns(day=ps.col("when").str.to_datetime("%Y-%m-%d").dt.day()).head()["day"].tolist() == [29]
        """
        _check_text("str.to_datetime", format)
        return self._make("str.to_datetime", format)


class DatePart:
    """Parts of a date, as int64: of `from_epoch` and of `str.to_datetime`. pandas' names and numbers.

    Args:
        make: makes an expression of an operation and its operands.

    Example:
        year = ps.col("when").from_epoch("ms").dt.year()
    """

    def __init__(self, make: Make) -> None:
        self._make = make

    def year(self) -> Expression:
        """The year, such as 2024."""
        return self._make("dt.year")

    def quarter(self) -> Expression:
        """The quarter of the year, 1 to 4."""
        return self._make("dt.quarter")

    def month(self) -> Expression:
        """The month, 1 to 12."""
        return self._make("dt.month")

    def day(self) -> Expression:
        """The day of the month, from 1 on."""
        return self._make("dt.day")

    def dayofyear(self) -> Expression:
        """The day of the year, from 1 on."""
        return self._make("dt.dayofyear")

    def weekday(self) -> Expression:
        """The day of the week: 0 is Monday, 6 Sunday."""
        return self._make("dt.weekday")

    def hour(self) -> Expression:
        """The hour, 0 to 23."""
        return self._make("dt.hour")

    def minute(self) -> Expression:
        """The minute."""
        return self._make("dt.minute")

    def second(self) -> Expression:
        """The second."""
        return self._make("dt.second")


class CategoryPart:
    """What is made of categories: of pandas' Categorical, Polars' Enum, Arrow's dictionary, as files and frames have them.

    Args:
        make: makes an expression of an operation and its operands.

    Example:
        code = ps.col("kind").cat.codes()
    """

    def __init__(self, make: Make) -> None:
        self._make = make

    def codes(self) -> Expression:
        """The number of the value among the column's categories, as int64; -1 where it is missing. pandas' `.cat.codes`.

        `with_columns`, `filter` and `sort` take it; they read the categories where the column's files have them, once, and `Dataset.categories` says which
        these are. The column must be one that the data has: for others write `codes([…])` with the categories.

        Raises:
            PlanError: by the verb, for a column without categories.

        Example:
            import pandas as pd

            kind = pd.Categorical(["dog", "cat", None], categories=["owl", "dog", "cat"])
            pets = ps.from_arrays(pd.DataFrame({"kind": kind}), nulls="arrow")
            pets.with_columns(code=ps.col("kind").cat.codes()).head()["code"].tolist() == [1, 2, -1]
        """
        return self._make("cat.codes")


def _check_text(name: str, value: Any, *, or_none: bool = False) -> None:
    if not (isinstance(value, str) or (or_none and value is None)):
        raise PlanError(f"{name}({quoted(value)}): pass text")
