"""Random numbers of rows: what `rng` is in functions on batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.core import kernels
from penstock.core.draw_keys import DrawKeys
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.transform.draw_parameters import axes, chances, check, floats, integers, scaled, spread, words

Size: TypeAlias = int | Sequence[int] | None
Floats: TypeAlias = npt.NDArray[Any]

_NO_PARAMETER = np.zeros(1)
#: More rows of a choice without replacement than this are refused: each row sorts all entries.
_MOST_SORTED = 1 << 27

#: NumPy's methods that move the rows of what they are given.
_OF_ALL_ROWS = ("permutation", "permuted", "shuffle")


class RowGenerator:
    """Draws for each row of a batch by the row's own key: the `rng` of functions in `map`, `filter` and `flat_map`.

    The methods have the names and arguments of `numpy.random.Generator`. Each returns an array whose first axis is the rows: one number a row, or `size`, which
    begins with the number of rows. Parameters are numbers, or arrays that broadcast with it, as in NumPy. The numbers of a row depend on seed, epoch and the row,
    and not on the rows beside it, ranks, threads or processes. Each call draws other numbers. What else NumPy's generator can do raises AttributeError, which
    says so.

    What a function does with a row may use that row only: the others of the batch are this rank's, and another number of ranks has others. So CutMix, MixUp
    and whatever pairs rows belong behind the loader, on the batch that the model gets; `choice` of a column of the batch raises PlanError.

    Example:
        def drawn(batch, rng):
            return {
                "noise": rng.normal(0, 0.1, size=(len(rng), 2)),
                "place": rng.uniform(0, batch["x"] + 1),
                "side": rng.choice(["left", "right"]),
                "die": rng.integers(1, 6, endpoint=True),
                "counts": rng.binomial(10, 0.5) + rng.poisson(3),
                "share": rng.beta(0.2, 0.2),
                "unit": rng.random() + rng.standard_normal() + rng.triangular(0, 1, 2),
                "far": rng.laplace() + rng.exponential() + rng.rayleigh(),
                "positive": rng.lognormal() + rng.gamma(2.0) + rng.standard_gamma(2.0),
                "own": [np.random.default_rng(key).random() for key in rng.keys],
                "shared": np.full(len(rng), rng.step.random()),  # the same on all ranks
            }

        data.map(drawn).batch(4).head()["noise"].shape == (4, 2)
    """

    def __init__(self, keys: DrawKeys, where: str, batch: Mapping[str, Any] = MappingProxyType({})) -> None:
        self._given, self._where, self._calls, self._batch = keys, where, 0, batch
        self._keys: npt.NDArray[np.uint64] | None = None
        self._step: np.random.Generator | None = None

    def __repr__(self) -> str:
        return f"RowGenerator({len(self):,} rows)"

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self._given)

    @property
    def keys(self) -> npt.NDArray[np.uint64]:
        """A random number (uint64) for each row, shape (rows,): `numpy.random.default_rng(rng.keys[0])` is a generator of row 0."""
        return self._row_keys().copy()

    @property
    def step(self) -> np.random.Generator:
        """One generator for the global batch, the same on all ranks. PlanError where the rows are in no batch yet."""
        if self._given.step is None:
            raise PlanError(
                f"{self._where}: rng.step is the generator of a global batch, and the rows here are in none yet: filter, flat_map, and what comes before them, "
                f"before cache() or, with on_error='skip', where a bad row is left out. Use rng.random(), rng.normal() or rng.keys, which belong to the rows, or write "
                f"map(…) after that"
            )
        if self._step is None:
            self._step = np.random.Generator(np.random.Philox(key=self._given.step))
        return self._step

    # Numbers

    def random(self, size: Size = None, dtype: npt.DTypeLike = np.float64) -> Floats:
        """Floats in [0, 1).

        Args:
            size: the shape, which begins with the number of rows. Default: (rows,).
            dtype: float64, the default, or float32.
        """
        shape, kind = self._shape("random", size), _float(dtype)
        if kind == np.float64:
            return self._floats("random", "uniform", shape)
        out = np.empty(shape, np.float32)
        kernels.draw_uniform_f32(self._row_keys(), self._next(), out.reshape(-1))
        return out

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Size = None, dtype: npt.DTypeLike = np.float64) -> Floats:
        """Floats in [low, high).

        Args:
            low: Default: 0.
            high: Default: 1.
            size: the shape, which begins with the number of rows. Default: (rows,), or that of the parameters.
            dtype: float64, the default, or float32.
        """
        low, high = floats("uniform", low=low, high=high)
        made = self.random(self._shape("uniform", size, low=low, high=high), dtype)
        return scaled(made, low, high - low)

    def standard_normal(self, size: Size = None, dtype: npt.DTypeLike = np.float64) -> Floats:
        """Floats of mean 0 and standard deviation 1.

        Args:
            size: the shape, which begins with the number of rows. Default: (rows,).
            dtype: float64, the default, or float32.
        """
        return _cast(self._floats("standard_normal", "normal", self._shape("standard_normal", size)), dtype)

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Size = None, dtype: npt.DTypeLike = np.float64) -> Floats:
        """Floats of a normal distribution.

        Args:
            loc: the mean. Default: 0.
            scale: the standard deviation, 0 or more. Default: 1.
            size: the shape, which begins with the number of rows. Default: (rows,), or that of the parameters.
            dtype: float64, the default, or float32.
        """
        loc, scale = floats("normal", loc=loc, scale=scale)
        check("normal", "scale", scale, scale >= 0, "0 or more")
        made = self._floats("normal", "normal", self._shape("normal", size, loc=loc, scale=scale))
        return scaled(_cast(made, dtype), loc, scale)

    def lognormal(
        self, mean: Any = 0.0, sigma: Any = 1.0, size: Size = None, dtype: npt.DTypeLike = np.float64
    ) -> Floats:
        """Floats whose logarithm is normal.

        Args:
            mean: of the logarithm. Default: 0.
            sigma: the logarithm's standard deviation, 0 or more. Default: 1.
            size: the shape, which begins with the number of rows. Default: (rows,), or that of the parameters.
            dtype: float64, the default, or float32.
        """
        return np.asarray(np.exp(self.normal(mean, sigma, size, dtype)))

    def triangular(self, left: Any, mode: Any, right: Any, size: Size = None) -> Floats:
        """Floats in [left, right], `mode` the most likely.

        Args:
            left: the lowest.
            mode: the most likely, from left to right.
            right: the highest.
            size: the shape, which begins with the number of rows. Default: (rows,), or that of the parameters.
        """
        left, mode, right = floats("triangular", left=left, mode=mode, right=right)
        check("triangular", "mode", mode, (left <= mode) & (mode <= right), "from left to right")
        check("triangular", "right", right, right > left, "more than left")
        made, width = self.random(self._shape("triangular", size, left=left, mode=mode, right=right)), right - left
        rising = left + np.sqrt(made * width * (mode - left))
        falling = right - np.sqrt((1 - made) * width * (right - mode))
        return np.asarray(np.where(made * width < mode - left, rising, falling))

    def laplace(self, loc: Any = 0.0, scale: Any = 1.0, size: Size = None) -> Floats:
        """Floats as far from `loc` to both sides as exponential ones of mean `scale`.

        Args:
            loc: the mean. Default: 0.
            scale: the mean distance, 0 or more. Default: 1.
            size: the shape, which begins with the number of rows. Default: (rows,), or that of the parameters.
        """
        loc, scale = floats("laplace", loc=loc, scale=scale)
        check("laplace", "scale", scale, scale >= 0, "0 or more")
        shape = self._shape("laplace", size, loc=loc, scale=scale)
        return scaled(self.exponential(size=shape) - self.exponential(size=shape), loc, scale)

    def rayleigh(self, scale: Any = 1.0, size: Size = None) -> Floats:
        """Floats: lengths of vectors of two normal numbers.

        Args:
            scale: the standard deviation of these, 0 or more. Default: 1.
            size: the shape, which begins with the number of rows. Default: (rows,), or that of the parameters.
        """
        (scale,) = floats("rayleigh", scale=scale)
        check("rayleigh", "scale", scale, scale >= 0, "0 or more")
        shape = self._shape("rayleigh", size, scale=scale)
        return scaled(np.sqrt(2 * self.exponential(size=shape)), np.zeros(()), scale)

    def exponential(self, scale: Any = 1.0, size: Size = None, dtype: npt.DTypeLike = np.float64) -> Floats:
        """Floats of an exponential distribution.

        Args:
            scale: the mean, 0 or more. Default: 1.
            size: the shape, which begins with the number of rows. Default: (rows,), or that of the parameters.
            dtype: float64, the default, or float32.
        """
        (scale,) = floats("exponential", scale=scale)
        check("exponential", "scale", scale, scale >= 0, "0 or more")
        made = self._floats("exponential", "exponential", self._shape("exponential", size, scale=scale))
        return scaled(_cast(made, dtype), np.zeros(()), scale)

    def gamma(self, shape: Any, scale: Any = 1.0, size: Size = None, dtype: npt.DTypeLike = np.float64) -> Floats:
        """Floats of a gamma distribution.

        Args:
            shape: its shape, above 0.
            scale: its scale, 0 or more. Default: 1.
            size: the shape, which begins with the number of rows. Default: (rows,), or that of the parameters.
            dtype: float64, the default, or float32.
        """
        shape, scale = floats("gamma", shape=shape, scale=scale)
        check("gamma", "shape", shape, shape > 0, "more than 0")
        check("gamma", "scale", scale, scale >= 0, "0 or more")
        made = self._floats("gamma", "gamma", self._shape("gamma", size, shape=shape, scale=scale), shape)
        return scaled(_cast(made, dtype), np.zeros(()), scale)

    def standard_gamma(self, shape: Any, size: Size = None, dtype: npt.DTypeLike = np.float64) -> Floats:
        """Floats of a gamma distribution of scale 1.

        Args:
            shape: its shape, above 0.
            size: the shape, which begins with the number of rows. Default: (rows,), or that of the parameters.
            dtype: float64, the default, or float32.
        """
        return self.gamma(shape, size=size, dtype=dtype)

    def beta(self, a: Any, b: Any, size: Size = None, dtype: npt.DTypeLike = np.float64) -> Floats:
        """Floats in [0, 1] of a beta distribution, as MixUp draws them.

        Args:
            a: above 0.
            b: above 0.
            size: the shape, which begins with the number of rows. Default: (rows,), or that of the parameters.
            dtype: float64, the default, or float32.
        """
        a, b = floats("beta", a=a, b=b)
        check("beta", "a", a, a > 0, "more than 0")
        check("beta", "b", b, b > 0, "more than 0")
        return _cast(self._floats("beta", "beta", self._shape("beta", size, a=a, b=b), a, b), dtype)

    def binomial(self, n: Any, p: Any, size: Size = None) -> npt.NDArray[np.int64]:
        """How many of `n` trials (int64) succeed: `rng.binomial(1, 0.5)` throws a coin.

        Args:
            n: the number of trials.
            p: the probability of each.
            size: the shape, which begins with the number of rows. Default: (rows,), or that of the parameters.
        """
        n, p = floats("binomial", n=n, p=p)
        check("binomial", "n", n, (n >= 0) & (n < 2**53) & (n == np.floor(n)), "an integer, 0 or more")
        check("binomial", "p", p, (p >= 0) & (p <= 1), "from 0 to 1")
        return self._floats("binomial", "binomial", self._shape("binomial", size, n=n, p=p), n, p).astype(np.int64)

    def poisson(self, lam: Any = 1.0, size: Size = None) -> npt.NDArray[np.int64]:
        """Counts (int64) of a Poisson distribution.

        Args:
            lam: the mean, 0 or more. Default: 1.
            size: the shape, which begins with the number of rows. Default: (rows,), or that of the parameters.
        """
        (lam,) = floats("poisson", lam=lam)
        check("poisson", "lam", lam, (lam >= 0) & (lam < 2**53), "0 or more, and below 2⁵³")
        return self._floats("poisson", "poisson", self._shape("poisson", size, lam=lam), lam).astype(np.int64)

    def integers(
        self, low: Any, high: Any = None, size: Size = None, dtype: npt.DTypeLike = np.int64, endpoint: bool = False
    ) -> npt.NDArray[Any]:
        """Integers from `low` to below `high`, or from 0 to below `low`.

        Args:
            low: the lowest; without `high`, the end.
            high: the end, which does not come.
            size: the shape, which begins with the number of rows. Default: (rows,), or that of the parameters.
            dtype: an integer type or bool. Default: int64.
            endpoint: True lets `high` come too. Default: False.
        """
        low, high = (0, low) if high is None else (low, high)
        kind = np.dtype(dtype)
        if kind.kind not in "iub":
            raise PlanError(f"rng.integers: dtype={kind}; pass an integer type or bool")
        first, last = integers("low", low), np.asarray(integers("high", high) - (not endpoint))
        limits = (0, 1) if kind.kind == "b" else (np.iinfo(kind).min, np.iinfo(kind).max)
        check("integers", "low", first, (first >= limits[0]) & (first <= limits[1]), f"of {kind}")
        check("integers", "high", last, (last >= limits[0]) & (last <= limits[1]), f"of {kind}")
        if (first > last).any():
            raise PlanError(f"rng.integers: low={quoted(low)} is not below high={quoted(high)}; pass low < high")
        out = np.empty(self._shape("integers", size, low=first, high=last), np.uint64)
        begin, count = (spread(words(one), out.shape) for one in (first, np.asarray(last - first + 1)))
        kernels.draw_integers(self._row_keys(), self._next(), begin, count, out.reshape(-1))
        return out.view(np.int64).astype(kind) if kind != np.uint64 else out

    def choice(self, a: Any, size: Size = None, replace: bool = True, p: Any = None) -> npt.NDArray[Any]:
        """Entries of a list, or of 0 … a - 1.

        Args:
            a: a list of one axis, or a number.
            size: the shape, which begins with the number of rows. Default: (rows,).
            replace: False: those of a row are all different. Default: True.
            p: the probability of each entry. Default: all alike.

        Raises:
            PlanError: for a column of the batch: see the class; and for more entries than there are with replace=False.

        Example:
            sides = data.map(lambda batch, rng: {"side": rng.choice(["left", "right"], p=[0.9, 0.1])})
            three = data.map(lambda batch, rng: {"of_ten": rng.choice(10, size=(len(rng), 3), replace=False)})
        """
        entries = np.arange(a) if isinstance(a, (int, np.integer)) else np.asarray(a)
        self._check_not_of_batch(a, entries)
        if entries.ndim != 1 or not len(entries):
            raise PlanError(
                f"rng.choice: a={quoted(a)}; pass a list of one axis that is not empty, or a number of 1 or more"
            )
        shape = self._shape("choice", size)
        weights = None if p is None else chances(p, len(entries))
        if not replace:
            return np.asarray(entries[self._different(shape, len(entries), weights)])
        if weights is None:
            return np.asarray(entries[self.integers(len(entries), size=shape)])
        edges = np.cumsum(weights)
        return np.asarray(entries[np.searchsorted(edges / edges[-1], self.random(shape), side="right")])

    def _check_not_of_batch(self, a: Any, entries: npt.NDArray[Any]) -> None:
        """PlanError for entries that are a column of the batch, or lie in one."""
        for name, column in self._batch.items():
            if a is column or (isinstance(column, np.ndarray) and np.may_share_memory(entries, column)):
                raise PlanError(
                    f"{self._where}: rng.choice of the column {quoted(name)} draws among the rows that are together here, and another number of ranks has "
                    f"others together; pair rows (CutMix, MixUp) on the batches that the loader gives, or pass entries that are not of the batch"
                )

    def _different(self, shape: tuple[int, ...], entries: int, weights: Floats | None) -> npt.NDArray[np.int64]:
        """Numbers of entries, all different in a row: those whose exponential numbers are smallest."""
        each = int(np.prod(shape[1:], dtype=np.int64))
        possible = entries if weights is None else int((weights > 0).sum())
        if each > possible:
            raise PlanError(
                f"rng.choice: replace=False, and a row wants {each:,} entries of {possible:,} that may come; ask for fewer"
            )
        if len(self) * entries > _MOST_SORTED:
            raise PlanError(
                f"rng.choice: replace=False sorts {entries:,} entries for each of {len(self):,} rows; seed a generator of your own a row with rng.keys"
            )
        turn = self.exponential(size=(len(self), entries))
        if weights is not None:
            with np.errstate(divide="ignore"):
                turn = turn / weights
        return np.argsort(turn, axis=1, kind="stable")[:, :each].reshape(shape)

    # Inside

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if hasattr(np.random.Generator, name):
            why = (
                "would depend on which rows are together, which another number of ranks changes"
                if name in _OF_ALL_ROWS
                else "is not among the methods that draw for each row"
            )
            raise AttributeError(
                f"{self._where}: rng.{name} {why}; use a method that draws for each "
                f"row (random, normal, integers, choice, …), rng.keys to seed generators of your own, or rng.step.{name}, one generator for "
                f"the whole step, the same on all ranks"
            )
        raise AttributeError(
            f"{self._where}: rng has no {name!r}; it is a penstock.RowGenerator, no numpy.random.Generator"
        )

    def _row_keys(self) -> npt.NDArray[np.uint64]:
        if self._keys is None:
            self._keys = np.empty(len(self), np.uint64)
            ids = np.ascontiguousarray(self._given.rows, dtype=np.int64)
            kernels.row_keys(ids, self._given.stage, self._keys)
        return self._keys

    def _next(self) -> int:
        self._calls += 1
        return self._calls - 1

    def _floats(
        self, method: str, kind: str, shape: tuple[int, ...], first: Any = _NO_PARAMETER, second: Any = _NO_PARAMETER
    ) -> Floats:
        out = np.empty(shape)
        first, second = spread(first, shape), spread(second, shape)
        wrong = kernels.draw_floats(kind, self._row_keys(), self._next(), first, second, out.reshape(-1))
        if wrong is not None:
            raise PlanError(f"rng.{method}: no such distribution for number {wrong}; look at its parameters")
        return out

    def _shape(self, method: str, size: Size, **given: npt.NDArray[Any]) -> tuple[int, ...]:
        """The shape of what is drawn; PlanError unless its first axis is the rows and the parameters fit."""
        rows, named = len(self), {name: one.shape for name, one in given.items() if one.ndim}
        try:
            together = np.broadcast_shapes(*named.values())
            shape = (together or (rows,)) if size is None else axes(size)
            fits = np.broadcast_shapes(shape, together) == shape
        except (ValueError, TypeError):
            fits, shape = False, ()
        if fits and shape and shape[0] == rows:
            return shape
        shown = ", ".join(
            [*([] if size is None else [f"size={size!r}"]), *(f"{name} of shape {of}" for name, of in named.items())]
        )
        raise PlanError(
            f"{self._where}: rng.{method}: {shown}, and the batch has {rows:,} rows. Each row draws its own numbers: leave size out for one a row, or "
            f"begin it with the rows, size=(len(rng), 3, 4) or size=batch['x'].shape; parameters must broadcast with that. rng.step draws for the "
            f"whole step"
        )


def _cast(made: Floats, dtype: npt.DTypeLike) -> Floats:
    return made.astype(_float(dtype), copy=False)


def _float(dtype: npt.DTypeLike) -> np.dtype[Any]:
    kind = np.dtype(dtype)
    if kind not in (np.float64, np.float32):
        raise PlanError(f"rng: dtype={kind}; pass float64 or float32, and convert with astype")
    return kind
