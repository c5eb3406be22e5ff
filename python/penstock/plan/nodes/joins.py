"""How several datasets are joined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from penstock.core.arguments import is_one_of, is_whole
from penstock.core.columns.spec import Spec
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.plan.columns import known_columns
from penstock.plan.node import Join, Known, Node, Verb
from penstock.plan.nodes.rows import MOST_ROWS, Shard
from penstock.plan.nodes.words import LATER
from penstock.plan.tree import check_endless, find, find_where, flow, lane_stage, leaves
from penstock.plan.weights import Changes, Weights, check_weights, quotas_of


@dataclass(frozen=True, kw_only=True, eq=False)
class RowJoin(Join):
    """A verb that gives the rows of several inputs, which have the same columns."""

    joins = "rows"

    def check_unbatched(self) -> None:
        """PlanError where there is no input, or one is in batches or shards already."""
        if not self.inputs:
            raise PlanError(f"{self.verb}: no datasets; pass a list of at least one")
        for number, branch in enumerate(self.inputs):
            found = find_where(branch, lambda node: node.is_batch) or find(branch, Shard)
            if found is not None:
                raise PlanError(
                    f"{self.verb}: dataset {number} has a {found.verb} already; write {self.verb}([…]).{found.verb}(…)"
                )

    def check_alike(self) -> None:
        """PlanError where inputs have other columns or classes than the first."""
        first, *others = map(known_columns, self.inputs)
        for number, other in enumerate(others, 1):
            if first is not None and other is not None:
                self._check_columns(first, number, other)
        names = list(map(classes_of, self.inputs))
        if len({*names}) > 1:
            another = next(some for some in names if some != names[0])
            raise PlanError(
                f"{self.verb}: the class folders differ, {_some(names[0])} and {_some(another)}, so that one label would mean two things; name all classes, "
                f"in one order, for every dataset: read(…, classes=[…])"
            )

    def _check_columns(self, first: dict[str, str], number: int, other: dict[str, str]) -> None:
        here, there = _place(self.inputs[0]), _place(self.inputs[number])
        if first.keys() != other.keys():
            lacking = sorted(first.keys() ^ other.keys())
            owner, lacks = (f"dataset 0 ({here})", f"dataset {number} ({there})")
            if lacking[0] in other:
                owner, lacks = lacks, owner
            both = [name for name in first if name in other]
            raise PlanError(
                f"{self.verb}: {owner} has a column {quoted(lacking[0])}, and {lacks} has none; select the same columns of all, for example "
                f"read(…, columns={both})"
            )
        for name, kind in first.items():
            if kind and other[name] and kind != other[name]:
                raise PlanError(
                    f"{self.verb}: column {quoted(name)} is {kind} in dataset 0 ({here}) and {other[name]} in dataset {number} ({there}); make them "
                    f"alike, with penstock.Column in read(…, columns=…) or with map"
                )


@dataclass(frozen=True, kw_only=True)
class Concat(RowJoin):
    """The rows of several inputs, one after another."""

    verb: str = "concat"

    keeps_order = False  # of which each takes steps of its own
    keeps_ends = needs_ends = True

    def check(self) -> None:
        """PlanError where inputs do not fit each other."""
        self.check_unbatched()
        if lane_stage(self) is not None:  # all come lane by lane
            self.check_alike()
            return
        ordered = list(map(_ordered_as, self.inputs))
        if any(ordered) and not all(ordered):
            number = next(number for number, word in enumerate(ordered) if word)
            raise PlanError(
                f"concat: dataset {number} is {ordered[number]} and dataset {ordered.index('')} is not; shuffle all of them, or none, "
                f"or what concat gives"
            )
        self.check_alike()


@dataclass(frozen=True, kw_only=True)
class Mix(RowJoin):
    """The rows of several inputs, each row from the one whose turn it is by the weights. stop, rows: when an epoch ends.

    changes: other weights, from a step on, counted over epochs.
    """

    weights: Weights
    changes: Changes = field(default=(), metadata=LATER)
    stop: str = "first_exhausted"
    rows: int | None = None
    verb: str = "mix"

    row_effect = "reordered"
    own_epochs = True
    ordered_as = "mixed"
    keeps_order = True
    needs_all_lanes = True

    def __post_init__(self) -> None:
        check_weights("mix", self.weights, len(self.inputs))
        for step, weights in self.changes:
            check_weights(f"mix: from step {step} on", weights, len(self.inputs))
        if not is_one_of(self.stop, ("first_exhausted", "all_exhausted")):
            raise PlanError(
                f"mix: stop={quoted(self.stop)}; choose 'first_exhausted' or 'all_exhausted', or give rows="
            )
        if self.rows is not None and (not is_whole(self.rows) or not 1 <= self.rows <= MOST_ROWS):
            raise PlanError(f"mix: rows={quoted(self.rows)}; an epoch has at least one row, and a whole number of them")
        if self.changes and self.rows is None:
            raise PlanError(
                "mix: weights that change need epochs of so many rows, in which each dataset goes on where it was; write mix(…, rows=…)"
            )

    def check(self) -> None:
        """PlanError where inputs do not fit each other."""
        self.check_unbatched()
        if self.rows is not None:
            for branch in self.inputs:
                check_endless("mix(…, rows=…)", branch)
        self.check_alike()

    @property
    def keeps_ends(self) -> bool:
        """Where an epoch is one of each input, which it ends with the first of."""
        return self.rows is None and self.stop == "first_exhausted"

    @property
    def epoch_rows(self) -> int | None:
        """Rows of an epoch, where that was said."""
        return self.rows

    @property
    def quotas(self) -> tuple[int, ...]:
        """The weights as whole numbers."""
        return quotas_of(self.weights)

    @property
    def schedule(self) -> Changes:
        """All weights, by the step from which on they hold."""
        return ((0, self.weights), *self.changes)


@dataclass(frozen=True, kw_only=True)
class Zip(Join):
    """The columns of several inputs side by side: row i of each is row i. on: by which key the inputs were brought into one order before."""

    on: str | None = field(default=None, metadata=LATER)
    verb: str = "zip"

    joins = "columns"
    needs_ends = True

    def rows_of(self, below: Sequence[int]) -> int:
        """Those of each input."""
        return below[0]

    def spec_of_inputs(self, below: Sequence[Spec]) -> Spec:
        """The fields of all sources."""
        return {name: field for spec in below for name, field in spec.items()}

    def known_of(self, below: Sequence[Known]) -> Known:
        """The columns of all inputs."""
        if None in below:
            return None
        return {name: kind for one in below for name, kind in (one or {}).items()}

    def check(self) -> None:
        """PlanError where rows have no places by which they are paired, or two inputs have a column of one name."""
        if len(self.inputs) < 2:
            found = "one dataset" if self.inputs else "no datasets"
            raise PlanError(f"zip: {found}; pass a list of at least two, whose rows belong together")
        for number, branch in enumerate(self.inputs):
            apart = find_where(branch, lambda node: not node.keeps_places and node.row_effect != "counted")
            if apart is not None:
                raise PlanError(
                    f"zip: dataset {number} has a {apart.verb} already, and rows are paired by their places in the data; write zip([…]).{apart.verb}(…)"
                )
            if lane_stage(self) is not None:
                self._check_lanes(number, branch)
        known: dict[str, int] = {}
        for number, branch in enumerate(self.inputs):
            for name in known_columns(branch) or ():
                if name in known:
                    raise PlanError(
                        f"zip: datasets {known[name]} ({_place(self.inputs[known[name]])}) and {number} ({_place(branch)}) both have a column {quoted(name)}; "
                        f"rename one, for example read(…, columns={{'{name}_{number}': {quoted(name)}}}), or leave it out"
                    )
                known[name] = number

    def _check_lanes(self, number: int, branch: Node) -> None:
        """PlanError where rows are no more those of one lane stage, of which row i of each lane is paired."""
        if self.on is not None:
            raise PlanError(
                f"zip: on={quoted(self.on)} looks for keys before anything runs, and rows that a lane stage gives have none yet; write zip([…], on={quoted(self.on)}) before it"
            )
        while branch.row_effect == "same" and not branch.joins and branch.below:
            (branch,) = branch.below
        if branch.below and branch.row_effect != "counted" and lane_stage(branch) is not None:
            raise PlanError(
                f"zip: dataset {number} has a {branch.verb} after {lane_stage(branch).verb}, and rows are paired lane by lane as they come out of that; write zip([…]).{branch.verb}(…)"  # type: ignore[union-attr]
            )


@dataclass(frozen=True, kw_only=True)
class SourceColumn(Verb):
    """A column with the number of the dataset, of a mix or a concat, that each row came of."""

    name: str
    verb: str = "source"

    column_effect = "changed"
    keeps_steps = True

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise PlanError(
                f"{self.input.verb}: source={quoted(self.name)}; give the new column a name, for example source='source'"
            )

    def known_of(self, below: Sequence[Known]) -> Known:
        """One column more."""
        return None if below[0] is None else below[0] | {self.name: "int32"}

    def said(self) -> Iterator[tuple[str, str]]:
        """What the column is called."""
        yield "name", self.name

    def check(self) -> None:
        """PlanError where there is such a column already."""
        if self.name in (known_columns(self.input) or {}):
            raise PlanError(
                f"{self.input.verb}: source={quoted(self.name)} names a column that the datasets have already; choose another name"
            )


def classes_of(root: Node) -> tuple[str, ...]:
    """Names of the classes, by label: those of the first source; of a zip, of the first that names some."""
    if not root.below:
        return tuple(getattr(leaves(root)[0].opened.source, "classes", ()))
    some = map(classes_of, root.below)
    return next(filter(None, some), ()) if root.joins == "columns" else next(some, ())


def _ordered_as(branch: Node) -> str:
    """What a dataset is that has an order of its own, in words; "" for the natural order."""
    found = {node.ordered_as for node in flow(branch)}
    return next((word for word in ("shuffled", "mixed", "repeated") if word in found), "")


def _place(branch: Node) -> str:
    return ", ".join(leaf.where for leaf in leaves(branch))


def _some(names: Sequence[str]) -> str:
    return f"{', '.join(names[:4])}{', …' if len(names) > 4 else ''}" if names else "none"
