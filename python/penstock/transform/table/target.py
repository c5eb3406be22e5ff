"""Categories become what the target is in their rows: without the rows' own part in it where they are training rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core.arguments import check_whole, is_whole
from penstock.core.columns.spec import Field
from penstock.core.errors import DataError, PlanError
from penstock.core.messages import quoted
from penstock.transform.table.categories import ByCategory
from penstock.transform.table.lane import Lane, floats
from penstock.transform.table.op import Step, check_choice, check_number
from penstock.transform.table.statistics.known_rows import Folds
from penstock.transform.table.statistics.protocol import Statistic
from penstock.transform.table.statistics.targets import TargetCells, Targets

_TYPES = ("auto", "continuous", "binary", "multiclass")
#: More classes than these are numbers that are not meant as classes; more numbers are a mistake, or need Hash before.
_MOST_CLASSES, _MOST_NUMBERS = 1000, 1 << 26


@dataclass(frozen=True)
class Target(ByCategory):
    """The mean of the target over the rows of a category, drawn towards the mean of all, as float32; of a target of more than two classes a vector, with the share of each class. scikit-learn's TargetEncoder.

    A row that the recipe was fitted on is encoded by the rows of the other folds alone, wherever it comes, and every other row by all of them: validation rows, test rows, and those of `apply`.
    A row is known by its source and its number there, so read training rows as for `fit`; `FittedRecipe.fitted_rows` counts those that are known. The fold follows from that number and the seed, by no draw
    and for any order. What is missing is a category; one that is not known has the mean of all rows.

    To float64's last few digits it is what scikit-learn gives with the same folds, before float32 rounds it.

    Args:
        target: the column of the target, numbers or classes without missing ones. Default: that of the recipe.
        target_type: "continuous", "binary" (of two classes, the share of the greater), "multiclass", or "auto", the default: numbers with fractions are continuous, all others are classes.
        smooth: how many rows the mean of all counts for; "auto", the default: by empirical Bayes, from the variances.
        folds: how many. Default: 5.
        seed: deals rows to folds. Default: 0.

    Returns:
        The op, for a `Recipe`.

    Raises:
        PlanError: for options that there are not, without a target, and behind a stage that numbers rows anew.
        DataError: by `fit`, for a target that is missing or infinite in a row, and for too few rows.

    Example:
        rng = np.random.default_rng(0)
        city = rng.choice(["Rome", "Oslo", "Bern"], 300)
        homes = ps.from_arrays({"city": city.tolist(), "price": (city == "Oslo") + rng.random(300)})
        recipe = ps.table.Recipe(city=ps.table.Target(), target="price").fit(homes)
        train = homes.transform(recipe)  # without the rows' own fold
        recipe.apply({"city": "Oslo"})["city"].round(1) == np.float32(1.5)
    """

    target: str | None = None
    target_type: str = "auto"
    smooth: float | str = "auto"
    folds: int = 5
    seed: int = 0

    limit = None

    def __post_init__(self) -> None:
        """PlanError for options that there are not."""
        if self.target is not None and not isinstance(self.target, str):
            raise PlanError(f"Target: target={quoted(self.target)}; name a column")
        check_choice("Target", target_type=(self.target_type, _TYPES))
        if self.smooth != "auto":
            check_number("Target", 0, smooth=self.smooth)
        check_whole("Target", 1 << 10, folds=self.folds)
        if self.folds < 2:
            raise PlanError("Target: folds=1, so that no row is left to learn from; take 2 or more")
        if not is_whole(self.seed) or not 0 <= self.seed < 1 << 63:
            raise PlanError(f"Target: seed={quoted(self.seed)}; pass a whole number from 0 on")

    def of_target(self, name: str, target: str | None, fields: Mapping[str, Field]) -> Target:
        """The same, of a recipe's target where it names none, in the chain of column `name`; PlanError for a column that cannot be one."""
        column = self.target or target
        if column is None:
            raise PlanError(
                f"recipe: {self} on column {quoted(name)}, and there is no target; write Recipe(…, target='y')"
            )
        if column not in fields:
            raise PlanError(f"recipe: {self}: no column {quoted(column)}; there are {', '.join(fields)}")
        if column == name:
            raise PlanError(f"recipe: {self} on column {quoted(name)}, which is the target itself; leave it out")
        kind = Lane.of(column, fields[column]).kind
        if self.target_type == "continuous" and kind == "text":
            raise PlanError(
                f"recipe: {self}: column {quoted(column)} is text; say target_type='multiclass' or 'binary'"
            )
        is_number = kind == "float" and self.target_type == "auto"
        return replace(self, target=column, target_type="continuous" if is_number else self.target_type)

    @property
    def learns_from(self) -> str | None:
        """See `ColumnOp`."""
        return self.target

    @property
    def known_folds(self) -> Folds | None:
        """See `ColumnOp`."""
        return Folds.of(self.folds, self.seed, self.learnt["rows"]) if self.learnt["rows"] else None

    def after(self, lane: Lane) -> Lane:
        """See `ColumnOp`."""
        names: list[str] = [] if self.fitted is None else self.learnt["names"]
        if len(names) > 1 or self.target_type == "multiclass":
            return Lane(kind="vector", dtype="float32", names=tuple(names))
        return floats()

    def statistic(self, lane: Lane) -> Statistic | None:
        """See `ColumnOp`."""
        if self.target is None:
            raise PlanError(f"recipe: {self} knows no target; fit it as a part of Recipe(…, target='y')")
        return Targets(self.target, self.folds, self.seed, is_continuous=self.target_type == "continuous")

    def learn(self, found: Any, lane: Lane) -> Mapping[str, Any]:
        """See `ColumnOp`."""
        cells: TargetCells = found.cells
        self._check(cells)
        classes, sums, squares = cells.classes, cells.sums, cells.squares
        if classes is not None and len(classes) <= 2 and self.target_type != "multiclass":
            sums = squares = sums[1:] if len(classes) == 2 else np.zeros_like(sums)
        names = [""] if classes is None or len(sums) == 1 else [*map(str, classes)]
        try:
            numbers = [self._encoded(cells, sums, squares, fold) for fold in (None, *range(self.folds))]
        except OverflowError:
            numbers = [np.array([np.inf])]
        if not all(np.isfinite(one).all() for one in numbers):
            raise DataError(f"has a mean of {self.target} beyond float64; scale the target")
        categories = cells.categories.to_pylist()
        missing = bool(categories) and categories[-1] is None
        return {
            "categories": categories[: len(categories) - missing],
            "missing": missing,
            "names": names,
            "versions": [one.ravel().tolist() for one in numbers],
            "rows": found.rows.described,
        }

    def _check(self, cells: TargetCells) -> None:
        """DataError for what nothing can be learnt of."""
        in_fold = cells.counts.sum(axis=0)
        if not in_fold.sum():
            raise DataError("has no row; fit on data that has some")
        if in_fold.max() == in_fold.sum():
            raise DataError(
                f"has all its {in_fold.sum():,} rows in one fold, so that none is left to learn from; fit on more rows, or take another seed"
            )
        classes = 0 if cells.classes is None else len(cells.classes)
        if self.target_type == "binary" and classes > 2:
            raise DataError(
                f"has a target of {classes:,} classes, {self.target}, and target_type='binary' is for two; take 'multiclass'"
            )
        if classes > _MOST_CLASSES:
            raise DataError(
                f"has a target of {classes:,} classes, {self.target}; say target_type='continuous' for numbers, or take another target"
            )
        numbers = cells.counts.size * max(1, classes)
        if numbers > _MOST_NUMBERS:
            raise DataError(
                f"has {len(cells.categories):,} categories, and with folds and classes {numbers:,} numbers to keep; put Hash before Target, or take fewer folds"
            )

    def _encoded(self, cells: TargetCells, sums: Any, squares: Any, fold: int | None) -> npt.NDArray[np.float64]:
        """The numbers of all categories, and of others: (categories + 1, classes). fold: the one that is left out."""
        left = [
            np.delete(one, [] if fold is None else [fold], axis=-1).sum(axis=-1)
            for one in (cells.counts, sums, squares)
        ]
        each = [
            _shrunk(left[0], total, square, cells.unit, self.smooth) for total, square in zip(*left[1:], strict=True)
        ]
        return np.stack(each, axis=-1)

    def steps(self, lane: Lane) -> Sequence[Step]:
        """See `ColumnOp`."""
        values = [number for version in self.learnt["versions"] for number in version]
        width = len(self.learnt["names"])
        return [self.look_up(lane, -1), {"step": "table", "values": values, "codes": self.size, "width": width}]

    def without_folds(self) -> Target:
        """The same, to which every row is one that it was not fitted on."""
        assert self.fitted is not None
        learnt = {**self.learnt, "versions": self.learnt["versions"][:1], "rows": {}}
        return self.with_learnt(learnt, self.fitted.digest)


