"""Categories become numbers: vectors, codes, frequencies, buckets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.arguments import check_whole, is_whole
from penstock.core.errors import DataError, PlanError
from penstock.core.messages import quoted
from penstock.transform.table.lane import Kind, Lane, floats, whole
from penstock.transform.table.op import CATEGORIES, ColumnOp, Step, check_choice, said
from penstock.transform.table.statistics.counts import Counts
from penstock.transform.table.statistics.protocol import Statistic

_TEXT: frozenset[Kind] = frozenset({"text"})
#: Categories of a one-hot, and of codes, unless more are allowed.
_WIDEST, _MOST = 1 << 12, 1 << 24


class ByCategory(ColumnOp):
    """An op whose table of categories comes of `Counts`: "categories", and "missing", whether that is one of them, behind the others."""

    takes = CATEGORIES
    by_type = _TEXT
    limit: int | None
    categories: Sequence[Any] | None = None

    def statistic(self, lane: Lane) -> Statistic | None:
        """See `ColumnOp`: nothing where the categories are given."""
        return Counts(self.limit) if self.categories is None else None

    @cached_property
    def learnt(self) -> Mapping[str, Any]:
        """See `ColumnOp`."""
        return super().learnt if self.categories is None else {"categories": [*self.categories], "missing": False}

    def check_lane(self, name: str, lane: Lane) -> None:
        """See `ColumnOp`; also for categories of another kind."""
        super().check_lane(name, lane)
        if self.categories is not None and isinstance(self.categories[0], str) != (lane.kind == "text"):
            raise PlanError(
                f"recipe: {type(self).__name__} on column {quoted(name)}, which is {said(lane)} there; its categories are such as {quoted(self.categories[0])}"
            )

    def learn(self, found: Any, lane: Lane) -> Mapping[str, Any]:
        """See `ColumnOp`."""
        values, _ = found.sorted
        if not len(values) and not found.missing:
            raise DataError("has no row; fit on data that has some")
        return {"categories": values.to_pylist(), "missing": found.missing > 0}

    @property
    def size(self) -> int:
        """How many categories there are, that of missing values among them."""
        return len(self.learnt["categories"]) + bool(self.learnt["missing"])

    def look_up(self, lane: Lane, unknown: Any) -> Step:
        """The step from values to codes. unknown: the code of others, and of what is missing where that is no category."""
        categories = self.learnt["categories"]
        missing = len(categories) if self.learnt["missing"] else unknown
        return {"step": "lookup", **keys(categories, lane), "unknown": unknown, "missing": missing}


def check_categories(op: str, given: Any) -> tuple[Any, ...] | None:
    """Categories as users give them, as a tuple; PlanError for what are none: numbers or texts, each once."""
    if given is None:
        return None
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise PlanError(f"{op}: categories={quoted(given)}; pass a list of texts or of numbers")
    values = tuple(one.item() if isinstance(one, np.generic) else one for one in given)
    are_texts, are_numbers = (all(isinstance(one, kind) for one in values) for kind in (str, (int, float)))
    has_nan = any(isinstance(one, float) and math.isnan(one) for one in values)
    if not values or not (are_texts or are_numbers) or has_nan or len({*values}) < len(values):
        raise PlanError(
            f"{op}: categories={quoted([*values])}; pass texts or numbers, at least one and each once, without what is missing"
        )
    return values


def keys(categories: Sequence[Any], lane: Lane) -> dict[str, Any]:
    """Categories as native code compares them with a lane: text, whole numbers, or the bits of floats. Those that the lane cannot hold keep their codes, and are met by no row."""
    if lane.kind == "text":
        return {"texts": [one if isinstance(one, str) else f"\0{one!r}" for one in categories]}
    if any(isinstance(one, str) for one in categories):
        raise PlanError(
            f"transform: the recipe was fitted on text such as {categories[0]!r}, and the column holds numbers; read it as it was read then"
        )
    if lane.kind == "float":
        return {"numbers": (np.array(categories, np.float64) + 0.0).view(np.int64)}
    return {"numbers": np.array([_whole(one) for one in categories], np.int64)}


def _whole(category: Any) -> int:
    return int(category) if float(category).is_integer() else np.iinfo(np.int64).min


@dataclass(frozen=True)
class OneHot(ByCategory):
    """A vector for each row, with 1 at its category and 0 elsewhere, as float32. scikit-learn's OneHotEncoder.

    Categories stand in ascending order, text by its code points. What is missing is a category of its own, the last one, if it was met in `fit`. Others are vectors of
    zeros, unless `handle_unknown`.

    Args:
        handle_unknown: "ignore", the default, or "error" for rows whose category was in none that the recipe was fitted on.
        limit: more categories are an error. Default: 4,096.
        categories: those that there are, in this order: `data.categories("city")`, for example. Nothing is fitted then, and what is missing is unknown. Default: those that
            `fit` meets.

    Returns:
        The op, for a `Recipe`.

    Raises:
        DataError: by `fit`, for more categories than `limit`; from a Loader and from `apply`, for a category that is not known.

    Example:
        homes = ps.from_arrays({"city": ["Rome", "Oslo", "Rome"]})
        recipe = ps.table.Recipe(city=ps.table.OneHot()).fit(homes)
        homes.transform(recipe).head()["city"].tolist() == [[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    """

    handle_unknown: str = "ignore"
    limit: int = _WIDEST
    categories: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        """PlanError for options that there are not."""
        object.__setattr__(self, "categories", check_categories("OneHot", self.categories))
        check_choice("OneHot", handle_unknown=(self.handle_unknown, ("ignore", "error")))
        check_whole("OneHot", 1 << 24, limit=self.limit)

    def after(self, lane: Lane) -> Lane:
        """See `ColumnOp`."""
        if self.fitted is None and self.categories is None:
            return Lane(kind="vector", dtype="float32")
        names = [*map(str, self.learnt["categories"]), *["missing"] * self.learnt["missing"]]
        return Lane(kind="vector", dtype="float32", names=tuple(names))

    def statistic(self, lane: Lane) -> Statistic | None:
        """See `ColumnOp`."""
        return super().statistic(lane) if lane.codes is None or self.categories is not None else Counts()

    def learn(self, found: Any, lane: Lane) -> Mapping[str, Any]:
        """See `ColumnOp`: of codes all, whether or not a row has them."""
        if lane.codes is None:
            return super().learn(found, lane)
        return {"categories": [*range(lane.codes)], "missing": False}

    def steps(self, lane: Lane) -> Sequence[Step]:
        """See `ColumnOp`."""
        unknown = -1 if self.handle_unknown == "ignore" else "refused"
        return [self.look_up(lane, unknown), {"step": "one_hot", "width": self.size}]

    def undo(self, values: Any, lane: Lane) -> Any:
        """See `ColumnOp`: null for vectors of zeros."""
        vectors = np.asarray(values)
        return of_codes(np.where(vectors.any(axis=1), vectors.argmax(axis=1), -1), self.learnt["categories"])


@dataclass(frozen=True)
class Ordinal(ByCategory):
    """The code of a category, from 0 on in ascending order, as int64. scikit-learn's OrdinalEncoder.

    What is missing has the last code, if it was met in `fit`. Others have `unknown_value`, unless `handle_unknown`.

    Args:
        handle_unknown: "ignore", the default, or "error".
        unknown_value: the code of categories that were in no row of `fit`, below 0. Default: -1.
        limit: more categories are an error. Default: 16,777,216.
        categories: those that there are, in the order of their codes: `data.categories("city")` keeps those of pandas. Nothing is fitted then, and what is missing has
            `unknown_value`. Default: those that `fit` meets.

    Returns:
        The op, for a `Recipe`.

    Raises:
        DataError: as of `OneHot`.

    Example:
        homes = ps.from_arrays({"city": ["Rome", "Oslo", "Rome"]})
        recipe = ps.table.Recipe(city=ps.table.Ordinal()).fit(homes)
        homes.transform(recipe).head()["city"].tolist() == [1, 0, 1]
        recipe.apply({"city": "Bern"})["city"] == -1
    """

    handle_unknown: str = "ignore"
    unknown_value: int = -1
    limit: int = _MOST
    categories: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        """PlanError for options that there are not."""
        object.__setattr__(self, "categories", check_categories("Ordinal", self.categories))
        check_choice("Ordinal", handle_unknown=(self.handle_unknown, ("ignore", "error")))
        check_whole("Ordinal", limit=self.limit)
        if not is_whole(self.unknown_value) or not -(1 << 63) <= self.unknown_value < 0:
            raise PlanError(
                f"Ordinal: unknown_value={quoted(self.unknown_value)}; pass a whole number below 0, which is the code of no category"
            )

    def after(self, lane: Lane) -> Lane:
        """See `ColumnOp`."""
        return whole(None)

    def steps(self, lane: Lane) -> Sequence[Step]:
        """See `ColumnOp`."""
        return [self.look_up(lane, self.unknown_value if self.handle_unknown == "ignore" else "refused")]

    def undo(self, values: Any, lane: Lane) -> Any:
        """See `ColumnOp`: null for codes of none."""
        return of_codes(np.asarray(values), self.learnt["categories"])


@dataclass(frozen=True)
class Vocabulary(ByCategory):
    """The code of a value by how often it comes, as int64: the most frequent one is 0. What embeddings take; tf.Transform's compute_and_apply_vocabulary.

    Of values that come equally often the lesser one is first. Others, and what is missing, fall into buckets behind the known ones.

    Args:
        min_count: rarer values are unknown. Default: 1.
        max_size: so many values at most, the most frequent ones. Default: all.
        unknown_buckets: how many codes the unknown ones share; 0: they are -1. Default: 1.

    Returns:
        The op, for a `Recipe`.

    Example:
        visits = ps.from_arrays({"page": ["home", "shop", "home", "help"]})
        recipe = ps.table.Recipe(page=ps.table.Vocabulary(min_count=2)).fit(visits)
        visits.transform(recipe).head()["page"].tolist() == [0, 1, 0, 1]
    """

    min_count: int = 1
    max_size: int | None = None
    unknown_buckets: int = 1

    limit = None

    def __post_init__(self) -> None:
        """PlanError for what are no counts."""
        check_whole("Vocabulary", min_count=self.min_count)
        if self.max_size is not None:
            check_whole("Vocabulary", max_size=self.max_size)
        if self.unknown_buckets != 0:
            check_whole("Vocabulary", 1 << 31, unknown_buckets=self.unknown_buckets)

    def after(self, lane: Lane) -> Lane:
        """See `ColumnOp`."""
        return whole(None)

    def learn(self, found: Any, lane: Lane) -> Mapping[str, Any]:
        """See `ColumnOp`."""
        values, counts = found.sorted
        order = np.argsort(-counts, kind="stable")
        order = order[counts[order] >= self.min_count][: self.max_size]
        return {"categories": values.take(pa.array(order)).to_pylist(), "missing": False}

    def steps(self, lane: Lane) -> Sequence[Step]:
        """See `ColumnOp`."""
        known, buckets = len(self.learnt["categories"]), self.unknown_buckets
        step = self.look_up(lane, -1)
        return [{**step, "unknown": (known, buckets), "missing": known} if buckets else step]

    def undo(self, values: Any, lane: Lane) -> Any:
        """See `ColumnOp`: null for unknown ones."""
        return of_codes(np.asarray(values), self.learnt["categories"])


@dataclass(frozen=True)
class Frequency(ByCategory):
    """How often a row's category comes, as a share of all rows that the recipe was fitted on, as float32.

    What is missing is a category of its own; one that is not known has 0.

    Args:
        normalize: False: the count itself. Default: True.

    Returns:
        The op, for a `Recipe`.

    Example:
        homes = ps.from_arrays({"city": ["Rome", "Oslo", "Rome", "Rome"]})
        recipe = ps.table.Recipe(city=ps.table.Frequency()).fit(homes)
        homes.transform(recipe).head()["city"].tolist() == [0.75, 0.25, 0.75, 0.75]
    """

    normalize: bool = True

    limit = None

    def after(self, lane: Lane) -> Lane:
        """See `ColumnOp`."""
        return floats()

    def learn(self, found: Any, lane: Lane) -> Mapping[str, Any]:
        """See `ColumnOp`."""
        _, counts = found.sorted
        counted = [*counts.tolist(), *[found.missing] * (found.missing > 0)]
        return {**super().learn(found, lane), "counts": counted}

    def steps(self, lane: Lane) -> Sequence[Step]:
        """See `ColumnOp`."""
        counts = self.learnt["counts"]
        rows = sum(counts) if self.normalize else 1
        shares = [*(count / rows for count in counts), 0.0]
        return [self.look_up(lane, -1), {"step": "table", "values": shares, "codes": len(counts), "width": 1}]


@dataclass(frozen=True)
class Hash(ColumnOp):
    """One of so many codes from 0 on, as int64, by a value's hash: nothing is fitted, and several values share a code. The same in all versions and on all machines.

    What is missing has code 0, which others share.

    Args:
        buckets: how many codes.

    Returns:
        The op, for a `Recipe`.

    Example:
        users = ps.from_arrays({"user": ["ann", "bob", "ann"]})
        codes = users.transform(user=ps.table.Hash(1000)).head()["user"]
        bool(codes[0] == codes[2]) == True
    """

    buckets: int

    takes = CATEGORIES
    by_type = _TEXT

    def __post_init__(self) -> None:
        """PlanError for what is no number of buckets."""
        check_whole("Hash", 1 << 62, buckets=self.buckets)

    def after(self, lane: Lane) -> Lane:
        """See `ColumnOp`."""
        return whole(None)

    def steps(self, lane: Lane) -> Sequence[Step]:
        """See `ColumnOp`."""
        return [{"step": "lookup", **keys([], lane), "unknown": (0, self.buckets), "missing": 0}]


def whole_codes(values: Any) -> Any:
    """Codes as whole numbers, -1 for NaN; PlanError for others."""
    codes = np.asarray(values)
    if codes.dtype.kind != "f":
        return codes
    codes = np.where(np.isnan(codes), -1.0, codes)
    wrong = codes[codes != np.rint(codes)]
    if len(wrong):
        raise PlanError(
            f"inverse: {wrong[0]:g} is no code; round what was predicted, or take the code of the greatest probability"
        )
    return codes.astype(np.int64)


def of_codes(codes: Any, categories: Sequence[Any]) -> pa.Array:
    """The categories of codes; null where there is none. PlanError for numbers that are no codes."""
    known, codes = pa.array(categories), whole_codes(codes)
    is_known = (codes >= 0) & (codes < len(categories))
    return known.take(pa.array(np.where(is_known, codes, 0), mask=~is_known))
