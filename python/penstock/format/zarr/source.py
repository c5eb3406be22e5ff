"""Zarr stores (v2 and v3) in a folder, or below a prefix: arrays whose first axes are equally long are columns ("train.images" for train/images).

zarr-python decodes; rows are read in blocks of whole chunks. A chunk that is missing holds the fill value, as Zarr defines it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.errors import DataError, PenstockError, SourceError
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.files.shards import Shards
from penstock.core.installing import pip_install
from penstock.core.verbs.options import Options
from penstock.format.claims import ZARR_MARKS, is_zarr_folder
from penstock.source.arrays.sliced import ArrayFacts, SlicedArrays, block_rows, check_bounded, choose_arrays
from penstock.source.dotted_names import dotted
from penstock.source.manifest import Manifest

#: The column of a store that is one array and no group.
_ARRAY = "array"
#: In a codec's name, it stands for code that would run, or objects that only pickle can hold.
_REFUSED = "pickle"
_PICKLED = "its codec is pickle, which can run any code and is never opened; save numbers or text instead"


@dataclass(frozen=True, eq=False, kw_only=True)
class ZarrManifest(Manifest):
    """A manifest of one shard, the store; `files` are its files, `metadata` what describes the chosen arrays."""

    files: Shards
    metadata: str

    @property
    def listings(self) -> tuple[Shards, ...]:
        """The files of the store."""
        return (self.files,)

    @cached_property
    def digest(self) -> str:
        """32 hex digits: names and sizes of all files below the root, and the arrays' descriptions."""
        state = hashlib.blake2b(self.metadata.encode(), digest_size=16)
        for buffer in pc.utf8_slice_codeunits(self.files.paths, len(self.files.root)).buffers()[1:]:
            state.update(buffer or b"")
        state.update(np.ascontiguousarray(self.files.sizes).data)
        return state.hexdigest()


def open_zarr(shards: Shards, read: ByteRanges, options: Options) -> SlicedArrays:
    """Opens one store; `keys` names the groups or arrays below which columns are looked for."""
    root = shards.root.rstrip("/")
    if shards.several_roots or not shards.root or (shards.is_local and not is_zarr_folder(shards.root)):
        raise SourceError(
            f"{shards.root or shards.path(0)}: no Zarr store ({', '.join(ZARR_MARKS)}) in this folder; pass the path of one store"
        )
    opened = _arrays(root, shards, read, options)
    arrays = {name: array for name, array in opened.items() if _below(name, options)}
    if (gone := read.gone_file(shards)) is not None:
        raise DataError(f"{gone}: the file is gone, and its chunk would be the fill value; copy the store again")
    if not arrays:
        raise SourceError(f"{root}: no arrays" + (f" below {options.own['keys']}" if "keys" in options.own else ""))
    facts = {
        name: ArrayFacts(array.shape, np.dtype(array.dtype), tuple(array.chunks)) for name, array in arrays.items()
    }
    columns = choose_arrays(facts, options, root)
    chosen = {column.array: facts[column.array] for column in columns.values()}
    for name, one in chosen.items():
        _refuse_code(arrays[name], f"{root}, {name}")
        check_bounded(one, name, options, root)
    rows = next(iter(chosen.values())).shape[0]
    described = json.dumps([[name, arrays[name].metadata.to_dict()] for name in sorted(chosen)], default=str)
    store = Shards(
        pa.array([root], pa.large_string()), shards.sizes.sum(keepdims=True), shards.versions.max(keepdims=True)
    )
    manifest = ZarrManifest(
        format="zarr", shards=store, first_sample=np.array([0, rows], dtype=np.int64), files=shards, metadata=described
    )
    return SlicedArrays(manifest, columns, block_rows(list(chosen.values()), rows, root), partial(_rows_of, arrays))


def _rows_of(arrays: Mapping[str, Any], _: int, name: str, first: int, count: int) -> npt.NDArray[Any]:
    return np.asarray(arrays[name][first : first + count])


def _below(name: str, options: Options) -> bool:
    keys = options.own.get("keys") or [""]
    wanted = [key.strip("/").replace("/", ".") for key in ([keys] if isinstance(keys, str) else keys)]
    return any(not key or f"{name}.".startswith(f"{key}.") for key in wanted)


def _arrays(root: str, shards: Shards, read: ByteRanges, options: Options) -> dict[str, Any]:
    """Every array of a store by its dotted name."""
    try:
        import zarr

        from penstock.format.zarr.bounded import with_bounded_chunks
        from penstock.format.zarr.store import RangedStore
    except ModuleNotFoundError:
        raise SourceError(f"Zarr stores are read with zarr, which is not installed: {pip_install('zarr')}") from None
    try:
        found: Any = zarr.open(RangedStore(shards, read, options), mode="r")
        if isinstance(found, zarr.Array):
            return {_ARRAY: with_bounded_chunks(found, options.limits)}
        members = found.members(max_depth=None)
        arrays = [
            (tuple(name.split("/")), member) for name, member in sorted(members) if isinstance(member, zarr.Array)
        ]
        return {name: with_bounded_chunks(array, options.limits) for name, (_, array) in dotted(arrays).items()}
    except PenstockError:
        raise
    except Exception as error:  # zarr and its codecs fail in many ways on damaged metadata
        if _REFUSED in str(error).lower():
            raise DataError(f"{root}: {_PICKLED} ({error})") from None
        raise DataError(
            f"{root}: zarr cannot open it ({type(error).__name__}: {error}); write the store again"
        ) from error


def _refuse_code(array: Any, where: str) -> None:
    """DataError for arrays whose codecs would unpickle."""
    metadata = array.metadata.to_dict()
    codecs = [metadata.get(name) for name in ("filters", "compressor", "codecs", "object_codec")]
    if _REFUSED in json.dumps(codecs, default=str).lower():
        raise DataError(f"{where}: {_PICKLED}")
