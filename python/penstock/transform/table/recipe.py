"""Recipes: what is done to the columns of a table, fitted on training rows, the same for training and for one row served."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

from penstock.core.columns.spec import Field, Spec
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.core.warnings import warn
from penstock.transform.table.family import Matrix
from penstock.transform.table.fitting import Search, advanced, gathered, merged, searches_of
from penstock.transform.table.missing import DropMissing
from penstock.transform.table.op import TableOp
from penstock.transform.table.resolving import chains_of, complete, is_feature_of
from penstock.transform.table.saving import read_recipe, write_recipe
from penstock.transform.table.selectors import On, checked_ops
from penstock.transform.table.serving import Server, is_there, undone

#: Parts of a split that are there to be learnt from.
_TRAINING = ("train", "training", "fit")


@dataclass(frozen=True, init=False, repr=False)
class Recipe:
    """What is done to the columns of a table, before it was fitted.

    An op without a name goes to every column of its type: scaling to numbers, encoding to text, FillMissing to what it can fill. A column that is named gets what it is named
    with, and nothing else. Columns with no op stay as they are.

    Args:
        *ops: ops, in flow order, and `On(where, *ops)` for some columns.
        target: a column that is to be predicted: no op goes to it that is not named for it, and a warning says so if it becomes a feature.
        leave: columns to which nothing goes that is not named for them: identifiers, weights.
        **columns: an op or a list of ops, by column.

    Raises:
        PlanError: for what is no op of `penstock.table`.

    Example:
        T = ps.table
        people = ps.from_arrays({"age": np.array([20.0, np.nan, 40.0]), "city": ["Rome", "Oslo", "Rome"], "y": [0, 1, 1]})
        recipe = T.Recipe(T.FillMissing("median"), T.Standardize(), city=T.OneHot(), target="y").fit(people)
        batch = people.transform(recipe).head()
        batch["age"].round(3).tolist() == [-1.225, 0.0, 1.225]
        batch["city"].tolist() == [[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
        recipe.apply({"age": None, "city": "Rome"})["age"] == 0.0
    """

    items: tuple[TableOp | On, ...]
    columns: Mapping[str, tuple[TableOp, ...]]
    target: str | None
    leave: tuple[str, ...]

    def __init__(
        self,
        *ops: TableOp | On,
        target: str | None = None,
        leave: Sequence[str] = (),
        **columns: TableOp | Sequence[TableOp],
    ) -> None:
        items = tuple(one if isinstance(one, On) else checked_ops("Recipe", one)[0] for one in ops)
        named = {name: checked_ops(f"Recipe: column {quoted(name)}", given) for name, given in columns.items()}
        if not items and not named:
            raise PlanError("Recipe(): no ops; write Recipe(Standardize(), city=OneHot()) for example")
        for name, chain in named.items():
            if not chain:
                raise PlanError(f"Recipe: column {quoted(name)} has no ops; leave it out, or name it in leave=")
        left = (leave,) if isinstance(leave, str) else tuple(leave)
        vars(self).update(items=items, columns=named, target=target, leave=left)

    def fit(self, data: Any, *, allow: str | Sequence[str] = (), progress: Any = None) -> FittedRecipe:
        """The recipe with what it learns of rows. Reads the columns that it needs in as many passes as it has to, two for most recipes, on all cores.

        What is learnt does not depend on the order of the rows, on threads, or on parts (`partial`): to the bit.

        Args:
            data: a dataset, before its columns are changed. Its batches and its order do not matter.
            allow: parts of a `split` besides "train" that may be learnt from. Default: none.
            progress: a function that is called with the rows read, and all, in each pass.

        Returns:
            A `FittedRecipe`, for `Dataset.transform`.

        Raises:
            PlanError: for columns that are not there, ops that do not fit their columns, and a dataset that is the validation part of a split.
            DataError: for a row that an op cannot work on, and for columns that nothing can be learnt of.
        """
        made = self._resolved(data, allow)
        while not made.is_fitted:
            made = merge([made.partial(data, allow=allow, progress=progress)])
        return made

    def partial(self, data: Any, *, allow: str | Sequence[str] = (), progress: Any = None) -> Partial:
        """What one part of the data has to say, in one pass: see `merge`."""
        return self._resolved(data, allow).partial(data, allow=allow, progress=progress)

    def on_dataset(self, data: Any) -> Any:
        """What `Dataset.transform` says of a recipe that knows nothing yet."""
        raise PlanError("transform: the recipe has not been fitted; write fitted = recipe.fit(train), and transform(fitted)")

    @property
    def is_fitted(self) -> bool:
        """False: only a `FittedRecipe` may be."""
        return False

    def _resolved(self, data: Any, allow: str | Sequence[str]) -> FittedRecipe:
        _check_dataset("fit", data)
        _check_parts(data, allow)
        fields = dict(data.spec)
        left = [*self.leave, *([self.target] if self.target is not None else [])]
        chains = chains_of(self.items, self.columns, left, fields)
        used = dict.fromkeys(one for name, ops in chains.items() for one in ops[0].needs(name))
        return FittedRecipe(
            chains=tuple(chains.items()), fields=tuple((name, fields[name]) for name in used), target=self.target
        )

    def __repr__(self) -> str:
        given = [*map(str, self.items), *(f"{name}={_listed(ops)}" for name, ops in self.columns.items())]
        return f"Recipe({', '.join(given)})"


@dataclass(frozen=True, eq=False)
class Partial:
    """What one part of the data has to say to a recipe: see `merge`. It can be pickled, and sent from rank to rank.

    Attributes:
        rows: how many rows were read.
    """

    recipe: FittedRecipe
    searches: tuple[Search, ...]
    rows: int
    digest: str


@dataclass(frozen=True, kw_only=True, repr=False)
class FittedRecipe:
    """A recipe that knows what it learnt, for `Dataset.transform`, and for one row with `apply`.

    Attributes:
        chains: columns with their ops.
        fields: the columns that it reads.
        target: what is to be predicted.
        rows: on how many rows it was fitted.
        digest: 32 hex digits of what it was fitted on.
        into: the column of `matrix`; None where each column stays one.
    """

    chains: tuple[tuple[str, tuple[TableOp, ...]], ...]
    fields: tuple[tuple[str, Field], ...]
    target: str | None = None
    rows: int = 0
    digest: str = ""
    into: str | None = None
    searches: tuple[Search, ...] = ()

    @property
    def is_fitted(self) -> bool:
        """Whether it can be used: else `partial` and `merge` go on."""
        return not self._next_searches

    @property
    def _next_searches(self) -> list[Search]:
        return searches_of(dict(self.chains), dict(self.fields), self.searches)

    def partial(self, data: Any, *, allow: str | Sequence[str] = (), progress: Any = None) -> Partial:
        """What one part of the data has to say to a recipe that is not fitted yet, in one pass: see `merge`."""
        _check_dataset("partial", data)
        _check_parts(data, allow)
        rows = self.without_missing(data)
        blocks = rows.blocks([name for name, _ in self.fields])
        done = 0

        def note(count: int) -> None:
            nonlocal done
            done += count
            if progress is not None:
                progress(done, blocks.rows)

        found = gathered(self._next_searches, dict(self.chains), dict(self.fields), iter(blocks), note)
        return Partial(self, tuple(found), blocks.rows, blocks.digest)

    @property
    def working_chains(self) -> dict[str, tuple[TableOp, ...]]:
        """The chains of columns that it changes: rows are left out before, and a column that only that is said of stays as it is."""
        if self.into is not None:
            return dict(self.chains)
        kept = {name: tuple(op for op in ops if not isinstance(op, DropMissing)) for name, ops in self.chains}
        return {name: ops for name, ops in kept.items() if ops}

    def without_missing(self, data: Any) -> Any:
        """The dataset without the rows that DropMissing leaves out."""
        names = complete(dict(self.chains))
        return data.filter(Complete(names), columns=[*names], ahead=True) if names else data

    def on_dataset(self, data: Any) -> Any:
        """What `Dataset.transform(recipe)` is."""
        self._check_fitted("transform")
        _check_types(dict(self.fields), data.spec)
        rows = self.without_missing(data)
        if self.into is None:
            chains = {name: list(ops) for name, ops in self.working_chains.items()}
            return rows.transform(**chains) if chains else rows
        made = rows.transform(**{self.into: Matrix(self.chains)})
        used = {name for name, _ in self.fields} - {self.into}
        return made.select([name for name in [*data.spec, self.into] if name not in used])

    def matrix(self, into: str = "features") -> FittedRecipe:
        """The same recipe, whose numbers stand side by side in one column of float32, (rows, numbers): what PyTorch, XGBoost and LightGBM take.

        The columns that it reads are gone afterwards; others, such as the target, stay.

        Args:
            into: the column's name. Default: "features".

        Returns:
            A `FittedRecipe`.

        Raises:
            PlanError: where a column comes out as text.
        """
        self._check_fitted("matrix")
        if self.target is not None and is_feature_of(dict(self.chains), self.target):
            warn(
                f"matrix: {quoted(self.target)}, the target, is among the features; leave it out of the recipe's columns"
            )
        made = replace(self, into=into)
        _ = made.feature_names
        return made

    @property
    def feature_names(self) -> list[str]:
        """A name for every number that comes out: "age", "city_Rome"."""
        return Server(self).feature_names

    @property
    def spec(self) -> Spec:
        """The columns that it makes."""
        return Server(self).spec

    def apply(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """One row, as a batch would have it, to the bit. Of 20 columns it takes less than 50 µs.

        Args:
            row: values by column; None and NaN are missing. Other columns are not looked at.

        Returns:
            The columns that the recipe makes: numbers and arrays of NumPy's, and text.

        Raises:
            PlanError: for a column that is not there.
            DataError: for a value of another type, and one that an op cannot work on.
        """
        server = vars(self).get("_server")
        if server is None:
            self._check_fitted("apply")
            server = vars(self)["_server"] = Server(self)
        found: dict[str, Any] = server(row)
        return found

    def inverse(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Columns as they were before the recipe, where its ops can be undone: scaling, logarithms, powers, bins (their middles), categories. What was filled stays filled.

        Args:
            columns: some of those that the recipe made, as arrays; predictions, for example. Others are not looked at.

        Returns:
            Arrays of float64, and of categories Arrow arrays, with null for what is none.

        Raises:
            PlanError: for an op that keeps less than it gets.
        """
        self._check_fitted("inverse")
        return undone(dict(self.chains), dict(self.fields), columns)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes it as JSON, for `penstock.table.load`.

        Args:
            path: of a file, which is replaced as a whole.
        """
        self._check_fitted("save")
        write_recipe(path, self)

    def _check_fitted(self, verb: str) -> None:
        if not self.is_fitted:
            raise PlanError(
                f"{verb}: the recipe is not fitted yet; go on with recipe = merge([recipe.partial(part) for part in parts])"
            )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def __repr__(self) -> str:
        chains = ", ".join(f"{name}={_listed(ops)}" for name, ops in self.chains)
        return f"FittedRecipe({chains}; {self.rows:,} rows, digest {self.digest[:8]})"


def merge(parts: Sequence[Partial]) -> FittedRecipe:
    """A recipe with what several parts of the data have to say together: to the bit what one fit on all of it gives.

    Exact quantiles take several passes, so that it may not be fitted yet: then ask the parts again.

    Args:
        parts: what `partial` of one recipe gave, of each part of the data once.

    Returns:
        A `FittedRecipe`; its `is_fitted` says whether that was all.

    Raises:
        PlanError: for parts of several recipes, or of several passes.

    Example:
        data = ps.from_arrays({"x": np.arange(10.0)})
        parts, recipe = [data.take(4), data.skip(4)], ps.table.Recipe(ps.table.Robust())
        while not recipe.is_fitted:
            recipe = ps.table.merge([recipe.partial(part) for part in parts])
        recipe.apply({"x": 4.5})["x"] == 0.0
    """
    if not parts or not all(isinstance(one, Partial) for one in parts):
        raise PlanError("merge: pass a list of what recipe.partial(…) gave")
    recipe = parts[0].recipe
    if any(_said(one.recipe) != _said(recipe) for one in parts):
        raise PlanError(
            "merge: the parts are of several recipes, or of several passes; ask each part once, with the same recipe"
        )
    digest = parts[0].digest if len(parts) == 1 else _digest(" ".join(sorted(one.digest for one in parts)))
    searches = merged([one.searches for one in parts])
    chains, going = advanced(searches, dict(recipe.chains), dict(recipe.fields), digest)
    rows = sum(one.rows for one in parts)
    return replace(recipe, chains=tuple(chains.items()), searches=tuple(going), rows=rows, digest=digest)


def load(path: str | PathLike[str]) -> FittedRecipe:
    """A recipe that `FittedRecipe.save` wrote.

    Args:
        path: of the file.

    Returns:
        The `FittedRecipe`.

    Raises:
        SourceError: where there is no such file.
        DataError: for a file that holds no recipe.

    Example:
        data = ps.from_arrays({"x": np.arange(10.0)})
        ps.table.Recipe(ps.table.MinMax()).fit(data).save("recipe.json")
        ps.table.load("recipe.json").apply({"x": 9.0})["x"] == 1.0
    """
    return FittedRecipe(**read_recipe(path))


class Complete:
    """Says of rows whether they lack none of some columns. A class, so that plans know it by what it holds."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.__qualname__ = f"has {', '.join(names)}"

    def __call__(self, columns: Mapping[str, Any]) -> Any:
        """A truth value a row."""
        found: Any = True
        for name in self.names:
            found = is_there(columns[name]) & found
        return found


def _said(recipe: FittedRecipe) -> tuple[Any, ...]:
    going = tuple((one.column, one.place, one.tap, one.is_done) for one in recipe.searches)
    return recipe.chains, recipe.fields, recipe.rows, recipe.digest, going


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _check_dataset(verb: str, data: Any) -> None:
    if not hasattr(data, "blocks"):
        raise PlanError(f"{verb}({type(data).__name__}): takes a dataset; make one of arrays with penstock.from_arrays")


def _check_parts(data: Any, allow: str | Sequence[str]) -> None:
    allowed = {*_TRAINING, *([allow] if isinstance(allow, str) else allow)}
    for part in _parts(data):
        if part not in allowed:
            raise PlanError(
                f"fit: the dataset is the part {quoted(part)} of a split, and a recipe learns of training rows, else validation says nothing; fit on the part 'train', "
                f"or say fit(…, allow={quoted(part)})"
            )


def _parts(data: Any) -> Iterator[str]:
    for node in data.nodes:
        if node.verb == "split":
            yield node.part


def _check_types(fields: Mapping[str, Field], given: Spec) -> None:
    for name, field in fields.items():
        if name in given and (field.dtype == "string") != (given[name].dtype == "string"):
            raise PlanError(
                f"transform: column {quoted(name)} is {given[name]}, and the recipe was fitted on {field}; read it as it was read then, or fit the recipe anew"
            )


def _listed(ops: Sequence[TableOp]) -> str:
    return str(ops[0]) if len(ops) == 1 else f"[{', '.join(map(str, ops))}]"
