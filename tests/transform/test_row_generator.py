"""The `rng` of functions on batches: each row's numbers are its own, with the names and arguments of NumPy's generators."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import penstock as ps
from penstock.core.draw_keys import DrawKeys
from penstock.core.errors import PlanError
from penstock.transform.row_generator import RowGenerator

ROWS = 7


def rng(ids: Any = range(ROWS), stage: int = 5, step: int | None = None) -> RowGenerator:
    return RowGenerator(DrawKeys(np.array(ids, dtype=np.int64), stage, step), "map(f)")


#: Each with what it draws for `n` rows.
DRAWS: dict[str, Callable[[RowGenerator, int], Any]] = {
    "random": lambda rng, n: rng.random(),
    "random of a shape": lambda rng, n: rng.random((n, 3)),
    "random float32": lambda rng, n: rng.random((n, 2, 2), dtype=np.float32),
    "uniform": lambda rng, n: rng.uniform(-2, 3, size=(n, 4)),
    "normal": lambda rng, n: rng.normal(1, 2, size=(n, 3, 4)),
    "normal float32": lambda rng, n: rng.normal(size=n, dtype="float32"),
    "standard_normal": lambda rng, n: rng.standard_normal((n, 2)),
    "lognormal": lambda rng, n: rng.lognormal(0, 0.5),
    "exponential": lambda rng, n: rng.exponential(2.0),
    "triangular": lambda rng, n: rng.triangular(-1, 0.5, 2, size=(n, 2)),
    "laplace": lambda rng, n: rng.laplace(0, 2, size=(n, 2)),
    "rayleigh": lambda rng, n: rng.rayleigh(2.0),
    "standard_gamma": lambda rng, n: rng.standard_gamma(0.5, size=(n, 2)),
    "gamma": lambda rng, n: rng.gamma(0.5, size=(n, 2)),
    "beta": lambda rng, n: rng.beta(0.2, 0.2),
    "binomial": lambda rng, n: rng.binomial(40, 0.3, size=(n, 2)),
    "poisson": lambda rng, n: rng.poisson(3.5),
    "integers": lambda rng, n: rng.integers(10, size=(n, 5)),
    "integers to 2**64": lambda rng, n: rng.integers(0, 2**64, dtype=np.uint64),
    "choice": lambda rng, n: rng.choice(["left", "right", "none"]),
    "choice by chance": lambda rng, n: rng.choice(3, size=(n, 2), p=[0.2, 0.3, 0.5]),
    "choice of different ones": lambda rng, n: rng.choice(10, size=(n, 3), replace=False),
    "keys": lambda rng, n: rng.keys,
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_numbers_belong_to_the_row_and_not_to_the_batch(draw: Callable[[RowGenerator, int], Any]) -> None:
    whole = draw(rng(), ROWS)
    assert len(whole) == ROWS
    for ids in ([3], [6, 2, 2], [*reversed(range(ROWS))], []):
        part = draw(rng(ids), len(ids))
        np.testing.assert_array_equal(part, whole[np.array(ids, dtype=int)])
        assert part.dtype == whole.dtype
    if whole.dtype.kind != "U":
        assert (np.asarray(draw(rng(range(400)), 400)) != np.asarray(draw(rng(range(400), stage=6), 400))).any()


def test_calls_draw_other_numbers_each_and_a_batch_the_same_again() -> None:
    one, again = rng(), rng()
    drawn = [one.random() for _ in range(3)]
    assert len({*map(tuple, drawn)}) == 3
    np.testing.assert_array_equal(drawn, [again.random() for _ in range(3)])
    assert len({*one.keys.tolist()}) == ROWS
    np.testing.assert_array_equal(one.keys, again.keys)


def test_numbers_are_pinned() -> None:
    """Resuming and comparing runs depend on them."""
    one = rng(range(3))
    found = [one.random(), one.normal(), one.integers(1000), one.keys % 1000, one.beta(0.5, 0.5)]
    assert [[round(float(number), 6) for number in row] for row in found] == PINNED


PINNED: Any = [
    [0.726988, 0.852206, 0.477453],
    [0.104171, 0.021665, 0.292032],
    [701.0, 146.0, 330.0],
    [986.0, 764.0, 400.0],
    [0.40466, 0.000304, 0.346036],
]


@pytest.mark.parametrize(
    ("draw", "cdf"),
    [
        (lambda rng, n: rng.random(n), stats.uniform.cdf),
        (lambda rng, n: rng.random(n, dtype=np.float32), stats.uniform.cdf),
        (lambda rng, n: rng.uniform(-2, 3), stats.uniform(-2, 5).cdf),
        (lambda rng, n: rng.normal(1, 2), stats.norm(1, 2).cdf),
        (lambda rng, n: rng.lognormal(0, 0.5), stats.lognorm(0.5).cdf),
        (lambda rng, n: rng.exponential(2), stats.expon(scale=2).cdf),
        (lambda rng, n: rng.gamma(0.5, 3), stats.gamma(0.5, scale=3).cdf),
        (lambda rng, n: rng.beta(0.2, 0.7), stats.beta(0.2, 0.7).cdf),
    ],
)
def test_numbers_have_their_distribution(draw: Any, cdf: Any) -> None:
    """Over rows, and within a row."""
    many = draw(rng(range(20_000)), 20_000)
    assert stats.kstest(many, cdf).pvalue > 0.001
    within = rng([1]).random((1, 20_000))
    assert stats.kstest(within[0], stats.uniform.cdf).pvalue > 0.001


def test_whole_numbers_have_their_distribution() -> None:
    n = 40_000
    dice = np.bincount(rng(range(n)).integers(1, 6, endpoint=True), minlength=7)
    assert stats.chisquare(dice[1:]).pvalue > 0.001
    kinds = np.bincount(rng(range(n)).choice(3, p=[0.2, 0.3, 0.5]))
    assert stats.chisquare(kinds, np.array([0.2, 0.3, 0.5]) * n).pvalue > 0.001
    counts = rng(range(n)).poisson(3.5)
    assert abs(counts.mean() - 3.5) < 0.05
    assert abs(counts.var() - 3.5) < 0.1
    coins = rng(range(n)).binomial(20, 0.3)
    assert abs(coins.mean() - 6) < 0.05
    assert abs(coins.var() - 4.2) < 0.1
    pairs = rng(range(n)).choice(5, size=(n, 2), replace=False)
    assert (pairs[:, 0] != pairs[:, 1]).all()
    assert stats.chisquare(np.bincount(pairs.ravel())).pvalue > 0.001
    first = rng(range(n)).choice(3, size=(n, 1), replace=False, p=[0.2, 0.3, 0.5])
    assert stats.chisquare(np.bincount(first.ravel()), np.array([0.2, 0.3, 0.5]) * n).pvalue > 0.001


def test_rows_and_calls_are_not_correlated() -> None:
    one = rng(range(20_000))
    table = np.stack([*one.normal(size=(20_000, 3)).T, one.normal(), one.normal()])
    assert np.abs(np.corrcoef(table) - np.eye(5)).max() < 0.03
    assert abs(np.corrcoef(table[0][:-1], table[0][1:])[0, 1]) < 0.03


def test_parameters_broadcast_as_in_numpy() -> None:
    scale = np.arange(1.0, ROWS + 1)
    plain = rng().normal(size=(ROWS, 4))
    np.testing.assert_allclose(rng().normal(3, scale[:, None], size=(ROWS, 4)), 3 + scale[:, None] * plain)
    np.testing.assert_allclose(rng().normal(np.arange(4), 1, size=(ROWS, 4)), np.arange(4) + plain)
    np.testing.assert_allclose(rng().uniform(0, scale), scale * rng().random())
    assert rng().normal(0, scale[:, None, None]).shape == (ROWS, 1, 1)
    high = np.arange(1, ROWS + 1)
    assert (rng().integers(0, high) < high).all()
    assert rng().integers(0, 2, dtype=bool).dtype == bool
    assert rng().integers(-5, 5, size=ROWS, dtype=np.int8).dtype == np.int8
    assert rng().integers(5).shape == (ROWS,)
    assert rng().random(size=ROWS).shape == rng().random((ROWS,)).shape == (ROWS,)
    assert rng().random(np.zeros((ROWS, 2)).shape).shape == (ROWS, 2)
    assert rng().uniform(0, 1, (ROWS, 2), np.float32).dtype == np.float32


@pytest.mark.parametrize(
    ("draw", "found"),
    [
        (lambda rng: rng.normal(0, 1, size=(3, 4)), "size=(3, 4), and the batch has 7 rows"),
        (lambda rng: rng.random(5), "size=5, and the batch has 7 rows"),
        (lambda rng: rng.random(()), "size=(), and the batch has 7 rows"),
        (lambda rng: rng.random((7, -1)), "size=(7, -1)"),
        (lambda rng: rng.random(2.5), "size=2.5"),
        (lambda rng: rng.uniform(0, np.ones(3)), "high of shape (3,), and the batch has 7 rows"),
        (lambda rng: rng.normal(0, np.ones(7), size=(7, 4)), "scale of shape (7,)"),
        (lambda rng: rng.normal(0, -1), "scale is -1.0; it must be 0 or more"),
        (lambda rng: rng.normal("a"), "loc='a'; pass a number"),
        (lambda rng: rng.beta(0, 1), "a is 0.0; it must be more than 0"),
        (lambda rng: rng.binomial(2.5, 0.5), "n is 2.5; it must be an integer"),
        (lambda rng: rng.binomial(2, 1.5), "p is 1.5; it must be from 0 to 1"),
        (lambda rng: rng.poisson(-1), "lam is -1.0"),
        (lambda rng: rng.integers(5, 5), "low=5 is not below high=5"),
        (lambda rng: rng.integers(1.5), "high=1.5; pass an integer"),
        (lambda rng: rng.integers(300, dtype=np.uint8), "high is 299; it must be of uint8"),
        (lambda rng: rng.integers(3, dtype=np.float32), "dtype=float32"),
        (lambda rng: rng.random(dtype=np.int32), "dtype=int32; pass float64 or float32"),
        (lambda rng: rng.choice([]), "a=[]"),
        (lambda rng: rng.choice(0), "a=0"),
        (lambda rng: rng.choice(3, p=[0.5, 0.5]), "pass 3 probabilities"),
        (lambda rng: rng.choice(2, size=(7, 3), replace=False), "a row wants 3 entries of 2"),
        (lambda rng: rng.step, "rng.step is the generator of a global batch"),
    ],
)
def test_what_cannot_be_drawn_says_what_to_do(draw: Any, found: str) -> None:
    with pytest.raises(PlanError, match=re.escape(found)):
        draw(rng())


@pytest.mark.parametrize("name", ["shuffle", "permutation", "permuted", "bytes", "bit_generator", "spawn", "dirichlet"])
def test_what_does_not_draw_for_each_row_is_refused_with_the_choice(name: str) -> None:
    """What moves rows would depend on those that are together; other methods of NumPy's are merely not there, and the error says no more."""
    why = "would depend" if name in ("shuffle", "permutation", "permuted") else "is not among the methods"
    with pytest.raises(AttributeError, match=rf"rng\.{name} {why}.*rng\.keys.*rng\.step\.{name}"):
        getattr(rng(), name)
    assert not hasattr(rng(), name)
    with pytest.raises(AttributeError, match=r"no 'rand'; it is a penstock\.RowGenerator"):
        rng().rand()  # type: ignore[attr-defined]


