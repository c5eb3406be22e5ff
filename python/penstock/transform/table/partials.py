"""What parts of the data have to say, as JSON: statistics by what they hold, arrays as their bytes."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from os import PathLike
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.transform.table.fitting import Search
from penstock.transform.table.saving import described, read_json, recipe_of, write_json
from penstock.transform.table.statistics.counts import Counts
from penstock.transform.table.statistics.known_rows import KnownRows
from penstock.transform.table.statistics.likelihood import Likelihood
from penstock.transform.table.statistics.moments import Moments
from penstock.transform.table.statistics.quantiles import Quantiles
from penstock.transform.table.statistics.targets import Targets

_Read: TypeAlias = tuple[dict[str, Any], tuple[Search, ...], tuple[Search, ...], int, str]

_KIND, _VERSION = "penstock table partial", 1
#: What is written by what it holds.
_HELD: Mapping[str, Any] = {one.__name__: one for one in (Counts, KnownRows, Likelihood, Moments, Quantiles, Targets)}


def write_partial(path: str | PathLike[str], partial: Any) -> None:
    """Writes a `Partial`."""
    said = {
        "recipe": described(partial.recipe),
        "going": [_head(one) for one in partial.recipe.searches],
        "searches": [{**_head(one), "rows": one.rows, "statistic": _plain(one.statistic)} for one in partial.searches],
        "rows": partial.rows,
        "digest": partial.digest,
    }
    write_json(path, {"kind": _KIND, "version": _VERSION, "checksum": _checksum(said), **said})


def read_partial(path: str | PathLike[str]) -> _Read:
    """What a `Partial` is made with: its recipe's fields and searches, its own searches, rows and digest. DataError for a file that holds none."""
    return read_json("load_partial", path, (_KIND, _VERSION), "partial.save(path)", _partial_of)


def _partial_of(said: Mapping[str, Any]) -> _Read:
    parts = {name: said[name] for name in ("recipe", "going", "searches", "rows", "digest")}
    if _checksum(parts) != said["checksum"]:
        raise ValueError("its checksum is another one")
    searches = tuple(
        Search(**{name: one[name] for name in _HEAD}, statistic=_made(one["statistic"]), rows=one["rows"])
        for one in said["searches"]
    )
    of_place = {(one.column, one.place): one.statistic for one in searches}
    going = tuple(Search(**one, statistic=of_place[one["column"], one["place"]]) for one in said["going"])
    return recipe_of(said["recipe"]), going, searches, said["rows"], said["digest"]


_HEAD = ("column", "place", "tap", "target", "is_done")


def _head(one: Search) -> dict[str, Any]:
    return {name: getattr(one, name) for name in _HEAD}


def _checksum(said: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(said, sort_keys=True).encode())


def _plain(value: Any) -> Any:
    """A value as JSON holds it, from which `_made` makes it again to the bit."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, (list, tuple)):
        return {"list" if isinstance(value, list) else "tuple": [_plain(one) for one in value]}
    if isinstance(value, dict):
        return {"dict": [[_plain(key), _plain(one)] for key, one in value.items()]}
    if isinstance(value, np.ndarray):
        return {"array": value.dtype.str, "shape": value.shape, "bytes": _packed(np.ascontiguousarray(value).data)}
    if isinstance(value, (pa.Array, pa.Table)):
        table = value if isinstance(value, pa.Table) else pa.table({"": value})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return {"table" if isinstance(value, pa.Table) else "column": _packed(sink.getvalue())}
    if type(value).__name__ in _HELD:
        return {"held": type(value).__name__, "of": _plain(vars(value))}
    raise TypeError(f"no form in JSON for {type(value).__name__}")


def _made(said: Any) -> Any:
    """What `_plain` wrote."""
    if not isinstance(said, dict):
        return said
    match said:
        case {"float": text}:
            return float.fromhex(text)
        case {"list": values}:
            return [_made(one) for one in values]
        case {"tuple": values}:
            return tuple(_made(one) for one in values)
        case {"dict": pairs}:
            return {_made(key): _made(one) for key, one in pairs}
        case {"array": dtype, "shape": shape, "bytes": text}:
            return np.frombuffer(_unpacked(text), np.dtype(dtype)).reshape(shape).copy()
        case {"table": text}:
            return pa.ipc.open_stream(_unpacked(text)).read_all()
        case {"column": text}:
            column = pa.ipc.open_stream(_unpacked(text)).read_all().column(0)
            return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
        case {"held": name, "of": held}:
            made = object.__new__(_HELD[name])
            vars(made).update(_made(held))
            return made
    raise ValueError(f"holds {sorted(said)}")


def _packed(data: Any) -> str:
    return base64.b64encode(zlib.compress(data, 1)).decode()


def _unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))
