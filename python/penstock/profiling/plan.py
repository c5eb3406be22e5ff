"""A plan for cleaning a table, as Python code with its reasons, from what is known of the columns."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.core.messages import printable
from penstock.profiling.findings import FEW, MISSING, OUTLIERS, SKEW, is_constant, is_identifier, skew_of
from penstock.profiling.words import figure

#: Up to how many categories a column becomes one of 0 and 1 for each; whole numbers are categories up to fewer.
_ONE_HOT, _FEW_NUMBERS = 50, FEW
#: Buckets of categories that are too many for a vocabulary, and characters from which on texts are no categories.
_BUCKETS, _FREE_TEXT = 1 << 16, 50
#: How columns of dates are called, and what whole numbers count that lie between 1990 and 2100.
_DATE_NAME = re.compile(r"date|time|(^|_)(day|when|created|updated|at|ts)($|_)", re.IGNORECASE)
_UNITS = {"D": 1.0, "s": 86_400.0, "ms": 86_400e3, "us": 86_400e6, "ns": 86_400e9}
_FIRST_DAY, _LAST_DAY = 7_305, 47_482
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,2})?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d.*)?")
#: Beyond this, sums of squares leave float64.
_LARGEST = 1e150
#: Names that `Recipe` has for itself.
_TAKEN = ("target", "leave")


@dataclass(frozen=True)
class Treatment:
    """What is done with a column: ops as code; none, where it is left alone. why: the reasons."""

    name: str
    ops: tuple[str, ...]
    why: tuple[str, ...]


def recipe_of(facts: Mapping[str, Any]) -> str:
    """The code."""
    columns = facts["columns"]
    target = facts["label"]["column"] if facts["label"] else None
    steps = [_step(name, column, columns) for name, column in columns.items() if name != target]
    lines = ["import penstock as ps", "", "T = ps.table"]
    if any(column["missing"] for column in columns.values()):
        lines.insert(0, '# Files with nulls are read with nulls="arrow", so that the recipe can fill them.')
    if not any(step.ops for step in steps):
        return "\n".join([*lines, *_why_not(steps), "recipe = None  # no column needs an op", ""])
    return "\n".join([*lines, "recipe = T.Recipe(", *_arguments(steps, target), ")", ""])


def _why_not(steps: Sequence[Treatment]) -> Iterator[str]:
    for step in steps:
        yield f"# {printable(repr(step.name))}: {_reasons(step)}"


def _arguments(steps: Sequence[Treatment], target: str | None) -> Iterator[str]:
    for step in steps:
        if step.ops and step.name in _TAKEN:
            yield f"    T.On({step.name!r}, {', '.join(step.ops)}),  # {_reasons(step)}"
    if target is not None:
        yield f"    target={target!r},  # what is to be predicted: no op goes to it"
    if left := [step for step in steps if not step.ops]:
        yield "    leave=["
        for step in left:
            yield f"        {step.name!r},  # {_reasons(step)}"
        yield "    ],"
    named = [step for step in steps if step.ops and step.name not in _TAKEN]
    if all(step.name.isidentifier() and not keyword.iskeyword(step.name) for step in named):
        for step in named:
            yield f"    {step.name}=[{', '.join(step.ops)}],  # {_reasons(step)}"
        return
    yield "    **{"
    for step in named:
        yield f"        {step.name!r}: [{', '.join(step.ops)}],  # {_reasons(step)}"
    yield "    },"


def _reasons(step: Treatment) -> str:
    return printable("; ".join(step.why))


def _step(name: str, column: Mapping[str, Any], columns: Mapping[str, Any]) -> Treatment:
    if reason := _left_out(column):
        return Treatment(name, (), (reason,))
    if name == "self":
        return Treatment(name, (), ("no verb can name a column like this: rename it",))
    if column["kind"] == "bool":
        if not column["missing"]:
            return Treatment(name, (), ("true or false, as it is",))
        return Treatment(name, ('T.FillMissing("mode")',), (_missing(column),))
    if column["kind"] == "text":
        return _of_text(name, column, columns)
    return _of_numbers(name, column, columns)


def _left_out(column: Mapping[str, Any]) -> str:
    """Why no op goes to a column; "" where one may."""
    there = column["rows"] - column["missing"]
    if column["kind"] not in ("integer", "float", "bool", "text"):
        return f"{column['type']}: no op of tables goes there"
    if not there:
        return "no value in any row: drop it"
    if is_constant(column) and not column["missing"]:
        return "constant: drop it"
    if column["kind"] == "text":
        return ""
    numbers = column["numbers"]
    if not numbers["count"]:
        return "no finite number in any row"
    if column["kind"] == "integer" and not -(2**63) <= numbers["least"] <= numbers["greatest"] < 2**63:
        return "numbers beyond 64 bits with a sign: read it as float64"
    return ""


def _of_text(name: str, column: Mapping[str, Any], columns: Mapping[str, Any]) -> Treatment:
    values = column["values"]
    named: list[str] = [value for value, _ in values["most_frequent"]]
    if values["all"] and all(_NUMBER.fullmatch(value) for value in named):
        fill = _filled(name, column, columns)
        ops = ('T.Cast("float64")', *fill, "T.Standardize()")
        return Treatment(name, ops, ("numbers, written as text", *([_missing(column)] if fill else [])))
    if named and all(_DATE.fullmatch(value) for value in named):
        return Treatment(name, (), ("dates, written as text: read them as dates, then T.DateParts",))
    if is_identifier(column):
        return Treatment(name, (), ("different in nearly every row: an identifier, or free text",))
    if column["lengths"]["mean"] > _FREE_TEXT:
        return Treatment(name, (), (f"free text of {column['lengths']['mean']:.0f} characters on average",))
    distinct, why = column["distinct"]["count"], [f"{_categories(column)}"]
    if column["missing"]:
        why.append(f"{_missing(column)}: a category of its own")
    if distinct <= _ONE_HOT:
        return Treatment(name, ("T.OneHot()",), tuple(why))
    if column["distinct"]["exact"]:
        once = "T.Vocabulary(min_count=2)" if values["most_frequent"][0][1] > 1 else "T.Vocabulary()"
        return Treatment(name, (once,), tuple(why))
    return Treatment(name, (f"T.Hash({_BUCKETS})",), (*why, "too many for a vocabulary"))


def _categories(column: Mapping[str, Any]) -> str:
    about = "" if column["distinct"]["exact"] else "about "
    return f"{about}{column['distinct']['count']:,} categories"


def _of_numbers(name: str, column: Mapping[str, Any], columns: Mapping[str, Any]) -> Treatment:
    numbers = column["numbers"]
    if unit := _unit(name, column):
        return Treatment(
            name,
            (f'T.DateParts(["year", "month", "day", "weekday"], unit="{unit}")',),
            (f"dates, as whole numbers of {unit} since 1970",),
        )
    if is_identifier(column) and not column["missing"]:
        return Treatment(name, (), ("whole numbers, different in nearly every row: an identifier",))
    if column["kind"] == "integer" and column["distinct"]["exact"] and 2 < column["distinct"]["count"] <= _FEW_NUMBERS:
        return Treatment(name, ("T.OneHot()",), (f"{column['distinct']['count']} whole numbers, taken for categories",))
    ops, why = list[str](), list[str]()
    if numbers["infinite"]:
        ops.append(f"T.Clip(low={numbers['least']!r}, high={numbers['greatest']!r})")
        why.append(f"{numbers['infinite']:,} infinite")
    if fill := _filled(name, column, columns):
        ops += fill
        why.append(_missing(column))
    ops += _shaped(numbers, why)
    if max(abs(numbers["least"]), abs(numbers["greatest"])) > _LARGEST:
        why.append("too great to be standardised")
    else:
        ops.append("T.Standardize()")
        why.append(f"mean {figure(numbers['mean'])}, deviation {figure(numbers['deviation'])}")
    return Treatment(name, tuple(ops), tuple(why))


def _shaped(numbers: Mapping[str, Any], why: list[str]) -> Iterator[str]:
    """What is done about a long tail, or outliers."""
    skew = skew_of(numbers)
    outliers = (numbers["outliers"]["low"] + numbers["outliers"]["high"]) / numbers["count"]
    if skew >= SKEW and numbers["least"] >= 0 and numbers["greatest"] > 10:
        why.append("long tail of great numbers")
        yield "T.Log()"
    elif outliers >= OUTLIERS:
        why.append(f"{outliers:.1%} outliers")
        yield "T.Clip(quantile=(0.01, 0.99))"


def _filled(name: str, column: Mapping[str, Any], columns: Mapping[str, Any]) -> list[str]:
    if not column["missing"]:
        return []
    marks = column["missing"] / column["rows"] >= MISSING and f"{name}_missing" not in columns
    return [f'T.FillMissing("median"{", indicator=True" if marks else ""})']


def _missing(column: Mapping[str, Any]) -> str:
    return f"missing in {column['missing'] / column['rows']:.2%} of the rows"


def _unit(name: str, column: Mapping[str, Any]) -> str:
    """What a column of dates counts; "" for one that is none."""
    numbers = column["numbers"]
    if column["kind"] != "integer" or not _DATE_NAME.search(name):
        return ""
    days = {unit: (numbers["least"] / size, numbers["greatest"] / size) for unit, size in _UNITS.items()}
    return next((unit for unit, (low, high) in days.items() if _FIRST_DAY <= low <= high <= _LAST_DAY), "")
