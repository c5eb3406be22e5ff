"""How far one profile is from another: numbers by their distributions, other values by their shares."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core.messages import counted

Floats = npt.NDArray[np.float64]

#: Up to which PSI a column is stable, and from which on its drift is strong: the usual thresholds.
MODERATE, STRONG = 0.1, 0.25
#: What an empty part counts as, so that the PSI is finite.
LEAST_SHARE = 1e-4
#: By how much the share of missing values may change in a stable column.
_MISSING = 0.05
_DECILES = ("0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9")
_NAMED = 20
#: Bars of the two histograms, and from which share on numbers beyond the bounds of before are told.
_BARS, _BEYOND = 30, 0.001


def drift_of(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of a drift, by column: those of the first profile, then those that are new."""
    names = [*dict.fromkeys([*before["columns"], *after["columns"]])]
    columns = {name: _column(before["columns"].get(name), after["columns"].get(name)) for name in names}
    return {
        "version": 1,
        "rows": [before["rows"], after["rows"]],
        "digests": [before["digest"], after["digest"]],
        "thresholds": {"moderate": MODERATE, "strong": STRONG},
        "says": _says(columns),
        "columns": columns,
    }


def _says(columns: Mapping[str, Any]) -> str:
    levels = [column["level"] for column in columns.values()]
    words = {"strong": "with strong drift", "moderate": "with moderate drift", "changed": "changed"}
    found = [f"{counted(levels.count(level), 'column')} {word}" for level, word in words.items() if level in levels]
    return ", ".join(found) if found else "all columns are stable"


