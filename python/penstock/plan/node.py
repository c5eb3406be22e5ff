"""A verb of a plan, and what it says of itself: its *traits*. Who wants to know something of a verb asks them; nobody else lists kinds of verbs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self, TypeAlias

from penstock.core.columns.spec import Spec

#: What a verb does to rows. same: each keeps its place; chosen: some of them, each at a place that arithmetic knows; reordered: in another order, several times or in groups;
#: counted: more or fewer, by what the data says, so that how many there are is known once they came.
RowEffect: TypeAlias = Literal["same", "chosen", "reordered", "counted"]
#: What a verb does to columns. same: their values go on as they are; chosen: some of them; computed: they are expressions of those below, row by row; changed: the plan knows
#: which columns come out; unknown: only a function knows.
ColumnEffect: TypeAlias = Literal["same", "chosen", "computed", "changed", "unknown"]
#: Types of columns by their names; "" for a type that only an op knows. None where only a function knows the columns.
Known: TypeAlias = dict[str, str] | None


class Node:
    """A verb: a frozen dataclass with `input`, or `inputs`, or neither. Its family sets the traits; a class says what differs."""

    row_effect: ClassVar[RowEffect] = "same"
    column_effect: ClassVar[ColumnEffect] = "same"
    #: Of several inputs, whether it puts rows one after another, or columns side by side.
    joins: ClassVar[Literal["", "rows", "columns"]] = ""
    #: Only the order works on it: it says which rows come when, and no stage runs for it.
    is_order: ClassVar[bool] = False
    #: Batches come out.
    is_batch: ClassVar[bool] = False
    #: Each step has as many rows, but for the last one of an epoch.
    has_equal_steps: ClassVar[bool] = False
    #: It may have more row ids than any of its inputs.
    grows: ClassVar[bool] = False
    #: Its inputs are in other epochs than the plan, and a shuffle above shuffles each for itself.
    own_epochs: ClassVar[bool] = False
    #: What rows are that it gives an order of its own: "shuffled".
    ordered_as: ClassVar[str] = ""
    #: Each row has its place in an epoch, and none can be left out.
    fixes_epoch: ClassVar[bool] = False
    #: It reads rows in any order, which sources that come once cannot give.
    reads_by_number: ClassVar[bool] = False
    #: Above a lane stage, which of its rows come when follows from where its lanes end.
    needs_ends: ClassVar[bool] = False
    #: Above a lane stage, where one lane ends follows from the others.
    needs_all_lanes: ClassVar[bool] = False
    #: Step k takes the rows that a mix below makes for it.
    keeps_steps: ClassVar[bool] = False
    #: Images below come out as they are.
    passes_pixels: ClassVar[bool] = False
    #: It makes something of values, or looks at them.
    computes: ClassVar[bool] = False
    #: It may meet a bad row.
    may_fail: ClassVar[bool] = False

    @property
    def verb(self) -> str:
        """Its name in plans and states."""
        raise NotImplementedError

    @property
    def called(self) -> str:
        """The method that users call."""
        return self.verb

    @property
    def below(self) -> tuple[Node, ...]:
        """What it gets its rows from; nothing for a leaf."""
        return ()

    def with_inputs(self, inputs: Sequence[Node]) -> Node:
        """The same on other inputs."""
        return self

    @property
    def keeps_places(self) -> bool:
        """Whether rows can be paired by their places in the data."""
        return self.row_effect in ("same", "chosen")

    @property
    def keeps_order(self) -> bool:
        """Whether rows come in the order of a mix below it."""
        return self.row_effect == "same"

    @property
    def keeps_ends(self) -> bool:
        """Whether, above a lane stage, its epochs end where those of the stage do, or after so many rows."""
        return self.row_effect == "same"

    @property
    def epoch_rows(self) -> int | None:
        """Rows of an epoch where it says so itself, whatever is below."""
        return None

    @property
    def user_function(self) -> Callable[..., Any] | None:
        """The user's function, of verbs that call one."""
        return None

    @property
    def chains(self) -> tuple[tuple[str, tuple[Any, ...]], ...]:
        """Columns with their native ops, of verbs that have some."""
        return ()

    @property
    def made(self) -> Mapping[str, Any]:
        """Columns with the expressions that they are of those below, of verbs that compute some."""
        return {}

    @property
    def recipes(self) -> tuple[tuple[str, Any], ...]:
        """Columns with what became of each step of a recipe that was written for another library, for `explain`."""
        return ()

    def rows_of(self, below: Sequence[int]) -> int:
        """Rows of an epoch, by those of its inputs."""
        return sum(below)

    def spec_of_inputs(self, below: Sequence[Spec]) -> Spec:
        """The fields of sources that it lets through, by those of its inputs."""
        first, *others = below
        return {name: field for name, field in first.items() if all(name in other for other in others)}

    def known_of(self, below: Sequence[Known]) -> Known:
        """The columns that come out, by those of its inputs."""
        if None in below or self.column_effect == "unknown":
            return None
        first, *others = (one for one in below if one is not None)
        return {name: kind for name, kind in first.items() if all(name in other for other in others)}

    def said(self) -> Iterator[tuple[str, str]]:
        """What a state says of it besides what decides the order: names that users know, and texts."""
        return iter(())

    def check(self) -> None:
        """PlanError if it cannot follow its inputs, or names a column that is not there."""

    def __getstate__(self) -> dict[str, Any]:
        """Its fields: copies in other processes resolve anew."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}


@dataclass(frozen=True, kw_only=True, eq=False)
class Verb(Node):
    """A verb with one input."""

    input: Node

    @property
    def below(self) -> tuple[Node, ...]:
        """Its input."""
        return (self.input,)

    def with_inputs(self, inputs: Sequence[Node]) -> Self:
        """The same on another input."""
        return replace(self, input=inputs[0])


@dataclass(frozen=True, kw_only=True, eq=False)
class Join(Node):
    """A verb with several inputs."""

    inputs: tuple[Node, ...]

    grows = True

    @property
    def below(self) -> tuple[Node, ...]:
        """Its inputs."""
        return self.inputs

    def with_inputs(self, inputs: Sequence[Node]) -> Self:
        """The same on other inputs."""
        return replace(self, inputs=tuple(inputs))


@dataclass(frozen=True, kw_only=True, eq=False)
class OrderVerb(Verb):
    """A verb that says which rows come when, and changes none."""

    row_effect: ClassVar[RowEffect] = "reordered"
    is_order = True
    passes_pixels = True


def kinds(of: type[Node] = Node) -> set[type[Node]]:
    """All kinds of verbs, and their families."""
    return {*of.__subclasses__()}.union(*map(kinds, of.__subclasses__()))
