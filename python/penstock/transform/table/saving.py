"""Recipes as JSON: ops by their names, with what they learnt."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields as fields_of
from os import PathLike
from pathlib import Path
from typing import Any

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

#: The ops by their names.
OPS: Mapping[str, type[ColumnOp]] = {
    op.__name__: op
    for op in (
        Bins, Cast, Clip, DateParts, DropMissing, FillMissing, Frequency, Hash, Interactions, IsMissing, Log, MinMax, OneHot, Ordinal, Power,
        Robust, Standardize, Vocabulary,
    )
}  # fmt: skip

_KIND, _VERSION = "penstock table recipe", 1


def write_recipe(path: str | PathLike[str], recipe: Any) -> None:
    """Writes a recipe aside, and renames it."""
    said = {
        "kind": _KIND,
        "version": _VERSION,
        "rows": recipe.rows,
        "digest": recipe.digest,
        "target": recipe.target,
        "into": recipe.into,
        "fields": [[name, field.dtype, field.nullable] for name, field in recipe.fields],
        "chains": [[name, [_described(op) for op in ops]] for name, ops in recipe.chains],
    }
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
    file = Path(path_of("load", path))
    try:
        said = json.loads(file.read_text(encoding="utf-8", errors="surrogatepass"))
    except FileNotFoundError:
        raise SourceError(f"load: {file}: there is no such file; write one with recipe.save(path)") from None
    except ValueError as error:
        raise DataError(f"load: {file}: no JSON ({error}); write it anew with recipe.save(path)") from None
    if not isinstance(said, dict) or said.get("kind") != _KIND:
        raise DataError(f"load: {file}: holds no recipe of penstock.table; pass a file that recipe.save(path) wrote")
    if said.get("version") != _VERSION:
        raise DataError(
            f"load: {file}: version {quoted(said.get('version'))}, and this Penstock reads {_VERSION}; load it with the Penstock that wrote it"
        )
    try:
        return {
            "chains": tuple((str(name), tuple(map(_op_of, ops))) for name, ops in said["chains"]),
            "fields": tuple((str(name), Field(dtype, nullable=nullable)) for name, dtype, nullable in said["fields"]),
            **{name: said[name] for name in ("rows", "digest", "target", "into")},
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"load: {file}: damaged ({type(error).__name__}: {error}); write it anew with recipe.save(path)"
        ) from None


def _op_of(said: Mapping[str, Any]) -> ColumnOp:
    op = OPS.get(said["op"])
    if op is None:
        raise PlanError(f"no op {quoted(said['op'])}")
    arguments = {name: tuple(value) if isinstance(value, list) else value for name, value in said["arguments"].items()}
    made = op(**arguments)
    return made.with_learnt(said["learnt"], said["digest"]) if "learnt" in said else made
