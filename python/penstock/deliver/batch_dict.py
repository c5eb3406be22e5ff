"""The dict that holds a batch's columns."""

from __future__ import annotations

import dis
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

from penstock.core.errors import PlanError

_UNPACKING = {dis.opmap[name] for name in ("UNPACK_SEQUENCE", "UNPACK_EX") if name in dis.opmap}
_WIDTH = 100


class BatchDict(dict[str, Any]):
    """Columns by name: a dict whose `repr` shows dtypes and shapes.

    `image, label = batch` raises PlanError, since unpacking a dict gives its keys. Otherwise it behaves like any dict.

    It pickles as an OrderedDict, which `torch.load` accepts from untrusted files.
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[str]:
        if _is_unpacked():
            names = ", ".join(map(repr, self.keys()))
            first = next(iter(self.keys()), "image")
            raise PlanError(
                f"a batch is a dict of the columns {names}, and unpacking it gives their names; write batch[{first!r}], or use "
                f"Loader(…, structure='tuple')"
            )
        return super().__iter__()

    def __repr__(self) -> str:
        parts = [f"{name!r}: {column_text(column)}" for name, column in self.items()]
        line = f"{{{', '.join(parts)}}}"
        return line if len(line) <= _WIDTH else "{\n" + "".join(f"    {part},\n" for part in parts) + "}"

    def __copy__(self) -> BatchDict:
        return BatchDict(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> BatchDict:
        return BatchDict({name: deepcopy(column, memo) for name, column in self.items()})

    def __reduce_ex__(self, _: Any) -> tuple[Callable[..., Any], tuple[()], None, None, Iterator[tuple[str, Any]]]:
        return OrderedDict, (), None, None, iter(self.items())


def column_text(column: Any) -> str:
    """A column in short: "float32 (8, 3, 224, 224)", "int64 (8,) on cuda:0", "large_string (8 rows)"; for others the type."""
    dtype, shape, device = (getattr(column, name, None) for name in ("dtype", "shape", "device"))
    if dtype is not None and shape is not None:
        place = "" if device is None or str(device) == "cpu" else f" on {device}"
        return f"{str(dtype).removeprefix('torch.')} {tuple(shape)}{place}"
    if hasattr(column, "type") and hasattr(column, "__len__"):
        return f"{column.type} ({len(column)} rows)"
    return type(column).__qualname__


def _is_unpacked() -> bool:
    """Whether `a, b = …` requested the caller's iterator; always False outside CPython."""
    if sys.implementation.name != "cpython":
        return False
    try:
        frame = sys._getframe(2)  # noqa: SLF001  # nothing public says which instruction is running
    except ValueError:  # not called by Python code
        return False
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] in _UNPACKING