@pytest.mark.parametrize("column", [np.arange(ROWS), np.arange(2 * ROWS)[::2]])
def test_choice_among_the_rows_that_are_together_is_refused(column: Any) -> None:
    """Another number of ranks has other rows together; entries that are no column of the batch may be as many as it has rows."""
    keys = DrawKeys(np.arange(ROWS), 5, None)
    one = RowGenerator(keys, "map(f)", {"text": pa.array(["a"] * ROWS), "x": column})
    for given in (column, column[1:], one._batch["text"]):
        with pytest.raises(PlanError, match="another number of ranks has others together; pair rows"):
            one.choice(given)
    assert len(one.choice(np.arange(ROWS))) == ROWS


@pytest.mark.parametrize("verb", ["map", "filter", "flat_map"])
def test_choice_of_a_column_is_refused_in_functions(verb: str) -> None:
    def partners(batch: Any, rng: Any) -> Any:
        return {"x": rng.choice(batch["x"])}

    plan = ps.from_arrays({"x": np.arange(20)})
    made = plan.batch(4).map(partners) if verb == "map" else getattr(plan, verb)(partners).batch(4, steps=2, lanes=1)
    with ps.Loader(made) as loader, pytest.raises(PlanError, match=rf"{verb}.*partners.*column 'x'"):
        next(iter(loader))


def test_the_generator_of_a_step_goes_on_from_call_to_call() -> None:
    one = rng(step=9)
    assert isinstance(one.step, np.random.Generator)
    drawn = one.step.random(), one.step.random()
    assert drawn[0] != drawn[1]
    assert drawn[0] == rng([4], step=9).step.random(), "whatever the rows"
    assert drawn[0] != rng(step=10).step.random()
    assert list(rng(step=9).step.permutation(5)) == list(rng([1, 2], step=9).step.permutation(5))