def _shrunk(counts: Any, sums: Any, squares: Any, unit: int, smooth: float | str) -> npt.NDArray[np.float64]:
    """Means of categories drawn towards the mean of all, which stands behind them. sums, squares: whole numbers of units of 2**unit and of their squares."""
    rows, total, square = int(counts.sum()), int(sums.sum()), int(squares.sum())
    mean = float(_ratio(total, rows, unit))
    divisors = np.maximum(counts, 1)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        if isinstance(smooth, str):  # "auto"
            # scikit-learn's _fit_encoding_fast_auto_smooth: the variance within a category against that of all.
            variance = float(_ratio(rows * square - total * total, rows * rows, 2 * unit))
            within = _ratio(divisors * squares - sums * sums, divisors * divisors, 2 * unit)
            share = variance * counts / (variance * counts + within)
            found = share * _ratio(sums, divisors, unit) + (1 - share) * mean
        elif smooth:
            found = (_ratio(sums, 1, unit) + smooth * mean) / (counts + smooth)
        else:
            found = _ratio(sums, divisors, unit)
    return np.append(np.where(np.isnan(found) | (counts == 0), mean, found), mean)


def _ratio(numerator: Any, denominator: Any, unit: int) -> npt.NDArray[np.float64]:
    """Quotients of whole numbers times 2**unit, each rounded once."""
    if unit == 0:
        return np.asarray(np.asarray(numerator) / np.asarray(denominator), np.float64)
    over, under = np.asarray(numerator, object), np.asarray(denominator, object)
    return np.asarray(over / (under << -unit) if unit < 0 else (over << unit) / under, np.float64)
