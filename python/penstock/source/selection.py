"""Columns by name: which of a source's columns a user wants, under which names, as what."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.core.columns.spec import Field
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.core.names import did_you_mean
from penstock.core.verbs.options import Asked, Column, Nulls

#: dtypes that columns can have; formats take some of them.
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
WHOLE = ("bool", *INTEGERS)
FLOATS = ("float16", "bfloat16", "float32", "float64")
TEXTS = ("bytes", "string")

#: What helps where only the first records were looked at.
LATER = "a column that only later records have needs dtype, shape and default"
#: Names that a message lists at most.
_LISTED = 40


@dataclass(frozen=True)
class Selection:
    """The columns that `columns=` selects, renames and types; all of a source where it is None."""

    asked: Asked = None

    def __post_init__(self) -> None:
        if isinstance(self.asked, str):
            raise PlanError(
                f"columns={quoted(self.asked)}: pass a list of names, or a dict of new name to name in the data"
            )

    def columns(self, offered: Iterable[str] = ()) -> dict[str, Column]:
        """New name -> what is selected, in the user's order, whether a source has it or not; all of `offered` if nothing is selected.

        Selection({"x": "image"}).columns() == {"x": Column(feature="image")}
        """
        if self.asked is None:
            return {name: Column(feature=name) for name in offered}
        if not self.asked:
            raise PlanError("columns: none are named; pass columns=None for all of them")
        if isinstance(self.asked, Mapping):
            named = {name: _column(wish) for name, wish in self.asked.items() if name is not ...}
        else:
            named = {column.feature: column for column in map(_column, self.asked) if column is not _OTHERS}
        return self._with_others(named, offered) if ... in self.asked else named

    def _with_others(self, named: dict[str, Column], offered: Iterable[str]) -> dict[str, Column]:
        """All that is offered in its order, with the wishes of those columns that have one; renamed ones at the place of their features."""
        wished: dict[str, list[str]] = {}
        for name, column in named.items():
            wished.setdefault(column.feature, []).append(name)
        found: dict[str, Column] = {}
        for feature in offered:
            found |= {name: named[name] for name in wished.pop(feature, ())} or {feature: Column(feature=feature)}
        return found | {name: named[name] for names in wished.values() for name in names}

    def features(self, offered: Iterable[str] = ()) -> set[str]:
        """The names in the data of all that is selected."""
        return {column.feature for column in self.columns(offered).values()}

    def choose(self, offered: Collection[str], where: str) -> dict[str, Column]:
        """The same; PlanError for a column that is not offered."""
        chosen = self.columns(offered)
        for column in chosen.values():
            if column.feature not in offered:
                raise no_column(where, column.feature, offered)
        return chosen

    def choose_stored(self, offered: Mapping[str, Field], where: str) -> dict[str, str]:
        """New name -> name in the data, for data that is taken as it is; PlanError where another dtype or shape is asked for."""
        chosen = self.choose(offered, where)
        for column in chosen.values():
            stored = offered[column.feature]
            if column.default is not None or column.field(stored) != stored:
                raise PlanError(
                    f"{where}: column {quoted(column.feature)} is {stored}, and is taken as it is; change it with .map(…)"
                )
        return {name: column.feature for name, column in chosen.items()}


#: What stands for `...` in a list of columns: all others, as they are.
_OTHERS = Column(feature="...")


def _column(wish: Any) -> Column:
    if wish is ...:
        return _OTHERS
    return wish if isinstance(wish, Column) else Column(feature=wish)


def no_column(where: str, name: str, offered: Iterable[str], *, among: str = "", do: str = "") -> PlanError:
    """The error for a column that is not there. among: where it was looked for; do: what else helps."""
    known = list(offered)
    listed = ", ".join(known[:_LISTED]) + (", …" if len(known) > _LISTED else "")
    return PlanError(
        f"{where}: no column {quoted(name)}{among and f' in {among}'}; there are {listed or 'none'}{do and f'; {do}'}{did_you_mean(name, known)}"
    )


def check_dtype(name: str, dtype: str, known: Sequence[str]) -> None:
    """PlanError for a dtype that no column has."""
    if dtype not in known:
        raise PlanError(f"columns[{quoted(name)}]: dtype {quoted(dtype)} is not known; known are {', '.join(known)}")


def check_shape(name: str, field: Field) -> None:
    """PlanError for axes that no column has."""
    if any(axis is not None and axis < 1 for axis in field.shape) or None in field.shape[1:]:
        raise PlanError(
            f"columns[{quoted(name)}]: shape {field.shape}: axes are at least 1, and only the first can be None"
        )
    if field.dtype in TEXTS and len(field.shape) > 1:
        raise PlanError(
            f"columns[{quoted(name)}]: {field.dtype} has the shapes (), (n,) and (None,), not {field.shape}"
        )


def null_rules(names: Sequence[str], nulls: Nulls, asked: Asked) -> dict[str, Nulls]:
    """What nulls of each of these columns become. nulls: what those of all others do."""
    chosen = {} if asked is None else Selection(asked).columns(names)
    return {name: (chosen[name].nulls if name in chosen else None) or nulls for name in names}
