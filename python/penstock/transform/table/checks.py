"""What a recipe asks of a dataset before it is fitted on it, or transforms it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from penstock.core.columns.spec import Field, Spec
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.core.warnings import warn
from penstock.transform.table.program import NUMBERED_ANEW
from penstock.transform.table.serving import is_there
from penstock.transform.table.statistics.known_rows import Folds

#: Parts of a split that are there to be learnt from.
_TRAINING = ("train", "training", "fit")


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


def check_dataset(verb: str, data: Any) -> None:
    """PlanError for what is no dataset."""
    if not hasattr(data, "blocks"):
        raise PlanError(f"{verb}({type(data).__name__}): takes a dataset; make one of arrays with penstock.from_arrays")


def check_parts(data: Any, allow: str | Sequence[str]) -> None:
    """PlanError for a part of a split that is not there to be learnt from."""
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


def check_types(fields: Mapping[str, Field], given: Spec) -> None:
    """PlanError for numbers where a recipe was fitted on text, and the other way."""
    for name, field in fields.items():
        if name in given and (field.dtype == "string") != (given[name].dtype == "string"):
            raise PlanError(
                f"transform: column {quoted(name)} is {given[name]}, and the recipe was fitted on {field}; read it as it was read then, or fit the recipe anew"
            )


def check_known(folds: Folds | None, rows: int, data: Any) -> None:
    """PlanError where rows that a recipe was fitted on cannot be told from others, and a warning where they could be read from elsewhere. folds: how it knows them; rows: how many they are."""
    if folds is None:
        return
    if folds.among([getattr(node, "digest", None) for node in data.nodes]):
        if any(node.row_effect == "counted" for node in data.nodes):
            raise PlanError(f"transform: {NUMBERED_ANEW}")
        return
    try:
        found = len(data)
    except PlanError:  # known when they come
        return
    if found == rows:
        warn(
            f"transform: none of these {rows:,} rows is known to the recipe, which was fitted on as many: if they are the same, read them as for fit, so that Target encodes each "
            "without its own fold; else recipe.without_folds() says that they are others"
        )
