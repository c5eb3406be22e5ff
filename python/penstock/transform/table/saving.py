"""Recipes as JSON: ops by their names, with what they learnt."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields as fields_of
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from penstock.core.arguments import path_of
from penstock.core.columns.spec import Field
from penstock.core.errors import DataError, PlanError, SourceError
from penstock.core.messages import quoted
from penstock.transform.table.bins import Bins
from penstock.transform.table.cast import Cast
from penstock.transform.table.categories import Frequency, Hash, OneHot, Ordinal, Vocabulary
from penstock.transform.table.curves import Log, Power
from penstock.transform.table.dates import DateParts
from penstock.transform.table.interactions import Interactions
from penstock.transform.table.missing import DropMissing, FillMissing, IsMissing
from penstock.transform.table.op import ColumnOp
from penstock.transform.table.scaling import Clip, MinMax, Robust, Standardize
from penstock.transform.table.target import Target

T = TypeVar("T")

#: The ops by their names.
OPS: Mapping[str, type[ColumnOp]] = {
    op.__name__: op
    for op in (
        Bins, Cast, Clip, DateParts, DropMissing, FillMissing, Frequency, Hash, Interactions, IsMissing, Log, MinMax, OneHot, Ordinal, Power,
        Robust, Standardize, Target, Vocabulary,
    )
}  # fmt: skip

_KIND, _VERSION = "penstock table recipe", 1


def write_recipe(path: str | PathLike[str], recipe: Any) -> None:
    """Writes a recipe."""
    write_json(path, {"kind": _KIND, "version": _VERSION, **described(recipe)})


def described(recipe: Any) -> dict[str, Any]:
    """A recipe as plain JSON."""
    return {
        "rows": recipe.rows,
        "digest": recipe.digest,
        "target": recipe.target,
        "into": recipe.into,
        "fields": [[name, field.dtype, field.nullable] for name, field in recipe.fields],
        "chains": [[name, [_described(op) for op in ops]] for name, ops in recipe.chains],
    }


def write_json(path: str | PathLike[str], said: Mapping[str, Any]) -> None:
    """Writes a file aside, and renames it."""
    file = Path(path_of("save", path))
    aside = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    try:
        aside.write_text(
            json.dumps(said, indent=1, ensure_ascii=False, allow_nan=False), encoding="utf-8", errors="surrogatepass"
        )
        aside.replace(file)
    finally:
        with suppress(OSError):
            aside.unlink()


def _described(op: ColumnOp) -> dict[str, Any]:
    arguments = {
        one.name: getattr(op, one.name)
        for one in fields_of(op)
        if one.name != "fitted" and getattr(op, one.name) != one.default
    }
    learnt = {} if op.fitted is None else {"learnt": json.loads(op.fitted.text), "digest": op.fitted.digest}
    return {"op": type(op).__name__, "arguments": arguments, **learnt}


def read_recipe(path: str | PathLike[str]) -> dict[str, Any]:
    """What a `FittedRecipe` is made with; DataError for a file that holds none."""
    return read_json("load", path, (_KIND, _VERSION), "recipe.save(path)", recipe_of)


def recipe_of(said: Mapping[str, Any]) -> dict[str, Any]:
    """What a `FittedRecipe` is made with, of what `described` gave."""
    return {
        "chains": tuple((str(name), tuple(map(_op_of, ops))) for name, ops in said["chains"]),
        "fields": tuple((str(name), Field(dtype, nullable=nullable)) for name, dtype, nullable in said["fields"]),
        **{name: said[name] for name in ("rows", "digest", "target", "into")},
    }


def read_json(
    verb: str, path: str | PathLike[str], wanted: tuple[str, int], writer: str, make: Callable[[Mapping[str, Any]], T]
) -> T:
    """What is made of a file of a kind and version; DataError for another file. writer: what writes one."""
    file, (kind, version) = Path(path_of(verb, path)), wanted
    try:
        said = json.loads(file.read_text(encoding="utf-8", errors="surrogatepass"))
    except FileNotFoundError:
        raise SourceError(f"{verb}: {file}: there is no such file; write one with {writer}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{verb}: {file}: no JSON ({error}); write it anew with {writer}") from None
    if not isinstance(said, dict) or said.get("kind") != kind:
        what = kind.removeprefix("penstock table ")
        raise DataError(f"{verb}: {file}: holds no {what} of penstock.table; pass a file that {writer} wrote")
    if said.get("version") != version:
        raise DataError(
            f"{verb}: {file}: version {quoted(said.get('version'))}, and this Penstock reads {version}; load it with the Penstock that wrote it"
        )
    try:
        return make(said)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise DataError(
            f"{verb}: {file}: damaged ({type(error).__name__}: {error}); write it anew with {writer}"
        ) from None


def _op_of(said: Mapping[str, Any]) -> ColumnOp:
    op = OPS.get(said["op"])
    if op is None:
        raise PlanError(f"no op {quoted(said['op'])}")
    arguments = {name: tuple(value) if isinstance(value, list) else value for name, value in said["arguments"].items()}
    made = op(**arguments)
    return made.with_learnt(said["learnt"], said["digest"]) if "learnt" in said else made
