"""Recipes that know what they learnt: transforming, serving, saving, and going on to learn from parts of the data."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

from penstock.core.arguments import check_progress
from penstock.core.columns.spec import Field, Spec
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.core.warnings import warn
from penstock.transform.table.checks import Complete, check_dataset, check_known, check_parts, check_types
from penstock.transform.table.family import Matrix
from penstock.transform.table.fitting import Search, advanced, gathered, merged, searches_of
from penstock.transform.table.missing import DropMissing
from penstock.transform.table.op import ColumnOp
from penstock.transform.table.partials import read_partial, write_partial
from penstock.transform.table.resolving import complete, is_feature_of
from penstock.transform.table.saving import read_recipe, write_recipe
from penstock.transform.table.serving import RowServer, undone
from penstock.transform.table.statistics.known_rows import Folds


@dataclass(frozen=True, eq=False)
class Partial:
    """What one part of the data has to say to a recipe: see `merge`. It can be pickled, and saved as JSON, to go from rank to rank.

    Args:
        recipe: as it was asked.
        searches: what was gathered.
        rows: how many rows were read.
        digest: 32 hex digits of these.

    Example:
        data = ps.from_arrays({"x": np.arange(10.0)})
        ps.table.Recipe(ps.table.MinMax()).partial(data.take(4)).rows == 4
    """

    recipe: FittedRecipe
    searches: tuple[Search, ...]
    rows: int
    digest: str

    def save(self, path: str | PathLike[str]) -> None:
        """Writes it as JSON, for `penstock.table.load_partial`.

        Args:
            path: of a file, which is replaced as a whole.
        """
        write_partial(path, self)


@dataclass(frozen=True, kw_only=True, repr=False)
class FittedRecipe:
    """A recipe that knows what it learnt, for `Dataset.transform`, and for one row with `apply`.

    `Recipe.fit`, `merge` and `load` make one.

    Args:
        chains: columns with their ops.
        fields: the columns that it reads.
        target: what is to be predicted.
        rows: on how many rows it was fitted.
        digest: 32 hex digits of what it was fitted on.
        into: the column of `matrix`; None where each column stays one.
        searches: what is not known yet, where `merge` made it.

    Example:
        homes = ps.from_arrays({"size": [1.0, 3.0], "city": ["Rome", "Oslo"], "y": [0, 1]})
        recipe = ps.table.Recipe(ps.table.MinMax(), city=ps.table.OneHot(), target="y").fit(homes)
        recipe.save("recipe.json")
        recipe.apply({"size": 2.0, "city": "Rome"})["size"] == 0.5
        recipe.inverse({"size": np.array([0.5])})["size"] == [2.0]
        recipe.matrix().feature_names == ["size", "city_Oslo", "city_Rome"]
        homes.transform(recipe.matrix("x")).head(1)["x"] == [[0.0, 0.0, 1.0]]
    """

    chains: tuple[tuple[str, tuple[ColumnOp, ...]], ...]
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
        """What one part of the data has to say to a recipe that is not fitted yet, in one pass: see `merge`.

        Args:
            data: a part of the data.
            allow: as of `Recipe.fit`.
            progress: as of `Recipe.fit`.

        Returns:
            A `Partial`.

        Example:
            data = ps.from_arrays({"x": np.arange(10.0)})
            first = ps.table.Recipe(ps.table.Robust()).partial(data)
            ps.table.merge([first]).is_fitted == True
        """
        check_progress("fit", progress)
        check_dataset("partial", data)
        check_parts(data, allow)
        rows = self._without_missing(data)
        searches, chains = self._next_searches, dict(self.chains)
        asked = [one for one in searches if not one.is_done]
        needed = {name for one in asked for name in chains[one.column][0].needs(one.column)}
        needed |= {one.target for one in asked if one.target is not None}
        blocks = rows.blocks([name for name in data.spec if name in needed] or [self.fields[0][0]], repeated=True)
        done = 0

        def note(count: int) -> None:
            nonlocal done
            done += count
            if progress is not None:
                progress(done, blocks.rows)

        found = gathered(searches, chains, dict(self.fields), iter(blocks), note)
        return Partial(self, tuple(found), blocks.rows, blocks.digest)

    @property
    def working_chains(self) -> dict[str, tuple[ColumnOp, ...]]:
        """The chains of columns that it changes: rows are left out before, and a column that only that is said of stays as it is."""
        if self.into is not None:
            return dict(self.chains)
        kept = {name: tuple(op for op in ops if not isinstance(op, DropMissing)) for name, ops in self.chains}
        return {name: ops for name, ops in kept.items() if ops}

    def _without_missing(self, data: Any) -> Any:
        """The dataset without the rows that DropMissing leaves out."""
        names = complete(dict(self.chains))
        return data.filter(Complete(names), columns=[*names], ahead=True) if names else data

    def on_dataset(self, data: Any) -> Any:
        """What `Dataset.transform(recipe)` is.

        Args:
            data: the dataset.

        Returns:
            The dataset that comes of it.

        Example:
            rows = ps.from_arrays({"x": [1.0, 3.0]})
            ps.table.Recipe(ps.table.MinMax()).fit(rows).on_dataset(rows).head()["x"] == [0.0, 1.0]
        """
        self._check_fitted("transform")
        check_types(dict(self.fields), data.spec)
        check_known(self._folds, self.rows, data)
        rows = self._without_missing(data)
        if self.into is None:
            chains = {name: list(ops) for name, ops in self.working_chains.items()}
            return rows.transform(**chains) if chains else rows
        made = rows.transform(**{self.into: Matrix(self.chains)})
        used = {name for name, _ in self.fields} - {self.into}
        return made.select([name for name in [*data.spec, self.into] if name not in used])

    def fitted_rows(self, data: Any) -> int:
        """How many rows of a dataset the recipe was fitted on, as `Target` knows them: it encodes these without their own fold, and others with all rows.

        Args:
            data: the dataset, before its columns are changed.

        Returns:
            The number; 0 for a recipe without `Target`.

        Raises:
            PlanError: where rows cannot be looked at before they are read.

        Example:
            homes = ps.from_arrays({"city": ["Rome", "Oslo"] * 20, "price": np.arange(40.0)})
            recipe = ps.table.Recipe(city=ps.table.Target(), target="price").fit(homes.take(30))
            recipe.fitted_rows(homes) == 30
        """
        check_dataset("fitted_rows", data)
        folds, blocks = self._folds, data.blocks([])
        return 0 if folds is None else int((folds.versions(blocks.sources, blocks.ids) > 0).sum())

    @property
    def _folds(self) -> Folds | None:
        """Those of the first op that has some: all know the same rows."""
        ops = [op for _, chain in self.chains for op in chain if op.fitted is not None]
        return next((op.known_folds for op in ops if op.known_folds is not None), None)

    def without_folds(self) -> FittedRecipe:
        """The same recipe, whose `Target` encodes every row as `apply` does: also those that it was fitted on, which know their own target then. What it was fitted on is left out of files.

        Returns:
            A `FittedRecipe`, to serve with.

        Example:
            homes = ps.from_arrays({"city": ["Rome", "Oslo"] * 20, "price": np.arange(40.0)})
            recipe = ps.table.Recipe(city=ps.table.Target(), target="price").fit(homes).without_folds()
            homes.transform(recipe).head(1)["city"][0] == recipe.apply({"city": "Rome"})["city"]
        """
        self._check_fitted("without_folds")
        chains = tuple((name, tuple(op.without_folds() for op in ops)) for name, ops in self.chains)
        return replace(self, chains=chains)

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
        return RowServer(self).feature_names

    @property
    def spec(self) -> Spec:
        """The columns that it makes."""
        return RowServer(self).spec

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
            server = vars(self)["_server"] = RowServer(self)
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
        chains = ", ".join(f"{name}={listed(ops)}" for name, ops in self.chains)
        return f"FittedRecipe({chains}; {self.rows:,} rows, digest {self.digest[:8]})"


def merge(parts: Sequence[Partial]) -> FittedRecipe:
    """A recipe with what several parts of the data have to say together: to the bit what one fit on all of it gives.

    Exact quantiles may take several passes, so that it may not be fitted yet: then ask the parts again.

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