def _column(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> dict[str, Any]:
    shares = [None if side is None or not side["rows"] else side["missing"] / side["rows"] for side in (before, after)]
    types = [None if side is None else side["type"] for side in (before, after)]
    found: dict[str, Any] = {"types": types, "missing_share": shares}
    if before is None or after is None:
        return {**found, "level": "changed", "says": "new column" if before is None else "lost column"}
    if _way(before) != _way(after):
        says = f"another type: {types[0]}, then {types[1]}"
        return {**found, "level": "changed", "says": says}
    measured = _numbers(before, after) if _way(before) == "numbers" else _categories(before, after)
    level, words = _level(measured["psi"])
    said = [words, *measured.pop("words", [])]
    if types[0] != types[1]:
        said.append(f"type {types[0]}, then {types[1]}")
    first, last = shares
    if first is not None and last is not None and abs(last - first) >= _MISSING:
        level = "moderate" if level == "stable" else level
        said.append(f"missing in {last:.1%}, before in {first:.1%}")
    return {**found, **measured, "level": level, "says": "; ".join(said)}


def _way(column: Mapping[str, Any]) -> str:
    """By what a column is compared; of texts and bytes, whose values are many, lengths."""
    if column["kind"] in ("integer", "float", "vector"):
        return "numbers"
    if column["kind"] in ("text", "bool"):
        return "values"
    return f"lengths of {column['kind']}" if column["kind"] != "image" else "lengths of bytes"


def _level(psi: float | None) -> tuple[str, str]:
    if psi is None:
        return "stable", "nothing to compare"
    if psi < MODERATE:
        return "stable", "stable"
    return ("moderate", "moderate drift") if psi < STRONG else ("strong", "strong drift")


def psi_of(before: Floats, after: Floats) -> float:
    """The population stability index of two shares: the sum of (q - p) ln(q / p), in which no share is below 0.0001.

    psi_of(np.array([0.5, 0.5]), np.array([0.5, 0.5])) == 0.0
    """
    p, q = np.maximum(before, LEAST_SHARE), np.maximum(after, LEAST_SHARE)
    return math.fsum(((q - p) * np.log(q / p)).tolist())


def js_of(before: Floats, after: Floats) -> float:
    """The Jensen-Shannon distance of two shares, base 2: js_of(np.array([1.0, 0.0]), np.array([0.0, 1.0])) == 1.0."""
    middle = (before + after) / 2
    halves = [math.fsum(_of_entropy(side, middle).tolist()) for side in (before, after)]
    return math.sqrt(min(max(sum(halves) / 2, 0.0), 1.0))


def _of_entropy(shares: Floats, middle: Floats) -> Floats:
    found = np.zeros(len(shares))
    there = shares > 0
    found[there] = shares[there] * np.log2(shares[there] / middle[there])
    return found


class _Distribution:
    """What share of a column's numbers is up to a point, and below it."""

    def __init__(self, numbers: Mapping[str, Any]) -> None:
        found = numbers["distribution"]
        self.points = np.array(found["points"], np.float64)
        self.ends = np.array(found["up_to"], np.float64) / numbers["count"]
        self.is_step = found["is_step"]

    def up_to(self, points: Floats) -> Floats:
        """Shares up to points."""
        if self.is_step:
            return np.asarray(np.concatenate([[0.0], self.ends])[np.searchsorted(self.points, points, side="right")])
        found = np.interp(points, self.points, self.ends, left=0.0, right=1.0)
        return np.asarray(found)

    def below(self, points: Floats) -> Floats:
        """Shares below points; where there is no step, the same but for the least number."""
        if self.is_step:
            return np.asarray(np.concatenate([[0.0], self.ends])[np.searchsorted(self.points, points, side="left")])
        found = self.up_to(points)
        return np.asarray(np.where(points <= self.points[0], 0.0, found))


def _numbers(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    return _by_distribution(before["numbers"], after["numbers"])


def _by_distribution(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    if not before["count"] or not after["count"]:
        return {
            "psi": None,
            "ks": None,
            "js": None,
            "words": ["no numbers on one side"] if before["count"] != after["count"] else [],
        }
    first, second = _Distribution(before), _Distribution(after)
    points = np.union1d(first.points, second.points)
    apart = [np.abs(first.up_to(points) - second.up_to(points)), np.abs(first.below(points) - second.below(points))]
    edges = np.unique([before["quantiles"][one] for one in _DECILES])
    shares = [np.diff(np.concatenate([[0.0], side.up_to(edges), [1.0]])) for side in (first, second)]
    bars = _common_bars(first, second)
    return {
        "psi": psi_of(*shares),
        "ks": float(max(one.max() for one in apart)),
        "js": js_of(*shares),
        "edges": edges.tolist(),
        "shares": [side.tolist() for side in shares],
        "bars": bars,
        "means": [before["mean"], after["mean"]],
        "words": _moved(before, second),
    }


def _common_bars(first: _Distribution, second: _Distribution) -> dict[str, Any]:
    """Both histograms on the same edges, without the outermost hundredths; of few values, a bar each."""
    points = np.union1d(first.points, second.points)
    if first.is_step and second.is_step and len(points) <= _BARS:
        counts = [(side.up_to(points) - side.below(points)).round(6).tolist() for side in (first, second)]
        return {"edges": points.tolist(), "counts": counts}
    inner = [side.points[(side.ends >= 0.01) & (side.ends <= 0.99)] for side in (first, second)]
    kept = np.concatenate(inner) if all(map(len, inner)) else points
    low, high = float(kept.min()), float(kept.max())
    if not low < high or not math.isfinite(high - low):
        return {"edges": [], "counts": [[], []]}
    edges = np.linspace(low, high, _BARS + 1)
    counts = [np.diff(side.up_to(edges)).round(6).tolist() for side in (first, second)]
    return {"edges": edges.tolist(), "counts": counts}


def _moved(before: Mapping[str, Any], second: _Distribution) -> list[str]:
    """What is said of numbers beyond the bounds of before."""
    below = float(second.below(np.array([before["least"]], np.float64))[0])
    above = 1 - float(second.up_to(np.array([before["greatest"]], np.float64))[0])
    sides = ((below, "smaller"), (above, "greater"))
    return [f"{share:.1%} {word} than any before" for share, word in sides if share >= _BEYOND]


def _categories(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    if "values" not in before:
        return _by_distribution(before["lengths"], after["lengths"])
    sides = [{str(value): count for value, count in side["values"]["most_frequent"]} for side in (before, after)]
    totals = [side["rows"] - side["missing"] for side in (before, after)]
    if not all(totals):
        return {"psi": None, "ks": None, "js": None, "words": ["no values on one side"] if any(totals) else []}
    complete = [side["values"]["all"] for side in (before, after)]
    known = _compared(sides, complete)
    found = np.array([[side.get(name, 0) for name in known] for side in sides], np.float64).reshape(2, len(known))
    rest = np.array([[total - side.sum()] for total, side in zip(totals, found, strict=True)])
    shares = np.concatenate([found, rest], axis=1) / np.array(totals)[:, None]
    new, lost = (_gone(sides[one], sides[other], is_complete=complete[other]) for one, other in ((1, 0), (0, 1)))
    return {
        "psi": psi_of(shares[0], shares[1]),
        "ks": None,
        "js": js_of(shares[0], shares[1]),
        "new": new,
        "lost": lost,
        "shares": [[name, *pair] for name, *pair in sorted(zip(known, *shares.tolist(), strict=False), key=_by_share)][
            :_NAMED
        ],
        "complete": all(complete),
        "words": _came_and_went(new, lost, is_complete=all(complete)),
    }


def _by_share(named: Sequence[Any]) -> tuple[float, str]:
    return -max(named[1], named[2]), named[0]


def _compared(sides: Sequence[Mapping[str, int]], complete: Sequence[bool]) -> list[str]:
    """The values whose share is known on both sides."""
    return sorted(
        name
        for name in {*sides[0], *sides[1]}
        if all(name in side or is_complete for side, is_complete in zip(sides, complete, strict=True))
    )


def _gone(of: Mapping[str, int], there: Mapping[str, int], *, is_complete: bool) -> dict[str, Any]:
    """Values that are not there; none are told where not all are known that are."""
    if not is_complete:
        return {"count": None, "first": [], "rows": None}
    names = sorted(({*of} - {*there}), key=lambda name: (-of[name], name))
    return {"count": len(names), "first": names[:_NAMED], "rows": sum(of[name] for name in names)}


def _came_and_went(new: Mapping[str, Any], lost: Mapping[str, Any], *, is_complete: bool) -> list[str]:
    said = [
        counted(found["count"], word, many)
        for found, word, many in ((new, "new category", "new categories"), (lost, "lost category", "lost categories"))
        if found["count"]
    ]
    return said if is_complete else [*said, "by the most frequent values"]
