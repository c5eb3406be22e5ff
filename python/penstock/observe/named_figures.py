"""Figures that have names: dataclasses which are also read as mappings, and told as the plain values that JSON knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any


class NamedFigures(Mapping[str, Any]):
    """Figures that are also found by name: `stats["samples"]` is `stats.samples`, and `{**stats}` has them all. Where a figure has a method's name, as the `items` of a stage, the figure is found.

    A field that would be a word of Python has an underscore behind its name, which its name as a figure has not: `decision.from_` is `decision["from"]`.
    """

    def __getitem__(self, name: str) -> Any:
        return getattr(self, _fields_of(self)[name])

    def __iter__(self) -> Iterator[str]:
        return iter(_fields_of(self))

    def __contains__(self, name: object) -> bool:
        return name in _fields_of(self)

    def __len__(self) -> int:
        return len(_fields_of(self))

    def __eq__(self, other: object) -> bool:
        """Of groups of figures: also to plain values that are the same."""
        return isinstance(other, Mapping) and self.as_dict() == _plain(other)

    __hash__ = None  # type: ignore[assignment]  # those that compare by their fields have one

    def as_dict(self) -> dict[str, Any]:
        """The same as plain values that JSON knows."""
        return {name: _plain(getattr(self, field)) for name, field in _fields_of(self).items()}


def _fields_of(figures: Any) -> dict[str, str]:
    cls = type(figures)
    if cls not in _fields:
        _fields[cls] = {one.name.removesuffix("_"): one.name for one in fields(cls)}
    return _fields[cls]


#: The fields by the names of figures, by class: snapshots are made twice a second.
_fields: dict[Any, dict[str, str]] = {}


def _plain(value: Any) -> Any:
    if isinstance(value, NamedFigures):
        return value.as_dict()
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, tuple | list) else value