def load_partial(path: str | PathLike[str]) -> Partial:
    """What `Partial.save` wrote, perhaps on another machine.

    Args:
        path: of the file.

    Returns:
        The `Partial`, for `merge`.

    Raises:
        SourceError: where there is no such file.
        DataError: for a file that holds none.

    Example:
        data = ps.from_arrays({"x": np.arange(10.0)})
        parts, recipe = [data.take(4), data.skip(4)], ps.table.Recipe(ps.table.MinMax())
        for rank, part in enumerate(parts):
            recipe.partial(part).save(f"rank-{rank}.json")
        ps.table.merge([ps.table.load_partial(f"rank-{rank}.json") for rank in range(2)]).rows == 10
    """
    recipe, of_recipe, searches, rows, digest = read_partial(path)
    return Partial(FittedRecipe(**recipe, searches=of_recipe), searches, rows, digest)


def _said(recipe: FittedRecipe) -> tuple[Any, ...]:
    going = tuple((one.column, one.place, one.tap, one.is_done) for one in recipe.searches)
    return recipe.chains, recipe.fields, recipe.rows, recipe.digest, going


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def listed(ops: Sequence[ColumnOp]) -> str:
    """Ops as one would write them."""
    return str(ops[0]) if len(ops) == 1 else f"[{', '.join(map(str, ops))}]"
