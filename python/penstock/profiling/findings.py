"""What stands out in a dataset, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from penstock.core.messages import counted, printable
from penstock.profiling.facts import CORRELATED

#: From which shares on something is said.
MISSING, ZEROS, OUTLIERS, SKEW, IDENTIFIER = 0.05, 0.5, 0.02, 0.3, 0.98
#: Numbers of so few different values are classes or counts, of which no shape is told.
FEW = 10
#: Classes of which one has so many times the rows of another.
IMBALANCED = 10


def findings_of(facts: Mapping[str, Any]) -> list[dict[str, str]]:
    """Each with the column that it is about, or "", and words."""
    found = [*_of_rows(facts)]
    for name, column in facts["columns"].items():
        found += [{"column": name, "says": words} for words in _of_column(column)]
    return found


def _of_rows(facts: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    duplicates, label = facts["duplicates"], facts["label"]
    if duplicates["rows"]:
        about = "" if duplicates["exact"] else "about "
        yield _of(
            "",
            f"{about}{counted(duplicates['rows'], 'row')} {'is a copy of another one' if duplicates['rows'] == 1 else 'are copies of others'}",
        )
    if label and label["classes"] == 1:
        yield _of(label["column"], "the label has one class only")
    elif label and (label["most_to_least"] or 0) >= IMBALANCED:
        (most, _), (least, _) = label["counts"][0], label["counts"][-1]
        yield _of(
            label["column"], f"class {most!r} has {label['most_to_least']:,.0f} times the rows of class {least!r}"
        )
    if label and label["missing"]:
        yield _of(label["column"], f"the label is missing in {counted(label['missing'], 'row')}")
    names, figures = facts["correlations"]["columns"], facts["correlations"]["figures"]
    for one, name in enumerate(names):
        for other in range(one):
            if (figure := figures[one][other]) is not None and abs(figure) >= CORRELATED:
                yield _of(name, f"goes with {names[other]}: correlation {figure:.2f}")


def _of(column: str, words: str) -> dict[str, str]:
    return {"column": column, "says": printable(words)}


def _of_column(column: Mapping[str, Any]) -> Iterator[str]:
    rows, missing = column["rows"], column["missing"]
    there = rows - missing
    if not rows:
        return
    if not there:
        yield "has no value in any row"
        return
    if missing / rows >= MISSING:
        yield f"is missing in {missing / rows:.1%} of the rows"
    if is_constant(column) and there > 1:
        yield "has the same value in every row that has one"
    elif is_identifier(column):
        yield f"is different in nearly every row: an identifier{', or free text' if column['kind'] == 'text' else ''}"
    if (numbers := column.get("numbers")) is not None and column["kind"] != "bool":
        yield from _of_numbers(numbers, is_measure=column["distinct"]["count"] > FEW if "distinct" in column else True)
    if column.get("empty") and column["kind"] == "text":
        yield f"is an empty text in {counted(column['empty'], 'row')}"
    if (images := column.get("images")) and images["broken"]:
        yield f"{counted(images['broken'], 'image')} cannot be read, by the {'header' if images['checked_by'] == 'header' else 'decoder'}"


def _of_numbers(numbers: Mapping[str, Any], *, is_measure: bool) -> Iterator[str]:
    if numbers["infinite"]:
        yield f"is infinite in {counted(numbers['infinite'], 'row')}"
    if not is_measure or not numbers["count"]:
        return
    if numbers["zeros"] / numbers["count"] >= ZEROS:
        yield f"is 0 in {numbers['zeros'] / numbers['count']:.1%} of the rows"
    outliers = numbers["outliers"]["low"] + numbers["outliers"]["high"]
    if outliers / numbers["count"] >= OUTLIERS:
        yield f"has {counted(outliers, 'outlier')} ({outliers / numbers['count']:.1%}), beyond 1.5 times the distance of the quartiles"
    if abs(skew := skew_of(numbers)) >= SKEW:
        yield f"is skewed to the {'right' if skew > 0 else 'left'}, with a long tail of {'great' if skew > 0 else 'small'} numbers"


def is_constant(column: Mapping[str, Any]) -> bool:
    """Whether all values are one."""
    distinct = column.get("distinct")
    return bool(distinct and distinct["exact"] and distinct["count"] == 1)


def is_identifier(column: Mapping[str, Any]) -> bool:
    """Whether nearly every row has a value of its own, as identifiers and free text have, and floats usually."""
    there = column["rows"] - column["missing"]
    is_countable = column["kind"] in ("text", "integer") and there > 20
    return is_countable and column["distinct"]["count"] >= IDENTIFIER * there


def skew_of(numbers: Mapping[str, Any]) -> float:
    """By how much the upper tail is longer than the lower one, from -1 to 1: by the 5th, 50th and 95th percentiles."""
    low, middle, high = (numbers["quantiles"][one] for one in ("0.05", "0.5", "0.95"))
    return float((high + low - 2 * middle) / (high - low)) if high > low else 0.0
