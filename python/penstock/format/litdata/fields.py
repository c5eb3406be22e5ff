"""LitData's leaves: what they are called (the tree of a sample) and how their bytes are read (its serialisers).

Format: litdata, streaming/serializers.py and utilities/_pytree.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from penstock.core.columns.spec import Field
from penstock.format.mds.index import MdsShard
from penstock.source.fields.arrays import NoHeader, WordHeader, array_leaf, image_leaf
from penstock.source.fields.codec import BytesLeaf, ListLeaf, TextLeaf, ValuesLeaf
from penstock.source.fields.records import MakeLeaf

#: A sample that is no container has one column of this name.
ALONE = "value"
#: Containers in containers.
_DEPTH = 64

_NUMPY = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
NUMPY_DTYPES = {**dict(enumerate(_NUMPY)), 13: "bool"}
TORCH_DTYPES = {
    **dict.fromkeys((0, 1), "float32"),
    **dict.fromkeys((2, 3), "float64"),
    **dict.fromkeys((8, 9), "float16"),
    11: "uint8",
    12: "int8",
    **dict.fromkeys((13, 14), "int16"),
    **dict.fromkeys((15, 16), "int32"),
    **dict.fromkeys((17, 18), "int64"),
    19: "bool",
    20: "uint16",
}

_BYTES = ("bytes", "jpeg", "image", "video", "audio", "nifti", "mesh", "pdf", "tifffile", "tiff", "file")
_SCALARS = {"bool": "bool", "int": "int64", "float": "float64"}
_REFUSED = {
    "pickle": "it is pickled, and unpickling runs whatever the file says; write it as another type",
    "graph": "graphs hold pickles, and unpickling runs whatever the file says; write their tensors by themselves",
    "json": "LitData's compact form of nested values beside arrays is not read; write them as a str of JSON",
}


def names_of(config: MdsShard) -> tuple[str, ...]:
    """The column of each leaf, from the tree of a sample: "x", "box.left" or "0"; DataError for a tree that is damaged."""
    try:
        _, tree = json.loads(config.text("data_spec"))
        names = tuple(_leaves(tree, "", 0))
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError) as error:
        raise config.damaged(f"data_spec is no tree ({str(error)[:80]})") from None
    if len(set(names)) != len(names):
        raise config.damaged("data_spec names two leaves alike")
    return names


def _leaves(tree: dict[str, Any], path: str, depth: int) -> Iterator[str]:
    if depth > _DEPTH:
        raise ValueError("containers nested too deeply")
    if tree["type"] is None:
        yield path or ALONE
        return
    children: list[dict[str, Any]] = tree["children_spec"]
    keys: list[Any] = list(range(len(children)))
    if str(tree["type"]).rpartition(".")[2] in ("dict", "OrderedDict"):
        keys = json.loads(tree["context"])
    if len(keys) != len(children):
        raise ValueError("as many keys as children belong there")
    for key, child in zip(keys, children, strict=True):
        yield from _leaves(child, f"{path}.{key}" if path else str(key), depth + 1)


def maker_of(serializer: str) -> MakeLeaf | str:
    """How the leaf of a serialiser like "int" or "no_header_numpy:3" is made, or why it cannot be."""
    kind, _, argument = serializer.partition(":")
    if kind in _REFUSED:
        return _REFUSED[kind]
    if kind in ("no_header_numpy", "no_header_tensor"):
        return _without_header(kind, argument)
    if kind in _SCALARS:
        dtype = _SCALARS[kind]
        return lambda _: ValuesLeaf(Field(dtype), dtype)
    known: dict[str, MakeLeaf] = {
        **dict.fromkeys(_BYTES, lambda _: BytesLeaf()),
        **dict.fromkeys(("str", "text"), lambda _: TextLeaf()),
        "pil": image_leaf,
        "jpeg_array": lambda _: ListLeaf(),
        "numpy": lambda spans: array_leaf(WordHeader(NUMPY_DTYPES, "<"), spans),
        "tensor": lambda spans: array_leaf(WordHeader(TORCH_DTYPES, ">"), spans),
    }
    return known.get(kind, f"its serializer {serializer!r} is not known")


def dtype_of(kind: str, argument: str) -> str | None:
    """The dtype of values without a header; None if it is not known."""
    known = NUMPY_DTYPES if kind == "no_header_numpy" else TORCH_DTYPES
    return known.get(int(argument)) if argument.isascii() and argument.isdigit() and len(argument) < 4 else None


def _without_header(kind: str, argument: str) -> MakeLeaf | str:
    dtype = dtype_of(kind, argument)
    if dtype is None:
        return f"arrays of dtype number {argument!r} are not read"
    return lambda spans: array_leaf(NoHeader(dtype), spans)
