"""Where samples come from besides files: map-style Python objects, iterables and generator functions, SQL."""

from __future__ import annotations

from typing import Any

from penstock.dataset import Dataset, of_source
from penstock.format.items import Asked
from penstock.format.objects import from_dataset as open_objects


def from_dataset(
    data: Any, *, columns: Asked = None, name: str | None = None, version: str = "", threads: int = 1
) -> Dataset:
    """A map-style object, as PyTorch's datasets are: anything with `__getitem__` and `__len__`.

    Items are dicts, tuples or single values (`penstock.format.items` has the table); `columns` names the places of tuples
    ("image", "label"), or selects, renames and types as for `read`. Where there is a `__getitems__(list of numbers)`, it is
    called once a batch; let it return a dict of arrays to do no work per item.

    Items are asked for on a thread of the pipeline, one call at a time; `threads` above 1 says that the object allows several
    at once. name, version: what identifies the data to a saved state, besides its length and columns; the object's type
    unless given. Exceptions of the object keep their traceback and name the sample.
    """
    source = open_objects(data, columns=columns, name=name, version=version, threads=threads)
    return of_source(source, "python object", columns)
