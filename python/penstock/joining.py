"""Several datasets as one: one after another, in turn by weights, or side by side."""

from __future__ import annotations

from builtins import zip as pairs  # `zip` is a verb here
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from penstock.core.by_name import options_by_name
from penstock.core.errors import PlanError
from penstock.core.given import check_flags
from penstock.core.quoted import quoted
from penstock.dataset import Dataset
from penstock.looking.pairing import paired, warn_of_names
from penstock.plan.check import check_verb
from penstock.plan.nodes import Concat, Mix, Node, SourceColumn, Take, Zip
from penstock.plan.weights import read_weights
from penstock.resolve.draw_checks import check_draws
from penstock.resolve.order_checks import check_order
from penstock.resolve.resolved import resolve


@options_by_name("write concat([…, …])")
def concat(datasets: Iterable[Dataset], *, source: str | None = None) -> Dataset:
    """The rows of several datasets, one after another: concat([first, second]).shuffle(seed=0).batch(256).

    Their columns must have the same names and types; a function or ops of each may come before. What comes after, `shuffle` say, takes
    the rows of all. Datasets that are shuffled already stay one after another, each in its own order. The same
    dataset twice gives its rows twice. source="source" adds an int32 column of that name: the number of the dataset that each row came
    of. Raises PlanError where columns, class folders or verbs do not fit.
    """
    node = Concat(inputs=_roots("concat", datasets))
    check_verb(node)
    check_order(node)
    return _with_source(node, source)


def _with_source(node: Concat | Mix, name: str | None) -> Dataset:
    return Dataset(node) if name is None else Dataset(node)._then(SourceColumn(input=node, name=name))  # noqa: SLF001


@options_by_name("write mix([…], weights=[…])")
def mix(
    datasets: Iterable[Dataset],
    *,
    weights: Sequence[float] | Mapping[int, Sequence[float]] | Sequence[tuple[int, Sequence[float]]] | None = None,
    stop: Literal["first_exhausted", "all_exhausted"] = "first_exhausted",
    rows: int | None = None,
    source: str | None = None,
) -> Dataset:
    """Rows of several datasets in turn, by weights: mix([web, code], weights=[0.7, 0.3]).shuffle(seed=0).batch(512).

    The turn is arithmetic, not chance. Of the rows of a lane, however many, and of those of a step, each dataset gives as many as its weight says, less than
    two more or fewer; with two datasets at most one. Weights need not sum to 1; without any they are equal.

    An epoch ends with the first dataset that has no row left, and none comes twice; with stop="all_exhausted" when all rows of all
    datasets came, while the others begin again; with rows=… after so many rows, a whole number of batches, and each dataset goes on in the next epoch where it
    was. A dataset that begins again is shuffled and augmented anew.

    weights={0: [9, 1], 1000: [1, 1]} changes them by step, counted over epochs, each time for all that follows; so does `Loader.set_weights` in
    mid-run. Both need rows=…: each dataset goes on where it was.

    Lanes end together, so an epoch has some rows fewer a lane (or more, with "all_exhausted") than `len` says before there are lanes; `len` of
    the loader is exact.

    source="source" adds an int32 column of that name: the number of the dataset that each row came of.

    `shuffle` after it shuffles each dataset, before the mix. Columns must have the same names and types, as for `concat`. Raises PlanError where
    weights, columns or verbs do not fit, or a dataset has fewer rows than a batch has lanes.
    """
    roots = _roots("mix", datasets)
    shares, changes = read_weights(weights, len(roots))
    node = Mix(inputs=roots, weights=shares, changes=changes, stop=stop, rows=rows)
    check_verb(node)
    check_order(node)
    return _with_source(node, source)


@options_by_name("write zip([…, …])")
def zip(datasets: Iterable[Dataset], *, on: str | None = None, strict: bool = True) -> Dataset:
    """The rows of several datasets side by side, with the columns of all: zip([images, masks], on="stem").shuffle(seed=0).batch(256).

    on="stem" pairs files by their names: images/cat/7.jpg and masks/cat/7.png are both "cat/7", the path below the folder that was read, without
    extensions (of scan.nii.gz, too). on="id" pairs rows by a column of whole numbers, text or bytes that all have; it comes once, from the first dataset. A
    dataset with a column "stem" is paired by that. Keys are looked at once, now, as those of `filter` by an expression, and what came out is kept
    in the user's cache. Each key has one row in every dataset; with strict=False, rows whose key is not in all are left out.

    Without `on`, row i of every dataset is one row, and rows must be equally many; strict=False cuts all datasets to the shortest. Of files whose
    names differ a warning says so.

    Functions and ops of each, `take`, `skip`, `every`, `filter` by an expression and `concat` may come before; `shuffle` and all that mixes rows come
    after, so that rows stay paired. The order, random numbers of what follows and `sample_ids` are those of the first dataset.

    Raises PlanError where counts differ, a key is missing, comes twice or has no partner, a verb does not fit, or two datasets have a column of
    one name: rename it, read(…, columns={"caption_id": "id"}).
    """
    roots = _roots("zip", datasets)
    check_flags("zip", strict=strict)
    if on is not None:
        roots = paired(roots, on, strict=strict)
    check_verb(Zip(inputs=roots))
    if on is None and not strict:
        counts = [resolve(root).rows for root in roots]
        roots = tuple(
            root if rows == min(counts) else Take(input=root, count=min(counts))
            for root, rows in pairs(roots, counts, strict=True)
        )
    node = Zip(inputs=roots, on=on)
    check_draws(node)
    check_order(node)
    if on is None:
        warn_of_names(roots)
    return Dataset(node)


def _roots(verb: str, datasets: Any) -> tuple[Node, ...]:
    if not isinstance(datasets, (Dataset, Iterable)):
        raise PlanError(f"{verb}({quoted(datasets)}): pass a list of datasets")
    roots = []
    for number, dataset in enumerate([datasets] if isinstance(datasets, Dataset) else datasets):
        if not isinstance(dataset, Dataset):
            raise PlanError(f"{verb}: entry {number} is {type(dataset).__name__}; pass a list of datasets")
        roots.append(dataset.root)
    return tuple(roots)
