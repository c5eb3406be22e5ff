"""Recipes: what is done to the columns of a table, before anything was learnt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.core.columns.spec import Spec
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.core.warnings import warn
from penstock.transform.table.checks import check_dataset, check_parts
from penstock.transform.table.fitted import FittedRecipe, Partial, listed, merge
from penstock.transform.table.op import ColumnOp
from penstock.transform.table.resolving import chains_of, made_of
from penstock.transform.table.selectors import On, checked_ops
from penstock.transform.table.target import Target


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
        batch["age"].astype(float).round(3).tolist() == [-1.225, 0.0, 1.225]
        batch["city"].tolist() == [[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
        recipe.apply({"age": None, "city": "Rome"})["age"] == 0.0
    """

    items: tuple[ColumnOp | On, ...]
    columns: Mapping[str, tuple[ColumnOp, ...]]
    target: str | None
    leave: tuple[str, ...]

    def __init__(
        self,
        *ops: ColumnOp | On,
        target: str | None = None,
        leave: Sequence[str] = (),
        **columns: ColumnOp | Sequence[ColumnOp],
    ) -> None:
        items = tuple(one if isinstance(one, On) else checked_ops("Recipe", one)[0] for one in ops)
        named = {name: checked_ops(f"Recipe: column {quoted(name)}", given) for name, given in columns.items()}
        if not items and not named:
            raise PlanError("Recipe(): no ops; write Recipe(Standardize(), city=OneHot()) for example")
        for name, chain in named.items():
            if not chain:
                raise PlanError(f"Recipe: column {quoted(name)} has no ops; leave it out, or name it in leave=")
        for op in items:
            if isinstance(op, ColumnOp) and not op.by_type:
                raise PlanError(f"Recipe: {op} goes to no column by itself; give it a name: Recipe(…, name={op})")
        left = (leave,) if isinstance(leave, str) else tuple(leave)
        vars(self).update(items=items, columns=named, target=target, leave=left)

    def fit(self, data: Any, *, allow: str | Sequence[str] = (), progress: Any = None) -> FittedRecipe:
        """The recipe with what it learns of rows. Reads the columns that it needs in as many passes as it has to, one for most recipes, on all cores.

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
        """What one part of the data has to say, in one pass: see `merge`.

        Args:
            data: a part of the data.
            allow: as of `fit`.
            progress: as of `fit`.

        Returns:
            A `Partial`.

        Example:
            data = ps.from_arrays({"x": np.arange(10.0)})
            recipe = ps.table.Recipe(ps.table.MinMax())
            ps.table.merge([recipe.partial(data.take(4)), recipe.partial(data.skip(4))]).rows == 10
        """
        return self._resolved(data, allow).partial(data, allow=allow, progress=progress)

    def on_dataset(self, data: Any) -> Any:
        """What `Dataset.transform` says of a recipe that knows nothing yet.

        Args:
            data: the dataset.

        Raises:
            PlanError: always.

        Example:
            try:
                data.transform(ps.table.Recipe(ps.table.MinMax()))
            except ps.PlanError as error:
                print(error)
        """
        raise PlanError(
            "transform: the recipe has not been fitted; write fitted = recipe.fit(train), and transform(fitted)"
        )

    @property
    def is_fitted(self) -> bool:
        """False: only a `FittedRecipe` may be."""
        return False

    def _resolved(self, data: Any, allow: str | Sequence[str]) -> FittedRecipe:
        check_dataset("fit", data)
        check_parts(data, allow)
        fields = dict(data.spec)
        left = [*self.leave, *([self.target] if self.target is not None else [])]
        chains = chains_of(self.items, self.columns, left, fields)
        self._check_target(chains)
        chains = {name: tuple(_of_target(op, name, self.target, fields) for op in ops) for name, ops in chains.items()}
        used = dict.fromkeys(one for name, ops in chains.items() for one in ops[0].needs(name))
        return FittedRecipe(
            chains=tuple(chains.items()), fields=tuple((name, fields[name]) for name in used), target=self.target
        )

    def _check_target(self, chains: Mapping[str, tuple[ColumnOp, ...]]) -> None:
        """A warning where other columns are made of what is to be predicted."""
        if self.target is not None and (made := made_of(chains, self.target)):
            warn(
                f"recipe: {quoted(made[0])} is made of {quoted(self.target)}, the target, so that a model would see what it is to predict; leave {quoted(self.target)} out of it"
            )

    def __repr__(self) -> str:
        given = [*map(str, self.items), *(f"{name}={listed(ops)}" for name, ops in self.columns.items())]
        return f"Recipe({', '.join(given)})"


def _of_target(op: ColumnOp, name: str, target: str | None, fields: Spec) -> ColumnOp:
    return op.of_target(name, target, fields) if isinstance(op, Target) else op
