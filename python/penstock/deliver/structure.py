"""The structure of a batch: a dict of columns, a tuple, a named tuple, a TensorDict, or an object of the user's class."""

from __future__ import annotations

import difflib
import importlib
from collections import namedtuple
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from keyword import iskeyword
from typing import Any, TypeAlias

from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.deliver.batch_dict import BatchDict
from penstock.deliver.trees import register_batches

Make: TypeAlias = Callable[[dict[str, Any]], Any]
#: What is made by a file of that name here, and by which function.
_FRAMES = {
    "tensordict": "tensordict_of",
    "arrow": "record_batch_of",
    "pandas": "data_frame_of",
    "polars": "data_frame_of",
}
#: Those that hold nulls.
FRAMES = ("arrow", "pandas", "polars")
_NAMES = ("dict", "tuple", "namedtuple", *_FRAMES)


class Structure:
    """Turns a batch's columns into the requested structure. Raises PlanError as soon as the columns are known not to fit.

    structure: "dict", "tuple" (in the order of the columns), "namedtuple", "tensordict", "arrow", "pandas" or "polars" for frames, or a dataclass or NamedTuple class whose fields
    are the columns. columns: their names; None if only the first batch shows them.
    """

    def __init__(self, structure: Any, columns: Sequence[str] | None) -> None:
        self._structure = _checked(structure)
        self._names: tuple[str, ...] = ()
        self._make: Make | None = None
        if columns is not None or self._structure in _FRAMES:
            _maker(self._structure, tuple(columns or ()))

    def taking(self, parts: Sequence[tuple[str, Callable[[], Any]]]) -> Callable[[], Any]:
        """A function that returns the next batch, made of the next part of every column. It runs every step, so it does little."""
        register_batches()
        if self._structure != "dict":
            return lambda: self.of({name: take() for name, take in parts})

        def take_batch() -> BatchDict:
            batch = BatchDict()
            for name, take in parts:
                batch[name] = take()
            return batch

        return take_batch

    def of(self, columns: dict[str, Any]) -> Any:
        """One batch of these columns."""
        names = tuple(columns)
        if self._structure == "dict":
            register_batches()
        if self._make is None:
            self._make, self._names = _maker(self._structure, names), names
        if names != self._names and self._structure != "dict":
            raise PlanError(
                f"structure={_shown(self._structure)}: this batch has the columns {_listed(names)}, earlier ones had "
                f"{_listed(self._names)}; return the same columns, in the same order, from every call of the plan's functions"
            )
        return self._make(columns)


def _checked(structure: Any) -> Any:
    named = structure.__name__ if structure is dict or structure is tuple else structure
    if (isinstance(named, str) and named in _NAMES) or _fields_of(named) is not None:
        return named
    close = difflib.get_close_matches(quoted(structure).strip("'").lower(), _NAMES, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise PlanError(f"structure={_shown(structure)}; choose {', '.join(map(repr, _NAMES))}, or pass a dataclass{hint}")


def _maker(structure: Any, names: tuple[str, ...]) -> Make:
    if structure == "dict":
        return BatchDict
    if structure == "tuple":
        return lambda columns: tuple(columns.values())
    if structure in _FRAMES:
        make: Make = getattr(importlib.import_module(f"penstock.deliver.{structure}"), _FRAMES[structure])
        return make
    if structure == "namedtuple":
        _check_identifiers(names)
        kind: Any = named_batch(names)
        return lambda columns: kind(*columns.values())
    _check_fields(structure, names)
    return lambda columns: structure(**columns)


def _check_identifiers(names: Iterable[str]) -> None:
    bad = [name for name in names if not name.isidentifier() or iskeyword(name) or name.startswith("_")]
    if bad:
        renamed = ", ".join(f"{_identifier(name)!r}: {name!r}" for name in bad)
        raise PlanError(
            f"structure='namedtuple': {_listed(bad)} cannot be the name of a field; rename with read(…, columns={{{renamed}}}) or in "
            f"a map, or use structure='tuple'"
        )


def _identifier(name: str) -> str:
    text = "".join(letter if f"a{letter}".isidentifier() else "_" for letter in name).strip("_")
    return f"{text}_" if iskeyword(text) else text if text.isidentifier() else f"column_{text}".rstrip("_")


def _check_fields(kind: Any, names: Sequence[str]) -> None:
    wanted = _fields_of(kind) or ()
    lacking = [name for name in wanted if name not in names]
    if not lacking and len(wanted) == len(names):
        return
    spare = [name for name in names if name not in wanted]
    close = ((name, difflib.get_close_matches(name, spare, n=1)) for name in lacking)
    hint = ", ".join(f"{found[0]!r} for {name!r}" for name, found in close if found)
    raise PlanError(
        f"structure={kind.__name__}: its fields are {_listed(wanted)}, but the columns are {_listed(names)}; make them equal"
        f"{f': did you mean {hint}?' if hint else ''}"
    )


def _fields_of(kind: Any) -> tuple[str, ...] | None:
    """The fields of a dataclass or a NamedTuple class; None for anything else."""
    if not isinstance(kind, type):
        return None
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind) if field.init)
    return tuple(getattr(kind, "_fields", ())) or None if issubclass(kind, tuple) else None


@cache
def named_batch(names: tuple[str, ...]) -> Any:
    """The class of named tuples with these fields: one per process; its objects can be pickled."""
    kind: Any = namedtuple("Batch", [*names])  # type: ignore[misc]  # noqa: PYI024  # the names are known only now
    setattr(kind, "__reduce__", lambda batch: (_named, (names, tuple(batch))))  # noqa: B010  # mypy takes it for a method's
    return kind


def _named(names: tuple[str, ...], columns: tuple[Any, ...]) -> Any:
    return named_batch(names)(*columns)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"


def _shown(structure: Any) -> str:
    return structure.__name__ if isinstance(structure, type) else quoted(structure)
