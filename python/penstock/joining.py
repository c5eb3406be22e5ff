"""Several datasets as one: one after another, in turn by weights, or side by side."""

from __future__ import annotations

from builtins import zip as pairs  # `zip` is a verb here
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from penstock.core.arguments import check_flags
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.core.verbs.options_by_name import options_by_name
from penstock.dataset import Dataset
from penstock.looking.pairing import paired, warn_of_names
from penstock.plan.check import check_verb
from penstock.plan.nodes import Concat, Mix, Node, SourceColumn, Take, Zip
from penstock.plan.tree import lane_stage
from penstock.plan.weights import read_weights
from penstock.resolve.draw_checks import check_draws
from penstock.resolve.order_checks import check_order
from penstock.resolve.resolved import resolve


@options_by_name("write concat([…, …])")
def concat(datasets: Iterable[Dataset], *, source: str | None = None) -> Dataset:
    """The rows of several datasets, one after another.

    What comes after, `shuffle` say, takes the rows of all. Datasets that are shuffled already stay one after another, each in its own order. The same
    dataset twice gives its rows twice. Where one has a `filter` by a function, `flat_map` or `pack`, all come one after another in each lane of the batch, whose epochs then end with the
    data.

    Args:
        datasets: a list of datasets whose columns have the same names and types; functions and ops of each may come before.
        source: the name of an int32 column to add, the number of the dataset that each row came from. Default: none.

    Returns:
        A dataset with as many rows as all of them together.

    Raises:
        PlanError: where columns, class folders or verbs do not fit.

    Example:
        both = ps.concat([data, data.take(2)], source="from")
        len(both.shuffle(seed=0)) == 12
        both.head(12)["from"] == [0] * 10 + [1] * 2
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
    """Rows of several datasets in turn, by weights.

    The turn is arithmetic, not chance. Of the rows of a lane, however many, and of those of a step, each dataset gives as many as its weight says, less
    than two more or fewer; with two datasets at most one. `shuffle` after it shuffles each dataset, before the mix. A dataset that begins again is
    shuffled and augmented anew.

    Lanes end together, so an epoch has some rows fewer a lane (or more, with "all_exhausted") than `len` says before there are lanes; `len` of the loader
    is exact. Behind a `filter` by a function, `flat_map` or `pack`, an epoch ends with the first lane that has no row left of a dataset; with `stop="all_exhausted"`,
    say `rows=`, or `batch(…, steps=…)`.

    Args:
        datasets: a list of datasets whose columns have the same names and types.
        weights: a number for each dataset; they need not sum to 1. {0: [9, 1], 1000: [1, 1]} changes them at a step, counted over epochs, for all that
            follows, and so does `Loader.set_weights` in mid-run; both need `rows`. Default: equal.
        stop: when an epoch ends. "first_exhausted", the default: with the first dataset that has no row left, so that none comes twice.
            "all_exhausted": when all rows of all datasets came, while the others begin again.
        rows: the rows of an epoch, a whole number of batches; each dataset continues in the next epoch where it was. Default: as `stop` says.
        source: the name of an int32 column to add, the number of the dataset that each row came from. Default: none.

    Returns:
        A dataset with the columns that all of them have.

    Raises:
        PlanError: where weights, columns or verbs do not fit, or a dataset has fewer rows than a batch has lanes.

    Example:
        web, code = data, data.map(lambda batch: {**batch, "x": batch["x"] + 100})
        mixed = ps.mix([web, code], weights=[0.75, 0.25], source="from").shuffle(seed=0).batch(4, lanes=1)
        [sorted(batch["from"]) for batch in ps.Loader(mixed)][:2] == [[0, 0, 0, 1], [0, 0, 0, 1]]
    """
    roots = _roots("mix", datasets)
    shares, changes = read_weights(weights, len(roots))
    node = Mix(inputs=roots, weights=shares, changes=changes, stop=stop, rows=rows)
    check_verb(node)
    check_order(node)
    return _with_source(node, source)


@options_by_name("write zip([…, …])")
def zip(datasets: Iterable[Dataset], *, on: str | None = None, strict: bool = True) -> Dataset:
    """The rows of several datasets side by side, with the columns of all.

    Functions and ops of each, `take`, `skip`, `every`, `filter` by an expression and `concat` may come before; `shuffle` and all that mixes rows come
    after, so that rows stay paired. Behind a `filter` by a function, `flat_map` or `pack`, row i of a lane of the batch is paired with row i of that lane; a lane in which they are not equally
    many is an error when the epoch ends. The order, random numbers of what follows and `sample_ids` are those of the first dataset.

    Args:
        datasets: a list of datasets; no two have a column of one name, but for the key.
        on: what pairs rows. "stem" pairs files by their names: images/cat/7.jpg and masks/cat/7.png are both "cat/7", the path below the folder that was
            read, without extensions (of scan.nii.gz, too). "id" pairs by a column of whole numbers, text or bytes that all have; it comes once, from the
            first dataset. A dataset with a column "stem" is paired by that. Keys are read once, now, as those of `filter` by an expression, and what
            came out is kept in the user's cache. Default: row i of every dataset is one row; a warning tells of files whose names differ.
        strict: True, the default, refuses a key that is not in all datasets, or rows that are not equally many. False leaves out rows whose key is not
            in all; without `on` it cuts all datasets to the shortest.

    Returns:
        A dataset with one row for each row of the first dataset that has its partners.

    Raises:
        PlanError: where counts differ, a key is missing, comes twice or has no partner, a verb does not fit, or two datasets have a column of one name:
            rename it, read(…, columns={"caption_id": "id"}).

    Example:
        names = ps.from_arrays({"key": [2, 0, 1], "name": ["two", "zero", "one"]})
        sizes = ps.from_arrays({"key": [0, 1, 2], "size": [10, 11, 12]})
        pairs = ps.zip([names, sizes], on="key").head()
        pairs["name"] == ["two", "zero", "one"]
        pairs["size"] == [12, 10, 11]
    """
    roots = _roots("zip", datasets)
    check_flags("zip", strict=strict)
    if any(lane_stage(root) is not None for root in roots):
        check_verb(Zip(inputs=roots, on=on))
        if not strict:
            raise PlanError(
                "zip: strict=False cuts datasets to the shortest before anything runs, and how many rows lane stages give is known once they ran; leave it out"
            )
        _check_dealt(roots)
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
    if on is None and lane_stage(node) is None:
        warn_of_names(roots)
    return Dataset(node)


def _check_dealt(roots: Sequence[Node]) -> None:
    """PlanError where lanes begin with other rows in one dataset than in another: row i of a lane would not belong to row i of that lane."""
    dealt = [_dealt(root) for root in roots]
    for number, rows in enumerate(dealt):
        if rows != dealt[0]:
            raise PlanError(
                f"zip: rows that filter by a function, flat_map and pack give are paired lane by lane, and lanes are dealt {_sum(dealt[0])} rows of dataset 0 and {_sum(rows)} of dataset {number}, so that others would meet; "
                "write zip([…]) before these verbs, or filter(…, ahead=True)"
            )


def _dealt(root: Node) -> tuple[int, ...]:
    """How many rows there are below the lane stages, of each branch."""
    if lane_stage(root) is None:
        return (resolve(root).rows,)
    return tuple(rows for below in root.below for rows in _dealt(below))


def _sum(rows: Sequence[int]) -> str:
    return " + ".join(f"{one:,}" for one in rows)


def _roots(verb: str, datasets: Any) -> tuple[Node, ...]:
    if not isinstance(datasets, (Dataset, Iterable)):
        raise PlanError(f"{verb}({quoted(datasets)}): pass a list of datasets")
    roots = []
    for number, dataset in enumerate([datasets] if isinstance(datasets, Dataset) else datasets):
        if not isinstance(dataset, Dataset):
            raise PlanError(f"{verb}: entry {number} is {type(dataset).__name__}; pass a list of datasets")
        roots.append(dataset.root)
    return tuple(roots)
