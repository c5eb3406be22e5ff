"""A chain that was written for another library: native ops, and a Python function for what has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.transform.family import Op

How: TypeAlias = Literal["native", "native with another tolerance", "run as Python"]

NATIVE: How = "native"
NEARLY: How = "native with another tolerance"
PYTHON: How = "run as Python"


class Step(NamedTuple):
    """What became of one op of a recipe. name: as its library writes it. why: what is meant by `how`, "" where there is nothing to say."""

    name: str
    how: How
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What `from_torchvision` and `from_albumentations` return: `transform(image=recipe)` takes it as it takes a list of ops.

    Attributes:
        ops: the native ops, which come first.
        function: what makes of an image of theirs (an array) what the recipe gives; None where all ops are native. It runs as a function of `map_rows` does.
        steps: what became of each op, (name, how, why), as `explain()` tells.
        workers: where the function runs.

    Example:
        from torchvision.transforms import v2

        recipe = ps.image.from_torchvision(v2.Compose([v2.Resize((64, 64)), v2.ToImage()]))
        recipe.ops == (ps.image.Decode("RGB"), ps.image.Resize((64, 64)))
        [step.how for step in recipe.steps] == ["native", "native"]
    """

    ops: tuple[Op, ...]
    function: Callable[[Any], Any] | None = None
    steps: tuple[Step, ...] = ()
    workers: Literal["thread", "process", "auto"] = "thread"

    def __iter__(self) -> Iterator[Op]:
        """The ops, for `[*recipe, …]`; PlanError where a part of the recipe is none, which would be lost."""
        if self.function is not None:
            raise PlanError(
                f"{self.first_in_python} of this recipe runs as Python, which no list of ops can hold; give the recipe itself, transform(image=recipe)"
            )
        return iter(self.ops)

    @property
    def first_in_python(self) -> str:
        """The op that ends the native part."""
        return next(step.name for step in self.steps if step.how == PYTHON)

    def __str__(self) -> str:
        return "\n".join(lines_of(self.steps))


def lines_of(steps: Sequence[Step]) -> list[str]:
    """A line a step, for people."""
    width = max((len(step.name) for step in steps), default=0)
    return [f"{step.name:<{width}}  {step.how}{': ' if step.why else ''}{step.why}" for step in steps]


class EndOfRow:
    """What `map_rows` calls: the functions of recipes, each on its column. recipes: their steps, for `explain`. workers: where it runs."""

    def __init__(self, recipes: Mapping[str, Recipe]) -> None:
        self.functions = tuple((name, one.function) for name, one in recipes.items() if one.function is not None)
        self.recipes = tuple((name, one.steps) for name, one in recipes.items())
        self.workers: Any = next(one.workers for one in recipes.values() if one.function is not None)
        self.__qualname__ = f"recipe of {', '.join(name for name, _ in self.functions)}"

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row, with those columns as their recipes make them."""
        return row | {name: function(row[name]) for name, function in self.functions}


def recipes_in(columns: Mapping[str, Any]) -> dict[str, Recipe]:
    """The recipes among what a transform is given."""
    return {name: given for name, given in columns.items() if isinstance(given, Recipe)}


def end_of(recipes: Mapping[str, Recipe], columns: Mapping[str, Any], drawn: str | None) -> EndOfRow | None:
    """What runs as Python behind a transform's ops; None for nothing. PlanError where another column would have to follow it."""
    ends = {name: one for name, one in recipes.items() if one.function is not None}
    for name, one in ends.items():
        followers = [other for other, given in columns.items() if other != name and _follows(given, name)]
        if drawn == "together" or followers:
            follower = 'draws="together"' if drawn == "together" else quoted(followers[0])
            raise PlanError(
                f"transform: {one.first_in_python} of the recipe of {quoted(name)} runs as Python, and {follower} cannot follow what it does; write the chains with native ops"
            )
    if len({one.workers for one in ends.values()}) > 1:
        raise PlanError("transform: recipes with several workers=; give all the same, or write one transform each")
    return EndOfRow(recipes) if ends else None


def _follows(given: Any, column: str) -> bool:
    first = given[0] if isinstance(given, (list, tuple)) and given else given
    return isinstance(first, Op) and column in first.needs("") and not first.draws_apart
